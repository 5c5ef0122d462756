/*-------------------------------------------------------------------------
 *
 * letters.c
 *		Dead letters of projections: retry_dead_letters, and the way to make one
 *		by hand, skip_projection_record.
 *
 * Both hold the locks of the partitions, as an applier does, to the end of the
 * transaction: a record is applied, kept or passed by one of them at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "args.h"
#include "catalog/dead_letters.h"
#include "catalog/pg_type.h"
#include "catalog/projection_errors.h"
#include "catalog/projections.h"
#include "catalog/tables.h"
#include "consumer/offsets.h"
#include "funcapi.h"
#include "log/position.h"
#include "log/read.h"
#include "log/value.h"
#include "miscadmin.h"
#include "projection/failure.h"
#include "projection/statement.h"
#include "projection/target.h"
#include "storage/lmgr.h"
#include "task.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/resowner.h"
#include "workers.h"

PG_FUNCTION_INFO_V1(stream_retry_dead_letters);
PG_FUNCTION_INFO_V1(stream_skip_projection_record);

/* open_projection finds the projection that the first argument names, for its owner. */
static StreamProjection *
open_projection(FunctionCallInfo fcinfo, const char *command, Oid *table)
{
	char	   *name = stream_text_argument(fcinfo, 0, "projection");
	StreamProjection *projection;
	Oid			owner;

	stream_require_shmem();
	PreventCommandIfReadOnly(command);
	PreventCommandDuringRecovery(command);
	stream_prevent_in_statement(command);
	stream_lock_extension();
	projection = stream_projection(name, false);
	owner = stream_projection_role(projection);
	if (OidIsValid(owner) ? !has_privs_of_role(GetUserId(), owner) : !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of projection \"%s\"", name)));
	*table = stream_table_of_id(projection->stream_id);
	if (!OidIsValid(*table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the stream of projection \"%s\" does not exist", name),
				 errhint("When a restore is under way, let it finish first.")));
	LockRelationOid(*table, AccessShareLock);

	/* it may have gone with its stream while we waited */
	return stream_projection(name, false);
}

/* apply_letter applies one record in a subtransaction; returns the error, or null. */
static ErrorData *
apply_letter(const StreamProjection *projection, StreamValueType value_type, StreamDeadLetter *letter)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		Tuplestorestate *batch = tuplestore_begin_heap(false, false, work_mem);

		tuplestore_putvalues(batch, stream_batch_desc(value_type), letter->values, letter->nulls);
		stream_run_statement(projection, value_type, batch, 1);
		tuplestore_end(batch);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;

	/* circumstances are not to be noted as the record's fault */
	if (error != NULL && !stream_is_record_fault(error->sqlerrcode))
		ReThrowError(error);
	return error;
}

/* is_wanted says whether a letter is among the numbers asked for; ids null: all are. */
static bool
is_wanted(const StreamDeadLetter *letter, const Datum *ids, int nids)
{
	if (ids == NULL)
		return true;
	for (int i = 0; i < nids; i++)
		if (DatumGetInt64(ids[i]) == letter->id)
			return true;
	return false;
}

/* stream_retry_dead_letters: retry_dead_letters(projection, dead_letter_ids, max_records). */
Datum
stream_retry_dead_letters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			table;
	StreamProjection *projection = open_projection(fcinfo, "retry_dead_letters()", &table);
	StreamValueType value_type = stream_info(table)->value_type;
	int64		left = stream_limit_argument(fcinfo, 2, false, "max_records");
	Datum	   *ids = NULL;
	int			nids = 0;
	int32		locked = -1;
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	if (!PG_ARGISNULL(1))
	{
		ArrayType  *array = PG_GETARG_ARRAYTYPE_P(1);

		if (array_contains_nulls(array))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("dead_letter_ids must not contain nulls")));
		deconstruct_array(array, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &ids, NULL, &nids);
		if (ids == NULL)
			return (Datum) 0;
	}

	/* once for the partitions to lock, in order, and again for what is there then */
	foreach(cell, stream_dead_letters(projection->projection_id, value_type))
	{
		StreamDeadLetter *letter = lfirst(cell);

		if (is_wanted(letter, ids, nids) && letter->partition != locked)
		{
			locked = letter->partition;
			stream_lock_offset(projection->projection_id, locked);
		}
	}
	projection = stream_projection_by_id(projection->projection_id, false);
	stream_check_target(projection, stream_projection_owner(projection));
	foreach(cell, stream_dead_letters(projection->projection_id, value_type))
	{
		StreamDeadLetter *letter = lfirst(cell);
		ErrorData  *error;
		Datum		values[6];
		bool		nulls[6] = {false};

		if (left <= 0)
			break;
		/* one that has come meanwhile, to another partition, waits for the next call */
		if (!is_wanted(letter, ids, nids) ||
			!stream_offset_lock_held(projection->projection_id, letter->partition))
			continue;
		CHECK_FOR_INTERRUPTS();
		error = apply_letter(projection, value_type, letter);
		values[0] = Int64GetDatum(letter->id);
		values[1] = Int32GetDatum(letter->partition);
		values[2] = Int64GetDatum(letter->record_offset);
		values[3] = BoolGetDatum(error == NULL);
		nulls[4] = nulls[5] = error == NULL;
		if (error == NULL)
			stream_delete_dead_letter(letter->id);
		else
		{
			char	   *sqlstate = pstrdup(unpack_sql_state(error->sqlerrcode));

			values[4] = CStringGetTextDatum(sqlstate);
			values[5] = CStringGetTextDatum(error->message);
			stream_dead_letter_failed(letter->id, error->message, sqlstate);
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		left--;
	}
	return (Datum) 0;
}

/* check_is_next refuses what is not the projection's next record; next -1: there is none. */
static void
check_is_next(const StreamProjection *projection, const StreamPosition *position, int64 applied, int64 next)
{
	if (next == position->offset)
		return;
	if (position->offset < applied)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("projection \"%s\" has already passed record %d:%lld",
						NameStr(projection->name), position->partition, (long long) position->offset),
				 errdetail("Its applied offset is %lld.", (long long) applied)));
	if (next == -1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no record %d:%lld", position->partition, (long long) position->offset),
				 errdetail("Projection \"%s\" has applied the partition to its end.", NameStr(projection->name))));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("record %d:%lld is not the next one of projection \"%s\"",
					position->partition, (long long) position->offset, NameStr(projection->name)),
			 errdetail("The next one is %d:%lld.", position->partition, (long long) next)));
}

/* pass moves the offset of a partition, which the caller has locked. */
static void
pass(const StreamProjection *projection, int32 partition, const StreamOffset *newest, int64 offset, int64 skipped)
{
	stream_append_offset(projection->projection_id, partition, newest, offset, skipped);
	stream_delete_projection_error(projection->projection_id, partition);

	/* appliers try at once; until this commits they find the partition locked */
	stream_tasks_reset(projection->projection_id, partition);
	stream_wake_workers();
}

/* stream_skip_projection_record: skip_projection_record(projection, pos, reason). */
Datum
stream_skip_projection_record(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamProjection *projection = open_projection(fcinfo, "skip_projection_record()", &table);
	StreamPosition *position;
	StreamValueType value_type;
	StreamOffset newest;
	StreamReader reader;
	StreamRecord record;
	StreamRecordDatums copies = {0};
	Datum		values[Natts_record];
	bool		nulls[Natts_record];
	char	   *reason;
	int64		log_start;
	bool		found;

	stream_need_argument(fcinfo, 1, "position");
	position = PG_GETARG_STREAM_POSITION(1);
	reason = stream_text_argument(fcinfo, 2, "reason");
	stream_check_partition(stream_info(table), position->partition);
	value_type = stream_info(table)->value_type;

	/* waits for an applier to finish its batch */
	stream_lock_offset(projection->projection_id, position->partition);
	projection = stream_projection_by_id(projection->projection_id, false);
	if (stream_newest_offset(projection->projection_id, position->partition, NULL, &newest) != STREAM_OFFSET_FOUND)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("projection \"%s\" has no offset for partition %d",
						NameStr(projection->name), position->partition),
				 errhint("When a restore is under way, let it finish first.")));
	log_start = stream_partition_info(stream_info(table), position->partition)->log_start_offset;
	if (newest.committed_offset < log_start && position->offset == newest.committed_offset)
	{
		/* retention has removed it, and all others below the log start: there is nothing to keep */
		pass(projection, position->partition, &newest, log_start, log_start - newest.committed_offset);
		PG_RETURN_VOID();
	}
	stream_reader_begin(&reader, table, position->partition, newest.committed_offset, NULL);
	found = stream_reader_next(&reader, &record);
	check_is_next(projection, position, newest.committed_offset, found ? record.offset : -1);
	stream_record_datums(&copies, position->partition, &record, STREAM_WANT_ALL, values, nulls);
	stream_reader_end(&reader);

	(void) stream_insert_dead_letter(projection->projection_id, value_type, values, nulls, reason, NULL);
	pass(projection, position->partition, &newest, position->offset + 1, 0);
	PG_RETURN_VOID();
}
