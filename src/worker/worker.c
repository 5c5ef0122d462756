/*-------------------------------------------------------------------------
 *
 * worker.c
 *		What the background workers have in common: the life of a process.
 *
 * A process attaches to its slot before it connects to a database, so that a
 * command that needs the database for itself finds it, or it finds the command.
 * Its slot says that it has ended only after the process has left the array of
 * those that count as users of the database: the callback that says so is
 * registered before the one that leaves the array, and runs after it.
 *
 * No process waits inside a transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "worker/worker.h"

static StreamWorkerOutcome outcome = STREAM_OUTCOME_FAILED;
static emit_log_hook_type previous_log_hook = NULL;
static NameData database_name;
static ErrorContextCallback error_context;
static uint32 wait_event = 0;

/* record_error stores the message of an error in the slot, for worker_status. */
static void
record_error(const char *message)
{
	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	strlcpy(stream_my_worker->error, message, STREAM_WORKER_ERROR_LEN);
	stream_my_worker->error_at = GetCurrentTimestamp();
	LWLockRelease(&stream_workers->lock);
}

/* An error that ends the process is seen nowhere else. */
static void
log_hook(ErrorData *edata)
{
	if (previous_log_hook)
		previous_log_hook(edata);
	if (edata->elevel != FATAL)
		return;
	if (stream_my_worker->stop && edata->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN)
		edata->output_to_server = false;	/* as it was told */
	else if (edata->message != NULL)
		record_error(edata->message);
}

static void
worker_context(void *arg)
{
	if (NameStr(database_name)[0] != '\0')
		errcontext("%s of database \"%s\"%s%s",
				   stream_worker_type_name(stream_my_worker->type), NameStr(database_name),
				   stream_my_worker->activity[0] != '\0' ? ", " : "", stream_my_worker->activity);
	else
		errcontext("%s", stream_worker_type_name(stream_my_worker->type));
}

static void
worker_exit(int code, Datum arg)
{
	StreamWorker *worker = stream_my_worker;
	Oid			database = worker->database;

	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	worker->pid = 0;
	worker->state = STREAM_WORKER_ENDED;
	worker->outcome = worker->stop ? STREAM_OUTCOME_STOPPED : outcome;
	worker->activity[0] = '\0';
	if (worker->type == STREAM_WORKER_ROLLER)
		worker->type = STREAM_WORKER_NONE;
	stream_notify_supervisors(database);
	LWLockRelease(&stream_workers->lock);
	ConditionVariableBroadcast(&stream_workers->ended);
}

/* stream_worker_slot finds the slot that this process was started for. */
StreamWorker *
stream_worker_slot(Datum arg, uint32 *generation)
{
	memcpy(generation, MyBgworkerEntry->bgw_extra, sizeof(*generation));
	return &stream_workers->worker[DatumGetInt32(arg)];
}

/*
 * stream_worker_attach makes this process the one of a slot.  It ends the process
 * when the slot does not want it any more.
 */
void
stream_worker_attach(StreamWorker *worker, uint32 generation)
{
	bool		wanted = true;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	if (worker->type != STREAM_WORKER_LAUNCHER)
	{
		if (worker->state != STREAM_WORKER_STARTING || worker->generation != generation)
			wanted = false;
		else if (worker->stop || stream_workers_held(worker->database))
		{
			worker->state = STREAM_WORKER_ENDED;
			worker->outcome = STREAM_OUTCOME_STOPPED;
			stream_notify_supervisors(worker->database);
			wanted = false;
		}
	}
	if (wanted)
	{
		worker->pid = MyProcPid;
		worker->proc_number = STREAM_MY_PROC_NUMBER;
		worker->state = STREAM_WORKER_BUSY;
		worker->stop = false;
		worker->starts++;
		worker->started_at = GetCurrentTimestamp();
		strlcpy(worker->activity, "connecting", STREAM_WORKER_ACTIVITY_LEN);
	}
	LWLockRelease(&stream_workers->lock);
	if (!wanted)
		proc_exit(0);

	stream_my_worker = worker;
	on_shmem_exit(worker_exit, (Datum) 0);
	previous_log_hook = emit_log_hook;
	emit_log_hook = log_hook;
	error_context.callback = worker_context;
	error_context.previous = error_context_stack;
	error_context_stack = &error_context;
}

/* Settings of the database or of the server that are not meant for workers. */
static void
override_settings(void)
{
	static const char *const settings[][2] = {
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"idle_in_transaction_session_timeout", "0"},
		{"lock_timeout", "0"},
		{"search_path", "pg_catalog, pg_temp"},
		{"session_replication_role", "origin"},
		{"statement_timeout", "0"},
		{"stream.publish_timeout", "0"},
		{"synchronous_commit", "local"},
		{"zero_damaged_pages", "off"},
	};

	for (size_t i = 0; i < lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	stream_override_transaction_timeout();
}

/*
 * stream_worker_connect connects to the slot's database, as the bootstrap
 * superuser.  It fails, and ends the process, where connections are not allowed.
 */
void
stream_worker_connect(void)
{
	Oid			database = stream_my_worker->database;
	char	   *name;

	if (OidIsValid(database))
		BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	else
		BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	override_settings();
	if (OidIsValid(database))
	{
		StartTransactionCommand();
		name = get_database_name(database);
		if (name != NULL)
			namestrcpy(&database_name, name);
		CommitTransactionCommand();
	}
	/* a signal that came before we listened is lost */
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
}

/* stream_worker_finish ends this process. */
void
stream_worker_finish(StreamWorkerOutcome why)
{
	outcome = why;
	/* the launcher is the postmaster's to start again, and status 0 would end it for good */
	proc_exit(stream_my_worker->type == STREAM_WORKER_LAUNCHER ? 1 : 0);
}

/*
 * stream_worker_check_stop ends this process when it is told to, without the
 * message of an aborted command, and handles other signals.
 */
void
stream_worker_check_stop(void)
{
	Assert(!IsTransactionState());
	if (ProcDiePending || stream_my_worker->stop)
	{
		if (!stream_my_worker->stop)
			record_error("terminated by a signal");
		stream_worker_finish(stream_my_worker->stop ? STREAM_OUTCOME_STOPPED : STREAM_OUTCOME_FAILED);
	}
	/* there is no statement to cancel now */
	QueryCancelPending = false;
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/*
 * stream_worker_try runs a turn in a memory context of its own.  An error is
 * logged and recorded, its transaction aborted, and the answer is false.
 */
bool
stream_worker_try(void (*turn) (void))
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "stream worker turn",
												  ALLOCSET_DEFAULT_SIZES);
	volatile bool done = false;

	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		turn();
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		HOLD_INTERRUPTS();
		EmitErrorReport();
		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		/* what was held outside of a transaction */
		LWLockReleaseAll();
		ConditionVariableCancelSleep();
		pgstat_report_wait_end();
		record_error(edata->message != NULL ? edata->message : "unknown error");
		QueryCancelPending = false;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(TopMemoryContext);
	MemoryContextDelete(context);
	return done;
}

/* stream_worker_sleep waits outside of any transaction, until woken or timeout_ms are over. */
void
stream_worker_sleep(long timeout_ms)
{
	stream_worker_check_stop();
	if (OidIsValid(MyDatabaseId))
		(void) pgstat_report_stat(true);
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, Max(timeout_ms, 1),
					 STREAM_WAIT_EVENT(wait_event, "StreamWorkerMain"));
	ResetLatch(MyLatch);
	stream_worker_check_stop();
}

/* stream_worker_wait_after_error waits longer with each failure in a row, also when woken. */
void
stream_worker_wait_after_error(int failures)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), stream_worker_delay(failures));
	long		left;

	LWLockAcquire(&stream_workers->lock, LW_EXCLUSIVE);
	stream_my_worker->retry_at = until;
	LWLockRelease(&stream_workers->lock);
	stream_worker_report(STREAM_WORKER_DELAYED, "waiting after an error");
	while ((left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until)) > 0)
		stream_worker_sleep(left);
}
