/*-------------------------------------------------------------------------
 *
 * pending.h
 *		What a transaction has published and not yet written: for append.c and
 *		pack.c only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_PENDING_H
#define STREAM_PENDING_H

#include "log/append.h"

/* A contiguous range of this transaction's offsets: batches, then open records. */
typedef struct StreamRun
{
	struct StreamRun *next;
	int64		first;			/* first <= offset < end, reserved */
	int64		end;
	int32		segment_no;
	StreamImage *images;		/* closed batches, by offset */
	StreamImage **images_tail;
	StreamBatchBuilder open;	/* records behind them */
} StreamRun;

/* What a nesting level has published to a partition. */
typedef struct StreamBuffer
{
	struct StreamBuffer *next;	/* of the same level */
	struct StreamBuffer *outer; /* of the same partition, the next outer level */
	StreamTargetPartition *partition;
	SubTransactionId subid;
	StreamRun  *runs;			/* by offset */
	StreamRun  *last_run;
} StreamBuffer;

/* A nesting level that has published something or may have to undo something. */
typedef struct StreamLevel
{
	struct StreamLevel *outer;
	SubTransactionId subid;
	StreamBuffer *buffers;
	Size		image_bytes;	/* in closed batches */
} StreamLevel;

struct StreamTargetPartition
{
	StreamTarget *target;
	int32		number;
	StreamPartition *state;
	StreamPublisher *publisher; /* null: not in the list of open publishers */
	SubTransactionId publisher_subid;	/* whose reservation put it there */
	bool		records_gap;	/* this transaction has claimed the gap */
	StreamTargetPartition *next_publisher;
	StreamBuffer *innermost;	/* null: nothing buffered */
	Size		raw_target;		/* bytes of records that fill a batch, by experience */
};

/* All of the transaction's publishing; null: there is none. */
typedef struct StreamPublishing
{
	MemoryContext context;
	StreamTarget *targets;
	StreamLevel *innermost;
	StreamTargetPartition *publishers;	/* those with an entry in the list */
	Size		open_bytes;		/* of all open records, roughly */
	bool		closed;			/* written for the last time */
	bool		out_of_line;	/* has had a batch that does not fit a page */
} StreamPublishing;

extern void stream_compress_run(StreamPublishing *publishing, StreamTargetPartition *partition,
								StreamRun *run, StreamLevel *level, bool whole);
extern void stream_compress_levels(StreamPublishing *publishing);
extern void stream_flush_level(StreamPublishing *publishing, StreamLevel *level);

#endif							/* STREAM_PENDING_H */
