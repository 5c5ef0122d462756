/*-------------------------------------------------------------------------
 *
 * membership.c
 *		join_group, heartbeat and leave_group: what members say to their group's
 *		coordinator.
 *
 * Members are named by an id, not by their session, so that each call may come
 * through another one.  Each may be repeated when its answer was lost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "args.h"
#include "catalog/pg_type.h"
#include "consumer/commit.h"
#include "consumer/coordinator.h"
#include "consumer/fetch.h"
#include "consumer/groups.h"
#include "consumer/offsets.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "sessions.h"
#include "shmem.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

PG_FUNCTION_INFO_V1(stream_join_group);
PG_FUNCTION_INFO_V1(stream_heartbeat);
PG_FUNCTION_INFO_V1(stream_leave_group);
PG_FUNCTION_INFO_V1(stream_group_members);

/* A call of a member, as far as all have it in common. */
typedef struct Call
{
	Oid			table;
	StreamGroup group;
	int32		partitions;
	char	   *member_id;		/* null: none given */
} Call;

/* member_name returns a member or instance id; null: it was not given. */
static char *
member_name(FunctionCallInfo fcinfo, int arg, const char *argument)
{
	char	   *name;

	if (PG_ARGISNULL(arg))
		return NULL;
	name = text_to_cstring(PG_GETARG_TEXT_PP(arg));
	if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must have 1 to %d bytes", argument, NAMEDATALEN - 1)));
	return name;
}

static void
begin_call(Call *call, FunctionCallInfo fcinfo, const char *command, bool creates)
{
	char	   *stream = stream_text_argument(fcinfo, 0, "stream");
	char	   *group_name = stream_text_argument(fcinfo, 1, "consumer_group");
	StreamInfo *info;

	call->member_id = member_name(fcinfo, 2, "member_id");
	stream_require_shmem();
	PreventCommandIfReadOnly(command);
	PreventCommandIfParallelMode(command);
	PreventCommandDuringRecovery(command);
	call->table = stream_table(stream, AccessShareLock, ACL_SELECT, false);
	AcceptInvalidationMessages();
	info = stream_info(call->table);
	call->partitions = info->partitions;
	call->group = *(creates ? stream_group_or_create(call->table, group_name) : stream_group(info, group_name, false));
}

/* answer is what join_group and heartbeat return. */
static Datum
answer(FunctionCallInfo fcinfo, const StreamMemberRow *row)
{
	TupleDesc	desc;
	Datum		values[4];
	bool		nulls[4] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = CStringGetTextDatum(NameStr(row->member_id));
	values[1] = Int32GetDatum(row->member.member_epoch);
	values[2] = stream_partition_array(&row->member.assigned);
	values[3] = stream_partition_array(&row->member.revoking);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* How long the first member waits for transactions that have a partition, in ms. */
#define STREAM_MIXING_WAIT		1000

/*
 * refuse_mixing makes sure that nobody consumes transactionally when a group
 * gets its first member.  A consumer that comes later finds the member: it looks
 * after it has locked a partition, and we hold all of those locks to the end.
 *
 * A transaction may be about to end: that of the member before, which has
 * released the members lock and not yet the partition's.  So give it some time;
 * but do not queue for a lock, since its holder may be waiting for ours.
 */
static void
refuse_mixing(Call *call)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), STREAM_MIXING_WAIT);

	for (int32 partition = 0; partition < call->partitions; partition++)
		while (!stream_try_lock_offset(call->group.group_id, partition))
		{
			if (GetCurrentTimestamp() >= until)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_IN_USE),
						 errmsg("consumer group \"%s\" is processing partition %d in a transaction",
								NameStr(call->group.name), partition),
						 errhint("A group is read by consume or by members, not by both at one time: stop its consumers, or join another group.")));
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1, PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
}

/* place_of_instance finds a static member's place, and refuses one that is in use. */
static StreamMemberRow *
place_of_instance(Call *call, StreamMembers *members, StreamMemberRow *own, const char *instance_id)
{
	StreamMemberRow *holder = stream_coordinator_find_instance(members, instance_id);

	if (holder == NULL || holder == own)
		return own;
	if (holder->member.state != STREAM_MEMBER_AWAY)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("instance \"%s\" of consumer group \"%s\" is in use by member \"%s\"",
						instance_id, NameStr(call->group.name), NameStr(holder->member_id)),
				 errhint("Join with the same member_id, let it leave with temporarily => true, or wait until its session has timed out.")));
	if (own != NULL)
		stream_coordinator_remove(members, own);
	stream_coordinator_rename(members, holder, call->member_id);
	return holder;
}

/*
 * stream_join_group: join_group(stream, consumer_group, member_id, instance_id,
 * session_timeout, max_poll_interval).
 */
Datum
stream_join_group(PG_FUNCTION_ARGS)
{
	Call		call;
	StreamMembers *members;
	StreamMemberRow *row;
	char	   *instance_id;
	int32		session_timeout;
	int32		max_poll_interval;

	begin_call(&call, fcinfo, "join_group()", true);
	instance_id = member_name(fcinfo, 3, "instance_id");
	session_timeout = stream_ms_argument(fcinfo, 4, "session_timeout");
	max_poll_interval = PG_ARGISNULL(5) ? call.group.max_poll_interval :
		stream_ms_argument(fcinfo, 5, "max_poll_interval");
	if (call.member_id == NULL)
		call.member_id = DatumGetCString(DirectFunctionCall1(uuid_out, DirectFunctionCall1(gen_random_uuid, (Datum) 0)));

	members = stream_coordinator_begin(call.table, &call.group);
	if (members->n == 0)
		refuse_mixing(&call);
	/* a drop waits for these locks from now on, and then finds a member */
	stream_check_group(call.table, NameStr(call.group.name), call.group.group_id);
	row = stream_coordinator_find(members, call.member_id);
	if (instance_id != NULL)
		row = place_of_instance(&call, members, row, instance_id);
	if (row == NULL)
		row = stream_coordinator_add(members, call.member_id);
	namestrcpy(&row->instance_id, instance_id == NULL ? "" : instance_id);
	row->session_timeout = session_timeout;
	row->max_poll_interval = max_poll_interval;
	stream_coordinator_reconcile(members, row, STREAM_EPOCH_JOIN, NULL);
	stream_session_begin(call.table, call.group.group_id, call.member_id, row->member.member_epoch);
	stream_coordinator_end(members);
	return answer(fcinfo, row);
}

/* owned_argument returns the partitions that a client says it owns. */
static void
owned_argument(FunctionCallInfo fcinfo, int arg, Call *call, StreamPartitionSet *owned)
{
	StreamInfo *info = stream_info(call->table);
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	memset(owned, 0, sizeof(StreamPartitionSet));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), INT4OID, sizeof(int32), true, TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("owned must not contain a null")));
		stream_check_partition(info, DatumGetInt32(elements[i]));
		stream_pset_add(owned, DatumGetInt32(elements[i]));
	}
}

/* check_heartbeat fences a client that says what cannot be. */
static void
check_heartbeat(Call *call, const StreamMemberRow *row, int32 client_epoch, const StreamPartitionSet *owned)
{
	if (row == NULL)
		stream_report_fenced(NameStr(call->group.name), call->member_id, STREAM_NOT_A_MEMBER);
	if (stream_check_heartbeat(&row->member, client_epoch, owned) == STREAM_HEARTBEAT_FENCED ||
		!stream_member_is_current(row, client_epoch))
		stream_report_fenced(NameStr(call->group.name), call->member_id, STREAM_JOINED_ANEW);
}

/*
 * nothing_to_do says whether a heartbeat can be answered from what was read
 * without the lock: the member has its target, as of when the epochs were read
 * afterwards, and nobody can have timed out.
 */
static bool
nothing_to_do(Call *call, const StreamMemberRow *row, int32 client_epoch)
{
	StreamGroupEpochs epochs;

	if (client_epoch != row->member.member_epoch)
		return false;
	stream_load_epochs(call->group.group_id, &epochs);
	return stream_member_is_reconciled(&row->member, &epochs) && epochs.group_epoch == epochs.target_epoch &&
		!stream_session_check_is_due(call->table, call->group.group_id, GetCurrentTimestamp());
}

/*
 * stream_heartbeat: heartbeat(stream, consumer_group, member_id, member_epoch,
 * owned).
 */
Datum
stream_heartbeat(PG_FUNCTION_ARGS)
{
	Call		call;
	StreamMembers *members;
	StreamMemberRow *row;
	StreamPartitionSet owned;
	int32		client_epoch;

	stream_need_argument(fcinfo, 2, "member_id");
	stream_need_argument(fcinfo, 3, "member_epoch");
	stream_need_argument(fcinfo, 4, "owned");
	client_epoch = PG_GETARG_INT32(3);
	if (client_epoch <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("member_epoch must be positive"),
				 errhint("Pass what join_group or the last heartbeat has returned.")));
	begin_call(&call, fcinfo, "heartbeat()", false);
	owned_argument(fcinfo, 4, &call, &owned);

	row = stream_member_calls(call.table, &call.group, call.member_id, client_epoch, false);
	check_heartbeat(&call, row, client_epoch, &owned);
	if (!nothing_to_do(&call, row, client_epoch))
	{
		members = stream_coordinator_begin(call.table, &call.group);
		row = stream_coordinator_find(members, call.member_id);
		check_heartbeat(&call, row, client_epoch, &owned);
		stream_coordinator_reconcile(members, row, client_epoch, &owned);
		stream_coordinator_end(members);
	}
	return answer(fcinfo, row);
}

/*
 * check_left: one that is no member any more has left, and the answer to that
 * call may have been lost; unless it would have committed something.
 */
static void
check_left(Call *call, const int64 *processed)
{
	for (int32 partition = 0; partition < call->partitions; partition++)
	{
		StreamOffset newest;

		if (processed[partition] >= 0 &&
			(stream_newest_offset(call->group.group_id, partition, NULL, &newest) != STREAM_OFFSET_FOUND ||
			 newest.committed_offset < processed[partition]))
			stream_report_fenced(NameStr(call->group.name), call->member_id, STREAM_NOT_A_MEMBER);
	}
}

/*
 * stream_leave_group: leave_group(stream, consumer_group, member_id,
 * member_epoch, processed, temporarily).
 */
Datum
stream_leave_group(PG_FUNCTION_ARGS)
{
	Call		call;
	StreamMembers *members;
	StreamMemberRow *row;
	int64	   *processed;
	bool		temporarily;

	stream_need_argument(fcinfo, 2, "member_id");
	stream_need_argument(fcinfo, 3, "member_epoch");
	stream_need_argument(fcinfo, 5, "temporarily");
	temporarily = PG_GETARG_BOOL(5);
	begin_call(&call, fcinfo, "leave_group()", false);
	processed = stream_positions_argument(fcinfo, 4, "processed", stream_info(call.table));
	/* the same call may be under way in another session: its outcome counts */
	for (int32 partition = 0; partition < call.partitions; partition++)
		if (processed[partition] >= 0)
			stream_lock_offset(call.group.group_id, partition);
	row = stream_load_member(call.group.group_id, call.partitions, call.member_id);
	if (row == NULL || row->member.state == STREAM_MEMBER_AWAY)
	{
		check_left(&call, processed);
		PG_RETURN_VOID();
	}

	/* the partitions' locks come first, then the members' */
	(void) stream_commit_processed(call.table, &call.group, call.member_id, PG_GETARG_INT32(3), processed);
	members = stream_coordinator_begin(call.table, &call.group);
	row = stream_coordinator_find(members, call.member_id);
	if (row != NULL)
	{
		if (!stream_member_is_current(row, PG_GETARG_INT32(3)))
			stream_report_fenced(NameStr(call.group.name), call.member_id, STREAM_JOINED_ANEW);
		if (!temporarily)
			stream_coordinator_remove(members, row);
		else if (NameStr(row->instance_id)[0] != '\0')
		{
			(void) stream_session_touch(call.table, call.group.group_id, call.member_id, row->member.member_epoch, false);
			stream_coordinator_set_away(members, row);
		}
		else
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("member \"%s\" cannot leave temporarily: it has no instance_id", call.member_id)));
	}
	stream_coordinator_end(members);
	PG_RETURN_VOID();
}

static void
member_row(ReturnSetInfo *rsinfo, Oid table, Name stream, const StreamGroup *group, const StreamMemberRow *row)
{
	StreamSession session;
	Datum		values[15];
	bool		nulls[15] = {false};

	nulls[9] = nulls[10] = !stream_session_get(table, group->group_id, NameStr(row->member_id), &session);
	values[0] = NameGetDatum(&group->name);
	values[1] = NameGetDatum(stream);
	values[2] = NameGetDatum(&row->member_id);
	values[3] = NameGetDatum(&row->instance_id);
	nulls[3] = NameStr(row->instance_id)[0] == '\0';
	values[4] = CStringGetTextDatum(stream_member_state_name(row->member.state));
	values[5] = Int32GetDatum(row->member.member_epoch);
	values[6] = stream_partition_array(&row->member.assigned);
	values[7] = stream_partition_array(&row->member.revoking);
	values[8] = stream_partition_array(&row->target);
	if (!nulls[9])
	{
		values[9] = TimestampTzGetDatum(session.heartbeat);
		values[10] = TimestampTzGetDatum(session.poll);
	}
	values[11] = IntervalPGetDatum(palloc0_object(Interval));
	DatumGetIntervalP(values[11])->time = row->session_timeout * INT64CONST(1000);
	values[12] = IntervalPGetDatum(palloc0_object(Interval));
	DatumGetIntervalP(values[12])->time = row->max_poll_interval * INT64CONST(1000);
	values[13] = TimestampTzGetDatum(row->joined_at);
	values[14] = Int32GetDatum(group->group_id);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* stream_group_members is behind the view group_members. */
Datum
stream_group_members(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *cell;

	stream_require_shmem();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (RecoveryInProgress())
		return (Datum) 0;
	foreach(cell, stream_visible_tables(true))
	{
		Oid			table = lfirst_oid(cell);
		StreamInfo *info = stream_info(table);
		NameData	name = info->name;
		int32		partitions = info->partitions;
		StreamGroup *groups;
		int			n = stream_copy_groups(info, &groups);

		for (int i = 0; i < n; i++)
		{
			StreamMembers *members = stream_load_members(table, groups[i].group_id, partitions);

			CHECK_FOR_INTERRUPTS();
			for (int m = 0; m < members->n; m++)
				member_row(rsinfo, table, &name, &groups[i], members->rows[m]);
		}
		UnlockRelationOid(table, AccessShareLock);
	}
	return (Datum) 0;
}
