/*-------------------------------------------------------------------------
 *
 * reserve.h
 *		Offsets: reservation, open publishers, high watermark.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_RESERVE_H
#define STREAM_RESERVE_H

#include "catalog/streams.h"
#include "shmem.h"

/* A contiguous block of offsets and the segment they go to. */
typedef struct StreamReservation
{
	int64		first_offset;
	int32		segment_no;
	TimestampTz timestamp;		/* of all its records */
} StreamReservation;

/* A partition's state at one moment. */
typedef struct StreamWatermark
{
	int64		watermark;		/* all below has ended */
	int64		next_offset;
	int64		ceiling;
	int64		segment_base;	/* first offset that went to segment_no */
	int32		segment_no;
	int64		gap_base;		/* skipped at the first reservation, and not yet */
	int64		gap_end;		/* recorded; equal: none */
	int64		lost_base;		/* gap_base, also when it is recorded */
	TimestampTz since;			/* age of the oldest open publisher; 0: none */
} StreamWatermark;

/* An open publisher, as the views show it. */
typedef struct StreamOpenPublisher
{
	StreamPartitionKey key;
	int64		first_offset;
	TimestampTz since;
	int32		pid;
} StreamOpenPublisher;

/* partition.c */
extern void stream_lock_rolls(Oid table);
extern void stream_unlock_rolls(Oid table);
extern StreamPartition *stream_attach_partition(Oid table, int32 partition);
extern void stream_remove_partitions(Oid database, Oid table);
extern bool stream_get_watermark(Oid table, int32 partition, StreamWatermark *result);
extern void stream_activate_segment(Oid table, int32 segment_no);
extern StreamOpenPublisher *stream_list_publishers(int *n);

/* ceiling.c */
#define STREAM_SEQUENCE_STEP	128 /* offsets a sequence's step grants */

extern void stream_sequence_name(char *buf, int32 stream_id, int32 partition);
extern void stream_sequence_create(int32 stream_id, int32 partition, Oid owner);
extern int64 stream_sequence_ceiling(int32 stream_id, int32 partition);
extern void stream_extend_ceiling(StreamPartition *partition, int64 wanted);
extern void stream_stop_extending(void);

/* reserve.c */
extern void stream_reserve(StreamPartition *partition, StreamPublisher **publisher, int32 count,
						   StreamReservation *result);
extern void stream_end_publisher(StreamPartition *partition, StreamPublisher *publisher);
extern int64 stream_offsets_in_gaps(Oid table, int32 stream_id, int32 partition, int64 from, int64 to);
extern bool stream_claim_gap(StreamPartition *partition, int64 *base, int64 *end);
extern void stream_release_gap(StreamPartition *partition, bool recorded);

#endif							/* STREAM_RESERVE_H */
