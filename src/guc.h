/*-------------------------------------------------------------------------
 *
 * guc.h
 *		The extension's settings, all named stream.*.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_GUC_H
#define STREAM_GUC_H

/* Read at server start; they size shared memory. */
extern int	stream_max_databases;	/* databases that can have a manager */
extern int	stream_max_group_partitions;	/* meters */
extern int	stream_max_members;	/* members and groups of members that are heard of */
extern int	stream_max_partitions;	/* partitions that have state */
extern int	stream_max_projection_partitions;	/* pairs of projection and partition */
extern int	stream_max_publishers;	/* pairs of open transaction and partition */

extern bool stream_auto_create_groups;
extern int	stream_apply_timeout;	/* ms, 0 = none */
extern int	stream_batch_records;	/* of a projection, at most */
extern int	stream_max_retry_delay; /* ms */
extern int	stream_min_retry_delay; /* ms, doubled by each failure */
extern int	stream_max_wait;		/* ms, longest wait of a wait_for_* call */
extern int	stream_offset_retention;	/* s, 0 = for ever */
extern int	stream_publish_timeout; /* ms, 0 = none */

extern bool stream_background_workers;
extern int	stream_max_appliers;	/* processes a database, 0 = none */
extern int	stream_max_worker_delay;	/* ms */
extern int	stream_min_worker_delay;	/* ms */

extern void stream_define_settings(void);

#endif							/* STREAM_GUC_H */
