# A private PostgreSQL server with the extension, for tests, demo, benchmark and
# stress.  Sourced by bash scripts in a directory below test/:
#
#	. "$(dirname "$0")/../lib/cluster.sh"
#	stream_setup                        # packages, build, private installation
#	cluster_start 'shared_buffers=1GB'  # new cluster; psql just connects now
#	psql -c 'CREATE EXTENSION stream'
#	cluster_kill; cluster_up            # crash and recovery
#
# Everything is stopped and removed when the script ends, also by a signal.  Nothing
# on the machine is used or changed but for the packages and the objects that the
# build leaves in the checkout.
#
# The extension is not installed into the server's own directories.  PostgreSQL finds
# its files relative to where its program lies, so a copy of the programs beside
# links to the libraries and shared files is an installation of its own, into which
# "make install DESTDIR=..." adds the extension; PostgreSQL's own "make check" works
# that way.  So no privilege is needed, no existing server sees a file change under
# it, and several checkouts can be tested at once.  (extension_control_path would
# serve from 18 on only.)
#
# Sets: PG_CONFIG, PGBIN (first in PATH), PGHOST, PGPORT, PGUSER, PGDATABASE, DATA_DIR,
# SERVER_LOG; and what common.sh sets.
# shellcheck shell=bash disable=SC2034

# shellcheck source=test/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# stream_setup [deps' arguments...]: all that must be there before cluster_start.
stream_setup() {
	"$ROOT/test/deps" build "$@" || exit 1
	find_pg_config || die "no pg_config of PostgreSQL 15 to 18"
	export PG_CONFIG
	[ -n "${WORK:-}" ] || make_work
	build_extension
	install_privately
}

# Builds in the checkout, one build at a time.  The output is shown if there is
# something to see in it: a warning or an error.
build_extension() {
	local log=$WORK/build.log status
	say "building for $("$PG_CONFIG" --version)"
	(
		flock 9
		make -C "$ROOT" all
	) 9<"$ROOT/Makefile" >"$log" 2>&1
	status=$?
	if [ $status != 0 ] || grep -q 'warning:' "$log"; then
		cat "$log" >&2
	fi
	[ $status = 0 ] || die "the build failed"
}

# Makes $WORK/pg an installation with the extension, and puts it first in the PATH.
install_privately() {
	local bin lib share program
	bin=$("$PG_CONFIG" --bindir)
	lib=$("$PG_CONFIG" --pkglibdir)
	share=$("$PG_CONFIG" --sharedir)
	PGBIN=$WORK/pg$bin
	mkdir -p "$PGBIN" "$WORK/pg$lib" "$WORK/pg$share"
	# The programs are copies, since a link would lead back to the original place.
	for program in "$bin"/{postgres,initdb,psql,pg*,createdb,dropdb,vacuumdb,reindexdb}; do
		[ ! -f "$program" ] || cp -L "$program" "$PGBIN/"
	done
	cp -rs "$lib/." "$WORK/pg$lib/"
	cp -rs "$share/." "$WORK/pg$share/"
	# No link to a version installed before, else that would be overwritten or used.
	rm -rf "$WORK/pg$lib"/stream.* "$WORK/pg$lib"/bitcode/stream* \
		"$WORK/pg$share"/extension/stream{.control,--*.sql}
	(
		flock 9
		make -C "$ROOT" install DESTDIR="$WORK/pg"
	) 9<"$ROOT/Makefile" >"$WORK/install.log" 2>&1 ||
		{ cat "$WORK/install.log" >&2; die "the installation failed"; }
	chmod -R a+rX "$WORK/pg"
	PATH=$PGBIN:$PATH

	# Nothing of the caller's settings for clients may lead to another server.
	local name
	for name in $(compgen -v PG); do
		case $name in
			PG_CONFIG | PGBIN | PG_TEST_*) ;;
			*) unset "$name" ;;
		esac
	done
	DATA_DIR=$WORK/data
	SERVER_LOG=$WORK/server.log
	export PGHOST=$WORK/socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
	as_pg mkdir -m 700 "$PGHOST"
}

# cluster_start [SETTING=VALUE...]: a new cluster, in place of the one before.  The
# settings are lines of postgresql.conf and win over those here.  Durability is as
# PostgreSQL has it by default.
cluster_start() {
	cluster_stop
	rm -rf "$DATA_DIR" "$SERVER_LOG"
	"${AS_PG[@]}" initdb -D "$DATA_DIR" -U postgres -A trust -E UTF8 --no-locale --no-sync \
		>"$WORK/initdb.log" 2>&1 || { cat "$WORK/initdb.log" >&2; die "initdb failed"; }
	printf '%s\n' \
		"listen_addresses = ''" \
		"unix_socket_directories = '$PGHOST'" \
		"shared_preload_libraries = 'stream'" \
		"max_prepared_transactions = 10" \
		"log_line_prefix = '%m [%p] %q%u@%d/%a '" \
		"$@" >>"$DATA_DIR/postgresql.conf"
	cluster_up
}

# Starts the cluster that was stopped or killed.
cluster_up() {
	"${AS_PG[@]}" pg_ctl -D "$DATA_DIR" -l "$SERVER_LOG" -s -w -t 120 start >"$WORK/pg_ctl.log" 2>&1 ||
		{ tail -n 30 "$WORK/pg_ctl.log" "$SERVER_LOG" >&2; die "the server does not start"; }
}

# cluster_stop [smart|fast|immediate]; nothing to do when it is not running.
cluster_stop() {
	[ ! -f "$DATA_DIR/postmaster.pid" ] ||
		"${AS_PG[@]}" pg_ctl -D "$DATA_DIR" -s -w -t 120 -m "${1:-fast}" stop >&2
}

# cluster_restart [MODE]
cluster_restart() {
	cluster_stop "$@"
	cluster_up
}

# SIGKILL to the server and all its processes at once.
cluster_kill() {
	kill_server "$DATA_DIR"
}
