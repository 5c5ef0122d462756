/*-------------------------------------------------------------------------
 *
 * workers.h
 *		What shared memory knows of the background workers.
 *
 * The code of the workers is in worker/; here is what other parts need: to wake
 * them, to send them out of a database, to start one.
 *
 * A slot stands for a worker that runs or is wanted.  See worker/README.md for
 * the states and who moves them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_WORKERS_H
#define STREAM_WORKERS_H

#include "datatype/timestamp.h"
#include "postmaster/bgworker.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"

#define STREAM_WORKER_ACTIVITY_LEN	160
#define STREAM_WORKER_ERROR_LEN		400

/* Databases that the launcher can be told of before it has looked. */
#define STREAM_MAX_CHECKS			32

typedef enum StreamWorkerType
{
	STREAM_WORKER_NONE,			/* the slot is free */
	STREAM_WORKER_LAUNCHER,		/* slot 0, always */
	STREAM_WORKER_MANAGER,		/* one a database */
	STREAM_WORKER_ROLLER,		/* a manager that does its work once, and leaves */
	STREAM_WORKER_APPLIER
} StreamWorkerType;

typedef enum StreamWorkerState
{
	STREAM_WORKER_ENDED,		/* does not run; outcome says why */
	STREAM_WORKER_WANTED,		/* does not run; started at retry_at */
	STREAM_WORKER_NO_SLOT,		/* the same: PostgreSQL had no worker slot */
	STREAM_WORKER_STARTING,		/* asked of the postmaster; pid is not set yet */
	STREAM_WORKER_BUSY,			/* runs; activity says what it does */
	STREAM_WORKER_IDLE,			/* runs, has nothing to do */
	STREAM_WORKER_DELAYED		/* runs, and waits after an error */
} StreamWorkerState;

/* Why a worker has ended. */
typedef enum StreamWorkerOutcome
{
	STREAM_OUTCOME_FAILED,		/* by an error or a signal: start it again, later */
	STREAM_OUTCOME_STOPPED,		/* was told to stop */
	STREAM_OUTCOME_AGAIN,		/* wants a fresh process at once */
	STREAM_OUTCOME_DONE			/* is not wanted any more: no extension, no work */
} StreamWorkerOutcome;

typedef struct StreamWorker
{
	StreamWorkerType type;
	StreamWorkerState state;
	StreamWorkerOutcome outcome;	/* when ENDED */
	bool		stop;			/* told to end */
	bool		confirmed;		/* manager: has found the extension */
	uint32		generation;		/* of the start; a late process of an earlier one ends */
	Oid			database;		/* invalid: the launcher */
	int32		pid;			/* 0: no process */
	int32		proc_number;	/* of the process, while pid is set */
	int32		starts;			/* processes so far */
	int32		failures;		/* in a row; the delay grows with them */
	TimestampTz started_at;		/* of the last process; 0: none yet */
	TimestampTz retry_at;		/* when WANTED or NO_SLOT */
	TimestampTz error_at;		/* 0: no error yet */
	char		activity[STREAM_WORKER_ACTIVITY_LEN];
	char		error[STREAM_WORKER_ERROR_LEN]; /* the last one; kept when it goes well again */
} StreamWorker;

/*
 * lock protects everything.  It is taken after heavyweight locks; no other
 * LWLock is taken under it but those of SetLatch and condition variables.
 */
typedef struct StreamWorkers
{
	LWLock		lock;
	ConditionVariable ended;	/* broadcast when a process has left its database */
	int32		nchecks;		/* databases in checks; more than fit: all */
	Oid			checks[STREAM_MAX_CHECKS];	/* where an extension was created, altered or dropped */
	int32		nworkers;		/* constant */
	StreamWorker worker[FLEXIBLE_ARRAY_MEMBER];
} StreamWorkers;

extern StreamWorkers *stream_workers;

/* for shmem.c and xact.c */
extern Size stream_workers_size(void);
extern void stream_workers_shmem_startup(int tranche);
extern void stream_workers_end(void);
extern bool stream_check_is_pending(void);

/* This process's slot, or null when it is no background worker of ours. */
extern StreamWorker *stream_my_worker;
extern void stream_worker_report(StreamWorkerState state, const char *format,...) pg_attribute_printf(2, 3);

/* for everybody: at the end of the transaction, or at once outside of one */
extern void stream_wake_workers(void);
extern void stream_check_workers(void);
extern void stream_wake_launcher(void);

/* at once */
extern void stream_wake_manager(bool start_roller);

extern void stream_hold_workers(Oid database);
extern bool stream_workers_held(Oid database);	/* the caller holds the lock */
extern int	stream_count_managers(void);

/* callers of these hold the lock */
extern StreamWorker *stream_find_worker(StreamWorkerType type, Oid database);
extern StreamWorker *stream_new_worker(StreamWorkerType type, Oid database);
extern void stream_stop_worker(StreamWorker *worker);
extern void stream_worker_set_latch(const StreamWorker *worker);
extern void stream_notify_supervisors(Oid database);

extern bool stream_launch_worker(StreamWorker *worker, bool notify, BackgroundWorkerHandle **handle);
extern const char *stream_worker_type_name(StreamWorkerType type);

#endif							/* STREAM_WORKERS_H */
