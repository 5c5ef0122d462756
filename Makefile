# The extension "stream": build, install, test.
#
#   make, make install, make installcheck, make clean
#       work as for any PGXS extension, against the server of PG_CONFIG
#       (PostgreSQL 15 to 18).  "make installcheck" needs a running server with
#       shared_preload_libraries = 'stream'; max_prepared_transactions = 10 lets
#       every test run.
#   make test [TESTS="regress tap"], make demo, make bench, make stress,
#   make matrix [ARGS="17"]
#       need nothing but this directory: they install missing packages, build,
#       and use a private temporary server (see test/lib/cluster.sh).

all:

PG_CONFIG ?= pg_config

# These targets must work before pg_config exists, so they do without PGXS.
script_targets := deps test demo bench stress matrix
.PHONY: $(script_targets)

top := $(or $(VPATH),.)

deps:
	@$(top)/test/deps $(ARGS)
test:
	@$(top)/test/run $(TESTS) $(ARGS)
demo bench stress matrix:
	@$(top)/test/$@/run $(ARGS)

ifeq ($(or $(filter-out $(script_targets),$(MAKECMDGOALS)),$(if $(MAKECMDGOALS),,all)),)
# Only scripts were asked for.
else

EXTENSION = stream
MODULE_big = stream
DATA = stream--0.1.sql
PGFILEDESC = "stream - partitioned append-only logs"

sources := $(sort $(patsubst $(top)/%,%,$(wildcard $(top)/src/*.c $(top)/src/*/*.c)))
OBJS := $(sources:.c=.o)

PG_CPPFLAGS = -I$(top)/src
# PostgreSQL's own headers leave parameters unused.
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter
SHLIB_LINK = -llz4

# The tests' database is the same whatever the server's locale.
NO_LOCALE = 1
ENCODING = UTF8

# pg_regress runs the tests in this order; "setup", if there, comes first.
sql_tests := $(sort $(basename $(notdir $(wildcard $(top)/sql/*.sql))))
REGRESS := $(filter setup,$(sql_tests)) $(filter-out setup,$(sql_tests))
REGRESS := $(strip $(REGRESS))

# Results go to output_iso/, as PGXS has it.
ISOLATION := $(sort $(basename $(notdir $(wildcard $(top)/test/isolation/specs/*.spec))))
ISOLATION_OPTS = --inputdir=$(top)/test/isolation --load-extension=stream

# The TAP tests start servers of their own, which root cannot; "make test" can,
# since it changes to an unprivileged user first.
tap_tests := $(sort $(patsubst $(top)/%,%,$(wildcard $(top)/test/tap/*.pl)))
ifneq ($(tap_tests),)
ifneq ($(shell id -u),0)
TAP_TESTS = 1
PROVE_TESTS = $(tap_tests)
endif
endif

EXTRA_CLEAN = .built-for test/output \
	$(wildcard src/*.o src/*.bc src/*.d src/*/*.o src/*/*.bc src/*/*.d)

PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq ($(wildcard $(PGXS)),)
$(error no server development files found by "$(PG_CONFIG) --pgxs": install them ("make deps" does on Debian) or set PG_CONFIG)
endif

# A server built with LLVM makes PGXS compile every file to bitcode as well, for
# inlining by the JIT compiler.  That is a bonus: leave it out where the very
# clang and LLVM tools the server was built with are not installed.
# "make with_llvm=yes|no" overrides.
ifneq ($(origin with_llvm),command line)
pgxs_value = $(shell sed -n 's/^$(1)[[:space:]]*=[[:space:]]*//p' '$(dir $(PGXS))../Makefile.global')
ifeq ($(call pgxs_value,with_llvm),yes)
llvm_programs := $(call pgxs_value,CLANG) $(call pgxs_value,LLVM_BINPATH)/llvm-lto
ifneq ($(shell for program in $(llvm_programs); do command -v $$program || echo none; done | grep -cx none),0)
override with_llvm = no
endif
endif
endif

include $(PGXS)

ifneq ($(filter 9.% 10 11 12 13 14,$(MAJORVERSION)),)
$(error stream needs PostgreSQL 15 or newer, and "$(PG_CONFIG)" is of $(VERSION))
endif

# Objects of another server, or built with other flags, are built anew: the stamp
# changes exactly when what it holds changes.
build_id := $(VERSION) $(includedir_server) $(CC) $(COPT) $(PROFILE)
ifneq ($(shell cat .built-for 2>/dev/null),$(strip $(build_id)))
$(shell echo '$(strip $(build_id))' >.built-for 2>/dev/null)
endif
$(OBJS): .built-for
.built-for: ;

# Each compilation writes down the headers it read, beside the object, so that a
# changed header rebuilds what includes it.  The bitcode follows the object.
%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CPPFLAGS) -MMD -MP -MF $*.d -c -o $@ $<
-include $(wildcard $(OBJS:.o=.d))
$(OBJS:.o=.bc): %.bc: %.o

# The stand-alone test programs have makefiles of their own.
clean: clean-tests
.PHONY: clean-tests
clean-tests:
	@for dir in unit fuzz; do \
		test ! -f $(top)/test/$$dir/Makefile || \
			$(MAKE) -s -C $(top)/test/$$dir clean PG_CONFIG='$(PG_CONFIG)'; \
	done

endif
