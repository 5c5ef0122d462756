/*-------------------------------------------------------------------------
 *
 * scan.c
 *		Scans of the foreign table of a stream.
 *
 * A scan reads the partitions one after the other, batch by batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "compat.h"
#include "executor/executor.h"
#include "face/fdw.h"
#include "log/read.h"
#include "log/value.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "utils/memutils.h"
#include "utils/rel.h"

typedef struct FaceScan
{
	int32		partitions;
	int32		partition;		/* being read; -1: none yet */
	StreamReader reader;		/* in use while partition is one of the stream's */
	StreamRecordDatums copies;
	MemoryContext context;		/* of reader and copies */
} FaceScan;

static void
get_rel_size(PlannerInfo *root, RelOptInfo *baserel, Oid table)
{
	/* ANALYZE has set pages and tuples, or nobody has */
	if (baserel->tuples <= 0)
		baserel->tuples = 1000;
	set_baserel_size_estimates(root, baserel);
}

static void
get_paths(PlannerInfo *root, RelOptInfo *baserel, Oid table)
{
	Cost		startup = baserel->baserestrictcost.startup;
	Cost		total = startup + baserel->tuples * (cpu_tuple_cost + baserel->baserestrictcost.per_tuple);

	add_path(baserel, (Path *) stream_create_foreignscan_path(root, baserel, baserel->rows, startup, total,
															  NIL, NULL));
}

static ForeignScan *
get_plan(PlannerInfo *root, RelOptInfo *baserel, Oid table, ForeignPath *best_path,
		 List *tlist, List *scan_clauses, Plan *outer_plan)
{
	return make_foreignscan(tlist, extract_actual_clauses(scan_clauses, false), baserel->relid,
							NIL, NIL, NIL, NIL, outer_plan);
}

static void
begin_scan(ForeignScanState *node, int eflags)
{
	FaceScan  *state;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	state = palloc0(sizeof(FaceScan));
	state->partitions = stream_face_info(node->ss.ss_currentRelation)->partitions;
	state->partition = -1;
	state->context = AllocSetContextCreate(CurrentMemoryContext, "stream scan", ALLOCSET_DEFAULT_SIZES);
	node->fdw_state = state;
}

/* close_partition ends the reader, if there is one. */
static void
close_partition(FaceScan *state)
{
	if (state->partition >= 0 && state->partition < state->partitions)
		stream_reader_end(&state->reader);
}

static TupleTableSlot *
iterate_scan(ForeignScanState *node)
{
	FaceScan  *state = (FaceScan *) node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	MemoryContext save = MemoryContextSwitchTo(state->context);
	StreamRecord record;
	bool		found = false;

	ExecClearTuple(slot);
	while (state->partition < state->partitions)
	{
		if (state->partition >= 0)
		{
			found = stream_reader_next(&state->reader, &record);
			if (found)
				break;
			stream_reader_end(&state->reader);
		}
		if (++state->partition < state->partitions)
			stream_reader_begin(&state->reader, RelationGetRelid(node->ss.ss_currentRelation),
								state->partition, -1, node->ss.ps.state->es_snapshot);
	}
	if (found)
	{
		stream_record_datums(&state->copies, state->partition, &record, STREAM_WANT_ALL, slot->tts_values, slot->tts_isnull);
		ExecStoreVirtualTuple(slot);
	}
	MemoryContextSwitchTo(save);
	return slot;
}

static void
rescan(ForeignScanState *node)
{
	FaceScan  *state = (FaceScan *) node->fdw_state;

	close_partition(state);
	state->partition = -1;
}

static void
end_scan(ForeignScanState *node)
{
	FaceScan  *state = (FaceScan *) node->fdw_state;

	if (state == NULL)
		return;
	close_partition(state);
	state->partition = state->partitions;
}

void
stream_fdw_scan_routines(FdwRoutine *routine)
{
	routine->GetForeignRelSize = get_rel_size;
	routine->GetForeignPaths = get_paths;
	routine->GetForeignPlan = get_plan;
	routine->BeginForeignScan = begin_scan;
	routine->IterateForeignScan = iterate_scan;
	routine->ReScanForeignScan = rescan;
	routine->EndForeignScan = end_scan;
}
