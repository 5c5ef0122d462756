/*-------------------------------------------------------------------------
 *
 * wait.c
 *		Waiting for a high watermark to move.
 *
 * A waiter sleeps on its process latch.  It registers first and looks at the
 * watermark afterwards; whoever moves a watermark does so first and looks for
 * waiters afterwards.  Both go through the partition's lock in between, so one
 * of them sees the other, and no wake-up is lost.
 *
 * With nobody waiting, moving a watermark costs one atomic read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "guc.h"
#include "log/wait.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "shmem.h"
#include "storage/latch.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* How often a waiter looks whether its client is still there, in ms. */
#define STREAM_CLIENT_CHECK_INTERVAL	1000

static uint32 wait_event = 0;
static bool registered = false; /* this backend's slot is active */

/*
 * stream_waiter_register announces this backend as a waiter for partitions of a
 * stream, none yet.  The end of a (sub)transaction unregisters it after an error.
 */
void
stream_waiter_register(Oid table)
{
	StreamWaiter *waiter = &stream_waiters[STREAM_MY_PROC_NUMBER];

	Assert(!registered);
	SpinLockAcquire(&waiter->mutex);
	waiter->active = true;
	waiter->database = MyDatabaseId;
	waiter->table = table;
	memset(waiter->partitions, 0, sizeof(waiter->partitions));
	SpinLockRelease(&waiter->mutex);
	registered = true;
	pg_atomic_fetch_add_u32(&stream_control->nwaiters, 1);	/* a full barrier */
}

void
stream_waiter_add_partition(int32 partition)
{
	StreamWaiter *waiter = &stream_waiters[STREAM_MY_PROC_NUMBER];

	SpinLockAcquire(&waiter->mutex);
	waiter->partitions[partition / 64] |= UINT64CONST(1) << (partition % 64);
	SpinLockRelease(&waiter->mutex);
}

/* stream_waiter_unregister does not throw: it also runs in transaction callbacks. */
void
stream_waiter_unregister(void)
{
	StreamWaiter *waiter;

	if (!registered)
		return;
	registered = false;
	waiter = &stream_waiters[STREAM_MY_PROC_NUMBER];
	SpinLockAcquire(&waiter->mutex);
	waiter->active = false;
	SpinLockRelease(&waiter->mutex);
	pg_atomic_fetch_sub_u32(&stream_control->nwaiters, 1);
}

/*
 * stream_waiter_sleep sleeps until it is woken, for any reason, or timeout_ms
 * are over.  It obeys cancel, and fails when the client has gone.
 */
bool
stream_waiter_sleep(long timeout_ms)
{
	int			events;

	events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					   Min(timeout_ms, STREAM_CLIENT_CHECK_INTERVAL),
					   STREAM_WAIT_EVENT(wait_event, "StreamWatermark"));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if ((events & WL_TIMEOUT) && whereToSendOutput == DestRemote && MyProcPort != NULL &&
		!pq_check_connection())
		ereport(FATAL,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("connection to client lost")));
	return (events & WL_LATCH_SET) != 0;
}

/*
 * stream_wake_waiters wakes all who wait for a partition whose watermark has
 * moved.  It does not throw: it runs in transaction callbacks.
 */
void
stream_wake_waiters(Oid table, int32 partition)
{
	pg_memory_barrier();
	if (likely(pg_atomic_read_u32(&stream_control->nwaiters) == 0))
		return;

	for (int i = 0; i < STREAM_MAX_PROCS; i++)
	{
		StreamWaiter *waiter = &stream_waiters[i];
		bool		wake;

		/* a waiter that starts just now looks at the watermark after this */
		if (!waiter->active)
			continue;
		SpinLockAcquire(&waiter->mutex);
		wake = waiter->active && waiter->database == MyDatabaseId && waiter->table == table &&
			(waiter->partitions[partition / 64] & (UINT64CONST(1) << (partition % 64))) != 0;
		SpinLockRelease(&waiter->mutex);
		if (wake)
			SetLatch(&ProcGlobal->allProcs[i].procLatch);
	}
}

/* stream_wait_until turns an interval into a moment, not later than stream.max_wait. */
TimestampTz
stream_wait_until(const Interval *timeout)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz latest = TimestampTzPlusMilliseconds(now, (int64) stream_max_wait);
	TimestampTz until;

	until = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
													TimestampTzGetDatum(now),
													PointerGetDatum(timeout)));
	if (until < now)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must not be negative")));
	return Min(until, latest);
}
