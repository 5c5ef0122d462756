/*-------------------------------------------------------------------------
 *
 * analyze.c
 *		ANALYZE of the foreign table of a stream.
 *
 * Pages are drawn from all segments alike; all records of their batches are
 * candidates for the sample.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "commands/vacuum.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "face/fdw.h"
#include "log/segtable.h"
#include "log/value.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/sampling.h"
#include "utils/snapmgr.h"

/* The sample as it grows. */
typedef struct Sample
{
	HeapTuple  *rows;
	int			wanted;
	int			taken;
	double		seen;			/* records looked at */
	double		skip;			/* records to pass over before the next is taken */
	ReservoirStateData state;
	TupleDesc	desc;
	StreamRecordDatums copies;
	StreamBatchReader reader;
} Sample;

/* take_record offers one record to the sample: Vitter's algorithm, as for tables. */
static void
take_record(Sample *sample, int32 partition, const StreamRecord *record)
{
	Datum		values[Natts_record];
	bool		nulls[Natts_record];
	int			place;

	if (sample->taken < sample->wanted)
		place = sample->taken++;
	else
	{
		if (sample->skip < 0)
			sample->skip = reservoir_get_next_S(&sample->state, sample->seen, sample->wanted);
		if (sample->skip-- > 0)
		{
			sample->seen++;
			return;
		}
		place = (int) (sample->wanted * sampler_random_fract(&sample->state.randstate));
		heap_freetuple(sample->rows[place]);
	}
	stream_record_datums(&sample->copies, partition, record, STREAM_WANT_ALL, values, nulls);
	sample->rows[place] = heap_form_tuple(sample->desc, values, nulls);
	sample->seen++;
}

/* sample_batch offers all records of a batch. */
static void
sample_batch(Sample *sample, StreamSegmentTable *segment, HeapTuple tuple)
{
	TupleDesc	desc = RelationGetDescr(segment->rel);
	bool		isnull;
	int32		partition = DatumGetInt32(heap_getattr(tuple, Anum_segment_partition, desc, &isnull));
	int64		last_offset = DatumGetInt64(heap_getattr(tuple, Anum_segment_last_offset, desc, &isnull));
	struct varlena *stored = (struct varlena *)
		DatumGetPointer(heap_getattr(tuple, Anum_segment_batch, desc, &isnull));
	struct varlena *batch = pg_detoast_datum_packed(stored);
	StreamBatchStatus status;
	StreamRecord record;

	stream_open_batch(&sample->reader, batch, RelationGetRelationName(segment->rel), partition, last_offset);
	while ((status = stream_batch_next(&sample->reader, &record)) == STREAM_BATCH_OK)
		take_record(sample, partition, &record);
	if (status != STREAM_BATCH_END)
		stream_batch_damaged(status, RelationGetRelationName(segment->rel), partition, last_offset);
	if (batch != stored)
		pfree(batch);
}

/* sample_page offers the records of a page's visible batches. */
static void
sample_page(Sample *sample, StreamSegmentTable *segment, BlockNumber block, Snapshot snapshot,
			BufferAccessStrategy strategy)
{
	Buffer		buffer = ReadBufferExtended(segment->rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	Page		page;
	OffsetNumber last;
	HeapTuple  *tuples = palloc_array(HeapTuple, MaxHeapTuplesPerPage);
	int			n = 0;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	last = PageGetMaxOffsetNumber(page);
	for (OffsetNumber offset = FirstOffsetNumber; offset <= last; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleData tuple;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_tableOid = RelationGetRelid(segment->rel);
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, offset);
		if (HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer))
			tuples[n++] = heap_copytuple(&tuple);
	}
	UnlockReleaseBuffer(buffer);

	/* decoding may detoast, so not under the buffer's lock */
	for (int i = 0; i < n; i++)
	{
		sample_batch(sample, segment, tuples[i]);
		heap_freetuple(tuples[i]);
	}
	pfree(tuples);
}

/* acquire_sample collects the sample, and estimates the number of records. */
static int
acquire_sample(Relation rel, int elevel, HeapTuple *rows, int wanted, double *total_rows, double *total_dead_rows)
{
	StreamInfo *info = stream_face_info(rel);
	int32		stream_id = info->stream_id;
	int			n;
	int32	   *numbers = stream_segment_numbers(info, false, &n);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_VACUUM);
	Sample		sample = {0};
	double		pages = 0;
	double		sampled_pages = 0;

	sample.rows = rows;
	sample.wanted = wanted;
	sample.skip = -1;
	sample.desc = RelationGetDescr(rel);
	reservoir_init_selection_state(&sample.state, wanted);

	for (int i = 0; i < n; i++)
	{
		StreamSegmentTable segment;
		BlockSamplerData sampler;
		BlockNumber blocks;
		Snapshot	snapshot;

		if (!stream_segment_open(&segment, stream_id, numbers[i], AccessShareLock, true))
			continue;
		blocks = RelationGetNumberOfBlocks(segment.rel);
		snapshot = stream_fresh_snapshot(RelationGetRelid(segment.rel));
		BlockSampler_Init(&sampler, blocks, Max(1, wanted / n), pg_prng_uint32(&pg_global_prng_state));
		while (BlockSampler_HasMore(&sampler))
		{
			stream_analyze_delay_point();
			sample_page(&sample, &segment, BlockSampler_Next(&sampler), snapshot, strategy);
			sampled_pages++;
		}
		pages += blocks;
		UnregisterSnapshot(snapshot);
		stream_segment_close(&segment, false);
	}
	stream_batch_reader_free(&sample.reader);

	*total_rows = sampled_pages > 0 ? sample.seen / sampled_pages * pages : 0;
	*total_dead_rows = 0;
	ereport(elevel,
			(errmsg("\"%s\": scanned %.0f of %.0f pages of the log, containing %.0f records; %d records in sample, %.0f estimated total records",
					RelationGetRelationName(rel), sampled_pages, pages, sample.seen, sample.taken, *total_rows)));
	return sample.taken;
}

bool
stream_face_analyze(Relation rel, AcquireSampleRowsFunc *func, BlockNumber *pages)
{
	(void) stream_face_info(rel);
	*func = acquire_sample;
	*pages = (BlockNumber) Max(1, stream_count_pages(RelationGetRelid(rel)));
	return true;
}
