/*-------------------------------------------------------------------------
 *
 * deadline.c
 *		The end of transactions that hold something up for too long: a high
 *		watermark, or a partition of a consumer group.
 *
 * The session ends itself, so that it works idle or busy and needs no worker.
 * An idle session has no statement to cancel, so it is terminated, as
 * idle_in_transaction_session_timeout does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "log/deadline.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#define DEADLINES	(STREAM_DEADLINE_POLL + 1)

static bool registered = false;
static TimeoutId timeout_ids[DEADLINES];
static bool active[DEADLINES];
static TimestampTz deadlines[DEADLINES];	/* of those that are active */
static volatile sig_atomic_t fired[DEADLINES];

/* In signal context. */
static void
end_session(StreamDeadline deadline)
{
	fired[deadline] = true;
	ProcDiePending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

static void
publish_handler(void)
{
	end_session(STREAM_DEADLINE_PUBLISH);
}

static void
poll_handler(void)
{
	end_session(STREAM_DEADLINE_POLL);
}

/* The message of a termination does not say who asked for it: the log shall. */
static void
log_deadline(int code, Datum arg)
{
	if (fired[STREAM_DEADLINE_PUBLISH])
		ereport(LOG,
				(errmsg("session terminated because its transaction held back a high watermark for longer than stream.publish_timeout")));
	if (fired[STREAM_DEADLINE_POLL])
		ereport(LOG,
				(errmsg("session terminated because its transaction held a partition for longer than its consumer group's max_poll_interval")));
}

/*
 * stream_start_deadline starts the clock; 0: there is none.  When it is running,
 * the earlier end counts.  It returns the end that was asked for.
 */
TimestampTz
stream_start_deadline(StreamDeadline deadline, int ms)
{
	TimestampTz until;

	if (ms == 0)
		return DT_NOEND;
	until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), (int64) ms);
	if (active[deadline] && deadlines[deadline] <= until)
		return until;
	if (!registered)
	{
		timeout_ids[STREAM_DEADLINE_PUBLISH] = RegisterTimeout(USER_TIMEOUT, publish_handler);
		timeout_ids[STREAM_DEADLINE_POLL] = RegisterTimeout(USER_TIMEOUT, poll_handler);
		on_proc_exit(log_deadline, (Datum) 0);
		registered = true;
	}
	deadlines[deadline] = until;
	enable_timeout_at(timeout_ids[deadline], deadlines[deadline]);
	active[deadline] = true;
	return until;
}

/*
 * stream_resume_deadline goes on with a clock that an error has stopped: a
 * session that returns to its client disables all timeouts, though the
 * transaction goes on after a rollback to a savepoint.
 */
void
stream_resume_deadline(StreamDeadline deadline)
{
	if (active[deadline])
		enable_timeout_at(timeout_ids[deadline], deadlines[deadline]);
}

/*
 * stream_change_deadline lets a running clock end at another time, since what it
 * was to end at is not held any more.
 */
void
stream_change_deadline(StreamDeadline deadline, TimestampTz until)
{
	if (!active[deadline])
		return;
	deadlines[deadline] = until;
	if (until == DT_NOEND)
		stream_stop_deadline(deadline);
	else
		enable_timeout_at(timeout_ids[deadline], until);
}

/* stream_stop_deadline stops the clock; it does not throw. */
void
stream_stop_deadline(StreamDeadline deadline)
{
	if (!active[deadline])
		return;
	disable_timeout(timeout_ids[deadline], false);
	active[deadline] = false;
}
