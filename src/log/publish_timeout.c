/*-------------------------------------------------------------------------
 *
 * publish_timeout.c
 *		The end of transactions that hold back a high watermark for too long.
 *
 * The session ends itself, so that it works idle or busy and needs no worker.
 * An idle session has no statement to cancel, so it is terminated, as
 * idle_in_transaction_session_timeout does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "guc.h"
#include "log/publish_timeout.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/timeout.h"

static TimeoutId timeout_id = MAX_TIMEOUTS;	/* not registered yet */
static bool timeout_active = false;
static volatile sig_atomic_t timeout_fired = false;

/* In signal context. */
static void
publish_timeout_handler(void)
{
	timeout_fired = true;
	ProcDiePending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

/* The message of a termination does not say who asked for it: the log shall. */
static void
log_publish_timeout(int code, Datum arg)
{
	if (timeout_fired)
		ereport(LOG,
				(errmsg("session terminated because its transaction held back a high watermark for longer than stream.publish_timeout")));
}

/* stream_start_publish_timeout starts the clock unless it is running. */
void
stream_start_publish_timeout(void)
{
	if (timeout_active || stream_publish_timeout == 0)
		return;
	if (timeout_id == MAX_TIMEOUTS)
	{
		timeout_id = RegisterTimeout(USER_TIMEOUT, publish_timeout_handler);
		on_proc_exit(log_publish_timeout, (Datum) 0);
	}
	enable_timeout_after(timeout_id, stream_publish_timeout);
	timeout_active = true;
}

/* stream_stop_publish_timeout stops the clock; it does not throw. */
void
stream_stop_publish_timeout(void)
{
	if (!timeout_active)
		return;
	disable_timeout(timeout_id, false);
	timeout_active = false;
}
