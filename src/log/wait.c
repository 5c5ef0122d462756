/*-------------------------------------------------------------------------
 *
 * wait.c
 *		Waiting for a high watermark, or a projection's applied offset, to move.
 *
 * A waiter sleeps on its process latch.  It registers first and looks at the
 * watermark afterwards; whoever moves a watermark does so first and looks for
 * waiters afterwards.  Both go through the partition's lock in between, so one
 * of them sees the other, and no wake-up is lost.  (Applied offsets are looked
 * at under the lock of tasks.)
 *
 * An applier waits for all partitions of many streams, and has room for as many
 * bits as a waiter for one: it marks them by a hash, and now and then another
 * stream's record wakes it as well.
 *
 * With nobody waiting, moving a watermark costs one atomic read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
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

static void
register_waiter(StreamWaiterKind kind, Oid table, int32 projection_id)
{
	StreamWaiter *waiter = &stream_waiters[STREAM_MY_PROC_NUMBER];

	Assert(!registered);
	SpinLockAcquire(&waiter->mutex);
	waiter->active = true;
	waiter->kind = kind;
	waiter->database = MyDatabaseId;
	waiter->table = table;
	waiter->projection_id = projection_id;
	memset(waiter->partitions, 0, sizeof(waiter->partitions));
	SpinLockRelease(&waiter->mutex);
	registered = true;
	pg_atomic_fetch_add_u32(&stream_control->nwaiters, 1);	/* a full barrier */
}

/*
 * stream_waiter_register announces this backend as a waiter for partitions of a
 * stream, none yet.  The end of a (sub)transaction unregisters it after an error.
 */
void
stream_waiter_register(Oid table)
{
	register_waiter(STREAM_WAITER_STREAM, table, 0);
}

/* stream_waiter_register_many does so for partitions of many streams. */
void
stream_waiter_register_many(void)
{
	register_waiter(STREAM_WAITER_STREAMS, InvalidOid, 0);
}

/* stream_waiter_register_projection does so for what a projection has applied. */
void
stream_waiter_register_projection(int32 projection_id)
{
	register_waiter(STREAM_WAITER_PROJECTION, InvalidOid, projection_id);
}

/* The bit of a stream's partition among those of many streams. */
static int32
hashed_partition(Oid table, int32 partition)
{
	return hash_combine(murmurhash32(table), murmurhash32(partition)) % STREAM_MAX_PARTITIONS;
}

static void
add_bit(int32 bit)
{
	StreamWaiter *waiter = &stream_waiters[STREAM_MY_PROC_NUMBER];

	SpinLockAcquire(&waiter->mutex);
	waiter->partitions[bit / 64] |= UINT64CONST(1) << (bit % 64);
	SpinLockRelease(&waiter->mutex);
}

void
stream_waiter_add_partition(int32 partition)
{
	add_bit(partition);
}

/* stream_waiter_add_of_many is for one that waits for many streams. */
void
stream_waiter_add_of_many(Oid table, int32 partition)
{
	add_bit(hashed_partition(table, partition));
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

static bool
has_bit(const StreamWaiter *waiter, int32 bit)
{
	return (waiter->partitions[bit / 64] & (UINT64CONST(1) << (bit % 64))) != 0;
}

/* wake wakes those who wait for a stream's partition, or for a projection's. */
static void
wake(Oid table, int32 projection_id, int32 partition)
{
	int32		hashed;

	pg_memory_barrier();
	if (likely(pg_atomic_read_u32(&stream_control->nwaiters) == 0))
		return;

	hashed = hashed_partition(table, partition);
	for (int i = 0; i < STREAM_MAX_PROCS; i++)
	{
		StreamWaiter *waiter = &stream_waiters[i];
		bool		wanted = false;

		/* a waiter that starts just now looks at the watermark after this */
		if (!waiter->active)
			continue;
		SpinLockAcquire(&waiter->mutex);
		if (waiter->active && waiter->database == MyDatabaseId)
		{
			switch (waiter->kind)
			{
				case STREAM_WAITER_STREAM:
					wanted = OidIsValid(table) && waiter->table == table && has_bit(waiter, partition);
					break;
				case STREAM_WAITER_STREAMS:
					wanted = OidIsValid(table) && has_bit(waiter, hashed);
					break;
				case STREAM_WAITER_PROJECTION:
					wanted = projection_id != 0 && waiter->projection_id == projection_id &&
						has_bit(waiter, partition);
					break;
			}
		}
		SpinLockRelease(&waiter->mutex);
		if (wanted)
			SetLatch(&ProcGlobal->allProcs[i].procLatch);
	}
}

/*
 * stream_wake_waiters wakes all who wait for a partition whose watermark has
 * moved.  It does not throw: it runs in transaction callbacks.
 */
void
stream_wake_waiters(Oid table, int32 partition)
{
	wake(table, 0, partition);
}

/*
 * stream_wake_projection_waiters wakes those who wait for what a projection has
 * applied.  The offset they look at has been committed before.
 */
void
stream_wake_projection_waiters(int32 projection_id, int32 partition)
{
	wake(InvalidOid, projection_id, partition);
}

/*
 * stream_prevent_wait_under_snapshot refuses to wait for what the rest of the
 * transaction could not see: its snapshot is older.
 */
void
stream_prevent_wait_under_snapshot(const char *command)
{
	if (IsTransactionBlock() && IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a REPEATABLE READ or SERIALIZABLE transaction block", command),
				 errdetail("Its snapshot does not show what is waited for."),
				 errhint("Wait before the block begins, or make it READ COMMITTED.")));
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
