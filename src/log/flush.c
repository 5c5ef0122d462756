/*-------------------------------------------------------------------------
 *
 * flush.c
 *		Writing batches to segment tables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "log/append.h"
#include "log/segtable.h"
#include "log/upkeep.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "workers.h"

/* Tuples handed to the heap at once. */
#define STREAM_WRITE_TUPLES		32

/* The indexes of a segment that want entries: while one is rebuilt, two. */
#define STREAM_MAX_INDEXES		8

typedef struct SegmentIndexes
{
	int			n;
	Relation	rel[STREAM_MAX_INDEXES];
	IndexInfo  *info[STREAM_MAX_INDEXES];
} SegmentIndexes;

static void
open_indexes(StreamSegmentTable *table, SegmentIndexes *indexes)
{
	List	   *list;
	ListCell   *cell;

	if (likely(table->only_index))
	{
		indexes->n = 1;
		indexes->rel[0] = table->index;
		indexes->info[0] = BuildIndexInfo(table->index);
		return;
	}

	list = RelationGetIndexList(table->rel);
	indexes->n = 0;
	foreach(cell, list)
	{
		Relation	index = lfirst_oid(cell) == RelationGetRelid(table->index) ? table->index :
			index_open(lfirst_oid(cell), RowExclusiveLock);

		if (!index->rd_index->indisready)
		{
			index_close(index, RowExclusiveLock);
			continue;
		}
		if (indexes->n == STREAM_MAX_INDEXES)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("segment \"%s\" has too many indexes", RelationGetRelationName(table->rel)),
					 errhint("Drop what REINDEX CONCURRENTLY has left behind.")));
		indexes->rel[indexes->n] = index;
		indexes->info[indexes->n++] = BuildIndexInfo(index);
	}
	list_free(list);
}

static void
close_indexes(StreamSegmentTable *table, SegmentIndexes *indexes)
{
	for (int i = 0; i < indexes->n; i++)
	{
		stream_index_insert_cleanup(indexes->rel[i], indexes->info[i]);
		if (indexes->rel[i] != table->index)
			index_close(indexes->rel[i], NoLock);
	}
}

/* write_tuples writes n batches of one segment, and their index entries. */
static void
write_tuples(StreamSegmentTable *table, SegmentIndexes *indexes, StreamImage **images, int n,
			 TupleTableSlot **slots)
{
	TupleDesc	desc = RelationGetDescr(table->rel);
	CommandId	cid = GetCurrentCommandId(true);
	Datum		values[Natts_segment];
	bool		nulls[Natts_segment] = {false};
	ItemPointerData tids[STREAM_WRITE_TUPLES];

	for (int i = 0; i < n; i++)
	{
		HeapTuple	tuple;

		values[Anum_segment_partition - 1] = Int32GetDatum(images[i]->partition);
		values[Anum_segment_records - 1] = Int32GetDatum(images[i]->records);
		values[Anum_segment_last_offset - 1] = Int64GetDatum(images[i]->last_offset);
		values[Anum_segment_batch - 1] = PointerGetDatum(images[i]->data);
		tuple = heap_form_tuple(desc, values, nulls);
		if (n == 1)
		{
			heap_insert(table->rel, tuple, cid, 0, NULL);
			tids[0] = tuple->t_self;
			heap_freetuple(tuple);
		}
		else
			ExecForceStoreHeapTuple(tuple, slots[i], true);
	}
	if (n > 1)
	{
		heap_multi_insert(table->rel, slots, n, cid, 0, NULL);
		for (int i = 0; i < n; i++)
			tids[i] = slots[i]->tts_tid;
	}

	for (int i = 0; i < n; i++)
	{
		Datum		keys[2];

		keys[0] = Int32GetDatum(images[i]->partition);
		keys[1] = Int64GetDatum(images[i]->last_offset);
		for (int j = 0; j < indexes->n; j++)
			index_insert(indexes->rel[j], keys, nulls, &tids[i], table->rel,
						 UNIQUE_CHECK_YES, false, indexes->info[j]);
		if (n > 1)
			ExecClearTuple(slots[i]);
	}
}

/*
 * check_size looks now and then whether a segment should have been rolled, which
 * the manager does, or a worker that is started for it.  To look costs more than to
 * write a small record, and sessions can be short: a chance in proportion to the
 * bytes written makes it one look for a sixteenth of a segment, or a megabyte.
 */
static void
check_size(StreamSegmentTable *table, int64 segment_bytes, int64 written)
{
	int64		interval = Min(segment_bytes / 16, 1024 * 1024);
	int64		size;

	if (segment_bytes == 0 || pg_prng_double(&pg_global_prng_state) * interval > written)
		return;
	size = stream_segment_bytes(table->rel);
	if (size >= segment_bytes)
		stream_wake_manager(size / 2 >= segment_bytes);
}

/* write_segment writes those of a list's batches that go to one segment. */
static void
write_segment(int32 stream_id, int32 segment_no, int64 segment_bytes, StreamImage *images)
{
	int64		written = 0;
	StreamSegmentTable table;
	StreamImage *chunk[STREAM_WRITE_TUPLES];
	TupleTableSlot *slots[STREAM_WRITE_TUPLES];
	SegmentIndexes indexes;
	int			nslots = 0;
	int			n = 0;

	(void) stream_segment_open(&table, stream_id, segment_no, RowExclusiveLock, false);
	open_indexes(&table, &indexes);

	/* more than one: as many slots as a chunk can have */
	if (images->next != NULL)
		for (; nslots < STREAM_WRITE_TUPLES; nslots++)
			slots[nslots] = MakeSingleTupleTableSlot(RelationGetDescr(table.rel), &TTSOpsHeapTuple);

	for (StreamImage *image = images; image != NULL; image = image->next)
	{
		CHECK_FOR_INTERRUPTS();
		if (image->segment_no != segment_no)
			continue;
		chunk[n++] = image;
		written += VARSIZE(image->data);
		if (n == STREAM_WRITE_TUPLES)
		{
			write_tuples(&table, &indexes, chunk, n, slots);
			n = 0;
		}
	}
	if (n > 0)
		write_tuples(&table, &indexes, chunk, n, slots);

	while (nslots > 0)
		ExecDropSingleTupleTableSlot(slots[--nslots]);
	close_indexes(&table, &indexes);
	check_size(&table, segment_bytes, written);
	stream_segment_close(&table, true);
}

/*
 * stream_write_images writes batches of one stream with the current
 * (sub)transaction's id, each to its segment.  Within a partition the list is
 * ordered by offset, so that the index grows at its end.
 */
void
stream_write_images(int32 stream_id, int64 segment_bytes, StreamImage *images)
{
	MemoryContext context = NULL;
	MemoryContext save = CurrentMemoryContext;
	int32		written = 0;	/* segment numbers start at 1 */

	/* a single small batch is all a transaction writes: what it leaves goes with that */
	if (images->next != NULL || VARSIZE(images->data) > BLCKSZ)
	{
		context = AllocSetContextCreate(CurrentMemoryContext, "stream write", ALLOCSET_DEFAULT_SIZES);
		MemoryContextSwitchTo(context);
	}

	/* the segments in ascending order: nearly always there is one */
	for (;;)
	{
		int32		segment_no = PG_INT32_MAX;

		for (StreamImage *image = images; image != NULL; image = image->next)
			if (image->segment_no > written)
				segment_no = Min(segment_no, image->segment_no);
		if (segment_no == PG_INT32_MAX)
			break;
		write_segment(stream_id, segment_no, segment_bytes, images);
		written = segment_no;
	}
	MemoryContextSwitchTo(save);
	if (context != NULL)
		MemoryContextDelete(context);
}
