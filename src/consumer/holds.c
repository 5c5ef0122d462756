/*-------------------------------------------------------------------------
 *
 * holds.c
 *		The partitions that this transaction holds for consumer groups.
 *
 * A partition is held from the moment its offset is advanced to the end of the
 * transaction, or to a rollback to a savepoint before it.  While something is
 * held, the clock of the group's max_poll_interval runs; when a lock has been
 * released, those who wait for the partition are woken.
 *
 * The groups' meters learn here what became of it.  A batch is what one call has
 * returned; it lasts from the call to the next one, or to the commit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "consumer/holds.h"
#include "log/deadline.h"
#include "log/wait.h"
#include "meter.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

/* In TopTransactionContext. */
typedef struct Hold
{
	struct Hold *next;
	SubTransactionId subid;		/* who has taken it */
	bool		released;		/* that was rolled back: its lock goes */
	Oid			table;
	int32		group_id;
	int32		partition;
	TimestampTz until;			/* end of its max_poll_interval */
	StreamMeter *meter;			/* null: no statistics are kept */
	int64		batch_records;	/* of the batch that is being processed */
	int64		full_records;	/* of full batches processed before */
	int64		full_busy_us;	/* and how long that took */
} Hold;

/* At most one that is not released for each partition of a group and subtransaction. */
static Hold *holds = NULL;

static TimestampTz batch_began_at = 0;	/* 0: no batch is being processed */
static bool batch_is_full = false;	/* it ended at its limit, with more left */

/*
 * wake_after_release wakes those who wait for a partition, when its lock has
 * been released, and forgets it.
 */
static void
wake_after_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	Hold	  **link = &holds;

	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || holds == NULL || (is_commit && !is_top_level))
		return;
	while (*link != NULL)
	{
		Hold	   *hold = *link;

		if (is_top_level || hold->released)
		{
			stream_wake_waiters(hold->table, hold->partition);
			*link = hold->next;
		}
		else
			link = &hold->next;
	}
}

void
stream_holds_init(void)
{
	RegisterResourceReleaseCallback(wake_after_release, NULL);
}

static Hold *
find_hold(int32 group_id, int32 partition, SubTransactionId subid)
{
	for (Hold *hold = holds; hold != NULL; hold = hold->next)
		if (hold->subid == subid && hold->partition == partition && hold->group_id == group_id && !hold->released)
			return hold;
	return NULL;
}

/*
 * lock_table locks the stream's foreign table for as long as the partition.  The
 * caller's lock may be a portal's, and go with it when it fails in a later
 * subtransaction; the stream could be dropped then, and its meters with it.
 */
static void
lock_table(Oid table)
{
	ResourceOwner save = CurrentResourceOwner;

	CurrentResourceOwner = CurTransactionResourceOwner;
	LockRelationOid(table, AccessShareLock);
	CurrentResourceOwner = save;
}

/*
 * stream_hold_partition notes that the transaction, which has the partition's
 * lock, is going to advance its offset over so many records: from now on it
 * holds others up.
 */
void
stream_hold_partition(Oid table, int32 group_id, int32 partition, int32 max_poll_interval, int64 records)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	Hold	   *hold = find_hold(group_id, partition, subid);

	if (hold == NULL)
	{
		StreamMeter *meter;

		lock_table(table);
		meter = stream_meter(table, group_id, partition);
		hold = MemoryContextAllocZero(TopTransactionContext, sizeof(Hold));
		hold->subid = subid;
		hold->table = table;
		hold->group_id = group_id;
		hold->partition = partition;
		hold->meter = meter;
		hold->until = stream_start_deadline(STREAM_DEADLINE_POLL, max_poll_interval);
		hold->next = holds;
		holds = hold;
		stream_meter_holds(group_id);
	}
	hold->batch_records += records;
}

/* close_batch shares the time that a full batch took among its partitions; it does not throw. */
static void
close_batch(void)
{
	int64		records = 0;
	int64		busy_us;

	if (batch_began_at == 0)
		return;
	for (Hold *hold = holds; hold != NULL; hold = hold->next)
		records += hold->batch_records;
	if (batch_is_full && records > 0)
	{
		busy_us = Max(0, GetCurrentTimestamp() - batch_began_at);
		for (Hold *hold = holds; hold != NULL; hold = hold->next)
			if (hold->batch_records > 0)
			{
				hold->full_records += hold->batch_records;
				hold->full_busy_us += (int64) ((double) busy_us * hold->batch_records / records);
			}
	}
	for (Hold *hold = holds; hold != NULL; hold = hold->next)
		hold->batch_records = 0;
	batch_began_at = 0;
}

/* stream_holds_begin_batch is called at the start of a call that returns records. */
void
stream_holds_begin_batch(void)
{
	close_batch();
	batch_began_at = GetCurrentTimestamp();
	batch_is_full = false;
}

/* stream_holds_end_batch is called when it returns; full: at its limit, with more left. */
void
stream_holds_end_batch(bool full)
{
	batch_is_full = full;
}

/* stream_holds_partitions says whether the transaction holds any. */
bool
stream_holds_partitions(void)
{
	for (Hold *hold = holds; hold != NULL; hold = hold->next)
		if (!hold->released)
			return true;
	return false;
}

/* merge_hold adds up a hold with the parent's of the same partition; false: there is none. */
static bool
merge_hold(const Hold *hold, SubTransactionId parent)
{
	Hold	   *other = find_hold(hold->group_id, hold->partition, parent);

	if (other == NULL)
		return false;
	other->until = Min(other->until, hold->until);
	other->batch_records += hold->batch_records;
	other->full_records += hold->full_records;
	other->full_busy_us += hold->full_busy_us;
	return true;
}

void
stream_holds_commit_sub(SubTransactionId subid, SubTransactionId parent)
{
	Hold	  **link = &holds;

	while (*link != NULL)
	{
		Hold	   *hold = *link;

		if (hold->subid == subid && merge_hold(hold, parent))
		{
			*link = hold->next;
			pfree(hold);
			continue;
		}
		if (hold->subid == subid)
			hold->subid = parent;
		link = &hold->next;
	}
}

/* stream_holds_abort_sub lets the clock go on only while something is held. */
void
stream_holds_abort_sub(SubTransactionId subid)
{
	TimestampTz until = DT_NOEND;

	for (Hold *hold = holds; hold != NULL; hold = hold->next)
	{
		if (hold->subid != subid && !hold->released)
			until = Min(until, hold->until);
		if (hold->subid != subid || hold->released)
			continue;
		hold->released = true;
		hold->batch_records = 0;
		if (hold->meter != NULL)
			stream_meter_rolled_back(hold->meter);
	}
	if (stream_holds_partitions())
		stream_change_deadline(STREAM_DEADLINE_POLL, until);
	else
	{
		stream_stop_deadline(STREAM_DEADLINE_POLL);
		if (holds != NULL)
			stream_meter_holds_nothing();
	}
}

/* stream_holds_end runs at the transaction's end, and does not throw. */
void
stream_holds_end(bool committed)
{
	stream_stop_deadline(STREAM_DEADLINE_POLL);
	if (committed)
		close_batch();
	batch_began_at = 0;
	if (holds == NULL)
		return;
	for (Hold *hold = holds; hold != NULL; hold = hold->next)
	{
		if (hold->meter == NULL || hold->released)
			continue;
		if (committed)
			stream_meter_committed(hold->meter, hold->full_records, hold->full_busy_us);
		else
			stream_meter_rolled_back(hold->meter);
	}
	stream_meter_holds_nothing();
}
