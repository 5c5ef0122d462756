/*-------------------------------------------------------------------------
 *
 * freshness.c
 *		Reading one's own writes from a projection, and how stale it is.
 *
 * An applied offset is looked at in shared memory, where the applier puts it
 * after its commit, or, when nothing is known there, in the table of offsets.
 * Either way the transaction has become visible before: the caller's next
 * snapshot shows the rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "catalog/projections.h"
#include "compat.h"
#include "consumer/lag.h"
#include "consumer/offsets.h"
#include "funcapi.h"
#include "log/append.h"
#include "log/position.h"
#include "log/value.h"
#include "log/wait.h"
#include "miscadmin.h"
#include "projection/freshness.h"
#include "storage/lmgr.h"
#include "task.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(stream_wait_for);
PG_FUNCTION_INFO_V1(stream_freshness);

/*
 * open_projection finds a projection and locks its stream.  Whoever may publish
 * there may ask as well as whoever may read.
 */
static StreamProjection *
open_projection(FunctionCallInfo fcinfo, const char *command, Oid *table)
{
	char	   *name = stream_text_argument(fcinfo, 0, "projection");
	StreamProjection *projection;

	stream_require_shmem();
	PreventCommandDuringRecovery(command);
	projection = stream_projection(name, false);
	*table = stream_table_of_id(projection->stream_id);
	if (OidIsValid(*table))
		LockRelationOid(*table, AccessShareLock);
	/* it may have gone while we waited */
	projection = stream_projection(name, false);
	if (!OidIsValid(*table) || stream_info(*table)->stream_id != projection->stream_id)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stream of projection \"%s\" does not exist", name),
				 errhint("When a restore is under way, let it finish first.")));
	if (pg_class_aclcheck(*table, GetUserId(), ACL_SELECT | ACL_INSERT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_TABLE, get_rel_name(*table));
	return projection;
}

/* stream_applied_offset returns the next offset to apply, as committed. */
int64
stream_applied_offset(int32 projection_id, int32 partition)
{
	StreamTask	task;
	StreamOffset newest;

	if (stream_task_get(projection_id, partition, &task) && task.applied_offset >= 0)
		return task.applied_offset;
	if (stream_newest_offset(projection_id, partition, NULL, &newest) != STREAM_OFFSET_FOUND)
		return 0;
	return newest.committed_offset;
}

/*
 * wanted_offsets returns, by partition, the offset that must have been applied;
 * zero for those that do not matter.
 */
static int64 *
wanted_offsets(FunctionCallInfo fcinfo, Oid table)
{
	int32		partitions = stream_info(table)->partitions;
	int64	   *wanted = palloc0_array(int64, partitions);
	ArrayType  *array;
	Datum	   *positions;
	bool	   *nulls;
	int			n;

	if (PG_ARGISNULL(1))
	{
		/* all that was issued until now, held back or not: it may be the caller's own */
		for (int32 partition = 0; partition < partitions; partition++)
			wanted[partition] = stream_partition_end(table, partition).next_offset;
		return wanted;
	}
	array = PG_GETARG_ARRAYTYPE_P(1);
	deconstruct_array(array, ARR_ELEMTYPE(array), sizeof(StreamPosition), false, TYPALIGN_DOUBLE,
					  &positions, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		StreamPosition *position = DatumGetStreamPosition(positions[i]);

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("element %d of positions must not be null", i + 1)));
		stream_check_partition(stream_info(table), position->partition);
		wanted[position->partition] = Max(wanted[position->partition], position->offset + 1);
	}
	return wanted;
}

/* stream_wait_for: wait_for(projection, positions, timeout). */
Datum
stream_wait_for(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamProjection *projection = open_projection(fcinfo, "wait_for()", &table);
	int32		partitions = stream_info(table)->partitions;
	TimestampTz until;
	int64	   *wanted;
	int32		next = 0;

	stream_need_argument(fcinfo, 2, "timeout");
	stream_prevent_wait_under_snapshot("wait_for()");
	until = stream_wait_until(PG_GETARG_INTERVAL_P(2));
	wanted = wanted_offsets(fcinfo, table);
	for (int32 partition = 0; partition < partitions; partition++)
		if (wanted[partition] > 0 && stream_holds_back(table, partition, wanted[partition] - 1))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
					 errmsg("cannot wait for a record behind what this transaction has published"),
					 errhint("Commit first.")));

	/* register first, look afterwards */
	stream_waiter_register_projection(projection->projection_id);
	for (int32 partition = 0; partition < partitions; partition++)
		if (wanted[partition] > 0)
			stream_waiter_add_partition(partition);
	for (;;)
	{
		long		left;

		while (next < partitions &&
			   (wanted[next] == 0 || stream_applied_offset(projection->projection_id, next) >= wanted[next]))
			next++;
		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		if (next == partitions || left <= 0)
			break;
		/* it is not applied any more when it is dropped */
		(void) stream_projection_by_id(projection->projection_id, false);
		stream_waiter_sleep(left);
	}
	stream_waiter_unregister();
	UnlockRelationOid(table, AccessShareLock);
	PG_RETURN_BOOL(next == partitions);
}

/* stream_freshness: freshness(projection, key). */
Datum
stream_freshness(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamProjection *projection = open_projection(fcinfo, "freshness()", &table);
	StreamPartitionEnd end;
	TupleDesc	desc;
	TimestampTz oldest;
	int64		applied;
	int32		partition;
	text	   *key;
	Datum		values[2];
	bool		nulls[2] = {false};

	stream_need_argument(fcinfo, 1, "key");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	key = PG_GETARG_TEXT_PP(1);
	partition = stream_partition_of_key(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), stream_info(table)->partitions);
	applied = stream_applied_offset(projection->projection_id, partition);
	end = stream_partition_end(table, partition);
	oldest = stream_oldest_unread(table, partition, applied, &end);
	values[0] = Float8GetDatum(oldest == 0 ? 0.0 :
							   (double) Max(GetCurrentTimestamp() - oldest, 0) / USECS_PER_SEC);
	values[1] = Int64GetDatum(stream_records_behind(table, partition, applied, end.next_offset));
	UnlockRelationOid(table, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
