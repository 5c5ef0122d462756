/*-------------------------------------------------------------------------
 *
 * launcher.c
 *		The launcher: sees to it that each database that has the extension has
 *		a manager.
 *
 * One process of the server, registered when the library is preloaded, connected
 * to no database.  It reads the list of databases and cannot see which of them
 * have the extension, so it has a manager look: that ends at once when there is
 * none, and the database is left alone until something happens there.
 *
 * What happens, and what the launcher does:
 *
 *	Server start, promotion of a standby: every database is unknown; managers
 *		look, one database after the other, so that they leave worker slots to
 *		those that are needed.  On a standby no launcher runs.
 *	CREATE EXTENSION commits: the session tells the launcher the database
 *		(workers.c), which has a manager look.  When it is rolled back, the
 *		manager finds nothing and ends.
 *	DROP EXTENSION commits: the session wakes the manager, which finds no extension,
 *		sends the appliers home and ends.  Rolled back, it finds it again.
 *	DROP and CREATE EXTENSION quickly one after the other, or in one transaction:
 *		the manager sees another OID, and ends to be started afresh.  When it has
 *		ended for want of an extension just before the second one commits, that
 *		commit tells the launcher, after the extension is visible to all.
 *	ALTER EXTENSION UPDATE: as CREATE; a delay after failures ends.
 *	The library and the extension's version do not fit: the manager fails, visibly,
 *		and is tried again with growing delays.
 *	CREATE DATABASE, also from a template with the extension: it is new in the list,
 *		so a manager looks.
 *	DROP DATABASE, RENAME, SET TABLESPACE, CREATE DATABASE … TEMPLATE: the command
 *		holds the workers (hooks.c): they end, and none starts until the
 *		command's transaction has ended, committed or not.  The same with FORCE,
 *		which then finds nobody to end.  A process that has started and not yet
 *		connected finds the hold, or waits for the command's lock on the database
 *		in the connection's set-up, where it does not count as a user of it.
 *	A database that does not allow connections, or is left invalid by a DROP
 *		DATABASE that failed half-way: no manager, and one that runs ends.
 *	A worker ends by an error, or by pg_terminate_backend: it is tried again after a
 *		delay.  So is the launcher, by the postmaster.  Workers whose supervisor
 *		has gone work on, and the next one finds them in their slots.
 *	SIGKILL, or a crash, of a worker: PostgreSQL restarts all processes; shared
 *		memory starts empty, and so do we.
 *	No worker slot free: the worker's state says so, and it is tried again; no
 *		line in the log.
 *	More databases than stream.max_databases: the launcher's activity says so.
 *	stream.background_workers is turned off: all workers but the launcher end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "guc.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "worker/worker.h"

/* How often to read the list of databases when nobody says that it has changed, in ms. */
#define STREAM_LAUNCHER_NAP		60000

/* Seconds after which the postmaster starts a launcher that has ended. */
#define STREAM_LAUNCHER_RESTART	2

PGDLLEXPORT void stream_launcher_main(Datum arg);

typedef enum Presence
{
	PRESENCE_UNKNOWN,			/* nobody has looked yet */
	PRESENCE_NONE,				/* a manager has looked: no extension */
	PRESENCE_FOUND
} Presence;

/* What this process knows of a database. */
typedef struct Database
{
	Oid			oid;			/* hash key */
	Presence	presence;
	bool		check;			/* something has happened there since the last start */
	bool		listed;			/* in the list just read, and connections are allowed */
} Database;

static HTAB *databases = NULL;
static TimestampTz next_turn;

static Database *
database_entry(Oid oid)
{
	bool		found;
	Database   *database = hash_search(databases, &oid, HASH_ENTER, &found);

	if (!found)
	{
		database->presence = PRESENCE_UNKNOWN;
		database->check = false;
		database->listed = false;
	}
	return database;
}

/* take_checks learns where something has happened to an extension. */
static void
take_checks(void)
{
	Oid			checks[STREAM_MAX_CHECKS];
	int			nchecks;
	HASH_SEQ_STATUS status;
	Database   *database;

	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	nchecks = stream_workers->nchecks;
	memcpy(checks, stream_workers->checks, sizeof(checks));
	stream_workers->nchecks = 0;
	LWLockRelease(&stream_workers->lock);

	for (int i = 0; i < Min(nchecks, STREAM_MAX_CHECKS); i++)
		database_entry(checks[i])->check = true;
	if (nchecks <= STREAM_MAX_CHECKS)
		return;
	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
		database->check = true;
}

/* list_databases reads which databases there are that can be connected to. */
static void
list_databases(void)
{
	HASH_SEQ_STATUS status;
	Database   *database;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
		database->listed = false;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database row = (Form_pg_database) GETSTRUCT(tuple);

		if (row->datallowconn && !database_is_invalid_form(row))
			database_entry(row->oid)->listed = true;
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
}

/* leave_unlisted ends and forgets the workers of databases that are not there. */
static void
leave_unlisted(void)
{
	HASH_SEQ_STATUS status;
	Database   *database;

	/* slots of an earlier launcher's databases as well */
	for (int i = 1; i < stream_workers->nworkers; i++)
		if (stream_workers->worker[i].type != STREAM_WORKER_NONE)
			(void) database_entry(stream_workers->worker[i].database);

	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
	{
		if (database->listed)
			continue;
		stream_stop_workers(database->oid, STREAM_WORKER_NONE);
		if (stream_free_workers(database->oid, STREAM_WORKER_NONE))
			(void) hash_search(databases, &database->oid, HASH_REMOVE, NULL);
	}
}

/*
 * note_result reads what a database's manager has found, and gives its slot back
 * when it is not needed.  It returns the slot, or null.
 */
static StreamWorker *
note_result(Database *database)
{
	StreamWorker *worker;

	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	worker = stream_find_worker(STREAM_WORKER_MANAGER, database->oid);
	if (worker != NULL)
	{
		if (worker->confirmed)
			database->presence = PRESENCE_FOUND;
		if (worker->state == STREAM_WORKER_ENDED && worker->outcome == STREAM_OUTCOME_DONE)
		{
			database->presence = PRESENCE_NONE;
			worker->confirmed = false;
			if (!database->check)
			{
				worker->type = STREAM_WORKER_NONE;
				worker = NULL;
			}
		}
		if (worker != NULL && database->check &&
			(worker->state == STREAM_WORKER_WANTED || worker->state == STREAM_WORKER_NO_SLOT))
			worker->retry_at = 0;
	}
	LWLockRelease(&stream_workers->lock);
	return worker;
}

/* look_after starts what has to run, and returns how many databases had to be left out. */
static int
look_after(void)
{
	HASH_SEQ_STATUS status;
	Database   *database;
	bool		looking = false;
	int			left_out = 0;

	hash_seq_init(&status, databases);
	while ((database = hash_seq_search(&status)) != NULL)
	{
		StreamWorker *worker;
		TimestampTz next;

		if (!database->listed)
			continue;
		worker = note_result(database);
		if (worker == NULL)
		{
			if (database->presence == PRESENCE_NONE)
			{
				/* the appliers of an extension that has gone */
				stream_stop_workers(database->oid, STREAM_WORKER_APPLIER);
				(void) stream_free_workers(database->oid, STREAM_WORKER_APPLIER);
				if (!database->check)
					continue;
			}
			/* one look at a time */
			if (looking)
				continue;
			LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
			worker = stream_new_worker(STREAM_WORKER_MANAGER, database->oid);
			LWLockRelease(&stream_workers->lock);
			if (worker == NULL)
			{
				left_out++;
				continue;
			}
		}
		next = stream_supervise(worker);
		next_turn = Min(next_turn, next);

		/*
		 * A process that starts now sees what the check is about.  One that has
		 * been running may have looked already, and be about to end.
		 */
		if (worker->state == STREAM_WORKER_STARTING)
			database->check = false;
		if (database->presence != PRESENCE_FOUND &&
			(worker->state == STREAM_WORKER_STARTING || worker->state == STREAM_WORKER_BUSY) &&
			!TimestampDifferenceExceeds(worker->retry_at, GetCurrentTimestamp(), 1000))
		{
			looking = true;
			next_turn = Min(next_turn, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), 1000));
		}
	}
	return left_out;
}

static void
launcher_turn(void)
{
	int			left_out;

	next_turn = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), STREAM_LAUNCHER_NAP);
	take_checks();
	list_databases();
	leave_unlisted();
	if (!stream_background_workers)
	{
		for (int i = 1; i < stream_workers->nworkers; i++)
			if (stream_workers->worker[i].type == STREAM_WORKER_MANAGER ||
				stream_workers->worker[i].type == STREAM_WORKER_APPLIER)
				stream_stop_workers(stream_workers->worker[i].database, stream_workers->worker[i].type);
		stream_worker_report(STREAM_WORKER_IDLE, "stream.background_workers is off");
		return;
	}
	left_out = look_after();
	if (left_out > 0)
		stream_worker_report(STREAM_WORKER_IDLE, "%d databases are left out: stream.max_databases is %d",
							 left_out, stream_max_databases);
	else
		stream_worker_report(STREAM_WORKER_IDLE, "%s", "");
}

void
stream_launcher_main(Datum arg)
{
	HASHCTL		info;
	int			failures = 0;

	stream_worker_attach(&stream_workers->worker[0], 0);
	stream_worker_connect();
	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(Oid);
	info.entrysize = sizeof(Database);
	databases = hash_create("stream databases", 64, &info, HASH_ELEM | HASH_BLOBS);

	for (;;)
	{
		stream_worker_check_stop();
		if (stream_worker_try(launcher_turn))
		{
			failures = 0;
			stream_worker_sleep(TimestampDifferenceMilliseconds(GetCurrentTimestamp(), next_turn));
		}
		else
			stream_worker_wait_after_error(++failures);
	}
}

/* stream_launcher_register runs while the library is preloaded. */
void
stream_launcher_register(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = STREAM_LAUNCHER_RESTART;
	snprintf(worker.bgw_library_name, BGW_MAXLEN, "stream");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "stream_launcher_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, "stream launcher");
	snprintf(worker.bgw_type, BGW_MAXLEN, "stream launcher");
	RegisterBackgroundWorker(&worker);
}
