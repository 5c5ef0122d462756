/*-------------------------------------------------------------------------
 *
 * segtable.h
 *		The table that holds a segment, and the batches in it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_SEGTABLE_H
#define STREAM_SEGTABLE_H

#include "access/genam.h"
#include "access/relscan.h"
#include "catalog/streams.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "log/batch.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

/* Columns of a segment table. */
#define Anum_segment_partition		1
#define Anum_segment_records		2
#define Anum_segment_last_offset	3
#define Anum_segment_batch			4
#define Natts_segment				4

/*
 * The largest batch, in bytes, that the table keeps inline: a page takes a
 * tuple of 8160 bytes (MaxHeapTupleSize); the tuple's header takes 24, the
 * three columns before the batch 16 and the batch's own length word 4.
 */
#define STREAM_TOAST_TUPLE_TARGET	8160
#define STREAM_INLINE_BATCH_SIZE	(STREAM_TOAST_TUPLE_TARGET - 24 - 16 - 4)

/* An open segment table. */
typedef struct StreamSegmentTable
{
	Relation	rel;
	Relation	index;			/* on (partition, last_offset), valid */
	bool		only_index;		/* there is no other */
	LOCKMODE	lockmode;
} StreamSegmentTable;

/* A scan over the batches of one partition in a segment, by offset. */
typedef struct StreamBatchScan
{
	IndexScanDesc scan;
	TupleTableSlot *slot;
	ScanDirection direction;
} StreamBatchScan;

extern void stream_segtable_init(void);
extern void stream_segment_table_name(char *buf, int32 stream_id, int32 segment_no);
extern bool stream_segment_open(StreamSegmentTable *table, int32 stream_id, int32 segment_no,
								LOCKMODE lockmode, bool missing_ok);
extern void stream_segment_close(StreamSegmentTable *table, bool keep_lock);
extern bool stream_has_index(Oid relid);
extern void stream_segment_create(int32 stream_id, int32 segment_no, Oid owner);

extern Snapshot stream_fresh_snapshot(Oid relid);

extern void stream_batch_scan_begin(StreamBatchScan *scan, StreamSegmentTable *table, Snapshot snapshot,
									int32 partition, int64 from_offset, ScanDirection direction);
extern bool stream_batch_scan_next(StreamBatchScan *scan);
extern void stream_batch_scan_end(StreamBatchScan *scan);
extern int64 stream_batch_scan_last_offset(StreamBatchScan *scan);
extern int32 stream_batch_scan_records(StreamBatchScan *scan);
extern Datum stream_batch_scan_batch(StreamBatchScan *scan);
extern void stream_batch_scan_header(StreamBatchScan *scan, StreamSegmentTable *table, StreamBatchHeader *header);
extern Size stream_stored_size(Datum batch);

extern void stream_open_batch(StreamBatchReader *reader, struct varlena *batch, const char *segment,
							  int32 partition, int64 last_offset);
extern stream_noreturn void stream_batch_damaged(StreamBatchStatus status, const char *segment,
												 int32 partition, int64 offset);

extern bool stream_last_batch(StreamSegmentTable *table, Snapshot snapshot, int32 partition,
							  int64 *last_offset, TimestampTz *timestamp);
extern bool stream_has_record(Oid table, int32 partition, int64 offset);
extern int64 stream_log_end(StreamInfo *info, int32 partition, TimestampTz *last_timestamp);

#endif							/* STREAM_SEGTABLE_H */
