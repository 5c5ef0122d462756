/*-------------------------------------------------------------------------
 *
 * segments.c
 *		The tables stream_internal.partitions, offset_gaps, segments and
 *		segment_ranges.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/segments.h"
#include "catalog/tables.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define PARTITIONS_TABLE	"partitions"
#define PARTITIONS_PKEY		"partitions_pkey"
#define SEGMENTS_TABLE		"segments"
#define SEGMENTS_PKEY		"segments_pkey"
#define RANGES_TABLE		"segment_ranges"
#define RANGES_PKEY			"segment_ranges_pkey"

#define GAPS_TABLE			"offset_gaps"
#define GAPS_PKEY			"offset_gaps_pkey"

/* the first column of each of them */
#define Anum_stream_id						1

#define Anum_partitions_partition			2
#define Anum_partitions_log_start_offset	3
#define Natts_partitions					3

#define Anum_segments_segment_no			2
#define Anum_segments_created_at			3
#define Anum_segments_sealed_at				4
#define Natts_segments						4

#define Anum_ranges_partition				2
#define Anum_ranges_segment_no				3
#define Anum_ranges_batches					4
#define Anum_ranges_base_offset				5
#define Anum_ranges_end_offset				6
#define Anum_ranges_records					7
#define Anum_ranges_bytes					8
#define Anum_ranges_first_published_at		9
#define Anum_ranges_last_published_at		10
#define Natts_ranges						10

#define Anum_gaps_partition					2
#define Anum_gaps_base_offset				3
#define Anum_gaps_end_offset				4
#define Natts_gaps							4

static void
init_int4_key(ScanKey key, AttrNumber attnum, int32 value)
{
	ScanKeyInit(key, attnum, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(value));
}

/* stream_load_log_start returns the first offset of a partition that is read. */
int64
stream_load_log_start(int32 stream_id, int32 partition)
{
	StreamCatalogScan scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;
	int64		result;

	init_int4_key(&keys[0], Anum_stream_id, stream_id);
	init_int4_key(&keys[1], Anum_partitions_partition, partition);
	stream_catalog_begin(&scan, PARTITIONS_TABLE, PARTITIONS_PKEY, 2, keys, false);
	tuple = stream_catalog_next(&scan, ForwardScanDirection);
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partition %d of stream %d is not in the catalog", partition, stream_id),
				 errhint("When a restore is under way, let it finish first.")));
	result = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_partitions_log_start_offset, NULL));
	stream_catalog_end(&scan);
	return result;
}

/* stream_load_segments returns the number of a stream's segments, and them. */
int
stream_load_segments(int32 stream_id, MemoryContext context, StreamSegment **segments)
{
	StreamCatalogScan scan;
	ScanKeyData key;
	HeapTuple	tuple;
	int			n = 0;
	int			allocated = 8;
	StreamSegment *result = MemoryContextAlloc(context, allocated * sizeof(StreamSegment));

	init_int4_key(&key, Anum_stream_id, stream_id);
	stream_catalog_begin(&scan, SEGMENTS_TABLE, SEGMENTS_PKEY, 1, &key, true);
	while (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
	{
		bool		isnull;
		Datum		sealed_at = stream_catalog_get(&scan, tuple, Anum_segments_sealed_at, &isnull);

		CHECK_FOR_INTERRUPTS();
		if (n == allocated)
		{
			allocated *= 2;
			result = repalloc(result, allocated * sizeof(StreamSegment));
		}
		result[n].segment_no = DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_segments_segment_no, NULL));
		result[n].created_at = DatumGetTimestampTz(stream_catalog_get(&scan, tuple, Anum_segments_created_at, NULL));
		result[n].sealed = !isnull;
		result[n].sealed_at = isnull ? 0 : DatumGetTimestampTz(sealed_at);
		n++;
	}
	stream_catalog_end(&scan);
	*segments = result;
	return n;
}

/* stream_load_ranges does the same for what sealed segments hold of a partition. */
int
stream_load_ranges(int32 stream_id, int32 partition, MemoryContext context, StreamRange **ranges)
{
	StreamCatalogScan scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;
	int			n = 0;
	int			allocated = 8;
	StreamRange *result = MemoryContextAlloc(context, allocated * sizeof(StreamRange));

	init_int4_key(&keys[0], Anum_stream_id, stream_id);
	init_int4_key(&keys[1], Anum_ranges_partition, partition);
	stream_catalog_begin(&scan, RANGES_TABLE, RANGES_PKEY, 2, keys, true);
	while (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
	{
		StreamRange *range;

		CHECK_FOR_INTERRUPTS();
		if (n == allocated)
		{
			allocated *= 2;
			result = repalloc(result, allocated * sizeof(StreamRange));
		}
		range = &result[n++];
		range->segment_no = DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_ranges_segment_no, NULL));
		range->batches = DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_ranges_batches, NULL));
		range->base_offset = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_ranges_base_offset, NULL));
		range->end_offset = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_ranges_end_offset, NULL));
		range->records = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_ranges_records, NULL));
		range->bytes = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_ranges_bytes, NULL));
		range->first_published_at =
			DatumGetTimestampTz(stream_catalog_get(&scan, tuple, Anum_ranges_first_published_at, NULL));
		range->last_published_at =
			DatumGetTimestampTz(stream_catalog_get(&scan, tuple, Anum_ranges_last_published_at, NULL));
	}
	stream_catalog_end(&scan);
	*ranges = result;
	return n;
}

/* stream_insert_partitions adds the rows of a new stream's partitions. */
void
stream_insert_partitions(int32 stream_id, int32 partitions)
{
	for (int32 partition = 0; partition < partitions; partition++)
	{
		Datum		values[Natts_partitions];
		bool		nulls[Natts_partitions] = {false};

		values[Anum_stream_id - 1] = Int32GetDatum(stream_id);
		values[Anum_partitions_partition - 1] = Int32GetDatum(partition);
		values[Anum_partitions_log_start_offset - 1] = Int64GetDatum(0);
		stream_catalog_insert(PARTITIONS_TABLE, Natts_partitions, values, nulls);
	}
}

/* stream_insert_segment adds the row of a segment, which becomes the newest. */
void
stream_insert_segment(int32 stream_id, int32 segment_no)
{
	Datum		values[Natts_segments];
	bool		nulls[Natts_segments] = {false};

	values[Anum_stream_id - 1] = Int32GetDatum(stream_id);
	values[Anum_segments_segment_no - 1] = Int32GetDatum(segment_no);
	values[Anum_segments_created_at - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	nulls[Anum_segments_sealed_at - 1] = true;
	stream_catalog_insert(SEGMENTS_TABLE, Natts_segments, values, nulls);
}

/* stream_seal_segment_row marks a segment sealed. */
void
stream_seal_segment_row(int32 stream_id, int32 segment_no)
{
	ScanKeyData keys[2];

	init_int4_key(&keys[0], Anum_stream_id, stream_id);
	init_int4_key(&keys[1], Anum_segments_segment_no, segment_no);
	stream_catalog_update(SEGMENTS_TABLE, SEGMENTS_PKEY, 2, keys, Anum_segments_sealed_at,
						  TimestampTzGetDatum(GetCurrentTimestamp()), false);
}

/* stream_insert_range records what a segment that is being sealed holds of a partition. */
void
stream_insert_range(int32 stream_id, int32 partition, const StreamRange *range)
{
	Datum		values[Natts_ranges];
	bool		nulls[Natts_ranges] = {false};

	values[Anum_stream_id - 1] = Int32GetDatum(stream_id);
	values[Anum_ranges_partition - 1] = Int32GetDatum(partition);
	values[Anum_ranges_segment_no - 1] = Int32GetDatum(range->segment_no);
	values[Anum_ranges_batches - 1] = Int32GetDatum(range->batches);
	values[Anum_ranges_base_offset - 1] = Int64GetDatum(range->base_offset);
	values[Anum_ranges_end_offset - 1] = Int64GetDatum(range->end_offset);
	values[Anum_ranges_records - 1] = Int64GetDatum(range->records);
	values[Anum_ranges_bytes - 1] = Int64GetDatum(range->bytes);
	values[Anum_ranges_first_published_at - 1] = TimestampTzGetDatum(range->first_published_at);
	values[Anum_ranges_last_published_at - 1] = TimestampTzGetDatum(range->last_published_at);
	stream_catalog_insert(RANGES_TABLE, Natts_ranges, values, nulls);
}

/* stream_count_gaps counts the offsets from <= offset < to that restarts have skipped. */
int64
stream_count_gaps(int32 stream_id, int32 partition, int64 from, int64 to)
{
	StreamCatalogScan scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;
	int64		count = 0;

	init_int4_key(&keys[0], Anum_stream_id, stream_id);
	init_int4_key(&keys[1], Anum_gaps_partition, partition);
	stream_catalog_begin(&scan, GAPS_TABLE, GAPS_PKEY, 2, keys, false);
	while (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
	{
		int64		base = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_gaps_base_offset, NULL));
		int64		end = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_gaps_end_offset, NULL));

		count += Max(0, Min(end, to) - Max(base, from));
	}
	stream_catalog_end(&scan);
	return count;
}

/* stream_insert_gap records offsets that a restart has skipped. */
void
stream_insert_gap(int32 stream_id, int32 partition, int64 base_offset, int64 end_offset)
{
	Datum		values[Natts_gaps];
	bool		nulls[Natts_gaps] = {false};
	ScanKeyData keys[3];

	/* one at the same place, when nothing was stored between two restarts */
	init_int4_key(&keys[0], Anum_stream_id, stream_id);
	init_int4_key(&keys[1], Anum_gaps_partition, partition);
	ScanKeyInit(&keys[2], Anum_gaps_base_offset, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(base_offset));
	stream_catalog_delete(GAPS_TABLE, GAPS_PKEY, 3, keys);

	values[Anum_stream_id - 1] = Int32GetDatum(stream_id);
	values[Anum_gaps_partition - 1] = Int32GetDatum(partition);
	values[Anum_gaps_base_offset - 1] = Int64GetDatum(base_offset);
	values[Anum_gaps_end_offset - 1] = Int64GetDatum(end_offset);
	stream_catalog_insert(GAPS_TABLE, Natts_gaps, values, nulls);
}

/* stream_delete_log removes all rows of a stream from these tables. */
void
stream_delete_log(int32 stream_id)
{
	ScanKeyData key;

	init_int4_key(&key, Anum_stream_id, stream_id);
	stream_catalog_delete(GAPS_TABLE, GAPS_PKEY, 1, &key);
	stream_catalog_delete(RANGES_TABLE, RANGES_PKEY, 1, &key);
	stream_catalog_delete(SEGMENTS_TABLE, SEGMENTS_PKEY, 1, &key);
	stream_catalog_delete(PARTITIONS_TABLE, PARTITIONS_PKEY, 1, &key);
}
