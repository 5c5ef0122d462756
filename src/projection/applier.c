/*-------------------------------------------------------------------------
 *
 * applier.c
 *		The work of an applier process: all projections of a database.
 *
 * Appliers are a pool.  Each takes any partition of any projection that has
 * something to apply and that nobody else is at, as long as no more than the
 * projection's workers are at it.  Projections take turns, and within one its
 * partitions, a batch each; so a backlog of one delays the others by one batch.
 *
 * A process knows the projections from its last look at the catalog; it looks
 * again when something may have changed.  Whether a partition has something to
 * apply it asks of shared memory, high watermark against applied offset, so a
 * record costs a projection of another stream nothing, and idle processes sleep.
 *
 * The process sleeps outside any transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "access/xact.h"
#include "catalog/projections.h"
#include "catalog/tables.h"
#include "compat.h"
#include "guc.h"
#include "log/reserve.h"
#include "log/wait.h"
#include "meter.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "projection/applier.h"
#include "projection/apply.h"
#include "projection/failure.h"
#include "projection/statement.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "task.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "workers.h"

/* A batch begins at so many records, and grows while there is a backlog. */
#define STREAM_FIRST_BATCH		1000

/* It does not grow when one took longer than this, in ms. */
#define STREAM_LONG_BATCH		2000

/* The next one is at most so many times as large, and should not take longer than half of that. */
#define STREAM_BATCH_GROWTH		10

/* How long a partition that somebody else holds is left alone, in ms. */
#define STREAM_BUSY_DELAY		100

/* How much freed memory is kept while there is a backlog, in bytes. */
#define STREAM_KEPT_MEMORY		(64 * 1024 * 1024)

/* What this process has seen of a partition. */
typedef struct Look
{
	bool		idle;			/* nothing was to apply, and ... */
	int64		watermark;		/* ... this was it; -1: there was no shared state */
} Look;

typedef struct KnownProjection
{
	int32		projection_id;
	Oid			table;			/* the stream's */
	int32		partitions;
	int32		workers;
	int32		batch_records;	/* 0: grows by itself */
	NameData	name;
	int32		next;			/* partition to ask first */
	StreamTask **tasks;			/* by partition */
	Look	   *looks;			/* by partition */
} KnownProjection;

static MemoryContext known_context = NULL;
static MemoryContext step_context = NULL;
static int	nknown = 0;			/* projections that are not paused */
static KnownProjection *known = NULL;
static int	next_projection = 0;
static uint64 known_changes = 0;	/* 0: never looked */
static uint64 known_generation = 0;
static uint32 known_removals = 0;
static uint32 wait_event = 0;
static bool keeps_memory = false;	/* that a large batch has freed */

/*
 * keep_freed_memory has malloc keep what one batch has freed for the next one: memory
 * from the kernel has to be zeroed, page by page, each time.  It costs a tenth of the
 * time that applying takes.
 */
static void
keep_freed_memory(void)
{
#ifdef __GLIBC__
	(void) mallopt(M_MMAP_THRESHOLD, STREAM_KEPT_MEMORY / 2);
	(void) mallopt(M_TRIM_THRESHOLD, STREAM_KEPT_MEMORY);
#endif
}

/* give_memory_back returns it when the backlog is gone. */
static void
give_memory_back(void)
{
#ifdef __GLIBC__
	(void) malloc_trim(0);
#endif
}

static void
initialize(void)
{
	keep_freed_memory();
	step_context = AllocSetContextCreate(TopMemoryContext, "stream applier step", ALLOCSET_DEFAULT_SIZES);
	known_context = AllocSetContextCreate(TopMemoryContext, "stream applier", ALLOCSET_DEFAULT_SIZES);
}

static void
begin_transaction(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	/* a batch must see what its records' transactions wrote, whatever the database's default */
	XactIsoLevel = XACT_READ_COMMITTED;
}

/* is_current says whether the projections are still as this process knows them. */
static bool
is_current(void)
{
	return known_changes == pg_atomic_read_u64(&stream_control->projection_changes) &&
		known_generation == stream_cache_generation &&
		known_removals == stream_task_removals();
}

/* add_projection makes a projection known, in known_context; false: shared memory is full. */
static bool
add_projection(const StreamProjection *projection)
{
	Oid			table = stream_table_of_id(projection->stream_id);
	StreamInfo *info = OidIsValid(table) ? stream_info_if_stream(table) : NULL;
	KnownProjection *entry = &known[nknown];

	/* being dropped, or restored */
	if (info == NULL)
		return true;
	memset(entry, 0, sizeof(KnownProjection));
	entry->projection_id = projection->projection_id;
	entry->table = table;
	entry->partitions = info->partitions;
	entry->workers = projection->workers;
	entry->batch_records = projection->batch_records;
	entry->name = projection->name;
	entry->tasks = MemoryContextAlloc(known_context, entry->partitions * sizeof(StreamTask *));
	entry->looks = MemoryContextAllocZero(known_context, entry->partitions * sizeof(Look));
	for (int32 i = 0; i < entry->partitions; i++)
	{
		entry->tasks[i] = stream_task_enter(table, entry->projection_id, i);
		if (entry->tasks[i] == NULL)
			return false;
	}
	nknown++;
	return true;
}

/* look_at_catalog learns which projections there are. */
static void
look_at_catalog(void)
{
	List	   *projections;
	ListCell   *cell;
	int32	   *ids;
	int			n = 0;
	bool		full = false;
	uint64		changes;

	nknown = 0;
	known_changes = 0;			/* in case of an error */
	MemoryContextReset(known_context);

	begin_transaction();
	stream_lock_extension();
	known_generation = stream_cache_generation;
	/* the numbers first: what changes from here on makes us look again */
	changes = pg_atomic_read_u64(&stream_control->projection_changes);
	projections = stream_projections();
	ids = palloc_array(int32, list_length(projections) + 1);
	foreach(cell, projections)
		ids[n++] = ((StreamProjection *) lfirst(cell))->projection_id;
	stream_tasks_keep(ids, n);
	stream_keep_statements(ids, n);
	known_removals = stream_task_removals();

	known = MemoryContextAlloc(known_context, (n + 1) * sizeof(KnownProjection));
	foreach(cell, projections)
		if (!((StreamProjection *) lfirst(cell))->paused)
			full = !add_projection(lfirst(cell)) || full;
	CommitTransactionCommand();
	known_changes = changes;

	/* the others are applied all the same */
	if (full)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("shared memory for projections is full"),
				 errdetail("Not all projections are applied: they have more than %d partitions together.",
						   stream_max_projection_partitions),
				 errhint("Raise stream.max_projection_partitions and restart the server; see the view stream.memory_status.")));
}

/*
 * has_records says whether there may be something to apply, from what a process
 * can know without a transaction.
 */
static bool
has_records(const KnownProjection *projection, int32 partition, const StreamTask *task)
{
	const Look *look = &projection->looks[partition];
	StreamWatermark state;

	if (!stream_get_watermark(projection->table, partition, &state))
		return !look->idle || look->watermark != -1;
	if (task->applied_offset < 0)
		return true;
	return state.watermark > task->applied_offset &&
		!(look->idle && look->watermark == state.watermark);
}

/*
 * find_task finds the next partition to apply, and sets *state to what is known
 * of it.  *until is set to the moment when one has to be asked again, or left
 * alone.
 */
static bool
find_task(KnownProjection **found, int32 *partition, TimestampTz *until)
{
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < nknown; i++)
	{
		KnownProjection *projection = &known[(next_projection + i) % nknown];
		StreamTask *states = NULL;
		int			busy = 0;
		bool		ready = false;

		/* copied at once, so that asking watermarks holds nobody up */
		states = palloc_array(StreamTask, projection->partitions);
		LWLockAcquire(&stream_control->task_lock, LW_SHARED);
		if (known_removals != stream_control->task_removals)
		{
			LWLockRelease(&stream_control->task_lock);
			return false;
		}
		for (int32 p = 0; p < projection->partitions; p++)
		{
			states[p] = *projection->tasks[p];
			if (states[p].pid != 0)
				busy++;
		}
		LWLockRelease(&stream_control->task_lock);

		for (int32 k = 0; k < projection->partitions && busy < projection->workers; k++)
		{
			int32		p = (projection->next + k) % projection->partitions;

			if (states[p].pid != 0 || !has_records(projection, p, &states[p]))
				continue;
			if (states[p].retry_at > now)
			{
				*until = *until == 0 ? states[p].retry_at : Min(*until, states[p].retry_at);
				continue;
			}
			*found = projection;
			*partition = p;
			ready = true;
			break;
		}
		pfree(states);
		if (ready)
		{
			next_projection = (projection - known + 1) % nknown;
			projection->next = (*partition + 1) % projection->partitions;
			return true;
		}
	}
	return false;
}

/* batch_limit returns the number of records for the next batch. */
static int32
batch_limit(const KnownProjection *projection, const StreamTask *state)
{
	int32		limit = projection->batch_records;

	if (limit == 0)
		limit = Min(state->batch_records > 0 ? state->batch_records : STREAM_FIRST_BATCH, stream_batch_records);
	if (state->suspects > 0)
		limit = Min(limit, Max(state->suspects / 2, 1));
	return limit;
}

/*
 * succeeded notes what a batch that was committed says about the next one.
 */
static void
succeeded(const StreamApply *apply, StreamTask *state, int64 ms)
{
	state->applied_offset = apply->applied_offset;
	state->failing = false;
	state->failures = 0;
	state->retry_at = 0;
	if (state->suspects > 0)
	{
		/* they were not at fault; the rest is searched on */
		state->suspects = Max(state->suspects - apply->records, 0);
		state->batch_records = Max(apply->records, 1);
	}
	else if (apply->full && ms < STREAM_LONG_BATCH && apply->records >= apply->max_records)
	{
		int64		growth = STREAM_LONG_BATCH / 2 / Max(ms, 1);

		growth = Min(Max(growth, 2), STREAM_BATCH_GROWTH);
		state->batch_records = (int32) Min((int64) apply->max_records * growth, stream_batch_records);
	}
}

/* attempt makes one in a transaction; returns the error, in the caller's context, or null. */
static ErrorData *
attempt(StreamApply *apply, StreamApplyEnd *end)
{
	MemoryContext caller = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		begin_transaction();
		*end = stream_apply(apply);
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		HOLD_INTERRUPTS();
		error = CopyErrorData();
		FlushErrorState();
		/* a cancellation that comes too late would hit what follows */
		disable_timeout(STATEMENT_TIMEOUT, false);
		QueryCancelPending = false;
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	/* a statement may have taken some that nobody else would ever release */
	LockReleaseSession(USER_LOCKMETHOD);
	MemoryContextSwitchTo(caller);
	return error;
}

/* failed decides what follows from an error. */
static void
failed(StreamApply *apply, ErrorData *error, StreamTask *state)
{
	bool		at_fault = apply->in_statement && stream_is_record_fault(error->sqlerrcode);

	if (at_fault && apply->records > 1)
	{
		/* search on in the first half, at once */
		state->suspects = apply->records;
		return;
	}
	if (at_fault && apply->dead_letters)
	{
		StreamApplyEnd end;
		ErrorData  *second;

		apply->dead = error;
		apply->dead_offset = apply->first_offset;
		second = attempt(apply, &end);
		if (second == NULL)
		{
			if (end == STREAM_APPLY_DONE)
				succeeded(apply, state, STREAM_LONG_BATCH);
			return;
		}
		error = second;
		at_fault = false;
	}
	if (at_fault)
		state->suspects = 1;	/* the next attempt is made with it alone */
	else if ((apply->in_statement || error->sqlerrcode == ERRCODE_OUT_OF_MEMORY) && apply->records > 1)
		state->suspects = apply->records;	/* fewer may do, and one is named */
	begin_transaction();
	stream_report_failure(apply, error, at_fault, state);
	CommitTransactionCommand();
}

/* apply_task applies a batch of a partition; the caller has claimed it. */
static void
apply_task(KnownProjection *projection, int32 partition, StreamTask *state)
{
	StreamApply apply = {0};
	StreamApplyEnd end = STREAM_APPLY_BUSY;
	StreamWatermark watermark;
	bool		has_state = stream_get_watermark(projection->table, partition, &watermark);
	Look	   *look = &projection->looks[partition];
	ErrorData  *error;
	instr_time	start;
	instr_time	duration;

	apply.projection_id = projection->projection_id;
	apply.name = projection->name;
	apply.table = projection->table;
	apply.partition = partition;
	apply.max_records = batch_limit(projection, state);
	apply.failing = state->failing;
	stream_worker_report(STREAM_WORKER_BUSY, "applying \"%s\", partition %d", NameStr(projection->name), partition);

	pgstat_report_activity(STATE_RUNNING, psprintf("applying projection %s, partition %d",
												   NameStr(projection->name), partition));
	INSTR_TIME_SET_CURRENT(start);
	error = attempt(&apply, &end);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);

	look->idle = false;
	if (apply.records > STREAM_FIRST_BATCH)
		keeps_memory = true;
	if (error != NULL)
	{
		state->applied_offset = apply.applied_offset;
		failed(&apply, error, state);
		return;
	}
	switch (end)
	{
		case STREAM_APPLY_GONE:
			known_changes = 0;
			break;
		case STREAM_APPLY_BUSY:
			state->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), STREAM_BUSY_DELAY);
			break;
		case STREAM_APPLY_IDLE:
			state->applied_offset = apply.applied_offset;
			state->failing = false;
			state->failures = 0;
			state->retry_at = 0;
			state->suspects = 0;
			look->idle = true;
			look->watermark = has_state ? watermark.watermark : -1;
			break;
		case STREAM_APPLY_DONE:
			stream_meter_batch(projection->table, projection->projection_id, partition, apply.records,
							   (int64) INSTR_TIME_GET_MICROSEC(duration), apply.full && state->suspects == 0);
			succeeded(&apply, state, (int64) INSTR_TIME_GET_MILLISEC(duration));
			break;
	}
}

/*
 * stream_applier_step applies at most one batch of one partition of one
 * projection, in transactions of its own.  False: there is nothing to do now.
 * An error is one that concerns the process: those of projections are handled.
 */
bool
stream_applier_step(void)
{
	KnownProjection *projection;
	StreamTask	state;
	TimestampTz until = 0;
	int32		partition;
	bool		found;

	if (step_context == NULL)
		initialize();
	/* what an error left behind */
	(void) stream_task_let_go();
	MemoryContextReset(step_context);
	if (!is_current())
		look_at_catalog();

	MemoryContextSwitchTo(step_context);
	found = find_task(&projection, &partition, &until);
	/* somebody else may be quicker: look again then */
	if (found && stream_task_claim(projection->tasks, projection->partitions, partition, projection->workers,
								   known_removals, &state))
	{
		apply_task(projection, partition, &state);
		stream_task_release(&state);
		stream_wake_projection_waiters(projection->projection_id, partition);
	}
	MemoryContextSwitchTo(TopMemoryContext);
	(void) pgstat_report_stat(false);
	return found || !is_current();
}

/*
 * stream_applier_wait sleeps, outside any transaction, until there may be
 * something to do, or a signal has come, which the caller handles.
 */
void
stream_applier_wait(void)
{
	KnownProjection *projection;
	TimestampTz until = 0;
	int32		partition;
	bool		ready;

	(void) pgstat_report_stat(true);
	MemoryContextReset(step_context);
	MemoryContextSwitchTo(step_context);

	/* register first, look afterwards */
	stream_waiter_unregister();
	stream_waiter_register_many();
	for (int i = 0; i < nknown; i++)
		for (int32 p = 0; p < known[i].partitions; p++)
			stream_waiter_add_of_many(known[i].table, p);
	ready = !is_current() || find_task(&projection, &partition, &until);
	if (!ready)
	{
		long		timeout = until == 0 ? -1 : TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until) + 1;

		if (keeps_memory)
			give_memory_back();
		keeps_memory = false;

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (timeout >= 0 ? WL_TIMEOUT : 0), timeout,
						 STREAM_WAIT_EVENT(wait_event, "StreamApplier"));
		ResetLatch(MyLatch);
	}
	stream_waiter_unregister();
	MemoryContextSwitchTo(TopMemoryContext);
}
