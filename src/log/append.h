/*-------------------------------------------------------------------------
 *
 * append.h
 *		What a transaction has published and not yet written.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_APPEND_H
#define STREAM_APPEND_H

#include "catalog/streams.h"
#include "log/batch.h"
#include "log/reserve.h"

typedef struct StreamTarget StreamTarget;
typedef struct StreamTargetPartition StreamTargetPartition;

/* A batch as it will be stored. */
typedef struct StreamImage
{
	struct StreamImage *next;
	int64		last_offset;
	int32		records;
	int32		segment_no;
	int32		partition;
	struct varlena *data;		/* a bytea */
} StreamImage;

/* What publishing needs to know of a stream; good to the transaction's end. */
struct StreamTarget
{
	Oid			table;
	int32		stream_id;
	int32		partitions;
	int32		compression;
	int64		segment_bytes;	/* 0: a segment can have any size */
	StreamValueType value_type;
	Size		name_len;
	NameData	name;
	Oid			user;			/* whose privilege was checked */
	uint64		generation;		/* of the caches, then */
	SubTransactionId lock_subid;	/* holds the table's lock; invalid: rolled back */
	SubTransactionId dropped_subid; /* dropped the stream; invalid: nobody */
	struct StreamTarget *next;
	StreamTargetPartition **partition;
};

/* A block of reserved offsets that is being filled. */
typedef struct StreamBlock
{
	StreamTargetPartition *partition;
	int64		next_offset;
	TimestampTz timestamp;
} StreamBlock;

/* append.c */
extern StreamTarget *stream_target(const char *name, Size len);
extern StreamTarget *stream_target_of_table(Oid table);
extern void stream_block_reserve(StreamBlock *block, StreamTarget *target, int32 partition, int32 count);
extern void stream_block_append(StreamBlock *block, StreamRecord *record);
extern void stream_publish_call_done(void);

/* for xact.c: the transaction's ends, and a drop of the stream within it */
extern bool stream_has_publishers(void);
extern bool stream_holds_back(Oid table, int32 partition, int64 offset);
extern void stream_flush_all(void);
extern void stream_end_publishers(bool committed);
extern void stream_publish_commit_sub(SubTransactionId subid, SubTransactionId parent);
extern void stream_publish_abort_sub(SubTransactionId subid);
extern void stream_publish_dropped(Oid table);

/* flush.c */
extern void stream_write_images(int32 stream_id, int64 segment_bytes, StreamImage *images);

#endif							/* STREAM_APPEND_H */
