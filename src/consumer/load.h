/*-------------------------------------------------------------------------
 *
 * load.h
 *		How much work a consumer group or projection has, and how much it can do.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_LOAD_H
#define STREAM_LOAD_H

#include "datatype/timestamp.h"

/* Over all partitions. */
typedef struct StreamLoad
{
	int64		lag;			/* records */
	TimestampTz oldest_unread;	/* when the oldest of them was published; 0: none */
	TimestampTz committed_at;	/* the last commit */
	double		worker_rate;	/* records a second that one worker processes; 0: not
								 * measured yet */
	TimestampTz measured_at;	/* when that was; 0: not yet */
} StreamLoad;

extern void stream_measure_load(Oid table, int32 group_id, StreamLoad *load);
extern bool stream_arrival_rate(Oid table, int32 which, double *rate);

#endif							/* STREAM_LOAD_H */
