/*-------------------------------------------------------------------------
 *
 * timesearch.c
 *		Search of a partition's log by time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "log/read.h"
#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * first_header finds the first batch of a partition that ends at or after an
 * offset, in one segment.
 */
static bool
first_header(StreamSegmentTable *segment, Snapshot snapshot, int32 partition, int64 offset,
			 StreamBatchHeader *header)
{
	StreamBatchScan scan;
	bool		found;

	stream_batch_scan_begin(&scan, segment, snapshot, partition, offset, ForwardScanDirection);
	found = stream_batch_scan_next(&scan);
	if (found)
		stream_batch_scan_header(&scan, segment, header);
	stream_batch_scan_end(&scan);
	return found;
}

/*
 * stream_offset_before returns an offset from which to read on to find the first
 * record published at or after a time: within its segment, the batch there is
 * the last one that begins before that time.  -1: begin at the log start.
 *
 * Times never decrease within a partition, so this is a search by bisection;
 * each step is one descent of the index.
 */
int64
stream_offset_before(StreamInfo *info, int32 partition, TimestampTz at)
{
	int32		stream_id = info->stream_id;
	int			nsegments;
	int32	   *segments = stream_segment_numbers(info, false, &nsegments);


	for (int i = nsegments - 1; i >= 0; i--)
	{
		StreamSegmentTable segment;
		StreamBatchHeader header;
		Snapshot	snapshot;
		StreamBatchScan scan;
		int64		begin = -1;		/* of the batch at low */

		if (!stream_segment_open(&segment, stream_id, segments[i], AccessShareLock, true))
			continue;
		snapshot = stream_fresh_snapshot(RelationGetRelid(segment.rel));
		if (first_header(&segment, snapshot, partition, 0, &header) && header.base_timestamp < at)
		{
			int64		low = header.base_offset;
			int64		high;

			/* the batch at low begins before that time, the one at high does not */
			begin = low;
			stream_batch_scan_begin(&scan, &segment, snapshot, partition, 0, BackwardScanDirection);
			high = stream_batch_scan_next(&scan) ? stream_batch_scan_last_offset(&scan) + 1 : low + 1;
			stream_batch_scan_end(&scan);
			while (high - low > 1)
			{
				int64		middle = low + (high - low) / 2;

				CHECK_FOR_INTERRUPTS();
				if (first_header(&segment, snapshot, partition, middle, &header) &&
					header.base_timestamp < at)
				{
					begin = header.base_offset;
					low = Max(middle, begin);
				}
				else
					high = middle;
			}
		}
		UnregisterSnapshot(snapshot);
		stream_segment_close(&segment, false);
		if (begin >= 0)
			return begin;
	}
	return -1;
}

/*
 * stream_first_offset_at returns the offset of the first record published at or
 * after a time that the statement with the snapshot own may see; the high
 * watermark when there is none.  The caller has a lock on the foreign table.
 */
int64
stream_first_offset_at(Oid table, int32 partition, TimestampTz at, Snapshot own)
{
	StreamReader reader;
	StreamRecord record;
	int64		from;
	int64		result;
	bool		found = false;

	from = RecoveryInProgress() ? -1 : stream_offset_before(stream_info(table), partition, at);
	stream_reader_begin(&reader, table, partition, from, own);
	while (!found && stream_reader_next(&reader, &record))
		found = record.timestamp >= at;
	if (found)
		result = record.offset;
	else if (reader.unseen || reader.limit == PG_INT64_MAX)
		result = reader.position;	/* who begins there misses nothing */
	else
		result = reader.limit;
	stream_reader_end(&reader);
	return result;
}
