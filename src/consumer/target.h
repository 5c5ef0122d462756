/*-------------------------------------------------------------------------
 *
 * target.h
 *		Where a consumer group's offsets are to be set.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_TARGET_H
#define STREAM_TARGET_H

#include "consumer/offsets.h"
#include "datatype/timestamp.h"

/* The ways of Kafka's kafka-consumer-groups --reset-offsets. */
typedef enum StreamTargetKind
{
	STREAM_TARGET_EARLIEST,		/* the log start */
	STREAM_TARGET_LATEST,		/* the high watermark */
	STREAM_TARGET_CURRENT,		/* the committed offset */
	STREAM_TARGET_OFFSET,		/* a number */
	STREAM_TARGET_SHIFT,		/* so many behind (or, negative, before) the committed one */
	STREAM_TARGET_TIME			/* the first record at or after a time */
} StreamTargetKind;

typedef struct StreamOffsetTarget
{
	StreamTargetKind kind;
	int64		number;			/* of OFFSET and SHIFT */
	TimestampTz time;
} StreamOffsetTarget;

extern void stream_parse_target(const char *text, StreamOffsetTarget *target);
extern void stream_parse_start(const char *text, const char *what, StreamOffsetTarget *target);
extern void stream_start_offsets(Oid table, int32 group_id, const StreamOffsetTarget *target);
extern int64 stream_resolve_target(Oid table, int32 partition, const StreamOffsetTarget *target,
								   const StreamOffset *current, const char **note);

#endif							/* STREAM_TARGET_H */
