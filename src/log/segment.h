/*-------------------------------------------------------------------------
 *
 * segment.h
 *		Rolling and sealing of segments.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_SEGMENT_H
#define STREAM_SEGMENT_H

#include "catalog/streams.h"
#include "log/segtable.h"
#include "utils/snapshot.h"

/* What the batches of a partition in a segment add up to. */
extern bool stream_measure_range(StreamSegmentTable *segment, Snapshot snapshot, int32 partition,
								 int64 limit, StreamRange *range);
extern int	stream_seal_segments(Oid table);
extern bool stream_roll_if_due(Oid table);
extern void stream_depend_on_table(Oid relid, Oid table);
extern bool stream_depends_on_table(Oid relid, Oid table);

#endif							/* STREAM_SEGMENT_H */
