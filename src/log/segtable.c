/*-------------------------------------------------------------------------
 *
 * segtable.c
 *		The table that holds a segment, and the batches in it.
 *
 * A segment is the ordinary table stream_internal.s<stream_id>_<segment_no>,
 * with one row for each batch and one unique index on (partition,
 * last_offset).  Tables are found by name with a real lock mode, so that
 * invalidation messages are accepted first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/tables.h"
#include "compat.h"
#include "log/segtable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* stream_segment_table_name writes a segment table's name, at most NAMEDATALEN bytes. */
void
stream_segment_table_name(char *buf, int32 stream_id, int32 segment_no)
{
	snprintf(buf, NAMEDATALEN, "s%d_%d", stream_id, segment_no);
}

/*
 * Segments opened lately, by stream and number, so that a transaction that
 * publishes one record need not look up names.  A change of a table, its drop
 * among them, empties its place.
 */
typedef struct KnownSegment
{
	int32		stream_id;		/* 0: empty */
	int32		segment_no;
	Oid			relid;
	Oid			index;
	bool		only_index;
} KnownSegment;

#define KNOWN_SEGMENTS	16

static KnownSegment known_segments[KNOWN_SEGMENTS];
static uint32 table_changes = 0;	/* invalidations so far, of any table */

static KnownSegment *
known_segment(int32 stream_id, int32 segment_no)
{
	return &known_segments[((uint32) stream_id * 31 + (uint32) segment_no) % KNOWN_SEGMENTS];
}

static void
relcache_callback(Datum arg, Oid relid)
{
	table_changes++;
	for (int i = 0; i < KNOWN_SEGMENTS; i++)
		if (!OidIsValid(relid) || known_segments[i].relid == relid)
			known_segments[i].stream_id = 0;
}

/* stream_segtable_init runs once a process. */
void
stream_segtable_init(void)
{
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
}

/* open_known opens a segment that was opened lately; false: it is not known. */
static bool
open_known(StreamSegmentTable *table, int32 stream_id, int32 segment_no, LOCKMODE lockmode)
{
	KnownSegment *known = known_segment(stream_id, segment_no);
	Oid			relid = known->relid;

	if (known->stream_id != stream_id || known->segment_no != segment_no)
		return false;
	LockRelationOid(relid, lockmode);
	/* having the lock, we know of all changes before it */
	if (known->stream_id != stream_id || known->segment_no != segment_no || known->relid != relid)
	{
		UnlockRelationOid(relid, lockmode);
		return false;
	}
	table->lockmode = lockmode;
	table->rel = table_open(relid, NoLock);
	table->index = index_open(known->index, lockmode);
	table->only_index = known->only_index;
	return true;
}

/*
 * open_valid_index opens the index to scan: normally there is one, but REINDEX
 * CONCURRENTLY builds another, and may leave it behind.
 */
static Relation
open_valid_index(Relation rel, LOCKMODE lockmode, bool *only_index)
{
	List	   *indexes = RelationGetIndexList(rel);
	Relation	result = NULL;
	ListCell   *cell;

	foreach(cell, indexes)
	{
		result = index_open(lfirst_oid(cell), lockmode);
		if (result->rd_index->indisvalid && result->rd_index->indislive)
			break;
		index_close(result, lockmode);
		result = NULL;
	}
	*only_index = list_length(indexes) == 1;
	list_free(indexes);
	return result;
}

/*
 * stream_segment_open opens a segment's table and index.  It returns false,
 * when missing_ok, if the table has gone.
 */
bool
stream_segment_open(StreamSegmentTable *table, int32 stream_id, int32 segment_no,
					LOCKMODE lockmode, bool missing_ok)
{
	char		name[NAMEDATALEN];
	KnownSegment *known;
	Oid			relid;
	uint32		changes;

	if (open_known(table, stream_id, segment_no, lockmode))
		return true;

	stream_segment_table_name(name, stream_id, segment_no);

	/*
	 * The user needs no privilege on the schema: find the OID ourselves, lock
	 * it, and look again until the name still leads there.  The name may be
	 * that of a segment made a moment ago, so accept invalidations first.
	 */
	for (;;)
	{
		AcceptInvalidationMessages();
		relid = stream_internal_relation(name, true);
		if (!OidIsValid(relid))
			break;
		LockRelationOid(relid, lockmode);
		if (relid == stream_internal_relation(name, true))
			break;
		UnlockRelationOid(relid, lockmode);
	}
	if (!OidIsValid(relid))
	{
		if (missing_ok)
			return false;
		(void) stream_internal_relation(name, false);
	}

	changes = table_changes;
	table->lockmode = lockmode;
	table->rel = table_open(relid, NoLock);
	if (table->rel->rd_rel->relkind != RELKIND_RELATION ||
		RelationGetDescr(table->rel)->natts != Natts_segment)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("\"%s.%s\" is not a segment", STREAM_INTERNAL_SCHEMA, name)));

	table->index = open_valid_index(table->rel, lockmode, &table->only_index);
	if (table->index == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("segment \"%s.%s\" has no index", STREAM_INTERNAL_SCHEMA, name),
				 errhint("When a restore is under way, let it finish first.")));
	/* a change that was told of while we opened it found no place to empty, and is not told of again */
	if (changes != table_changes)
		return true;
	known = known_segment(stream_id, segment_no);
	known->stream_id = stream_id;
	known->segment_no = segment_no;
	known->relid = relid;
	known->index = RelationGetRelid(table->index);
	known->only_index = table->only_index;
	return true;
}

/* stream_has_index says whether a segment's table has its index yet. */
bool
stream_has_index(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	bool		result = rel->rd_rel->relhasindex;

	table_close(rel, AccessShareLock);
	return result;
}

/* stream_segment_close releases the index, then the table. */
void
stream_segment_close(StreamSegmentTable *table, bool keep_lock)
{
	index_close(table->index, keep_lock ? NoLock : table->lockmode);
	table_close(table->rel, keep_lock ? NoLock : table->lockmode);
}

/*
 * stream_segment_create makes the table and index of a segment.
 *
 * A batch fits a page, or else goes out of line uncompressed: the codec has
 * compressed it.  Nothing is ever updated or deleted, so only insertions can
 * call for a vacuum; it comes when the segment is sealed, and freezes.
 */
void
stream_segment_create(int32 stream_id, int32 segment_no, Oid owner)
{
	char		name[NAMEDATALEN];
	char	   *sql;

	stream_segment_table_name(name, stream_id, segment_no);
	sql = psprintf("CREATE TABLE %s.%s (\"partition\" int4 NOT NULL, records int4 NOT NULL,"
				   " last_offset int8 NOT NULL, batch bytea NOT NULL) USING heap"
				   " WITH (toast_tuple_target = %d, vacuum_truncate = off, toast.vacuum_truncate = off,"
				   " autovacuum_freeze_min_age = 0, toast.autovacuum_freeze_min_age = 0,"
				   " autovacuum_vacuum_insert_threshold = -1, toast.autovacuum_vacuum_insert_threshold = -1)",
				   STREAM_INTERNAL_SCHEMA, name, STREAM_TOAST_TUPLE_TARGET);
	stream_execute(sql, owner);
	pfree(sql);
	/* 15 does not take STORAGE in CREATE TABLE */
	sql = psprintf("ALTER TABLE %s.%s ALTER batch SET STORAGE EXTERNAL", STREAM_INTERNAL_SCHEMA, name);
	stream_execute(sql, owner);
	pfree(sql);
	sql = psprintf("CREATE UNIQUE INDEX %s_idx ON %s.%s (\"partition\", last_offset)",
				   name, STREAM_INTERNAL_SCHEMA, name);
	stream_execute(sql, owner);
	pfree(sql);
}

/*
 * stream_fresh_snapshot takes and registers a snapshot of now, whatever the
 * transaction's isolation level.  (GetLatestSnapshot refuses while a parallel
 * plan is running, below which a foreign scan may stand.)
 */
Snapshot
stream_fresh_snapshot(Oid relid)
{
	InvalidateCatalogSnapshot();
	return RegisterSnapshot(GetCatalogSnapshot(relid));
}

/*
 * stream_batch_scan_begin starts a scan over the batches of a partition.
 * Forward, it begins with the batch that ends at or after from_offset;
 * backward, with the last one, down to that.
 */
void
stream_batch_scan_begin(StreamBatchScan *scan, StreamSegmentTable *table, Snapshot snapshot,
						int32 partition, int64 from_offset, ScanDirection direction)
{
	ScanKeyData keys[2];

	/* the keys' attribute numbers are the index's */
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(partition));
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from_offset));
	scan->direction = direction;
	scan->slot = table_slot_create(table->rel, NULL);
	scan->scan = stream_index_beginscan(table->rel, table->index, snapshot, 2);
	index_rescan(scan->scan, keys, 2, NULL, 0);
}

/* stream_batch_scan_next moves to the next batch; false: there is none. */
bool
stream_batch_scan_next(StreamBatchScan *scan)
{
	CHECK_FOR_INTERRUPTS();
	return index_getnext_slot(scan->scan, scan->direction, scan->slot);
}

void
stream_batch_scan_end(StreamBatchScan *scan)
{
	index_endscan(scan->scan);
	ExecDropSingleTupleTableSlot(scan->slot);
}

int64
stream_batch_scan_last_offset(StreamBatchScan *scan)
{
	bool		isnull;

	return DatumGetInt64(slot_getattr(scan->slot, Anum_segment_last_offset, &isnull));
}

int32
stream_batch_scan_records(StreamBatchScan *scan)
{
	bool		isnull;

	return DatumGetInt32(slot_getattr(scan->slot, Anum_segment_records, &isnull));
}

/* The batch as stored, perhaps out of line; it leads into the slot. */
Datum
stream_batch_scan_batch(StreamBatchScan *scan)
{
	bool		isnull;

	return slot_getattr(scan->slot, Anum_segment_batch, &isnull);
}

/* stream_batch_scan_header reads the current batch's header, and no more of it. */
void
stream_batch_scan_header(StreamBatchScan *scan, StreamSegmentTable *table, StreamBatchHeader *header)
{
	bool		isnull;
	struct varlena *stored = (struct varlena *) DatumGetPointer(stream_batch_scan_batch(scan));
	struct varlena *head = detoast_attr_slice(stored, 0, STREAM_BATCH_HEADER_SIZE);
	StreamBatchStatus status;

	status = stream_batch_read_header(VARDATA_ANY(head), VARSIZE_ANY_EXHDR(head), header);
	if (status != STREAM_BATCH_OK)
		stream_batch_damaged(status, RelationGetRelationName(table->rel),
							 DatumGetInt32(slot_getattr(scan->slot, Anum_segment_partition, &isnull)),
							 stream_batch_scan_last_offset(scan));
	if (head != stored)
		pfree(head);
}

/* stream_stored_size is the size of a batch as it is stored. */
Size
stream_stored_size(Datum batch)
{
	struct varlena *stored = (struct varlena *) DatumGetPointer(batch);

	if (VARATT_IS_EXTERNAL_ONDISK(stored))
	{
		struct varatt_external pointer;

		VARATT_EXTERNAL_GET_POINTER(pointer, stored);
		return VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	}
	return VARSIZE_ANY_EXHDR(stored);
}

/* stream_batch_damaged reports a batch that is not what was written. */
void
stream_batch_damaged(StreamBatchStatus status, const char *segment, int32 partition, int64 offset)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("record batch in segment \"%s\", partition %d, that ends at offset %lld is damaged",
					segment, partition, (long long) offset),
			 errdetail("The batch is damaged: %s.", stream_batch_status_text(status)),
			 errhint("stream.verify_log lists all damage in a stream.")));
}

/*
 * stream_open_batch opens a detoasted batch for reading, and checks that it is
 * the one its row says it is.
 */
void
stream_open_batch(StreamBatchReader *reader, struct varlena *batch, const char *segment,
				  int32 partition, int64 last_offset)
{
	StreamBatchStatus status = stream_batch_open(reader, VARDATA_ANY(batch), VARSIZE_ANY_EXHDR(batch));

	if (unlikely(status == STREAM_BATCH_OK && reader->header.last_offset != last_offset))
		status = STREAM_BATCH_BAD_HEADER;
	if (unlikely(status != STREAM_BATCH_OK))
		stream_batch_damaged(status, segment, partition, last_offset);
}

/*
 * stream_last_batch finds the last batch of a partition in a segment: its last
 * offset and time, each unless null.
 */
bool
stream_last_batch(StreamSegmentTable *table, Snapshot snapshot, int32 partition,
				  int64 *last_offset, TimestampTz *timestamp)
{
	StreamBatchScan scan;
	bool		found;

	stream_batch_scan_begin(&scan, table, snapshot, partition, 0, BackwardScanDirection);
	found = stream_batch_scan_next(&scan);
	if (found && last_offset != NULL)
		*last_offset = stream_batch_scan_last_offset(&scan);
	if (found && timestamp != NULL)
	{
		const char *name = RelationGetRelationName(table->rel);
		int64		last = stream_batch_scan_last_offset(&scan);
		struct varlena *stored = (struct varlena *) DatumGetPointer(stream_batch_scan_batch(&scan));
		struct varlena *batch = pg_detoast_datum_packed(stored);
		StreamBatchReader reader = {0};
		StreamRecord record;
		StreamBatchStatus status;

		stream_open_batch(&reader, batch, name, partition, last);
		while ((status = stream_batch_next(&reader, &record)) == STREAM_BATCH_OK)
			*timestamp = record.timestamp;
		if (status != STREAM_BATCH_END)
			stream_batch_damaged(status, name, partition, last);
		stream_batch_reader_free(&reader);
		if (batch != stored)
			pfree(batch);
	}
	stream_batch_scan_end(&scan);
	return found;
}

/* last_batch does so by the segment's number. */
static bool
last_batch(StreamInfo *info, int32 segment_no, int32 partition, int64 *last_offset, TimestampTz *timestamp)
{
	StreamSegmentTable table;
	Snapshot	snapshot;
	bool		found;

	if (!stream_segment_open(&table, info->stream_id, segment_no, AccessShareLock, true))
		return false;
	snapshot = stream_fresh_snapshot(RelationGetRelid(table.rel));
	found = stream_last_batch(&table, snapshot, partition, last_offset, timestamp);
	UnregisterSnapshot(snapshot);
	stream_segment_close(&table, false);
	return found;
}

/*
 * stream_log_end returns the offset behind a partition's last committed
 * record, and when that was published (0: no record).  It comes from the rows
 * of segments that are not sealed, and from what was recorded of the others:
 * retention may have removed their rows.
 */
int64
stream_log_end(StreamInfo *info, int32 partition, TimestampTz *last_timestamp)
{
	StreamPartitionInfo *known = stream_partition_info(info, partition);
	int64		end = known->log_start_offset;
	TimestampTz timestamp = 0;

	if (known->nranges > 0)
	{
		StreamRange *last = &known->ranges[known->nranges - 1];

		end = Max(end, last->end_offset);
		timestamp = last->last_published_at;
	}
	for (int i = info->nsegments - 1; i >= 0 && !info->segments[i].sealed; i--)
	{
		int64		last_offset;

		if (last_batch(info, info->segments[i].segment_no, partition, &last_offset,
					   last_timestamp ? &timestamp : NULL))
		{
			end = Max(end, last_offset + 1);
			break;
		}
	}
	if (last_timestamp)
		*last_timestamp = timestamp;
	return end;
}

/*
 * stream_has_record says whether a committed record with that offset is stored,
 * in whichever segment.  It needs nothing but the segments: a restore may not
 * have come to the rest.
 */
bool
stream_has_record(Oid table, int32 partition, int64 offset)
{
	StreamInfo *info = stream_info(table);
	int32		stream_id = info->stream_id;
	int			n;
	int32	   *segments = stream_segment_numbers(info, false, &n);
	bool		found = false;

	for (int i = 0; i < n && !found; i++)
	{
		StreamSegmentTable segment;
		StreamBatchScan scan;
		Snapshot	snapshot;

		if (!stream_segment_open(&segment, stream_id, segments[i], AccessShareLock, true))
			continue;
		snapshot = stream_fresh_snapshot(RelationGetRelid(segment.rel));
		stream_batch_scan_begin(&scan, &segment, snapshot, partition, offset, ForwardScanDirection);
		if (stream_batch_scan_next(&scan))
		{
			struct varlena *stored = (struct varlena *) DatumGetPointer(stream_batch_scan_batch(&scan));
			struct varlena *batch = pg_detoast_datum_packed(stored);
			StreamBatchReader reader = {0};
			StreamRecord record;

			stream_open_batch(&reader, batch, RelationGetRelationName(segment.rel), partition,
							  stream_batch_scan_last_offset(&scan));
			while (!found && stream_batch_next(&reader, &record) == STREAM_BATCH_OK)
				found = record.offset == offset;
			stream_batch_reader_free(&reader);
			if (batch != stored)
				pfree(batch);
		}
		stream_batch_scan_end(&scan);
		UnregisterSnapshot(snapshot);
		stream_segment_close(&segment, false);
	}
	pfree(segments);
	return found;
}
