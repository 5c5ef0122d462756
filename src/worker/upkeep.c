/*-------------------------------------------------------------------------
 *
 * upkeep.c
 *		The manager's care for the logs of a database: rolls segments that have
 *		reached their size or age, seals those that nobody writes to any more,
 *		and has sealed ones frozen.
 *
 * First it looks at all streams in one transaction; then it does what is to be
 * done, each in transactions of its own.  It waits for no lock: what is locked
 * has another turn.  An error in one thing keeps no other from being done.
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

/* What is being done, for functions without arguments. */
static Oid	stream_table_to_do;
static VacuumRelation *segment_to_do;
static bool item_done;

static void
report(const char *what, Oid table)
{
	char	   *name = get_rel_name(table);

	if (name != NULL)
		stream_worker_report(STREAM_WORKER_BUSY, "%s \"%s\"", what, name);
}

static void
roll_item(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	report("rolling", stream_table_to_do);
	item_done = stream_roll_if_due(stream_table_to_do);
	CommitTransactionCommand();
}

static void
seal_item(void)
{
	begin();
	report("sealing", stream_table_to_do);
	item_done = true;
	if (stream_try_lock_extension() && ConditionalLockRelationOid(stream_table_to_do, AccessShareLock))
	{
		StreamInfo *info = stream_info_if_stream(stream_table_to_do);

		if (info != NULL && info->nsegments > 0)
		{
			(void) stream_seal_segments(stream_table_to_do);
			item_done = !stream_has_closing(stream_info(stream_table_to_do));
		}
	}
	commit();
}

static void
freeze_item(void)
{
	stream_freeze(segment_to_do);
	item_done = true;
}

/* do_item does one thing; an error is counted, and keeps nothing else from being done. */
static bool
do_item(void (*item) (void), int *errors)
{
	MemoryContext context = CurrentMemoryContext;

	stream_worker_check_stop();
	item_done = false;
	if (!stream_worker_try(item))
		(*errors)++;
	MemoryContextSwitchTo(context);
	return item_done;
}

/*
 * stream_keep_logs makes one round, and returns whether all of it went well.  Done
 * is false when segments are left that wait for publishers, or something was
 * locked; next_turn says when to come again.
 */
bool
stream_keep_logs(bool *done, TimestampTz *next_turn)
{
	Work		work = {NIL, NIL, NIL};
	int			errors = 0;
	ListCell   *cell;

	*done = look_at_all(&work, next_turn);
	foreach(cell, work.roll)
	{
		stream_table_to_do = lfirst_oid(cell);
		if (do_item(roll_item, &errors))
			/* its old segment may wait for publishers */
			work.seal = list_append_unique_oid(work.seal, stream_table_to_do);
		else
			*done = false;
	}
	foreach(cell, work.seal)
	{
		stream_table_to_do = lfirst_oid(cell);
		if (!do_item(seal_item, &errors))
			*done = false;
	}
	foreach(cell, work.freeze)
	{
		segment_to_do = (VacuumRelation *) lfirst(cell);
		(void) do_item(freeze_item, &errors);
	}
	if (!*done)
		*next_turn = Min(*next_turn,
						 TimestampTzPlusMilliseconds(GetCurrentTimestamp(), STREAM_SEAL_RETRY));
	return errors == 0;
}
