/*-------------------------------------------------------------------------
 *
 * status.c
 *		The functions behind the views projection_status and
 *		projection_partition_status; stale_after.
 *
 * All is computed when asked, and costs a few index look-ups a partition.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "catalog/dead_letters.h"
#include "catalog/projection_errors.h"
#include "catalog/projections.h"
#include "consumer/lag.h"
#include "consumer/load.h"
#include "consumer/offsets.h"
#include "funcapi.h"
#include "guc.h"
#include "meter.h"
#include "miscadmin.h"
#include "projection/target.h"
#include "storage/lmgr.h"
#include "task.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "workers.h"

PG_FUNCTION_INFO_V1(stream_projection_status);
PG_FUNCTION_INFO_V1(stream_projection_partition_status);
PG_FUNCTION_INFO_V1(stream_stale_after);

#define Natts_projection_status			32
#define Natts_projection_partition_status	24

/* One row of a result, filled from the left. */
typedef struct Row
{
	int			n;
	Datum		values[Natts_projection_status];
	bool		nulls[Natts_projection_status];
} Row;

static void
put(Row *row, Datum value)
{
	row->nulls[row->n] = false;
	row->values[row->n++] = value;
}

static void
put_null(Row *row)
{
	row->nulls[row->n] = true;
	row->values[row->n++] = (Datum) 0;
}

static void
put_text(Row *row, const char *text)
{
	if (text != NULL)
		put(row, CStringGetTextDatum(text));
	else
		put_null(row);
}

/* put_float puts a number that may not be known. */
static void
put_float(Row *row, bool known, double value)
{
	if (known)
		put(row, Float8GetDatum(value));
	else
		put_null(row);
}

/* put_time puts a moment; 0: none. */
static void
put_time(Row *row, TimestampTz time)
{
	if (time != 0)
		put(row, TimestampTzGetDatum(time));
	else
		put_null(row);
}

/* put_age puts how long ago a moment is; 0: none. */
static void
put_age(Row *row, TimestampTz time)
{
	put(row, Float8GetDatum(time == 0 ? 0.0 :
							(double) Max(GetCurrentTimestamp() - time, 0) / USECS_PER_SEC));
}

/* put_error puts the nine columns of an error, or null, with its partition if wanted. */
static void
put_error(Row *row, const StreamProjectionError *error, bool with_partition)
{
	if (error == NULL)
	{
		for (int i = 0; i < (with_partition ? 10 : 9); i++)
			put_null(row);
		return;
	}
	if (with_partition)
		put(row, Int32GetDatum(error->partition));
	put(row, Int64GetDatum(error->record_offset));
	put_text(row, error->message);
	put_text(row, error->detail);
	put_text(row, error->hint);
	put_text(row, error->sqlstate);
	put_time(row, error->failing_since);
	put_time(row, error->failed_at);
	put_time(row, error->next_retry_at);
	put(row, Int32GetDatum(error->retries));
}

/* has_applier says whether any applier of this database runs. */
static bool
has_applier(void)
{
	bool		found = false;

	LWLockAcquire(&stream_workers->lock, LW_SHARED);
	for (int i = 0; i < stream_workers->nworkers && !found; i++)
	{
		StreamWorker *worker = &stream_workers->worker[i];

		found = worker->type == STREAM_WORKER_APPLIER && worker->database == MyDatabaseId && worker->pid != 0;
	}
	LWLockRelease(&stream_workers->lock);
	return found;
}

/*
 * state_of is the first of these that holds.  error is the partition's, or the
 * gravest one of the projection's, or null.
 */
static const char *
state_of(const StreamProjection *projection, StreamTargetState target, const StreamProjectionError *error)
{
	if (projection->paused)
		return "paused";
	switch (target)
	{
		case STREAM_TARGET_READY:
			break;
		case STREAM_TARGET_MISSING:
			return "target missing";
		case STREAM_TARGET_REPLACED:
			return "target replaced";
		case STREAM_TARGET_UNLOGGED:
			return "target unlogged";
	}
	if (!has_applier())
		return "no applier";
	if (error == NULL)
		return "running";
	return error->stopped ? "stopped" : "retrying";
}

/* projections_of picks those of a stream. */
static List *
projections_of(List *all, int32 stream_id)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, all)
		if (((StreamProjection *) lfirst(cell))->stream_id == stream_id)
			result = lappend(result, lfirst(cell));
	return result;
}

static void
partition_row(FunctionCallInfo fcinfo, Oid table, const StreamProjection *projection, StreamTargetState target,
			  int32 partition)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StreamPartitionEnd end = stream_partition_end(table, partition);
	StreamProjectionError *error = stream_projection_error(projection->projection_id, partition);
	StreamOffset offset;
	StreamTask	task;
	StreamMeter meter;
	TimestampTz oldest;
	double		rate = 0;
	bool		has_rate;
	bool		measured;
	Row			row = {0};

	if (stream_newest_offset(projection->projection_id, partition, NULL, &offset) != STREAM_OFFSET_FOUND)
		return;
	oldest = stream_oldest_unread(table, partition, offset.committed_offset, &end);
	has_rate = stream_arrival_rate(table, partition, &rate);
	measured = stream_meter_read(projection->projection_id, partition, &meter) && meter.measured_at != 0;

	put(&row, NameGetDatum(&projection->name));
	put(&row, NameGetDatum(&stream_info(table)->name));
	put(&row, Int32GetDatum(partition));
	put_text(&row, state_of(projection, target, error));
	put(&row, Int64GetDatum(offset.committed_offset));
	put(&row, Int64GetDatum(end.watermark));
	put(&row, Int64GetDatum(stream_records_behind(table, partition, offset.committed_offset, end.watermark)));
	put_time(&row, oldest);
	put_age(&row, oldest);
	put_time(&row, offset.committed_at);
	put(&row, Int64GetDatum(offset.records_skipped));
	if (stream_task_get(projection->projection_id, partition, &task) && task.pid != 0)
		put(&row, Int32GetDatum(task.pid));
	else
		put_null(&row);
	put_float(&row, has_rate, rate);
	put_float(&row, measured, measured ? meter.full_records * USECS_PER_SEC / meter.full_busy_us : 0);
	put_time(&row, measured ? meter.measured_at : 0);
	put_error(&row, error, false);
	Assert(row.n == Natts_projection_partition_status);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
}

/* What the load of a projection comes to; each is known or not. */
typedef struct Utilization
{
	StreamLoad	load;
	bool		has_rate;
	double		rate;			/* arrivals, records a second */
	int			workers;		/* that can be at it at a time */
	bool		known;			/* the next two are */
	double		capacity;		/* records a second */
	double		utilization;
} Utilization;

static void
measure(Oid table, const StreamProjection *projection, Utilization *result)
{
	memset(result, 0, sizeof(Utilization));
	result->workers = Min(Min(projection->workers, stream_info(table)->partitions), stream_max_appliers);
	stream_measure_load(table, projection->projection_id, &result->load);
	result->has_rate = stream_arrival_rate(table, -1, &result->rate);
	result->known = result->load.measured_at != 0 && result->has_rate && result->workers > 0;
	result->capacity = result->load.worker_rate * result->workers;
	if (result->known)
		result->utilization = result->rate / result->capacity;
}

static void
status_row(FunctionCallInfo fcinfo, Oid table, const StreamProjection *projection)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int32		partitions = stream_info(table)->partitions;
	StreamProjectionError *gravest = NULL;
	Utilization u;
	double		headroom;
	int			failing = 0;
	Row			row = {0};

	for (int32 partition = 0; partition < partitions; partition++)
	{
		StreamProjectionError *error = stream_projection_error(projection->projection_id, partition);

		CHECK_FOR_INTERRUPTS();
		if (error == NULL)
			continue;
		failing++;
		if (gravest == NULL || (error->stopped && !gravest->stopped) ||
			(error->stopped == gravest->stopped && error->failed_at > gravest->failed_at))
			gravest = error;
	}
	measure(table, projection, &u);
	headroom = 1 - u.utilization;

	put(&row, NameGetDatum(&projection->name));
	put(&row, NameGetDatum(&stream_info(table)->name));
	put_text(&row, state_of(projection, stream_target_state(projection), gravest));
	put(&row, BoolGetDatum(projection->replay_safe));
	put(&row, Int32GetDatum(partitions));
	put(&row, Int32GetDatum(u.workers));
	put(&row, Int64GetDatum(u.load.lag));
	put_time(&row, u.load.oldest_unread);
	put_age(&row, u.load.oldest_unread);
	put_time(&row, u.load.committed_at);
	put_float(&row, u.has_rate, u.rate);
	put_float(&row, u.load.measured_at != 0, u.load.worker_rate);
	put_float(&row, u.load.measured_at != 0, u.capacity);
	put_float(&row, u.known, u.utilization);
	put_float(&row, u.known, headroom);
	put_float(&row, u.known && u.workers > 1, 1 - u.rate / (u.load.worker_rate * (u.workers - 1)));
	put_float(&row, u.known, Max(headroom, 0));
	put_float(&row, u.load.lag == 0 || (u.known && headroom > 0),
			  u.load.lag == 0 ? 0 : u.load.lag / (u.capacity - u.rate));
	put_time(&row, u.load.measured_at);
	put(&row, Int64GetDatum(stream_count_dead_letters(projection->projection_id)));
	put(&row, Int32GetDatum(failing));
	put_error(&row, gravest, true);
	put(&row, Int32GetDatum(projection->projection_id));
	Assert(row.n == Natts_projection_status);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
}

Datum
stream_projection_status(PG_FUNCTION_ARGS)
{
	List	   *all;
	ListCell   *cell;

	stream_require_shmem();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (RecoveryInProgress())
		return (Datum) 0;
	all = stream_projections();
	foreach(cell, stream_visible_tables(true))
	{
		Oid			table = lfirst_oid(cell);
		ListCell   *lc;

		foreach(lc, projections_of(all, stream_info(table)->stream_id))
			status_row(fcinfo, table, lfirst(lc));
		UnlockRelationOid(table, AccessShareLock);
	}
	return (Datum) 0;
}

Datum
stream_projection_partition_status(PG_FUNCTION_ARGS)
{
	List	   *all;
	ListCell   *cell;

	stream_require_shmem();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (RecoveryInProgress())
		return (Datum) 0;
	all = stream_projections();
	foreach(cell, stream_visible_tables(true))
	{
		Oid			table = lfirst_oid(cell);
		int32		partitions = stream_info(table)->partitions;
		ListCell   *lc;

		foreach(lc, projections_of(all, stream_info(table)->stream_id))
		{
			StreamTargetState target = stream_target_state(lfirst(lc));

			for (int32 partition = 0; partition < partitions; partition++)
			{
				CHECK_FOR_INTERRUPTS();
				partition_row(fcinfo, table, lfirst(lc), target, partition);
			}
		}
		UnlockRelationOid(table, AccessShareLock);
	}
	return (Datum) 0;
}

/*
 * stream_stale_after: stale_after(projection, outage), how long after the start
 * of an outage the projection is up to date again: what has piled up for so long
 * is worked off with the headroom only.
 */
Datum
stream_stale_after(PG_FUNCTION_ARGS)
{
	StreamProjection *projection;
	Utilization u;
	Oid			table;

	stream_require_shmem();
	PreventCommandDuringRecovery("stale_after()");
	projection = stream_projection(stream_text_argument(fcinfo, 0, "projection"), false);
	stream_need_argument(fcinfo, 1, "outage");
	table = stream_table_of_id(projection->stream_id);
	if (!OidIsValid(table) || !stream_may_see(table))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for the stream of projection \"%s\"", NameStr(projection->name))));
	LockRelationOid(table, AccessShareLock);
	measure(table, projection, &u);
	UnlockRelationOid(table, AccessShareLock);
	if (!u.known || u.utilization >= 1)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(DirectFunctionCall2(interval_div, PG_GETARG_DATUM(1), Float8GetDatum(1 - u.utilization)));
}
