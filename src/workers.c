/*-------------------------------------------------------------------------
 *
 * workers.c
 *		What shared memory knows of the background workers.
 *
 * A command that needs a database for itself alone holds its workers: they are
 * told to end, and none starts until the command's transaction has ended.  Each
 * process can hold one database, or all of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "compat.h"
#include "guc.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "shmem.h"
#include "storage/latch.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "workers.h"

/* What a process holds when it holds more than one database. */
#define STREAM_ALL_DATABASES	((Oid) PG_UINT32_MAX)

/* A session starts no other roller sooner, in ms; one that has not come by then is lost. */
#define STREAM_ROLLER_INTERVAL	1000
#define STREAM_ROLLER_TIMEOUT	60000

/* How long a command waits for workers to leave a database, in ms. */
#define STREAM_HOLD_TIMEOUT		10000

StreamWorkers *stream_workers = NULL;
StreamWorker *stream_my_worker = NULL;
static Oid *holds = NULL;		/* one a process; protected by stream_workers->lock */

/* What the end of this transaction is to do. */
static bool wake_database = false;
static bool check_database = false;
static bool wake_launcher = false;
static bool holding = false;

/* Managers, and for each process that PostgreSQL may run, one that is wanted and one that runs. */
static int
max_workers(void)
{
	return 1 + stream_max_databases + 2 * max_worker_processes;
}

Size
stream_workers_size(void)
{
	Size		size = offsetof(StreamWorkers, worker);

	size = add_size(size, mul_size(max_workers(), sizeof(StreamWorker)));
	return add_size(MAXALIGN(size), mul_size(STREAM_MAX_PROCS, sizeof(Oid)));
}

/* stream_workers_shmem_startup runs under AddinShmemInitLock. */
void
stream_workers_shmem_startup(int tranche)
{
	bool		found;

	stream_workers = ShmemInitStruct("stream workers", stream_workers_size(), &found);
	holds = (Oid *) ((char *) stream_workers +
					 MAXALIGN(offsetof(StreamWorkers, worker) + max_workers() * sizeof(StreamWorker)));
	if (found)
		return;
	memset(stream_workers, 0, stream_workers_size());
	LWLockInitialize(&stream_workers->lock, tranche);
	ConditionVariableInit(&stream_workers->ended);
	stream_workers->nworkers = max_workers();
	stream_workers->worker[0].type = STREAM_WORKER_LAUNCHER;
}

const char *
stream_worker_type_name(StreamWorkerType type)
{
	switch (type)
	{
		case STREAM_WORKER_LAUNCHER:
			return "stream launcher";
		case STREAM_WORKER_MANAGER:
			return "stream manager";
		case STREAM_WORKER_ROLLER:
			return "stream roller";
		case STREAM_WORKER_APPLIER:
			return "stream applier";
		default:
			return "";
	}
}

void
stream_worker_set_latch(const StreamWorker *worker)
{
	if (worker->pid != 0)
		SetLatch(&ProcGlobal->allProcs[worker->proc_number].procLatch);
}

/* stream_find_worker returns the first worker of a type in a database, or null. */
StreamWorker *
stream_find_worker(StreamWorkerType type, Oid database)
{
	for (int i = 0; i < stream_workers->nworkers; i++)
		if (stream_workers->worker[i].type == type && stream_workers->worker[i].database == database)
			return &stream_workers->worker[i];
	return NULL;
}

/*
 * stream_new_worker takes a free slot, or returns null.  Managers have as many as
 * there can be databases; the others share the rest.
 */
StreamWorker *
stream_new_worker(StreamWorkerType type, Oid database)
{
	int			first = type == STREAM_WORKER_MANAGER ? 1 : 1 + stream_max_databases;
	int			end = type == STREAM_WORKER_MANAGER ? 1 + stream_max_databases : stream_workers->nworkers;

	for (int i = first; i < end; i++)
	{
		StreamWorker *worker = &stream_workers->worker[i];
		uint32		generation = worker->generation;

		if (worker->type != STREAM_WORKER_NONE)
			continue;
		memset(worker, 0, sizeof(StreamWorker));
		worker->generation = generation;
		worker->type = type;
		worker->state = STREAM_WORKER_WANTED;
		worker->database = database;
		return worker;
	}
	return NULL;
}

/* stream_count_managers counts the databases that have or want a manager. */
int
stream_count_managers(void)
{
	int			n = 0;

	LWLockAcquire(&stream_workers->lock, LW_SHARED);
	for (int i = 0; i < stream_workers->nworkers; i++)
		if (stream_workers->worker[i].type == STREAM_WORKER_MANAGER)
			n++;
	LWLockRelease(&stream_workers->lock);
	return n;
}

/* stream_stop_worker tells a worker to end; it does not wait. */
void
stream_stop_worker(StreamWorker *worker)
{
	worker->stop = true;
	if (worker->pid != 0)
		(void) kill(worker->pid, SIGTERM);
}

/* stream_notify_supervisors wakes those who start and restart a database's workers. */
void
stream_notify_supervisors(Oid database)
{
	StreamWorker *manager = stream_find_worker(STREAM_WORKER_MANAGER, database);

	stream_worker_set_latch(&stream_workers->worker[0]);
	if (manager != NULL)
		stream_worker_set_latch(manager);
}

/*
 * stream_launch_worker asks the postmaster for a process for a slot whose state
 * is WANTED or NO_SLOT.  The caller does not hold the lock.  False: there is no
 * worker slot free.
 */
bool
stream_launch_worker(StreamWorker *worker, bool notify, BackgroundWorkerHandle **handle)
{
	BackgroundWorker process;
	MemoryContext save;
	bool		started;

	memset(&process, 0, sizeof(process));
	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	worker->generation++;
	worker->state = STREAM_WORKER_STARTING;
	worker->stop = false;
	worker->retry_at = GetCurrentTimestamp();
	worker->activity[0] = '\0';
	memcpy(process.bgw_extra, &worker->generation, sizeof(worker->generation));
	LWLockRelease(&stream_workers->lock);

	process.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	process.bgw_start_time = BgWorkerStart_RecoveryFinished;
	/* whoever supervises it starts it again */
	process.bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(process.bgw_library_name, BGW_MAXLEN, "stream");
	snprintf(process.bgw_function_name, BGW_MAXLEN, "%s",
			 worker->type == STREAM_WORKER_APPLIER ? "stream_applier_main" : "stream_manager_main");
	snprintf(process.bgw_type, BGW_MAXLEN, "%s", stream_worker_type_name(worker->type));
	snprintf(process.bgw_name, BGW_MAXLEN, "%s of database %u",
			 stream_worker_type_name(worker->type), worker->database);
	process.bgw_main_arg = Int32GetDatum((int32) (worker - stream_workers->worker));
	process.bgw_notify_pid = notify ? MyProcPid : 0;

	save = MemoryContextSwitchTo(TopMemoryContext);
	started = RegisterDynamicBackgroundWorker(&process, handle);
	MemoryContextSwitchTo(save);
	if (!started)
	{
		LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
		worker->state = STREAM_WORKER_NO_SLOT;
		LWLockRelease(&stream_workers->lock);
	}
	return started;
}

/*
 * stream_wake_workers wakes the manager and the appliers of this database: what
 * they work from has changed.
 */
void
stream_wake_workers(void)
{
	wake_database = true;
	if (!IsTransactionState())
		stream_workers_end();
}

/*
 * stream_wake_manager wakes this database's manager, for a segment is to be rolled.
 * When none runs, it starts a worker for it if asked to; that no worker slot is
 * free is nothing to fail for.
 */
void
stream_wake_manager(bool start_roller)
{
	static TimestampTz last_start = 0;
	TimestampTz now = GetCurrentTimestamp();
	StreamWorker *manager;
	StreamWorker *roller = NULL;
	BackgroundWorkerHandle *handle;

	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	manager = stream_find_worker(STREAM_WORKER_MANAGER, MyDatabaseId);
	if (manager != NULL && manager->pid != 0)
		stream_worker_set_latch(manager);
	else if (start_roller && TimestampDifferenceExceeds(last_start, now, STREAM_ROLLER_INTERVAL) &&
			 !stream_workers_held(MyDatabaseId))
	{
		roller = stream_find_worker(STREAM_WORKER_ROLLER, MyDatabaseId);
		if (roller == NULL)
			roller = stream_new_worker(STREAM_WORKER_ROLLER, MyDatabaseId);
		else if (roller->pid != 0 || (roller->state == STREAM_WORKER_STARTING &&
									  !TimestampDifferenceExceeds(roller->retry_at, now, STREAM_ROLLER_TIMEOUT)))
			roller = NULL;
	}
	if (roller != NULL)
	{
		/* nobody else shall start it */
		roller->state = STREAM_WORKER_STARTING;
		roller->retry_at = now;
	}
	LWLockRelease(&stream_workers->lock);
	if (roller == NULL)
		return;
	last_start = now;
	if (stream_launch_worker(roller, false, &handle))
		pfree(handle);
	else
	{
		LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
		roller->type = STREAM_WORKER_NONE;
		LWLockRelease(&stream_workers->lock);
	}
}

/* stream_check_workers has the launcher look whether this database has the extension. */
void
stream_check_workers(void)
{
	check_database = true;
	if (!IsTransactionState())
		stream_workers_end();
}

/* stream_check_is_pending says whether this transaction has changed the extension. */
bool
stream_check_is_pending(void)
{
	return check_database;
}

/* stream_wake_launcher has it look at the list of databases. */
void
stream_wake_launcher(void)
{
	wake_launcher = true;
	if (!IsTransactionState())
		stream_workers_end();
}

/*
 * stream_workers_end runs when a transaction has ended, however: a command that
 * was rolled back may have kept a worker waiting.  It does not throw.
 */
void
stream_workers_end(void)
{
	if (likely(!wake_database && !check_database && !wake_launcher && !holding))
		return;
	if (check_database || wake_database)
		pg_atomic_fetch_add_u64(&stream_control->projection_changes, 1);
	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	if (check_database)
	{
		if (stream_workers->nchecks < STREAM_MAX_CHECKS)
			stream_workers->checks[stream_workers->nchecks] = MyDatabaseId;
		stream_workers->nchecks = Min(stream_workers->nchecks + 1, STREAM_MAX_CHECKS + 1);
	}
	if (holding)
		holds[STREAM_MY_PROC_NUMBER] = InvalidOid;
	for (int i = 0; i < stream_workers->nworkers; i++)
	{
		StreamWorker *worker = &stream_workers->worker[i];

		if (worker->type == STREAM_WORKER_LAUNCHER ? (check_database || wake_launcher || holding) :
			worker->database == MyDatabaseId && (check_database || wake_database))
			stream_worker_set_latch(worker);
	}
	LWLockRelease(&stream_workers->lock);
	wake_database = check_database = wake_launcher = holding = false;
}

/* stream_workers_held says whether a command needs the database for itself. */
bool
stream_workers_held(Oid database)
{
	for (int i = 0; i < STREAM_MAX_PROCS; i++)
		if (holds[i] == database || holds[i] == STREAM_ALL_DATABASES)
			return true;
	return false;
}

/* stop_all tells all workers of a database to end; false: none runs. */
static bool
stop_all(Oid database)
{
	bool		running = false;

	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	for (int i = 0; i < stream_workers->nworkers; i++)
	{
		StreamWorker *worker = &stream_workers->worker[i];

		if (worker->database != database || (worker->pid == 0 && worker->state != STREAM_WORKER_STARTING))
			continue;
		if (!worker->stop)
			stream_stop_worker(worker);
		/* one that is starting ends before it connects */
		running = running || worker->pid != 0;
	}
	LWLockRelease(&stream_workers->lock);
	return running;
}

/*
 * stream_hold_workers sends the workers out of a database, waits until they have
 * left, and keeps them out to the end of the transaction.
 */
void
stream_hold_workers(Oid database)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), STREAM_HOLD_TIMEOUT);

	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	if (!OidIsValid(holds[STREAM_MY_PROC_NUMBER]))
		holds[STREAM_MY_PROC_NUMBER] = database;
	else if (holds[STREAM_MY_PROC_NUMBER] != database)
		holds[STREAM_MY_PROC_NUMBER] = STREAM_ALL_DATABASES;
	LWLockRelease(&stream_workers->lock);
	holding = true;

	ConditionVariablePrepareToSleep(&stream_workers->ended);
	while (stop_all(database))
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		/* then the command itself says that the database is in use */
		if (left <= 0)
			break;
		(void) ConditionVariableTimedSleep(&stream_workers->ended, left, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

/*
 * stream_worker_report says what this process does, in worker_status and
 * pg_stat_activity.  In other processes it does nothing.
 */
void
stream_worker_report(StreamWorkerState state, const char *format,...)
{
	char		text[STREAM_WORKER_ACTIVITY_LEN];
	va_list		args;

	if (stream_my_worker == NULL)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	stream_my_worker->state = state;
	memcpy(stream_my_worker->activity, text, sizeof(text));
	LWLockRelease(&stream_workers->lock);
	pgstat_report_activity(state == STREAM_WORKER_BUSY ? STATE_RUNNING : STATE_IDLE, text);
}
