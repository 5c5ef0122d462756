/*-------------------------------------------------------------------------
 *
 * groups.h
 *		The table stream_internal.consumer_groups.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_GROUPS_H
#define STREAM_GROUPS_H

#include "catalog/streams.h"

/* What to do when retention has passed a committed offset. */
typedef enum StreamOutOfRange
{
	STREAM_OUT_OF_RANGE_ERROR,
	STREAM_OUT_OF_RANGE_EARLIEST,
	STREAM_OUT_OF_RANGE_LATEST
} StreamOutOfRange;

/* A consumer group of a stream, as the cache has it. */
typedef struct StreamGroup
{
	int32		group_id;
	bool		paused;
	bool		has_members;	/* also such as have timed out since */
	StreamOutOfRange out_of_range;
	int32		max_poll_interval;	/* ms */
	TimestampTz created_at;
	NameData	name;
} StreamGroup;

extern StreamGroup *stream_group(StreamInfo *info, const char *name, bool missing_ok);
extern int	stream_groups(StreamInfo *info, StreamGroup **groups);
extern int	stream_copy_groups(StreamInfo *info, StreamGroup **groups);
extern bool stream_group_has_members(int32 group_id);
extern void stream_check_group_name(const char *name);
extern StreamOutOfRange stream_parse_out_of_range(const char *text);
extern const char *stream_out_of_range_name(StreamOutOfRange value);

extern int32 stream_insert_group(int32 stream_id, const char *name, const char *out_of_range,
								 int32 max_poll_interval);
extern void stream_set_group_paused(int32 group_id, bool paused);
extern void stream_set_group_out_of_range(int32 group_id, const char *out_of_range);
extern void stream_set_group_max_poll_interval(int32 group_id, int32 max_poll_interval);
extern void stream_delete_offsets(int32 group_id);
extern void stream_delete_group(int32 group_id);
extern void stream_delete_groups(StreamInfo *info);

#endif							/* STREAM_GROUPS_H */
