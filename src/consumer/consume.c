/*-------------------------------------------------------------------------
 *
 * consume.c
 *		Transactional consume.
 *
 * A call takes partitions of the group that have something to read and that
 * nobody else is processing, as many as fill it, and advances their offsets in
 * the caller's transaction.  For each partition, in this order:
 *
 *	1.	lock it for the group, without waiting: who cannot have it goes on to
 *		the next one, so two consumers never wait for each other;
 *	2.	find the newest offset.  If the statement's snapshot does not see that
 *		commit, the partition has moved since the statement began: it counts as
 *		busy, since the tables that the statement sees do not show what its last
 *		consumer wrote.  That holds for our own commit in the same statement too;
 *	3.	read as everybody reads: watermark, fresh snapshot, records, stopping
 *		where the statement's snapshot does not see;
 *	4.	append the offset behind the last record, or the watermark when it was
 *		reached over holes, so that lag returns to zero.
 *
 * The lock lives as long as the transaction, so the partition's next consumer
 * begins when this one has committed or rolled back, and a consumer that dies
 * frees it at once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "args.h"
#include "catalog/groups.h"
#include "commands/prepare.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "consumer/consume.h"
#include "consumer/offsets.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "log/deadline.h"
#include "log/read.h"
#include "log/reserve.h"
#include "log/value.h"
#include "log/wait.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(stream_consume);
PG_FUNCTION_INFO_V1(stream_consume_bytes);
PG_FUNCTION_INFO_V1(stream_wait_for_records);

/* What a call of consume has done so far. */
typedef struct Consume
{
	ReturnSetInfo *rsinfo;
	Oid			table;
	const char *group_name;
	int32		group_id;
	StreamOutOfRange out_of_range;
	int32		max_poll_interval;	/* ms */
	Snapshot	own;
	int64		records_left;
	int64		bytes_left;
	int64		records;		/* returned */
	StreamRecordDatums copies;
} Consume;

/* A partition that this transaction has taken; in TopTransactionContext. */
typedef struct Taken
{
	struct Taken *next;
	SubTransactionId subid;		/* who has taken it */
	bool		released;		/* that was rolled back: its lock goes */
	Oid			table;
	int32		partition;
} Taken;

static Taken *taken = NULL;

static int	executor_nesting = 0;
static ExecutorRun_hook_type previous_executor_run = NULL;

/* Counts how deep the executor is nested, for committed_too_early. */
static void
count_nesting(STREAM_EXECUTOR_RUN_ARGS)
{
	executor_nesting++;
	PG_TRY();
	{
		if (previous_executor_run)
			previous_executor_run(STREAM_EXECUTOR_RUN_PASS);
		else
			standard_ExecutorRun(STREAM_EXECUTOR_RUN_PASS);
	}
	PG_FINALLY();
	{
		executor_nesting--;
	}
	PG_END_TRY();
}

/*
 * wake_after_release wakes those who wait for a partition, when its lock has
 * been released, and forgets it.
 */
static void
wake_after_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	Taken	  **link = &taken;

	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || taken == NULL || (is_commit && !is_top_level))
		return;
	while (*link != NULL)
	{
		Taken	   *entry = *link;

		if (is_top_level || entry->released)
		{
			stream_wake_waiters(entry->table, entry->partition);
			*link = entry->next;
		}
		else
			link = &entry->next;
	}
}

void
stream_consume_init(void)
{
	RegisterResourceReleaseCallback(wake_after_release, NULL);
	previous_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = count_nesting;
}

/* hands_out says whether a utility statement runs a SELECT only to hand its rows out. */
static bool
hands_out(Node *utility)
{
	if (utility == NULL)
		return false;
	if (IsA(utility, CopyStmt))
		return !((CopyStmt *) utility)->is_from;
	if (IsA(utility, ExplainStmt))
	{
		Query	   *query = castNode(Query, ((ExplainStmt *) utility)->query);

		if (query->commandType == CMD_UTILITY && IsA(query->utilityStmt, ExecuteStmt))
		{
			PreparedStatement *prepared = FetchPreparedStatement(((ExecuteStmt *) query->utilityStmt)->name, false);

			return prepared != NULL && prepared->plansource->commandTag == CMDTAG_SELECT;
		}
		return query->commandType == CMD_SELECT;
	}
	if (IsA(utility, DeclareCursorStmt))
		return true;
	return false;
}

/*
 * commits_too_early says whether the offsets would be committed before the
 * client has the records: a plain SELECT is a transaction of its own, and does
 * nothing else with them.  Statements that write them somewhere, and functions
 * that may have, are not meant.
 */
static bool
commits_too_early(void)
{
	if (IsTransactionBlock() || executor_nesting != 1 || ActivePortal == NULL)
		return false;
	return ActivePortal->strategy == PORTAL_ONE_SELECT ||
		(list_length(ActivePortal->stmts) == 1 &&
		 hands_out(linitial_node(PlannedStmt, ActivePortal->stmts)->utilityStmt));
}

/*
 * position_of_group decides where to go on: at the committed offset, or, when
 * retention has passed that, where the group's policy says.
 */
static int64
position_of_group(Consume *call, int32 partition, int64 committed, int64 *skipped)
{
	StreamInfo *info = stream_info(call->table);
	int64		log_start = stream_partition_info(info, partition)->log_start_offset;
	int64		position = log_start;

	*skipped = 0;
	if (committed >= log_start)
		return committed;
	if (call->out_of_range == STREAM_OUT_OF_RANGE_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("committed offset %lld of stream \"%s\", partition %d, is below the log start",
						(long long) committed, NameStr(info->name), partition),
				 errdetail("The log starts at offset %lld: records were removed before the group had read them.",
						   (long long) log_start),
				 errhint("Call stream.reset_offsets, or set the group's on_offset_out_of_range.")));
	if (call->out_of_range == STREAM_OUT_OF_RANGE_LATEST)
		position = stream_current_watermark(info, partition);
	*skipped = position - committed;
	return position;
}

/* consume_partition takes one partition, if it can, and what it has. */
static void
consume_partition(Consume *call, int32 partition)
{
	StreamOffset newest;
	StreamReader reader;
	StreamRecord record;
	StreamOffsetFound found;
	Datum		values[Natts_record];
	bool		nulls[Natts_record];
	int64		position;
	int64		skipped;

	if (!stream_try_lock_offset(call->group_id, partition))
		return;
	found = stream_newest_offset(call->group_id, partition, call->own, &newest);
	if (found == STREAM_OFFSET_MISSING)
	{
		/* dropped a moment ago, or really missing */
		AcceptInvalidationMessages();
		(void) stream_group(stream_info(call->table), call->group_name, false);
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("consumer group has no offset for partition %d", partition),
				 errhint("When a restore is under way, let it finish first.")));
	}
	if (found == STREAM_OFFSET_UNSEEN)
	{
		stream_unlock_offset(call->group_id, partition);
		return;
	}

	position = position_of_group(call, partition, newest.committed_offset, &skipped);
	stream_reader_begin(&reader, call->table, partition, position, call->own);
	while (call->records_left > 0 && stream_reader_next(&reader, &record))
	{
		int64		bytes = Max(record.key_len, 0) + (int64) Max(record.value_len, 0) + Max(record.headers_len, 0);

		/* the first one comes whatever its size, or a consumer would be stuck */
		if (bytes > call->bytes_left && call->records > 0)
		{
			call->records_left = 0;
			break;
		}
		stream_record_datums(&call->copies, partition, &record, STREAM_WANT_ALL, values, nulls);
		tuplestore_putvalues(call->rsinfo->setResult, call->rsinfo->setDesc, values, nulls);
		call->records++;
		call->records_left--;
		call->bytes_left -= Min(bytes, call->bytes_left);
		position = record.offset + 1;
	}
	/* over holes to the watermark; without one, nothing says what was issued */
	if (reader.finished && !reader.unseen && reader.limit != PG_INT64_MAX)
		position = Max(position, reader.limit);
	stream_reader_end(&reader);

	if (position > newest.committed_offset)
	{
		Taken	   *entry = MemoryContextAlloc(TopTransactionContext, sizeof(Taken));

		entry->subid = GetCurrentSubTransactionId();
		entry->released = false;
		entry->table = call->table;
		entry->partition = partition;
		entry->next = taken;
		taken = entry;
		stream_append_offset(call->group_id, partition, &newest, position, skipped);
		/* from now on it holds others up */
		stream_start_deadline(STREAM_DEADLINE_POLL, call->max_poll_interval);
	}
	else
		stream_unlock_offset(call->group_id, partition);
}

static Datum
consume(FunctionCallInfo fcinfo, StreamValueType value_type)
{
	Consume		call = {0};
	StreamInfo *info;
	StreamGroup *group;
	int32		partitions;
	int32		first;

	stream_need_argument(fcinfo, 0, "stream");
	stream_need_argument(fcinfo, 1, "consumer_group");
	PreventCommandIfReadOnly("consume()");
	PreventCommandIfParallelMode("consume()");
	PreventCommandDuringRecovery("consume()");
	call.records_left = stream_limit_argument(fcinfo, 2, false, "max_records");
	call.bytes_left = stream_limit_argument(fcinfo, 3, true, "max_bytes");
	if (!(PG_ARGISNULL(4) ? false : PG_GETARG_BOOL(4)) && commits_too_early())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("consume in a SELECT of its own would commit before the client has the records"),
				 errhint("Open a transaction block, or write the records in the same statement; with autocommit => true each record is delivered at most once.")));

	call.table = stream_table(text_to_cstring(PG_GETARG_TEXT_PP(0)), AccessShareLock, ACL_SELECT, false);
	/* a pause or drop counts from the next call on, also within a transaction */
	AcceptInvalidationMessages();
	info = stream_info(call.table);
	stream_check_value_type(NameStr(info->name), info->value_type, value_type);
	call.group_name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	call.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	group = stream_group(info, call.group_name, false);
	if (group->paused)
		return (Datum) 0;
	call.group_id = group->group_id;
	call.out_of_range = group->out_of_range;
	call.own = GetActiveSnapshot();
	call.max_poll_interval = group->max_poll_interval;

	/* begin anywhere, so that no partition starves while others are busy */
	partitions = info->partitions;
	first = pg_prng_uint32(&pg_global_prng_state) % (uint32) partitions;
	for (int32 i = 0; i < partitions && call.records_left > 0; i++)
	{
		CHECK_FOR_INTERRUPTS();
		consume_partition(&call, (first + i) % partitions);
	}
	return (Datum) 0;
}

Datum
stream_consume(PG_FUNCTION_ARGS)
{
	return consume(fcinfo, STREAM_VALUE_JSONB);
}

Datum
stream_consume_bytes(PG_FUNCTION_ARGS)
{
	return consume(fcinfo, STREAM_VALUE_BYTEA);
}

/* stream_consume_is_pending says whether the transaction holds a partition. */
bool
stream_consume_is_pending(void)
{
	for (Taken *entry = taken; entry != NULL; entry = entry->next)
		if (!entry->released)
			return true;
	return false;
}

void
stream_consume_commit_sub(SubTransactionId subid, SubTransactionId parent)
{
	for (Taken *entry = taken; entry != NULL; entry = entry->next)
		if (entry->subid == subid)
			entry->subid = parent;
}

/* stream_consume_abort_sub lets the clock go on only while something is held. */
void
stream_consume_abort_sub(SubTransactionId subid)
{
	for (Taken *entry = taken; entry != NULL; entry = entry->next)
		if (entry->subid == subid)
			entry->released = true;
	if (stream_consume_is_pending())
		stream_resume_deadline(STREAM_DEADLINE_POLL);
	else
		stream_stop_deadline(STREAM_DEADLINE_POLL);
}

/* stream_consume_end runs at the transaction's end, and does not throw. */
void
stream_consume_end(void)
{
	stream_stop_deadline(STREAM_DEADLINE_POLL);
}

/* is_ready says whether a group has something to read in a partition that nobody is processing. */
static bool
is_ready(Oid table, int32 group_id, int32 partition)
{
	StreamOffset newest;
	bool		ready;

	if (!stream_try_lock_offset(group_id, partition))
		return false;
	ready = stream_newest_offset(group_id, partition, NULL, &newest) == STREAM_OFFSET_FOUND &&
		newest.committed_offset < stream_current_watermark(stream_info(table), partition);
	stream_unlock_offset(group_id, partition);
	return ready;
}

/* stream_wait_for_records: wait_for_records(stream, consumer_group, timeout). */
Datum
stream_wait_for_records(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamInfo *info;
	TimestampTz until;
	char	   *group_name;
	int32		partitions;
	bool		ready = false;

	stream_need_argument(fcinfo, 0, "stream");
	stream_need_argument(fcinfo, 1, "consumer_group");
	stream_need_argument(fcinfo, 2, "timeout");
	PreventCommandDuringRecovery("wait_for_records()");
	table = stream_table(text_to_cstring(PG_GETARG_TEXT_PP(0)), AccessShareLock, ACL_SELECT, false);
	until = stream_wait_until(PG_GETARG_INTERVAL_P(2));
	info = stream_info(table);
	group_name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	(void) stream_group(info, group_name, false);
	partitions = info->partitions;

	/* register first, look afterwards */
	stream_waiter_register(table);
	for (int32 partition = 0; partition < partitions; partition++)
		stream_waiter_add_partition(partition);
	for (;;)
	{
		StreamGroup group;
		long		left;

		/* it may be paused, resumed or dropped meanwhile */
		AcceptInvalidationMessages();
		group = *stream_group(stream_info(table), group_name, false);
		for (int32 partition = 0; partition < partitions && !ready && !group.paused; partition++)
			ready = is_ready(table, group.group_id, partition);
		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		if (ready || left <= 0)
			break;
		stream_waiter_sleep(left);
	}
	stream_waiter_unregister();
	UnlockRelationOid(table, AccessShareLock);
	PG_RETURN_BOOL(ready);
}
