/*-------------------------------------------------------------------------
 *
 * tap.c
 *		Test results in the Test Anything Protocol.
 *
 * Each line is flushed, so that what a crash leaves behind is what was reached.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "tap.h"

static int	tests = 0;
static int	failures = 0;

/*
 * tap_ok reports one test.
 */
void
tap_ok(bool passed, const char *name,...)
{
	va_list		args;

	tests++;
	if (!passed)
		failures++;

	printf("%s %d - ", passed ? "ok" : "not ok", tests);
	va_start(args, name);
	vprintf(name, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

/*
 * tap_skip reports a test that cannot run here.
 */
void
tap_skip(const char *name, const char *reason)
{
	tests++;
	printf("ok %d - %s # SKIP %s\n", tests, name, reason);
	fflush(stdout);
}

/*
 * tap_note prints a comment.
 */
void
tap_note(const char *fmt,...)
{
	va_list		args;

	printf("# ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

/*
 * tap_done prints the plan and gives the program's exit status.
 */
int
tap_done(void)
{
	printf("1..%d\n", tests);
	if (failures > 0)
		tap_note("%d of %d failed", failures, tests);
	return failures > 0 || tests == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
