/*-------------------------------------------------------------------------
 *
 * insert.c
 *		INSERT and COPY into the foreign table of a stream: publishing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "face/fdw.h"
#include "log/publish.h"
#include "log/read.h"
#include "log/value.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"
#include "utils/rel.h"

static int
is_updatable(Relation rel)
{
	return 1 << CMD_INSERT;
}

/* begin_insert looks the stream up once; the target is good to the transaction's end. */
static void
begin_insert(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	ModifyTable *plan = castNode(ModifyTable, mtstate->ps.plan);

	if (plan != NULL && plan->onConflictAction != ONCONFLICT_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot INSERT … ON CONFLICT into a stream")));
	(void) stream_face_info(rinfo->ri_RelationDesc);
	rinfo->ri_FdwState = stream_target_of_table(RelationGetRelid(rinfo->ri_RelationDesc));
}

static void
begin_modify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *fdw_private, int subplan_index, int eflags)
{
	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY))
		begin_insert(mtstate, rinfo);
}

/*
 * record_exists says whether a record is in the log.  A dump of the foreign
 * table's rows gives offsets; restoring it after the log itself changes nothing.
 */
static bool
record_exists(Oid table, int32 partition, int64 offset)
{
	StreamInfo *info = stream_info(table);
	StreamReader reader;
	StreamRecord record;
	bool		found;

	if (partition < 0 || partition >= info->partitions || offset < 0)
		return false;
	stream_reader_begin(&reader, table, partition, offset, NULL);
	found = stream_reader_next(&reader, &record) && record.offset == offset;
	stream_reader_end(&reader);
	return found;
}

/* set_part makes a part of a record of a column. */
static void
set_part(TupleTableSlot *slot, int attnum, const char **data, int32 *len)
{
	struct varlena *value;

	*data = NULL;
	*len = -1;
	if (slot->tts_isnull[attnum - 1])
		return;
	value = PG_DETOAST_DATUM_PACKED(slot->tts_values[attnum - 1]);
	*data = VARDATA_ANY(value);
	*len = VARSIZE_ANY_EXHDR(value);
}

static TupleTableSlot *
exec_insert(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot, TupleTableSlot *plan_slot)
{
	StreamTarget *target = (StreamTarget *) rinfo->ri_FdwState;
	StreamRecord record;
	int32		partition;
	int64		offset;

	slot_getallattrs(slot);
	if (!slot->tts_isnull[Anum_record_offset - 1])
	{
		if (!slot->tts_isnull[Anum_record_partition - 1] &&
			record_exists(target->table, DatumGetInt32(slot->tts_values[Anum_record_partition - 1]),
						  DatumGetInt64(slot->tts_values[Anum_record_offset - 1])))
			return NULL;
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("cannot insert a record with an offset into stream \"%s\"", NameStr(target->name)),
				 errdetail("Publishing gives a record its offset. A row with the offset of an existing record, as in a dump, is passed over."),
				 errhint("Leave record_offset out.")));
	}
	if (!slot->tts_isnull[Anum_record_published_at - 1])
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("cannot insert a record with a time into stream \"%s\"", NameStr(target->name)),
				 errdetail("Publishing gives a record its published_at.")));
	if (slot->tts_isnull[Anum_record_value - 1])
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("value must not be null"),
				 errhint("To say that a key is gone, call stream.publish_tombstone.")));

	set_part(slot, Anum_record_key, &record.key, &record.key_len);
	set_part(slot, Anum_record_value, &record.value, &record.value_len);
	set_part(slot, Anum_record_headers, &record.headers, &record.headers_len);
	if (record.headers_len >= 0)
		stream_check_headers(slot->tts_values[Anum_record_headers - 1]);
	if (slot->tts_isnull[Anum_record_partition - 1])
		partition = stream_choose_partition(target, &record);
	else
	{
		partition = DatumGetInt32(slot->tts_values[Anum_record_partition - 1]);
		stream_check_partition(stream_info(target->table), partition);
	}
	offset = stream_publish_record(target, partition, &record);

	/* for RETURNING and triggers */
	slot->tts_values[Anum_record_partition - 1] = Int32GetDatum(partition);
	slot->tts_isnull[Anum_record_partition - 1] = false;
	slot->tts_values[Anum_record_offset - 1] = Int64GetDatum(offset);
	slot->tts_isnull[Anum_record_offset - 1] = false;
	slot->tts_values[Anum_record_published_at - 1] = TimestampTzGetDatum(record.timestamp);
	slot->tts_isnull[Anum_record_published_at - 1] = false;
	return slot;
}

void
stream_fdw_insert_routines(FdwRoutine *routine)
{
	routine->IsForeignRelUpdatable = is_updatable;
	routine->BeginForeignModify = begin_modify;
	routine->BeginForeignInsert = begin_insert;
	routine->ExecForeignInsert = exec_insert;
}
