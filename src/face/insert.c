/*-------------------------------------------------------------------------
 *
 * insert.c
 *		INSERT and COPY into the foreign table of a stream: publishing.
 *
 * Rows are gathered and published in groups, as publish_batch does it: one block
 * of offsets in each partition.  Not where somebody sees them one by one, by
 * RETURNING or a trigger, nor where the end of the command comes too late: a
 * statement around the INSERT could have gone on meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/tables.h"
#include "compat.h"
#include "executor/executor.h"
#include "face/fdw.h"
#include "log/publish.h"
#include "log/read.h"
#include "log/value.h"
#include "shmem.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* Rows of a group, and bytes of them. */
#define FACE_GROUP_ROWS		1000
#define FACE_GROUP_BYTES	(1024 * 1024)

typedef struct FaceInsert
{
	StreamTarget *target;		/* null: the stream is being restored */
	Oid			table;
	MemoryContext call_context; /* of one row */
	bool		gather;
	char	   *bytes;			/* of gathered rows, FACE_GROUP_BYTES; null: not gathering */
	Size		nbytes;
	int			nrows;
	StreamRecord rows[FACE_GROUP_ROWS];
	int32		partitions[FACE_GROUP_ROWS];
} FaceInsert;

static int
is_updatable(Relation rel)
{
	return 1 << CMD_INSERT;
}

/*
 * is_being_restored says whether the stream is not whole: pg_restore creates
 * the foreign table first, then loads data, in any order, and creates a
 * segment's index when it has loaded that.
 */
static bool
is_being_restored(Oid table)
{
	StreamInfo *info = stream_info_if_stream(table);

	if (info == NULL || info->nsegments == 0)
		return true;
	for (int i = 0; i < info->nsegments; i++)
	{
		char		name[NAMEDATALEN];
		Oid			relid;

		stream_segment_table_name(name, info->stream_id, info->segments[i].segment_no);
		relid = stream_internal_relation(name, true);
		if (!OidIsValid(relid) || !stream_has_index(relid))
			return true;
	}
	return false;
}

/* begin_insert prepares to publish rows; gather says whether the command allows for groups. */
static void
begin_insert(ModifyTableState *mtstate, ResultRelInfo *rinfo, bool gather)
{
	ModifyTable *plan = castNode(ModifyTable, mtstate->ps.plan);
	TriggerDesc *triggers = rinfo->ri_TrigDesc;
	FaceInsert *insert = palloc0(sizeof(FaceInsert));

	if (plan != NULL && plan->onConflictAction != ONCONFLICT_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot INSERT … ON CONFLICT into a stream"),
				 errdetail("A log has no keys that could conflict.")));
	stream_require_shmem();
	insert->table = RelationGetRelid(rinfo->ri_RelationDesc);
	if (!is_being_restored(insert->table))
	{
		(void) stream_face_info(rinfo->ri_RelationDesc);
		insert->target = stream_target_of_table(insert->table);
	}
	insert->call_context = AllocSetContextCreate(CurrentMemoryContext, "stream insert call", ALLOCSET_DEFAULT_SIZES);

	/* what a trigger publishes is to have its place among the rows */
	insert->gather = gather && rinfo->ri_returningList == NIL && rinfo->ri_WithCheckOptions == NIL &&
		!(triggers != NULL && (triggers->trig_insert_before_row || triggers->trig_insert_after_row ||
							   triggers->trig_insert_before_statement ||
							   triggers->trig_insert_after_statement || triggers->trig_insert_new_table));
	if (insert->gather)
		insert->bytes = palloc(FACE_GROUP_BYTES);
	rinfo->ri_FdwState = insert;
}

/*
 * For INSERT.  One that is the whole statement, and returns nothing, ends when
 * its last row is in; within another one its end may come much later.
 */
static void
begin_modify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *fdw_private, int subplan_index, int eflags)
{
	PlannedStmt *statement = mtstate->ps.state->es_plannedstmt;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	begin_insert(mtstate, rinfo,
				 statement->planTree == mtstate->ps.plan && statement->commandType == CMD_INSERT &&
				 !statement->hasReturning);
}

/*
 * For COPY, and for rows routed to a partition of a partitioned table: whose
 * triggers for the statement come before the partition's end.
 */
static void
begin_foreign_insert(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	begin_insert(mtstate, rinfo, mtstate->ps.plan == NULL && mtstate->rootResultRelInfo == rinfo);
}

/*
 * is_in_log says whether a row that gives an offset is a copy of a record in the
 * log.  A dump of the foreign table's rows gives offsets: restored beside the
 * log itself, before or after it, they change nothing.
 */
static bool
is_in_log(FaceInsert *insert, TupleTableSlot *slot)
{
	if (insert->target == NULL)
		return true;
	if (slot->tts_isnull[Anum_record_partition - 1])
		return false;
	return stream_has_record(insert->table,
							 DatumGetInt32(slot->tts_values[Anum_record_partition - 1]),
							 DatumGetInt64(slot->tts_values[Anum_record_offset - 1]));
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

/*
 * take_row makes a record of a row, and chooses its partition; false: the row is
 * already in the log.
 */
static bool
take_row(FaceInsert *insert, TupleTableSlot *slot, StreamRecord *record, int32 *partition)
{
	StreamTarget *target = insert->target;
	const char *name;

	slot_getallattrs(slot);
	if (!slot->tts_isnull[Anum_record_offset - 1] && is_in_log(insert, slot))
		return false;
	if (target == NULL)
		(void) stream_info(insert->table);	/* says what is missing */
	name = target != NULL ? NameStr(target->name) : "?";

	if (!slot->tts_isnull[Anum_record_offset - 1])
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("cannot insert a record with an offset into stream \"%s\"", name),
				 errdetail("Publishing gives a record its offset. A row with the offset of an existing record, as in a dump, is passed over."),
				 errhint("Leave record_offset out.")));
	if (!slot->tts_isnull[Anum_record_published_at - 1])
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("cannot insert a record with a time into stream \"%s\"", name),
				 errdetail("Publishing gives a record its time."),
				 errhint("Leave published_at out.")));
	if (slot->tts_isnull[Anum_record_value - 1])
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("value must not be null"),
				 errhint("To say that a key is gone, call stream.publish_tombstone.")));
	if (target == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stream is not complete"),
				 errhint("When a restore is under way, let it finish first.")));

	set_part(slot, Anum_record_key, &record->key, &record->key_len);
	set_part(slot, Anum_record_value, &record->value, &record->value_len);
	set_part(slot, Anum_record_headers, &record->headers, &record->headers_len);
	if (record->headers_len >= 0)
		stream_check_headers(slot->tts_values[Anum_record_headers - 1], 0);
	if (slot->tts_isnull[Anum_record_partition - 1])
		*partition = stream_choose_partition(target, record);
	else
	{
		*partition = DatumGetInt32(slot->tts_values[Anum_record_partition - 1]);
		stream_check_partition(stream_info(insert->table), *partition);
	}
	return true;
}

/* give_row puts into a row what publishing has given its record. */
static void
give_row(TupleTableSlot *slot, int32 partition, const StreamRecord *record)
{
	bool		has_tuple = !TTS_IS_VIRTUAL(slot);

	slot->tts_values[Anum_record_partition - 1] = Int32GetDatum(partition);
	slot->tts_isnull[Anum_record_partition - 1] = false;
	slot->tts_values[Anum_record_offset - 1] = Int64GetDatum(record->offset);
	slot->tts_isnull[Anum_record_offset - 1] = false;
	slot->tts_values[Anum_record_published_at - 1] = TimestampTzGetDatum(record->timestamp);
	slot->tts_isnull[Anum_record_published_at - 1] = false;
	/* a trigger has left a tuple in the slot, which is what counts then */
	if (has_tuple)
	{
		MemoryContext save = MemoryContextSwitchTo(slot->tts_mcxt);

		ExecForceStoreHeapTuple(heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull),
								slot, true);
		MemoryContextSwitchTo(save);
	}
}

/* publish_group publishes the rows that have come together. */
static void
publish_group(FaceInsert *insert)
{
	if (insert->nrows > 0)
		stream_publish_records(insert->target, insert->rows, insert->partitions, insert->nrows);
	insert->nrows = 0;
	insert->nbytes = 0;
}

static const char *
keep_part(FaceInsert *insert, const char *data, int32 len)
{
	char	   *copy = insert->bytes + insert->nbytes;

	if (len < 0)
		return NULL;
	memcpy(copy, data, len);
	insert->nbytes += len;
	return copy;
}

/* gather_row keeps a row until a group has come together. */
static void
gather_row(FaceInsert *insert, StreamRecord *record, int32 partition)
{
	Size		size = Max(record->key_len, 0) + (Size) Max(record->value_len, 0) + Max(record->headers_len, 0);

	if (insert->nrows == FACE_GROUP_ROWS || insert->nbytes + size > FACE_GROUP_BYTES)
		publish_group(insert);
	if (size > FACE_GROUP_BYTES)
	{
		(void) stream_publish_record(insert->target, partition, record);
		return;
	}
	record->key = keep_part(insert, record->key, record->key_len);
	record->value = keep_part(insert, record->value, record->value_len);
	record->headers = keep_part(insert, record->headers, record->headers_len);
	insert->rows[insert->nrows] = *record;
	insert->partitions[insert->nrows++] = partition;
}

static TupleTableSlot *
exec_insert(EState *estate, ResultRelInfo *rinfo, TupleTableSlot *slot, TupleTableSlot *plan_slot)
{
	FaceInsert *insert = (FaceInsert *) rinfo->ri_FdwState;
	StreamRecord record;
	int32		partition;
	bool		taken;
	MemoryContext save;

	MemoryContextReset(insert->call_context);
	save = MemoryContextSwitchTo(insert->call_context);
	taken = take_row(insert, slot, &record, &partition);
	if (taken && insert->gather)
		gather_row(insert, &record, partition);
	else if (taken)
	{
		(void) stream_publish_record(insert->target, partition, &record);
		give_row(slot, partition, &record);
	}
	MemoryContextSwitchTo(save);
	return taken ? slot : NULL;
}

static void
end_insert(EState *estate, ResultRelInfo *rinfo)
{
	FaceInsert *insert = (FaceInsert *) rinfo->ri_FdwState;

	if (insert != NULL && insert->gather)
		publish_group(insert);
}

/* refuse_update is called when an UPDATE or DELETE is planned. */
static void
refuse_update(PlannerInfo *root, Index rtindex, RangeTblEntry *rte, Relation rel)
{
	bool		is_update = root->parse->commandType == CMD_UPDATE;

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot %s records of stream \"%s\"", is_update ? "update" : "delete",
					RelationGetRelationName(rel)),
			 errdetail("A log is only appended to: consumers may have read the record."),
			 is_update ? errhint("Publish another record with the same key.") :
			 errhint("Publish a tombstone for the key: stream.publish_tombstone.")));
}

static void
refuse_truncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot truncate stream \"%s\"", RelationGetRelationName((Relation) linitial(rels))),
			 errdetail("A log is only appended to: consumers may have read its records."),
			 errhint("Drop the stream and create it anew.")));
}

void
stream_fdw_insert_routines(FdwRoutine *routine)
{
	routine->AddForeignUpdateTargets = refuse_update;
	routine->ExecForeignTruncate = refuse_truncate;
	routine->IsForeignRelUpdatable = is_updatable;
	routine->BeginForeignModify = begin_modify;
	routine->BeginForeignInsert = begin_foreign_insert;
	routine->ExecForeignInsert = exec_insert;
	routine->EndForeignModify = end_insert;
	routine->EndForeignInsert = end_insert;
}
