/*-------------------------------------------------------------------------
 *
 * segments.h
 *		The tables stream_internal.partitions, offset_gaps, segments and
 *		segment_ranges.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_SEGMENTS_H
#define STREAM_SEGMENTS_H

#include "catalog/streams.h"

extern int64 stream_load_log_start(int32 stream_id, int32 partition);
extern int	stream_load_segments(int32 stream_id, MemoryContext context, StreamSegment **segments);
extern int	stream_load_ranges(int32 stream_id, int32 partition, MemoryContext context, StreamRange **ranges);

extern void stream_insert_partitions(int32 stream_id, int32 partitions);
extern void stream_insert_segment(int32 stream_id, int32 segment_no);
extern void stream_seal_segment_row(int32 stream_id, int32 segment_no);
extern void stream_insert_range(int32 stream_id, int32 partition, const StreamRange *range);
extern int64 stream_count_gaps(int32 stream_id, int32 partition, int64 from, int64 to);
extern void stream_insert_gap(int32 stream_id, int32 partition, int64 base_offset, int64 end_offset);
extern void stream_delete_log(int32 stream_id);

#endif							/* STREAM_SEGMENTS_H */
