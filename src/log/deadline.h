/*-------------------------------------------------------------------------
 *
 * deadline.h
 *		The end of transactions that hold something up for too long.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_DEADLINE_H
#define STREAM_DEADLINE_H

#include "datatype/timestamp.h"

typedef enum StreamDeadline
{
	STREAM_DEADLINE_PUBLISH,	/* holds back a high watermark */
	STREAM_DEADLINE_POLL		/* holds a group's partition */
} StreamDeadline;

extern TimestampTz stream_start_deadline(StreamDeadline deadline, int ms);
extern void stream_resume_deadline(StreamDeadline deadline);
extern void stream_change_deadline(StreamDeadline deadline, TimestampTz until);
extern void stream_stop_deadline(StreamDeadline deadline);

#endif							/* STREAM_DEADLINE_H */
