/*-------------------------------------------------------------------------
 *
 * upkeep.c
 *		The manager's care for the logs of a database: rolls segments that have
 *		reached their size or age, seals those that nobody writes to any more,
 *		and has sealed ones frozen.
 *
 * First it looks at all streams in one transaction; then it does what is to be
 * done, each in transactions of its own.  It waits for no lock: what is locked
 * has another turn.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/streams.h"
#include "catalog/tables.h"
#include "log/segment.h"
#include "log/upkeep.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "worker/upkeep.h"
#include "worker/worker.h"

/* Time until a segment that could not be sealed is tried again, in ms. */
#define STREAM_SEAL_RETRY	1000

typedef struct Work
{
	List	   *roll;			/* foreign tables of streams */
	List	   *seal;
	List	   *freeze;			/* of VacuumRelation */
} Work;

static void
begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
commit(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* look_at adds what one stream needs, in memory that outlives the transaction. */
static void
look_at(Oid table, Work *work, MemoryContext context, TimestampTz *next_turn)
{
	StreamInfo *info = stream_info_if_stream(table);
	TimestampTz due_at;
	MemoryContext save;

	if (info == NULL || info->nsegments == 0)
		return;
	if (stream_has_closing(info))
	{
		save = MemoryContextSwitchTo(context);
		work->seal = lappend_oid(work->seal, table);
		MemoryContextSwitchTo(save);
	}
	if (stream_roll_is_due(table, &due_at))
	{
		save = MemoryContextSwitchTo(context);
		work->roll = lappend_oid(work->roll, table);
		MemoryContextSwitchTo(save);
	}
	*next_turn = Min(*next_turn, due_at);

	save = MemoryContextSwitchTo(context);
	work->freeze = stream_find_unfrozen(table, work->freeze);
	MemoryContextSwitchTo(save);
}

/* look_at_all returns false when a command on the extension is in the way. */
static bool
look_at_all(Work *work, TimestampTz *next_turn)
{
	MemoryContext context = CurrentMemoryContext;
	bool		free;

	begin();
	free = stream_try_lock_extension();
	if (free)
	{
		ListCell   *cell;

		foreach(cell, stream_all_tables())
		{
			Oid			table = lfirst_oid(cell);

			CHECK_FOR_INTERRUPTS();
			if (!ConditionalLockRelationOid(table, AccessShareLock))
				continue;
			look_at(table, work, context, next_turn);
			UnlockRelationOid(table, AccessShareLock);
		}
	}
	commit();
	MemoryContextSwitchTo(context);
	return free;
}

/* seal seals what can be sealed of a stream; false: something is left. */
static bool
seal(Oid table)
{
	bool		done = true;

	begin();
	if (stream_try_lock_extension() && ConditionalLockRelationOid(table, AccessShareLock))
	{
		StreamInfo *info = stream_info_if_stream(table);

		if (info != NULL && info->nsegments > 0)
		{
			(void) stream_seal_segments(table);
			done = !stream_has_closing(stream_info(table));
		}
	}
	commit();
	return done;
}

/*
 * stream_keep_logs makes one round.  False: segments are left that wait for
 * publishers, or something is locked; next_turn says when to come again.
 */
bool
stream_keep_logs(TimestampTz *next_turn)
{
	MemoryContext context = CurrentMemoryContext;
	Work		work = {NIL, NIL, NIL};
	bool		done;
	ListCell   *cell;

	done = look_at_all(&work, next_turn);
	foreach(cell, work.roll)
	{
		stream_worker_check_stop();
		stream_worker_report(STREAM_WORKER_BUSY, "rolling a segment");
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		if (stream_roll_if_due(lfirst_oid(cell)))
		{
			/* its old segment may wait for publishers */
			MemoryContextSwitchTo(context);
			work.seal = list_append_unique_oid(work.seal, lfirst_oid(cell));
		}
		else
			done = false;
		CommitTransactionCommand();
		MemoryContextSwitchTo(context);
	}
	foreach(cell, work.seal)
	{
		stream_worker_check_stop();
		if (!seal(lfirst_oid(cell)))
			done = false;
		MemoryContextSwitchTo(context);
	}
	foreach(cell, work.freeze)
	{
		stream_worker_check_stop();
		stream_freeze((VacuumRelation *) lfirst(cell));
		MemoryContextSwitchTo(context);
	}
	if (!done)
		*next_turn = Min(*next_turn,
						 TimestampTzPlusMilliseconds(GetCurrentTimestamp(), STREAM_SEAL_RETRY));
	return done;
}
