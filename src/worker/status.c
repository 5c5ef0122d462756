/*-------------------------------------------------------------------------
 *
 * status.c
 *		The function behind the view worker_status.
 *
 * It shows the workers of the current database, and all of them to a member of
 * pg_monitor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "catalog/tables.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guc.h"
#include "miscadmin.h"
#include "shmem.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "worker/worker.h"

#define Natts_status	10

/* The postmaster has started the launcher by then, in ms, or will not. */
#define STREAM_LAUNCHER_START	5000

PG_FUNCTION_INFO_V1(stream_worker_status);

/* state_of names the state of a worker; activity is what it does, or why it does not run. */
static const char *
state_of(const StreamWorker *worker, bool held, const char **activity)
{
	bool		tried_again = worker->failures > 0;

	*activity = worker->activity[0] != '\0' ? worker->activity : NULL;
	switch (worker->state)
	{
		case STREAM_WORKER_BUSY:
			return "running";
		case STREAM_WORKER_IDLE:
			return "idle";
		case STREAM_WORKER_DELAYED:
			return "backing off";
		case STREAM_WORKER_STARTING:
			return "starting";
		default:
			break;
	}
	/* no process */
	*activity = NULL;
	if (RecoveryInProgress())
		*activity = "the server is in recovery";
	else if (worker->type != STREAM_WORKER_LAUNCHER && !stream_background_workers)
		*activity = "stream.background_workers is off";
	else if (held)
		*activity = "a command needs the database for itself";
	else if (worker->state == STREAM_WORKER_NO_SLOT)
	{
		*activity = "max_worker_processes are in use";
		return "waiting for a worker slot";
	}
	else if (worker->type == STREAM_WORKER_LAUNCHER)
	{
		if (worker->starts > 0)
			return "backing off";
		if (!TimestampDifferenceExceeds(PgStartTime, GetCurrentTimestamp(), STREAM_LAUNCHER_START))
			return "starting";
		/* the postmaster has said so in the log */
		*activity = "max_worker_processes left no slot for it at server start";
	}
	else if (worker->type == STREAM_WORKER_MANAGER && stream_workers->worker[0].pid == 0)
		*activity = "the launcher does not run";
	else if (worker->state == STREAM_WORKER_WANTED)
		return tried_again ? "backing off" : "starting";
	return "stopped";
}

static void
put_worker(ReturnSetInfo *rsinfo, const StreamWorker *worker, bool held)
{
	Datum		values[Natts_status];
	bool		nulls[Natts_status] = {false};
	const char *activity;
	const char *state = state_of(worker, held, &activity);
	const char *database = OidIsValid(worker->database) ? get_database_name(worker->database) : NULL;
	NameData	name;

	values[0] = CStringGetTextDatum(stream_worker_type_name(worker->type));
	nulls[1] = database == NULL;
	if (database != NULL)
		namestrcpy(&name, database);
	values[1] = NameGetDatum(&name);
	nulls[2] = worker->pid == 0;
	values[2] = Int32GetDatum(worker->pid);
	values[3] = CStringGetTextDatum(state);
	nulls[4] = activity == NULL;
	if (activity != NULL)
		values[4] = CStringGetTextDatum(activity);
	nulls[5] = worker->started_at == 0;
	values[5] = TimestampTzGetDatum(worker->started_at);
	nulls[6] = strcmp(state, "backing off") != 0 || worker->retry_at == 0;
	values[6] = TimestampTzGetDatum(worker->retry_at);
	nulls[7] = nulls[8] = worker->error_at == 0;
	if (!nulls[7])
		values[7] = CStringGetTextDatum(worker->error);
	values[8] = TimestampTzGetDatum(worker->error_at);
	values[9] = Int32GetDatum(Max(worker->starts - 1, 0));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
stream_worker_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);
	bool		have_manager = false;
	StreamWorker *copy;
	bool	   *held;
	int			n = 0;

	stream_require_shmem();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	copy = palloc_array(StreamWorker, stream_workers->nworkers + 1);
	held = palloc0_array(bool, stream_workers->nworkers + 1);

	LWLockAcquire(&stream_workers->lock, LW_SHARED);
	for (int i = 0; i < stream_workers->nworkers; i++)
	{
		const StreamWorker *worker = &stream_workers->worker[i];

		if (worker->type == STREAM_WORKER_NONE || (!all && worker->database != MyDatabaseId))
			continue;
		have_manager = have_manager ||
			(worker->type == STREAM_WORKER_MANAGER && worker->database == MyDatabaseId);
		held[n] = OidIsValid(worker->database) && stream_workers_held(worker->database);
		copy[n++] = *worker;
	}
	LWLockRelease(&stream_workers->lock);

	/* this database has the extension, though no launcher has found it */
	if (!have_manager)
	{
		memset(&copy[n], 0, sizeof(StreamWorker));
		copy[n].type = STREAM_WORKER_MANAGER;
		copy[n].state = STREAM_WORKER_WANTED;
		copy[n++].database = MyDatabaseId;
	}
	for (int i = 0; i < n; i++)
		put_worker(rsinfo, &copy[i], held[i]);
	return (Datum) 0;
}
