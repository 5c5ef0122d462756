/*-------------------------------------------------------------------------
 *
 * supervise.c
 *		Starting workers, and starting them again when they end.
 *
 * The launcher supervises the managers, each manager its appliers.  The policy
 * is here, in one place: a worker that failed is tried again after a delay that
 * doubles with each failure in a row; one that was told to stop, or asks for a
 * fresh process, at once; one that lived for a while starts with the shortest
 * delay again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "guc.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "worker/worker.h"

/* A process that lived this long, in ms, is no failure in a row. */
#define STREAM_LONG_LIFE		60000

/* A process that the postmaster was asked for and that never came, in ms. */
#define STREAM_START_TIMEOUT	60000

/* of this process's workers, by slot; null: not started by this process */
static BackgroundWorkerHandle **handles = NULL;

/* stream_worker_delay is how long to wait after so many failures in a row, in ms. */
long
stream_worker_delay(int failures)
{
	int64		delay = (int64) stream_min_worker_delay << Min(Max(failures, 1) - 1, 30);

	return (long) Max(Min(delay, stream_max_worker_delay), stream_min_worker_delay);
}

/* failed counts a failure; lived_ms is how long the process was there. */
static void
failed(StreamWorker *worker, TimestampTz now, long lived_ms)
{
	if (lived_ms > Max(STREAM_LONG_LIFE, 2 * stream_worker_delay(worker->failures)))
		worker->failures = 0;
	worker->failures++;
	worker->state = STREAM_WORKER_WANTED;
	worker->retry_at = TimestampTzPlusMilliseconds(now, stream_worker_delay(worker->failures));
}

/*
 * stream_supervise sees to it that a worker runs.  It returns when to look again
 * unless woken before; DT_NOEND: never.
 */
TimestampTz
stream_supervise(StreamWorker *worker)
{
	TimestampTz now = GetCurrentTimestamp();
	int			number = worker - stream_workers->worker;
	BackgroundWorkerHandle *handle;
	TimestampTz result = DT_NOEND;
	bool		start = false;
	pid_t		pid;

	if (handles == NULL)
		handles = MemoryContextAllocZero(TopMemoryContext,
										 stream_workers->nworkers * sizeof(BackgroundWorkerHandle *));
	handle = handles[number];

	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	if (worker->state == STREAM_WORKER_STARTING)
	{
		bool		lost = handle != NULL ? GetBackgroundWorkerPid(handle, &pid) == BGWH_STOPPED :
			TimestampDifferenceExceeds(worker->retry_at, now, STREAM_START_TIMEOUT);

		if (lost)
		{
			strlcpy(worker->error, "the process could not be started", STREAM_WORKER_ERROR_LEN);
			worker->error_at = now;
			failed(worker, now, 0);
		}
		else
			result = TimestampTzPlusMilliseconds(now, 1000);
	}
	else if (worker->state == STREAM_WORKER_ENDED)
	{
		if (worker->outcome == STREAM_OUTCOME_FAILED)
			failed(worker, now, TimestampDifferenceMilliseconds(worker->started_at, now));
		else
		{
			worker->state = STREAM_WORKER_WANTED;
			worker->retry_at = now;
		}
	}
	if (worker->state == STREAM_WORKER_WANTED || worker->state == STREAM_WORKER_NO_SLOT)
	{
		if (stream_workers_held(worker->database))
			start = false;		/* the end of the command wakes us */
		else if (worker->retry_at <= now)
			start = true;
		else
			result = worker->retry_at;
	}
	LWLockRelease(&stream_workers->lock);

	if (start)
	{
		if (handle != NULL)
			pfree(handle);
		handles[number] = NULL;
		(void) stream_launch_worker(worker, true, &handles[number]);
		LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
		if (worker->state == STREAM_WORKER_NO_SLOT)
			worker->retry_at = TimestampTzPlusMilliseconds(now, stream_min_worker_delay);
		LWLockRelease(&stream_workers->lock);
		result = TimestampTzPlusMilliseconds(now, stream_min_worker_delay);
	}
	return result;
}

/* stream_stop_workers tells the workers of a type in a database to end; NONE: of any type. */
void
stream_stop_workers(Oid database, StreamWorkerType type)
{
	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	for (int i = 1; i < stream_workers->nworkers; i++)
	{
		StreamWorker *worker = &stream_workers->worker[i];

		if (worker->type != STREAM_WORKER_NONE && worker->database == database &&
			(type == STREAM_WORKER_NONE || worker->type == type) && !worker->stop &&
			(worker->pid != 0 || worker->state == STREAM_WORKER_STARTING))
			stream_stop_worker(worker);
	}
	LWLockRelease(&stream_workers->lock);
}

/*
 * stream_free_workers gives back the slots of workers that do not run; false: some
 * still do.
 */
bool
stream_free_workers(Oid database, StreamWorkerType type)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		all = true;

	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	for (int i = 1; i < stream_workers->nworkers; i++)
	{
		StreamWorker *worker = &stream_workers->worker[i];

		if (worker->type == STREAM_WORKER_NONE || worker->database != database ||
			(type != STREAM_WORKER_NONE && worker->type != type))
			continue;
		if (worker->pid != 0 ||
			(worker->state == STREAM_WORKER_STARTING &&
			 !TimestampDifferenceExceeds(worker->retry_at, now, STREAM_START_TIMEOUT)))
			all = false;
		else
			worker->type = STREAM_WORKER_NONE;
	}
	LWLockRelease(&stream_workers->lock);
	return all;
}
