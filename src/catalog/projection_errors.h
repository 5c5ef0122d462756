/*-------------------------------------------------------------------------
 *
 * projection_errors.h
 *		The table stream_internal.projection_errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_PROJECTION_ERRORS_H
#define STREAM_PROJECTION_ERRORS_H

#include "datatype/timestamp.h"

/* Why a projection does not get on in a partition. */
typedef struct StreamProjectionError
{
	int32		projection_id;
	int32		partition;
	int64		record_offset;	/* of the failing record, or the first of the batch */
	bool		stopped;		/* by that record; else by circumstances */
	char	   *sqlstate;
	char	   *message;
	char	   *detail;			/* or null */
	char	   *hint;			/* or null */
	TimestampTz failing_since;
	TimestampTz failed_at;		/* the last time */
	TimestampTz next_retry_at;
	int32		retries;		/* since then, all in vain */
} StreamProjectionError;

extern StreamProjectionError *stream_projection_error(int32 projection_id, int32 partition);
extern void stream_put_projection_error(const StreamProjectionError *error);
extern void stream_delete_projection_error(int32 projection_id, int32 partition);
extern void stream_delete_projection_errors(int32 projection_id);

#endif							/* STREAM_PROJECTION_ERRORS_H */
