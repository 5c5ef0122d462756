/*-------------------------------------------------------------------------
 *
 * groups.c
 *		Consumer groups as objects: created, altered, dropped, paused.
 *
 * Whoever may read a stream may have groups on it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "args.h"
#include "catalog/groups.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/tables.h"
#include "consumer/coordinator.h"
#include "consumer/groups.h"
#include "consumer/offsets.h"
#include "consumer/target.h"
#include "fmgr.h"
#include "guc.h"
#include "log/forget.h"
#include "log/reserve.h"
#include "meter.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* Beside the roll lock, which has zero: partition.c. */
#define STREAM_GROUPS_LOCK	1

/* What create_consumer_group does when nothing else is said. */
#define DEFAULT_OUT_OF_RANGE		"error"
#define DEFAULT_MAX_POLL_INTERVAL	300000	/* ms */

PG_FUNCTION_INFO_V1(stream_create_consumer_group);
PG_FUNCTION_INFO_V1(stream_alter_consumer_group);
PG_FUNCTION_INFO_V1(stream_drop_consumer_group);
PG_FUNCTION_INFO_V1(stream_pause_consumer_group);
PG_FUNCTION_INFO_V1(stream_resume_consumer_group);

/*
 * lock_groups lets one transaction at a time change a stream's groups.  Having
 * the lock, we know of all changes before it.
 */
static void
lock_groups(Oid table)
{
	LockDatabaseObject(ForeignTableRelationId, table, STREAM_GROUPS_LOCK, ExclusiveLock);
}

/* stream_try_lock_groups does so unless that must wait. */
bool
stream_try_lock_groups(Oid table)
{
	return ConditionalLockDatabaseObject(ForeignTableRelationId, table, STREAM_GROUPS_LOCK, ExclusiveLock);
}

/*
 * stream_note_call notes that this session consumes, or waits, for a group.  The
 * first call makes the group's meter: not while the group may be being dropped,
 * or the meter would outlive it; then the next call does.
 */
void
stream_note_call(Oid table, const StreamGroup *group)
{
	int32		group_id = group->group_id;
	NameData	name = group->name;
	StreamGroup *found;

	if (likely(stream_meter_call(group_id)) ||
		!ConditionalLockDatabaseObject(ForeignTableRelationId, table, STREAM_GROUPS_LOCK, RowShareLock))
		return;
	/* having the lock, we know of all changes before it */
	found = stream_group(stream_info(table), NameStr(name), true);
	if (found != NULL && found->group_id == group_id)
		stream_meter_enter_group(table, group_id);
	UnlockDatabaseObject(ForeignTableRelationId, table, STREAM_GROUPS_LOCK, RowShareLock);
}

/* open_group finds the group that the first two arguments name, for a command on it. */
static StreamGroup *
open_group(FunctionCallInfo fcinfo, const char *command, Oid *table)
{
	char	   *stream = stream_text_argument(fcinfo, 0, "stream");
	char	   *name = stream_text_argument(fcinfo, 1, "consumer_group");

	stream_require_shmem();
	PreventCommandIfReadOnly(command);
	PreventCommandDuringRecovery(command);
	stream_lock_extension();
	*table = stream_table(stream, AccessShareLock, ACL_SELECT, false);
	lock_groups(*table);
	return stream_group(stream_info(*table), name, false);
}

/* create_group adds a group, which nobody else does meanwhile, with its offsets. */
static void
create_group(Oid table, const char *name, const StreamOffsetTarget *start,
			 const char *out_of_range, int32 max_poll_interval)
{
	int32		group_id = stream_insert_group(stream_info(table)->stream_id, name, out_of_range, max_poll_interval);

	stream_forget_group(group_id, false);
	stream_start_offsets(table, group_id, start);
	stream_invalidate(table);
}

/*
 * stream_group_or_create finds a group of a stream that the caller has locked.
 * When there is none, it is an error, unless stream.auto_create_groups is set:
 * then the group is created, by default to start at the log start.  The first
 * one to come creates it; others wait for that transaction to end.
 */
StreamGroup *
stream_group_or_create(Oid table, const char *name)
{
	StreamOffsetTarget earliest = {.kind = STREAM_TARGET_EARLIEST};
	StreamGroup *group = stream_group(stream_info(table), name, stream_auto_create_groups);

	if (likely(group != NULL))
		return group;
	stream_check_group_name(name);
	lock_groups(table);
	group = stream_group(stream_info(table), name, true);
	if (group == NULL)
	{
		create_group(table, name, &earliest, DEFAULT_OUT_OF_RANGE, DEFAULT_MAX_POLL_INTERVAL);
		CommandCounterIncrement();
		group = stream_group(stream_info(table), name, false);
	}
	return group;
}

/*
 * stream_create_consumer_group: create_consumer_group(stream, consumer_group,
 * start, on_offset_out_of_range, max_poll_interval).
 */
Datum
stream_create_consumer_group(PG_FUNCTION_ARGS)
{
	char	   *stream = stream_text_argument(fcinfo, 0, "stream");
	char	   *name = stream_text_argument(fcinfo, 1, "consumer_group");
	char	   *start = stream_text_argument(fcinfo, 2, "start");
	char	   *out_of_range = stream_text_argument(fcinfo, 3, "on_offset_out_of_range");
	int32		max_poll_interval;
	StreamOffsetTarget target;
	StreamInfo *info;
	Oid			table;

	stream_require_shmem();
	PreventCommandIfReadOnly("create_consumer_group()");
	PreventCommandDuringRecovery("create_consumer_group()");
	max_poll_interval = stream_ms_argument(fcinfo, 4, "max_poll_interval");
	stream_check_group_name(name);
	stream_parse_start(start, "consumer group", &target);

	stream_lock_extension();
	table = stream_table(stream, AccessShareLock, ACL_SELECT, false);
	lock_groups(table);
	info = stream_info(table);
	if (stream_group(info, name, true) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("consumer group \"%s\" of stream \"%s\" already exists", name, stream)));
	create_group(table, name, &target, out_of_range, max_poll_interval);
	PG_RETURN_VOID();
}

/*
 * stream_alter_consumer_group: alter_consumer_group(stream, consumer_group,
 * on_offset_out_of_range, max_poll_interval); null keeps a value.
 */
Datum
stream_alter_consumer_group(PG_FUNCTION_ARGS)
{
	Oid			table;
	int32		group_id = open_group(fcinfo, "alter_consumer_group()", &table)->group_id;

	if (!PG_ARGISNULL(2))
		stream_set_group_out_of_range(group_id, text_to_cstring(PG_GETARG_TEXT_PP(2)));
	if (!PG_ARGISNULL(3))
	{
		CommandCounterIncrement();
		stream_set_group_max_poll_interval(group_id, stream_ms_argument(fcinfo, 3, "max_poll_interval"));
	}
	stream_invalidate(table);
	PG_RETURN_VOID();
}

/* stream_drop_consumer_group waits for consumers in mid-transaction, not for members. */
Datum
stream_drop_consumer_group(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamGroup group = *open_group(fcinfo, "drop_consumer_group()", &table);
	int32		partitions = stream_info(table)->partitions;

	for (int32 partition = 0; partition < partitions; partition++)
		stream_lock_offset(group.group_id, partition);
	stream_remove_members(table, &group, false);
	stream_delete_group(group.group_id);
	stream_forget_group(group.group_id, true);
	stream_invalidate(table);
	PG_RETURN_VOID();
}

Datum
stream_pause_consumer_group(PG_FUNCTION_ARGS)
{
	Oid			table;
	int32		group_id = open_group(fcinfo, "pause_consumer_group()", &table)->group_id;

	stream_set_group_paused(group_id, true);
	stream_invalidate(table);
	PG_RETURN_VOID();
}

Datum
stream_resume_consumer_group(PG_FUNCTION_ARGS)
{
	Oid			table;
	int32		group_id = open_group(fcinfo, "resume_consumer_group()", &table)->group_id;

	stream_set_group_paused(group_id, false);
	stream_invalidate(table);
	PG_RETURN_VOID();
}
