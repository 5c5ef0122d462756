/*-------------------------------------------------------------------------
 *
 * streams.h
 *		What a backend knows of a stream.
 *
 * A StreamInfo is built from stream_internal.streams, partitions, segments and
 * segment_ranges, and kept until the relcache entry of the stream's foreign
 * table is invalidated.  Whoever changes one of those rows calls
 * stream_invalidate in the same transaction; others then see the change once
 * they have accepted invalidation messages after its commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_STREAMS_H
#define STREAM_STREAMS_H

#include "datatype/timestamp.h"
#include "nodes/parsenodes.h"
#include "storage/lock.h"

typedef enum StreamValueType
{
	STREAM_VALUE_JSONB,
	STREAM_VALUE_BYTEA
} StreamValueType;

typedef struct StreamSegment
{
	int32		segment_no;
	bool		sealed;			/* no publisher writes to it any more */
	TimestampTz created_at;
	TimestampTz sealed_at;		/* meaningless unless sealed */
} StreamSegment;

/* What a sealed segment holds of a partition: base_offset <= offset < end_offset. */
typedef struct StreamRange
{
	int32		segment_no;
	int32		batches;
	int64		base_offset;
	int64		end_offset;
	int64		records;
	int64		bytes;
	TimestampTz first_published_at;
	TimestampTz last_published_at;
} StreamRange;

/* Loaded when first asked for: a reader of one partition reads no other's. */
typedef struct StreamPartitionInfo
{
	bool		loaded;
	int			nranges;
	int64		log_start_offset;
	StreamRange *ranges;		/* by segment_no; no element: nothing there */
} StreamPartitionInfo;

typedef struct StreamInfo
{
	Oid			table;			/* the foreign table; hash key */
	bool		valid;			/* false: rebuilt at the next look-up */
	uint32		changes;		/* invalidations so far, of all that was built */
	bool		foreign_format; /* written under another encoding or byte order */
	MemoryContext context;		/* of everything below that is a pointer */
	NameData	name;
	int32		stream_id;
	int32		partitions;
	int32		compression;	/* StreamCompression */
	StreamValueType value_type;
	int64		segment_bytes;	/* a segment is rolled at this size; 0: at none */
	int64		segment_age;	/* in ms since its first record; 0: at none */
	TimestampTz created_at;
	int			nsegments;		/* at least 1 */
	StreamSegment *segments;	/* by segment_no; the last one is active */
	StreamPartitionInfo *partition;
	bool		groups_loaded;	/* else the next two are not set: groups.h */
	int			ngroups;
	struct StreamGroup *groups;
} StreamInfo;

/* Grows whenever a cached StreamInfo or privilege may have changed. */
extern uint64 stream_cache_generation;

extern void stream_cache_init(void);
extern Oid	stream_table(const char *name, LOCKMODE lockmode, AclMode mode, bool missing_ok);
extern Oid	stream_table_for_owner(const char *name, LOCKMODE lockmode);
extern StreamInfo *stream_info(Oid table);
extern StreamInfo *stream_info_if_stream(Oid table);
extern StreamPartitionInfo *stream_partition_info(StreamInfo *info, int32 partition);
extern int32 *stream_segment_numbers(const StreamInfo *info, bool unsealed_only, int *n);
extern void stream_check_name(const char *name);
extern void stream_check_format(const StreamInfo *info);
extern void stream_check_partition(const StreamInfo *info, int32 partition);
extern void stream_invalidate(Oid table);

extern int32 stream_new_id(void);
extern int32 stream_id_of_name(const char *name);
extern void stream_insert(int32 stream_id, const char *name, int32 partitions,
						  const char *value_type, const char *compression,
						  int64 segment_bytes, int64 segment_age);
extern void stream_check_compression(const char *compression);
extern void stream_set_compression(int32 stream_id, const char *compression);
extern void stream_set_segment_bytes(int32 stream_id, int64 segment_bytes);
extern void stream_set_segment_age(int32 stream_id, int64 segment_age);
extern void stream_rename(int32 stream_id, const char *name);
extern void stream_delete(int32 stream_id);
extern Oid	stream_table_of_id(int32 stream_id);
extern List *stream_all_tables(void);
extern bool stream_may_see(Oid table);
extern List *stream_visible_tables(bool lock);

#endif							/* STREAM_STREAMS_H */
