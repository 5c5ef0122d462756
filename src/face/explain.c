/*-------------------------------------------------------------------------
 *
 * explain.c
 *		EXPLAIN of scans of the foreign table of a stream.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "face/explain.h"
#include "log/segment.h"
#include "log/value.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* explain_bounds shows the partitions and, when they are bounded, offsets and times. */
static void
explain_bounds(const StreamFaceBounds *bounds, int32 partitions, ExplainState *es)
{
	StringInfoData text;

	/* partitions as ranges: 0-3, 7 */
	initStringInfo(&text);
	for (int32 p = 0; p < partitions; p++)
	{
		int32		last = p;

		if (!stream_in_partitions(bounds, p))
			continue;
		while (last + 1 < partitions && stream_in_partitions(bounds, last + 1))
			last++;
		appendStringInfo(&text, text.len > 0 ? ", %d" : "%d", p);
		if (last > p)
			appendStringInfo(&text, "-%d", last);
		p = last;
	}
	ExplainPropertyText("Partitions", text.len > 0 ? text.data : "none", es);
	if (bounds->empty)
		return;

	if (bounds->first_offset > 0 || bounds->last_offset < PG_INT64_MAX)
	{
		resetStringInfo(&text);
		appendStringInfo(&text, "%lld to ", (long long) bounds->first_offset);
		if (bounds->last_offset < PG_INT64_MAX)
			appendStringInfo(&text, "%lld", (long long) bounds->last_offset);
		else
			appendStringInfoString(&text, "end");
		ExplainPropertyText("Offsets", text.data, es);
	}
	if (bounds->first_time > PG_INT64_MIN || bounds->last_time < PG_INT64_MAX)
	{
		resetStringInfo(&text);
		if (bounds->first_time > PG_INT64_MIN)
			appendStringInfo(&text, "%s to ", timestamptz_to_str(bounds->first_time));
		else
			appendStringInfoString(&text, "start to ");
		appendStringInfoString(&text, bounds->last_time < PG_INT64_MAX ?
							   timestamptz_to_str(bounds->last_time) : "end");
		ExplainPropertyText("Times", text.data, es);
	}
}

/*
 * stream_explain_planned shows what is known of the bounds before execution:
 * the conditions with constants, and the columns compared with parameters.
 */
void
stream_explain_planned(Oid table, List *conditions, List *values, PlanState *parent, ExplainState *es)
{
	StreamFaceBounds bounds;
	int32		partitions = stream_info(table)->partitions;
	List	   *known = NIL;
	List	   *states = NIL;
	List	   *parameters = NIL;
	ListCell   *condition;
	ListCell   *value;

	forboth(condition, conditions, value, values)
	{
		int			attnum = linitial_int((List *) lfirst(condition));

		if (IsA(lfirst(value), Const))
		{
			known = lappend(known, lfirst(condition));
			states = lappend(states, ExecInitExpr(lfirst(value), parent));
		}
		else
			parameters = list_append_unique(parameters,
											makeString(attnum == Anum_record_partition ? "partition" :
													   attnum == Anum_record_offset ? "record_offset" :
													   "published_at"));
	}
	if (parent->ps_ExprContext == NULL)
		ExecAssignExprContext(parent->state, parent);
	stream_compute_bounds(&bounds, known, states, parent->ps_ExprContext, partitions);
	explain_bounds(&bounds, partitions, es);
	if (parameters != NIL)
	{
		List	   *names = NIL;

		foreach(value, parameters)
			names = lappend(names, strVal(lfirst(value)));
		ExplainPropertyList("Bounded By Parameters", names, es);
	}
}

/* count_batches counts the batches of the stream: those of sealed segments are recorded. */
static int64
count_batches(Oid table)
{
	StreamInfo *info = stream_info(table);
	int32		stream_id = info->stream_id;
	int32		partitions = info->partitions;
	int			n;
	int32	   *segments = stream_segment_numbers(info, true, &n);
	int64		total = 0;

	for (int32 partition = 0; partition < partitions; partition++)
	{
		StreamPartitionInfo *known = stream_partition_info(info, partition);

		for (int i = 0; i < known->nranges; i++)
			total += known->ranges[i].batches;
	}
	for (int i = 0; i < n; i++)
	{
		StreamSegmentTable segment;
		Snapshot	snapshot;

		if (!stream_segment_open(&segment, stream_id, segments[i], AccessShareLock, true))
			continue;
		snapshot = stream_fresh_snapshot(RelationGetRelid(segment.rel));
		for (int32 partition = 0; partition < partitions; partition++)
		{
			StreamRange range;

			if (stream_measure_range(&segment, snapshot, partition, PG_INT64_MAX, &range))
				total += range.batches;
		}
		UnregisterSnapshot(snapshot);
		stream_segment_close(&segment, false);
	}
	return total;
}

/*
 * stream_explain_executed shows the bounds of the last (re)scan, and how many
 * batches all of them opened; the others were not touched.
 */
void
stream_explain_executed(Oid table, const StreamFaceBounds *bounds, int64 batches_read, ExplainState *es)
{
	explain_bounds(bounds, stream_info(table)->partitions, es);
	ExplainPropertyInteger("Batches Read", NULL, batches_read, es);
	ExplainPropertyInteger("Batches Skipped", NULL, Max(0, count_batches(table) - batches_read), es);
}
