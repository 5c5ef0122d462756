/*-------------------------------------------------------------------------
 *
 * offsets.h
 *		Committed offsets of consumer groups.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_OFFSETS_H
#define STREAM_OFFSETS_H

#include "datatype/timestamp.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

/* The newest commit of a group in a partition. */
typedef struct StreamOffset
{
	int64		seq;			/* of its commits; 1, 2, 3, … */
	int64		folded_seq;		/* rows below this one are deleted */
	int64		committed_offset;	/* the next offset to read */
	int64		records_skipped;	/* offsets passed over since the group's start */
	TimestampTz committed_at;
} StreamOffset;

/* How a look for it ended. */
typedef enum StreamOffsetFound
{
	STREAM_OFFSET_FOUND,
	STREAM_OFFSET_UNSEEN,		/* newer than the snapshot */
	STREAM_OFFSET_MISSING
} StreamOffsetFound;

/*
 * The lock on a group's partition is of the class of advisory locks, so that
 * pg_locks shows it, with a last field that PostgreSQL's own functions do not
 * use: they have 1 and 2.
 */
#define STREAM_OFFSET_LOCK	83

extern bool stream_try_lock_offset(int32 group_id, int32 partition);
extern void stream_lock_offset(int32 group_id, int32 partition);
extern bool stream_offset_lock_held(int32 group_id, int32 partition);
extern void stream_unlock_offset(int32 group_id, int32 partition);
extern bool stream_offset_is_free(int32 group_id, int32 partition);

extern StreamOffsetFound stream_newest_offset(int32 group_id, int32 partition, Snapshot own, StreamOffset *result);
extern void stream_append_offset(int32 group_id, int32 partition, const StreamOffset *newest,
								 int64 committed_offset, int64 skipped);

#endif							/* STREAM_OFFSETS_H */
