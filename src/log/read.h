/*-------------------------------------------------------------------------
 *
 * read.h
 *		Reading a partition's records in order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_READ_H
#define STREAM_READ_H

#include "catalog/streams.h"
#include "log/batch.h"
#include "log/segtable.h"

typedef struct StreamReader
{
	Oid			table;
	int32		stream_id;
	int32		partition;
	int64		position;		/* the next record has this offset or a higher one */
	int64		limit;			/* the watermark; PG_INT64_MAX: nothing was in flight */
	Snapshot	own;			/* the statement's; null: there is no statement */
	Snapshot	fresh;			/* registered, taken after limit was read */
	int32		segment_no;		/* being read, or read last */
	bool		segment_open;
	bool		finished;
	bool		unseen;			/* finished at a batch newer than own */
	StreamSegmentTable segment;
	StreamBatchScan scan;
	struct varlena *detoasted;	/* the batch, when it is not in the scan's slot */
	bool		in_batch;
	StreamBatchReader batch;
	int64		batches_read;
} StreamReader;

/* How much a call may return, and what it does so far. */
typedef struct StreamLimits
{
	int64		records_left;	/* PG_INT64_MAX: no limit */
	int64		bytes_left;		/* of keys, values and headers; likewise */
	int64		records;		/* returned so far */
	bool		more;			/* a limit was reached, and more is left there */
} StreamLimits;

extern int64 stream_check_from_offset(StreamInfo *info, int32 partition, int64 from_offset);
extern void stream_reader_begin(StreamReader *reader, Oid table, int32 partition, int64 from_offset,
								Snapshot own);
extern int64 stream_offset_before(StreamInfo *info, int32 partition, TimestampTz at);
extern int64 stream_first_offset_at(Oid table, int32 partition, TimestampTz at, Snapshot own);
extern int64 stream_current_watermark(StreamInfo *info, int32 partition);
extern bool stream_reader_next(StreamReader *reader, StreamRecord *record);
extern int64 stream_reader_count(StreamReader *reader);
extern int64 stream_reader_take(StreamReader *reader, StreamLimits *limits);
extern void stream_reader_end(StreamReader *reader);

#endif							/* STREAM_READ_H */
