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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "consumer/holds.h"
#include "log/deadline.h"
#include "log/wait.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* In TopTransactionContext. */
typedef struct Hold
{
	struct Hold *next;
	SubTransactionId subid;		/* who has taken it */
	bool		released;		/* that was rolled back: its lock goes */
	Oid			table;
	int32		partition;
} Hold;

static Hold *holds = NULL;

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

/*
 * stream_hold_partition notes that the transaction, which has the partition's
 * lock, is going to advance its offset: from now on it holds others up.
 */
void
stream_hold_partition(Oid table, int32 partition, int32 max_poll_interval)
{
	Hold	   *hold = MemoryContextAlloc(TopTransactionContext, sizeof(Hold));

	hold->subid = GetCurrentSubTransactionId();
	hold->released = false;
	hold->table = table;
	hold->partition = partition;
	hold->next = holds;
	holds = hold;
	stream_start_deadline(STREAM_DEADLINE_POLL, max_poll_interval);
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

void
stream_holds_commit_sub(SubTransactionId subid, SubTransactionId parent)
{
	for (Hold *hold = holds; hold != NULL; hold = hold->next)
		if (hold->subid == subid)
			hold->subid = parent;
}

/* stream_holds_abort_sub lets the clock go on only while something is held. */
void
stream_holds_abort_sub(SubTransactionId subid)
{
	for (Hold *hold = holds; hold != NULL; hold = hold->next)
		if (hold->subid == subid)
			hold->released = true;
	if (stream_holds_partitions())
		stream_resume_deadline(STREAM_DEADLINE_POLL);
	else
		stream_stop_deadline(STREAM_DEADLINE_POLL);
}

/* stream_holds_end runs at the transaction's end, and does not throw. */
void
stream_holds_end(void)
{
	stream_stop_deadline(STREAM_DEADLINE_POLL);
}
