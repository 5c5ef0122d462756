/*-------------------------------------------------------------------------
 *
 * manager.c
 *		The manager of a database: keeps up the logs, and has appliers run.
 *
 * A turn begins with the lock on the extension, which DROP EXTENSION takes first
 * as well, so that the two cannot deadlock.  The manager does not wait for it: it
 * is woken when that command's transaction has ended.
 *
 * A roller is a manager that keeps up the logs until nothing is left to do, a minute
 * at most, and ends; a publisher starts it when no manager runs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/projections.h"
#include "catalog/tables.h"
#include "commands/extension.h"
#include "consumer/expire.h"
#include "guc.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "worker/upkeep.h"
#include "worker/worker.h"

/* Longest time between two turns, in ms. */
#define STREAM_MANAGER_NAP		10000

/* A roller ends after this time, in ms, whatever is left. */
#define STREAM_ROLLER_LIFE		60000

PGDLLEXPORT void stream_manager_main(Datum arg);

static Oid	known_extension = InvalidOid;
static TimestampTz next_turn;
static bool went_well;			/* no part of the turn has failed */

/* leave ends this manager, and the appliers, which find nothing to do either. */
static void
leave(StreamWorkerOutcome outcome)
{
	stream_stop_workers(MyDatabaseId, STREAM_WORKER_APPLIER);
	stream_worker_finish(outcome);
}

/* confirm tells the launcher that the extension is there. */
static void
confirm(void)
{
	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	if (!stream_my_worker->confirmed)
	{
		stream_my_worker->confirmed = true;
		stream_worker_set_latch(&stream_workers->worker[0]);
	}
	LWLockRelease(&stream_workers->lock);
}

/* supervise_appliers sees to it that so many run. */
static void
supervise_appliers(int wanted)
{
	int			n = 0;

	if (wanted == 0)
		stream_stop_workers(MyDatabaseId, STREAM_WORKER_APPLIER);
	for (int i = 0; i < stream_workers->nworkers; i++)
	{
		StreamWorker *worker = &stream_workers->worker[i];
		TimestampTz next;

		if (worker->type != STREAM_WORKER_APPLIER || worker->database != MyDatabaseId)
			continue;
		if (n++ >= wanted)
		{
			LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
			if (worker->pid != 0 || worker->state == STREAM_WORKER_STARTING)
			{
				if (!worker->stop)
					stream_stop_worker(worker);
			}
			else
				worker->type = STREAM_WORKER_NONE;
			LWLockRelease(&stream_workers->lock);
			continue;
		}
		next = stream_supervise(worker);
		next_turn = Min(next_turn, next);
	}
	for (; n < wanted; n++)
	{
		StreamWorker *worker;
		TimestampTz next;

		LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
		worker = stream_new_worker(STREAM_WORKER_APPLIER, MyDatabaseId);
		LWLockRelease(&stream_workers->lock);
		if (worker == NULL)
			break;
		next = stream_supervise(worker);
		next_turn = Min(next_turn, next);
	}
}

/* expire_groups drops consumer groups that nobody uses any more. */
static void
expire_groups(void)
{
	if (!stream_expiry_is_due())
		return;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (stream_try_lock_extension())
		(void) stream_expire_groups();
	PopActiveSnapshot();
	CommitTransactionCommand();
}

static void
manager_turn(void)
{
	Oid			extension;
	bool		locked;
	int			appliers = 0;
	bool		done;

	went_well = true;
	next_turn = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), STREAM_MANAGER_NAP);
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	extension = get_extension_oid(STREAM_EXTENSION, true);
	locked = stream_try_lock_extension();
	if (locked && (!OidIsValid(known_extension) || known_extension == extension))
	{
		known_extension = extension;
		confirm();
		/* fails when the versions do not fit */
		(void) stream_extension_owner();
		if (stream_any_projection())
			appliers = stream_max_appliers;
	}
	PopActiveSnapshot();
	CommitTransactionCommand();

	if (!OidIsValid(extension))
		leave(STREAM_OUTCOME_DONE);
	if (OidIsValid(known_extension) && known_extension != extension)
		leave(STREAM_OUTCOME_AGAIN);
	if (!locked)
	{
		stream_worker_report(STREAM_WORKER_IDLE, "waiting for a command on the extension");
		return;
	}
	if (stream_my_worker->type == STREAM_WORKER_ROLLER)
	{
		went_well = stream_keep_logs(&done, &next_turn);
		if (done ||
			TimestampDifferenceExceeds(stream_my_worker->started_at, GetCurrentTimestamp(), STREAM_ROLLER_LIFE))
			stream_worker_finish(STREAM_OUTCOME_DONE);
		return;
	}
	supervise_appliers(appliers);
	expire_groups();
	went_well = stream_keep_logs(&done, &next_turn);
	stream_worker_report(STREAM_WORKER_IDLE, "%s", "");
}

void
stream_manager_main(Datum arg)
{
	uint32		generation;
	StreamWorker *worker = stream_worker_slot(arg, &generation);
	int			failures = 0;

	stream_worker_attach(worker, generation);
	stream_worker_connect();
	for (;;)
	{
		stream_worker_check_stop();
		if (stream_worker_try(manager_turn) && went_well)
		{
			failures = 0;
			stream_worker_sleep(TimestampDifferenceMilliseconds(GetCurrentTimestamp(), next_turn));
		}
		else if (stream_my_worker->type == STREAM_WORKER_ROLLER)
			stream_worker_finish(STREAM_OUTCOME_FAILED);
		else
			stream_worker_wait_after_error(++failures);
	}
}
