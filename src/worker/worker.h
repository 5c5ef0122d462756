/*-------------------------------------------------------------------------
 *
 * worker.h
 *		What the background workers have in common.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_WORKER_H
#define STREAM_WORKER_H

#include "compat.h"
#include "workers.h"

/* for _PG_init */
extern void stream_launcher_register(void);
extern void stream_worker_hooks_init(void);

/* worker.c: the life of a process */
extern StreamWorker *stream_worker_slot(Datum arg, uint32 *generation);
extern void stream_worker_attach(StreamWorker *worker, uint32 generation);
extern void stream_worker_connect(void);
extern void stream_worker_check_stop(void);
extern bool stream_worker_try(void (*turn) (void));
extern void stream_worker_sleep(long timeout_ms);
extern void stream_worker_wait_after_error(int failures);
stream_noreturn extern void stream_worker_finish(StreamWorkerOutcome outcome);

/* supervise.c: workers that this process starts again when they end */
extern long stream_worker_delay(int failures);
extern TimestampTz stream_supervise(StreamWorker *worker);
extern void stream_stop_workers(Oid database, StreamWorkerType type);
extern bool stream_free_workers(Oid database, StreamWorkerType type);

#endif							/* STREAM_WORKER_H */
