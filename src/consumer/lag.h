/*-------------------------------------------------------------------------
 *
 * lag.h
 *		How far behind a reader is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_LAG_H
#define STREAM_LAG_H

#include "datatype/timestamp.h"

/* A partition's end, as all its readers see it. */
typedef struct StreamPartitionEnd
{
	int64		watermark;
	int64		next_offset;
	TimestampTz since;			/* of the oldest open publisher; 0: none */
} StreamPartitionEnd;

extern StreamPartitionEnd stream_partition_end(Oid table, int32 partition);
extern TimestampTz stream_oldest_unread(Oid table, int32 partition, int64 offset, const StreamPartitionEnd *end);
extern int64 stream_records_behind(Oid table, int32 partition, int64 from, int64 to);

#endif							/* STREAM_LAG_H */
