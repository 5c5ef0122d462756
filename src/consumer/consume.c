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
#include "commands/prepare.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "consumer/consume.h"
#include "consumer/coordinator.h"
#include "consumer/fetch.h"
#include "consumer/holds.h"
#include "consumer/offsets.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "log/read.h"
#include "log/wait.h"
#include "miscadmin.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/portal.h"

PG_FUNCTION_INFO_V1(stream_consume);
PG_FUNCTION_INFO_V1(stream_consume_bytes);

/* A call of consume. */
typedef struct Consume
{
	StreamFetch fetch;
	const char *group_name;
} Consume;

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

void
stream_consume_init(void)
{
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
 * that may have, are not meant; nor is a loop over a query in DO or a procedure,
 * which has a portal of its own.
 */
static bool
commits_too_early(void)
{
	if (IsTransactionBlock() || executor_nesting != 1 || ActivePortal == NULL)
		return false;
	if (SPI_inside_nonatomic_context() || IsSubTransaction() || ActivePortal->portalPinned)
		return false;
	return ActivePortal->strategy == PORTAL_ONE_SELECT ||
		(list_length(ActivePortal->stmts) == 1 &&
		 hands_out(linitial_node(PlannedStmt, ActivePortal->stmts)->utilityStmt));
}

/*
 * let_go unlocks a partition of which nothing was taken.  Somebody may have
 * been woken while we had it, and gone to sleep again.
 */
static void
let_go(StreamFetch *fetch, int32 partition, int64 committed)
{
	stream_unlock_offset(fetch->group.group_id, partition);
	if (committed < stream_current_watermark(stream_info(fetch->table), partition))
		stream_wake_waiters(fetch->table, partition);
}

/*
 * refuse_mixing refuses to consume what a group's members read.  It may wait for
 * somebody who changes the members, so the call has no partition locked yet; nor
 * has the transaction one of this group, or there would be no members.
 */
static void
refuse_mixing(StreamFetch *fetch)
{
	if (likely(!fetch->group.has_members) || !stream_has_live_members(fetch->table, &fetch->group))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("consumer group \"%s\" has members", NameStr(fetch->group.name)),
			 errhint("A group is read by consume or by members, not by both at one time: let the members leave, or create another group.")));
}

/*
 * still_unmixed looks again when a partition is locked: from then on nobody becomes
 * the first member.  False: somebody may have become it since the call began, and
 * is at it; waiting for that here would hold up members that commit.
 */
static bool
still_unmixed(StreamFetch *fetch)
{
	stream_fetch_refresh(fetch);
	if (likely(!fetch->group.has_members))
		return true;
	if (!stream_try_lock_members(fetch->group.group_id))
		return false;
	refuse_mixing(fetch);
	return true;
}

/* consume_partition takes one partition, if it can, and what it has. */
static void
consume_partition(Consume *call, int32 partition)
{
	StreamFetch *fetch = &call->fetch;
	StreamOffset newest;
	StreamOffsetFound found;
	int64		returned = fetch->limits.records;
	int64		position;
	int64		skipped;

	if (!stream_try_lock_offset(fetch->group.group_id, partition))
		return;
	if (!still_unmixed(fetch))
	{
		let_go(fetch, partition, 0);
		return;
	}
	found = stream_newest_offset(fetch->group.group_id, partition, fetch->own, &newest);
	if (found == STREAM_OFFSET_MISSING)
		stream_report_missing_offset(fetch->table, call->group_name, fetch->group.group_id, partition);
	if (found == STREAM_OFFSET_UNSEEN)
	{
		let_go(fetch, partition, newest.committed_offset);
		return;
	}

	position = stream_fetch_start(fetch, partition, newest.committed_offset, &skipped);
	position = stream_fetch_partition(fetch, partition, position);
	if (position > newest.committed_offset)
	{
		stream_hold_partition(fetch->table, fetch->group.group_id, partition, fetch->group.max_poll_interval,
							  fetch->limits.records - returned);
		stream_append_offset(fetch->group.group_id, partition, &newest, position, skipped);
	}
	else
		let_go(fetch, partition, newest.committed_offset);
}

static Datum
consume(FunctionCallInfo fcinfo, StreamValueType value_type)
{
	Consume		call = {0};
	StreamFetch *fetch = &call.fetch;
	int32		partitions;
	int32		first;

	stream_need_argument(fcinfo, 0, "stream");
	stream_need_argument(fcinfo, 1, "consumer_group");
	PreventCommandIfReadOnly("consume()");
	PreventCommandIfParallelMode("consume()");
	PreventCommandDuringRecovery("consume()");
	fetch->limits.records_left = stream_limit_argument(fcinfo, 2, false, "max_records");
	fetch->limits.bytes_left = stream_limit_argument(fcinfo, 3, true, "max_bytes");
	if (!(PG_ARGISNULL(4) ? false : PG_GETARG_BOOL(4)) && commits_too_early())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("consume in a SELECT of its own would commit before the client has the records"),
				 errhint("Open a transaction block, or write the records in the same statement; with autocommit => true each record is delivered at most once.")));

	stream_holds_begin_batch();
	call.group_name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	partitions = stream_fetch_begin(fetch, fcinfo, call.group_name, value_type);
	if (fetch->group.paused)
		return (Datum) 0;
	refuse_mixing(fetch);

	/* begin anywhere, so that no partition starves while others are busy */
	first = pg_prng_uint32(&pg_global_prng_state) % (uint32) partitions;
	for (int32 i = 0; i < partitions && fetch->limits.records_left > 0; i++)
	{
		CHECK_FOR_INTERRUPTS();
		consume_partition(&call, (first + i) % partitions);
	}
	stream_holds_end_batch(fetch->limits.more);
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
