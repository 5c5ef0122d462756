/*-------------------------------------------------------------------------
 *
 * reset.c
 *		reset_offsets: sets a consumer group's offsets.
 *
 * Without execute it only shows what it would do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "catalog/groups.h"
#include "catalog/pg_type.h"
#include "catalog/tables.h"
#include "consumer/coordinator.h"
#include "consumer/fetch.h"
#include "consumer/offsets.h"
#include "consumer/target.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "shmem.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(stream_reset_offsets);

/* chosen_partitions marks the partitions of an array argument; null is all. */
static bool *
chosen_partitions(FunctionCallInfo fcinfo, int arg, StreamInfo *info)
{
	bool	   *chosen = palloc0_array(bool, info->partitions);
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	if (PG_ARGISNULL(arg))
	{
		memset(chosen, true, info->partitions * sizeof(bool));
		return chosen;
	}
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), INT4OID, sizeof(int32), true, TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("partitions must not contain a null")));
		stream_check_partition(info, DatumGetInt32(elements[i]));
		chosen[DatumGetInt32(elements[i])] = true;
	}
	return chosen;
}

/*
 * lock_partition locks a group's partition.  A consumer in mid-transaction is
 * ended when force is set, if the user may terminate its session.
 */
static void
lock_partition(const char *group_name, int32 group_id, int32 partition, bool force)
{
	char	   *sql;

	if (stream_try_lock_offset(group_id, partition))
		return;
	if (!force)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("consumer group \"%s\" is processing partition %d", group_name, partition),
				 errhint("Stop its consumers, or end them with force => true; the view stream.consumer_lag names them.")));
	sql = psprintf("SELECT pg_catalog.pg_terminate_backend(l.pid) FROM pg_catalog.pg_locks l"
				   " WHERE l.locktype = 'advisory' AND l.granted AND l.database = %u"
				   " AND l.classid = %u AND l.objid = %u AND l.objsubid = %d",
				   MyDatabaseId, (unsigned) group_id, (unsigned) partition, STREAM_OFFSET_LOCK);
	stream_execute(sql, InvalidOid);
	pfree(sql);
	stream_lock_offset(group_id, partition);
}

/*
 * stream_reset_offsets: reset_offsets(stream, consumer_group, target, partitions,
 * execute, force).
 */
Datum
stream_reset_offsets(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	static const char *const names[] = {"stream", "consumer_group", "target", NULL, "execute", "force"};
	StreamOffsetTarget target;
	StreamInfo *info;
	StreamGroup group;
	bool	   *chosen;
	bool		execute;
	bool		force;
	char	   *group_name;
	int32		group_id;
	int32		partitions;
	Oid			table;

	for (int i = 0; i < 6; i++)
		if (names[i] != NULL)
			stream_need_argument(fcinfo, i, names[i]);
	execute = PG_GETARG_BOOL(4);
	force = PG_GETARG_BOOL(5);
	stream_require_shmem();
	if (execute)
		PreventCommandIfReadOnly("reset_offsets()");
	PreventCommandDuringRecovery("reset_offsets()");
	stream_parse_target(text_to_cstring(PG_GETARG_TEXT_PP(2)), &target);
	table = stream_table(text_to_cstring(PG_GETARG_TEXT_PP(0)), AccessShareLock, ACL_SELECT, false);
	group_name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	info = stream_info(table);
	group = *stream_group(info, group_name, false);
	group_id = group.group_id;
	chosen = chosen_partitions(fcinfo, 3, info);
	partitions = info->partitions;
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);

	if (execute)
	{
		/* no new owner can begin to read before we have changed its offset */
		for (int32 partition = 0; partition < partitions; partition++)
			if (chosen[partition])
				lock_partition(group_name, group_id, partition, force);
		stream_remove_members(table, &group, force);
	}
	for (int32 partition = 0; partition < partitions; partition++)
	{
		StreamOffset current;
		const char *note;
		int64		offset;
		Datum		values[4];
		bool		nulls[4] = {false};

		CHECK_FOR_INTERRUPTS();
		if (!chosen[partition])
			continue;
		if (stream_newest_offset(group_id, partition, NULL, &current) != STREAM_OFFSET_FOUND)
			stream_report_missing_offset(table, group_name, group_id, partition);
		offset = stream_resolve_target(table, partition, &target, &current, &note);
		/* also where it is already: consumers must see what is done beside it first */
		if (execute)
			stream_append_offset(group_id, partition, &current, offset, 0);
		values[0] = Int32GetDatum(partition);
		values[1] = Int64GetDatum(current.committed_offset);
		values[2] = Int64GetDatum(offset);
		nulls[3] = note == NULL;
		values[3] = note == NULL ? (Datum) 0 : CStringGetTextDatum(note);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
