/*-------------------------------------------------------------------------
 *
 * wait.c
 *		wait_for_records: waiting until a consumer group has something to read.
 *
 * A member also waits for changes of its group: whoever makes one wakes the
 * stream's waiters when it can be seen.  While it waits it lives, and polls: it
 * gives a sign of that when it begins, each time it wakes, and three times in its
 * session timeout at least.  Which client it is, it does not say; one whose place
 * another has taken learns that at its next call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "catalog/groups.h"
#include "consumer/commit.h"
#include "consumer/coordinator.h"
#include "consumer/groups.h"
#include "consumer/offsets.h"
#include "consumer/wait.h"
#include "guc.h"
#include "log/read.h"
#include "log/wait.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(stream_wait_for_records);

/* What a call waits for. */
typedef struct Wait
{
	Oid			table;
	char	   *group_name;
	char	   *member_id;		/* null: any partition that consume could take */
	int64	   *after;			/* of a member: where it is, or -1 */
	int32		nap;			/* ms, after which a member has to look again */
	int32		partitions;
} Wait;

/* Streams some of whose groups' members this transaction has changed; in TopTransactionContext. */
static List *changed_tables = NIL;

/* wake_members runs when the transaction can be seen and its locks are gone; it does not throw. */
static void
wake_members(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	ListCell   *cell;

	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !is_top_level || changed_tables == NIL)
		return;
	/* whoever waits for a member's sake waits for all partitions */
	foreach(cell, changed_tables)
		stream_wake_waiters(lfirst_oid(cell), 0);
	changed_tables = NIL;
}

void
stream_consumer_wait_init(void)
{
	RegisterResourceReleaseCallback(wake_members, NULL);
}

/* stream_wake_members_at_end is called by who changes the members of a group. */
void
stream_wake_members_at_end(Oid table)
{
	MemoryContext save = MemoryContextSwitchTo(TopTransactionContext);

	changed_tables = list_append_unique_oid(changed_tables, table);
	MemoryContextSwitchTo(save);
}

/* stream_members_are_changed says whether the transaction has changed a group's members. */
bool
stream_members_are_changed(void)
{
	return changed_tables != NIL;
}

/* is_free says whether a group has something to read in a partition that nobody is processing. */
static bool
is_free(Oid table, int32 group_id, int32 partition)
{
	StreamOffset newest;

	return stream_offset_is_free(group_id, partition) &&
		stream_newest_offset(group_id, partition, NULL, &newest) == STREAM_OFFSET_FOUND &&
		newest.committed_offset < stream_current_watermark(stream_info(table), partition);
}

/*
 * has_records says whether a partition has something to read from the log start
 * on, as a group would that consume is going to create.
 */
static bool
has_records(Oid table, int32 partition)
{
	StreamInfo *info = stream_info(table);
	int64		log_start = stream_partition_info(info, partition)->log_start_offset;

	return log_start < stream_current_watermark(info, partition);
}

/*
 * find_group copies the group; false: consume is going to create it.  A waiter
 * does not, since others would wait for its transaction.
 */
static bool
find_group(Oid table, const char *group_name, StreamGroup *group)
{
	StreamGroup *found = stream_group(stream_info(table), group_name, stream_auto_create_groups);

	if (found == NULL)
	{
		stream_check_group_name(group_name);
		return false;
	}
	*group = *found;
	return true;
}

/*
 * member_is_ready says whether a member has something to poll, or should send a
 * heartbeat: it is no member any more, there is a new target, others have let go
 * of what it is to get, or have timed out.
 */
static bool
member_is_ready(Wait *wait, const StreamGroup *group)
{
	StreamMemberRow *row = stream_load_member(group->group_id, wait->partitions, wait->member_id);
	StreamGroupEpochs epochs;

	if (row == NULL ||
		!stream_member_lives(wait->table, group, wait->member_id, row->member.member_epoch, true, &row))
		return true;
	wait->nap = Max(1, Min(row->session_timeout, row->max_poll_interval) / 3);
	stream_load_epochs(group->group_id, &epochs);
	if (row->member.member_epoch < epochs.target_epoch || stream_can_take_more(wait->table, group, row) ||
		stream_has_late_members(wait->table, group))
		return true;
	for (int p = -1; !group->paused && (p = stream_pset_next(&row->member.assigned, p)) >= 0;)
	{
		StreamOffset newest;
		int64		position = wait->after[p];

		if (stream_newest_offset(group->group_id, p, NULL, &newest) == STREAM_OFFSET_FOUND)
			position = Max(position, newest.committed_offset);
		if (position < stream_current_watermark(stream_info(wait->table), p))
			return true;
	}
	return false;
}

static bool
is_ready(Wait *wait)
{
	StreamGroup group = {0};
	bool		exists;

	/* it may be paused, resumed or dropped meanwhile */
	AcceptInvalidationMessages();
	exists = find_group(wait->table, wait->group_name, &group);
	if (exists)
		stream_note_call(wait->table, &group);
	if (exists && wait->member_id != NULL)
		return member_is_ready(wait, &group);
	for (int32 partition = 0; partition < wait->partitions && !group.paused; partition++)
		if (exists ? is_free(wait->table, group.group_id, partition) : has_records(wait->table, partition))
			return true;
	return false;
}

/* stream_wait_for_records: wait_for_records(stream, consumer_group, timeout, member_id, after). */
Datum
stream_wait_for_records(PG_FUNCTION_ARGS)
{
	Wait		wait;
	StreamInfo *info;
	MemoryContext context;
	TimestampTz until;
	bool		ready;

	stream_need_argument(fcinfo, 0, "stream");
	stream_need_argument(fcinfo, 1, "consumer_group");
	stream_need_argument(fcinfo, 2, "timeout");
	PreventCommandDuringRecovery("wait_for_records()");
	stream_prevent_wait_under_snapshot("wait_for_records()");
	wait.table = stream_table(text_to_cstring(PG_GETARG_TEXT_PP(0)), AccessShareLock, ACL_SELECT, false);
	until = stream_wait_until(PG_GETARG_INTERVAL_P(2));
	info = stream_info(wait.table);
	wait.group_name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	wait.partitions = info->partitions;
	wait.member_id = PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3));
	wait.after = stream_positions_argument(fcinfo, 4, "after", info);
	wait.nap = PG_INT32_MAX;
	context = AllocSetContextCreate(CurrentMemoryContext, "stream wait", ALLOCSET_SMALL_SIZES);

	/* register first, look afterwards */
	stream_waiter_register(wait.table);
	for (int32 partition = 0; partition < wait.partitions; partition++)
		stream_waiter_add_partition(partition);
	for (;;)
	{
		MemoryContext save = MemoryContextSwitchTo(context);
		long		left;

		ready = is_ready(&wait);
		MemoryContextSwitchTo(save);
		MemoryContextReset(context);
		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		if (ready || left <= 0)
			break;
		stream_waiter_sleep(Min(left, wait.nap));
	}
	stream_waiter_unregister();
	UnlockRelationOid(wait.table, AccessShareLock);
	PG_RETURN_BOOL(ready);
}
