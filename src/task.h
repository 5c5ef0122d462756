/*-------------------------------------------------------------------------
 *
 * task.h
 *		What the processes share of a projection's partitions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_TASK_H
#define STREAM_TASK_H

#include "shmem.h"

extern uint32 stream_task_removals(void);
extern StreamTask *stream_task_enter(Oid table, int32 projection_id, int32 partition);
extern bool stream_task_claim(StreamTask **tasks, int32 ntasks, int32 partition, int32 workers,
							  uint32 removals, StreamTask *state);
extern void stream_task_release(const StreamTask *state);
extern bool stream_task_let_go(void);
extern bool stream_task_get(int32 projection_id, int32 partition, StreamTask *state);
extern void stream_tasks_reset(int32 projection_id, int32 partition);
extern void stream_tasks_keep(const int32 *projection_ids, int n);
extern void stream_remove_tasks(Oid database, Oid table, int32 projection_id);

#endif							/* STREAM_TASK_H */
