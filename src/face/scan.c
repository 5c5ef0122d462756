/*-------------------------------------------------------------------------
 *
 * scan.c
 *		Execution of scans of the foreign table of a stream.
 *
 * A scan reads the partitions one after the other, batch by batch, each from
 * the first offset that its bounds leave to the last.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "executor/executor.h"
#include "face/bounds.h"
#include "face/explain.h"
#include "face/fdw.h"
#include "face/limits.h"
#include "log/read.h"
#include "log/value.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

typedef struct FaceScan
{
	Oid			table;
	int32		partitions;
	int			wanted;			/* columns: value.h */
	bool		counting;		/* count(*) is wanted, not records */
	List	   *conditions;
	List	   *value_states;
	bool		bounds_known;	/* bounds are computed for this (re)scan */
	StreamFaceBounds bounds;
	int32		partition;		/* being read; -1: none yet */
	bool		reading;		/* reader is in use */
	int64	   *limits;			/* each partition's watermark at its first scan: limits.h */
	StreamReader reader;
	StreamRecordDatums copies;
	int64		batches_read;	/* by readers that have ended */
	MemoryContext context;		/* of reader and copies */
	MemoryContext bounds_context;
} FaceScan;

static void
begin_scan(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = castNode(ForeignScan, node->ss.ps.plan);
	FaceScan   *scan = palloc0(sizeof(FaceScan));

	node->fdw_state = scan;
	scan->counting = plan->scan.scanrelid == 0;
	scan->table = scan->counting ? STREAM_PLAN_COUNTED(plan->fdw_private) :
		RelationGetRelid(node->ss.ss_currentRelation);
	scan->wanted = STREAM_PLAN_WANTED(plan->fdw_private);
	scan->conditions = STREAM_PLAN_CONDITIONS(plan->fdw_private);
	scan->partition = -1;
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	if (scan->counting)
		scan->partitions = stream_info(scan->table)->partitions;
	else
		scan->partitions = stream_face_info(node->ss.ss_currentRelation)->partitions;
	scan->limits = stream_statement_limits(node->ss.ps.state, scan->table, scan->partitions);
	scan->value_states = ExecInitExprList(plan->fdw_exprs, &node->ss.ps);
	scan->context = AllocSetContextCreate(CurrentMemoryContext, "stream scan", ALLOCSET_DEFAULT_SIZES);
	scan->bounds_context = AllocSetContextCreate(CurrentMemoryContext, "stream scan bounds", ALLOCSET_SMALL_SIZES);
}

static void
compute_bounds(ForeignScanState *node, FaceScan *scan)
{
	MemoryContext save;

	MemoryContextReset(scan->bounds_context);
	save = MemoryContextSwitchTo(scan->bounds_context);
	stream_compute_bounds(&scan->bounds, scan->conditions, scan->value_states,
						  node->ss.ps.ps_ExprContext, scan->partitions);
	MemoryContextSwitchTo(save);
	scan->bounds_known = true;
	scan->partition = -1;
}

static void
end_reader(FaceScan *scan)
{
	if (!scan->reading)
		return;
	scan->batches_read += scan->reader.batches_read;
	stream_reader_end(&scan->reader);
	scan->reading = false;
}

/*
 * begin_reader begins to read the partition at the first offset that the bounds
 * leave.  A bound on the time is turned into one on the offset.
 */
static void
begin_reader(ForeignScanState *node, FaceScan *scan)
{
	int64		from = -1;

	if (scan->bounds.first_time > PG_INT64_MIN)
		from = stream_offset_before(stream_info(scan->table), scan->partition, scan->bounds.first_time);
	if (scan->bounds.first_offset > 0)
		from = Max(from, scan->bounds.first_offset);
	stream_reader_begin(&scan->reader, scan->table, scan->partition, from, node->ss.ps.state->es_snapshot);
	/* one statement sees one state of the log, however often it scans */
	if (scan->limits[scan->partition] == 0)
		scan->limits[scan->partition] = scan->reader.limit;
	scan->reader.limit = Min(scan->reader.limit, scan->limits[scan->partition]);
	if (scan->bounds.last_offset < scan->reader.limit)
		scan->reader.limit = scan->bounds.last_offset == PG_INT64_MAX ? PG_INT64_MAX : scan->bounds.last_offset + 1;
	scan->reading = true;
}

/* next_partition moves to the next partition within the bounds; false: that was the last. */
static bool
next_partition(ForeignScanState *node, FaceScan *scan)
{
	end_reader(scan);
	while (++scan->partition < scan->partitions)
	{
		CHECK_FOR_INTERRUPTS();
		if (stream_in_partitions(&scan->bounds, scan->partition))
		{
			begin_reader(node, scan);
			return true;
		}
	}
	return false;
}

/* next_record returns the next record within the bounds. */
static bool
next_record(ForeignScanState *node, FaceScan *scan, StreamRecord *record)
{
	for (;;)
	{
		while (scan->reading && stream_reader_next(&scan->reader, record))
		{
			/* times never decrease within a partition */
			if (record->timestamp > scan->bounds.last_time)
				break;
			if (record->timestamp >= scan->bounds.first_time)
				return true;
		}
		if (!next_partition(node, scan))
			return false;
	}
}

/* count_records counts the records within the bounds. */
static int64
count_records(ForeignScanState *node, FaceScan *scan)
{
	bool		by_batch = scan->bounds.first_time == PG_INT64_MIN && scan->bounds.last_time == PG_INT64_MAX;
	StreamRecord record;
	int64		count = 0;

	if (by_batch)
	{
		while (next_partition(node, scan))
			count += stream_reader_count(&scan->reader);
	}
	else
	{
		while (next_record(node, scan, &record))
			count++;
	}
	return count;
}

static TupleTableSlot *
iterate_scan(ForeignScanState *node)
{
	FaceScan   *scan = (FaceScan *) node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	MemoryContext save;
	StreamRecord record;

	ExecClearTuple(slot);
	if (scan->partition >= scan->partitions)
		return slot;
	if (!scan->bounds_known)
		compute_bounds(node, scan);

	save = MemoryContextSwitchTo(scan->context);
	if (scan->counting)
	{
		int64		count = count_records(node, scan);

		for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++)
		{
			slot->tts_values[i] = Int64GetDatum(count);
			slot->tts_isnull[i] = false;
		}
		ExecStoreVirtualTuple(slot);
		scan->partition = scan->partitions;
	}
	else if (next_record(node, scan, &record))
	{
		stream_record_datums(&scan->copies, scan->partition, &record, scan->wanted,
							 slot->tts_values, slot->tts_isnull);
		ExecStoreVirtualTuple(slot);
	}
	MemoryContextSwitchTo(save);
	return slot;
}

static void
rescan(ForeignScanState *node)
{
	FaceScan   *scan = (FaceScan *) node->fdw_state;

	end_reader(scan);
	scan->bounds_known = false;
	scan->partition = -1;
}

static void
end_scan(ForeignScanState *node)
{
	FaceScan   *scan = (FaceScan *) node->fdw_state;

	if (scan == NULL)
		return;
	end_reader(scan);
	scan->partition = scan->partitions;
}

/* explain_scan shows the bounds and, when the scan has run, the batches. */
static void
explain_scan(ForeignScanState *node, ExplainState *es)
{
	FaceScan   *scan = (FaceScan *) node->fdw_state;
	ForeignScan *plan = castNode(ForeignScan, node->ss.ps.plan);
	int64		batches_read = scan->batches_read + (scan->reading ? scan->reader.batches_read : 0);

	if (scan->counting)
		ExplainPropertyText("Count", get_rel_name(scan->table), es);
	if (!es->analyze)
		stream_explain_planned(scan->table, scan->conditions, plan->fdw_exprs, &node->ss.ps, es);
	else if (scan->bounds_known)
		stream_explain_executed(scan->table, &scan->bounds, batches_read, es);
}

void
stream_fdw_scan_routines(FdwRoutine *routine)
{
	routine->GetForeignRelSize = stream_face_rel_size;
	routine->GetForeignPaths = stream_face_paths;
	routine->GetForeignPlan = stream_face_plan;
	routine->GetForeignUpperPaths = stream_face_upper_paths;
	routine->BeginForeignScan = begin_scan;
	routine->IterateForeignScan = iterate_scan;
	routine->ReScanForeignScan = rescan;
	routine->EndForeignScan = end_scan;
	routine->ExplainForeignScan = explain_scan;
	routine->AnalyzeForeignTable = stream_face_analyze;
}
