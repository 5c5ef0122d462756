/*-------------------------------------------------------------------------
 *
 * bounds.h
 *		Which partitions, offsets and times a scan has to read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_BOUNDS_H
#define STREAM_BOUNDS_H

#include "datatype/timestamp.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"

/*
 * A condition that bounds a scan: column, comparison, and an expression without
 * columns of the table.
 */
typedef struct StreamFaceCondition
{
	int			attnum;			/* partition, record_offset or published_at */
	int			strategy;		/* a btree strategy number */
	bool		is_array;		/* = ANY of an array */
	Expr	   *value;
} StreamFaceCondition;

/* What the conditions leave; both ends are inclusive. */
typedef struct StreamFaceBounds
{
	bool	   *partitions;		/* by number; null: all of them */
	int			first_partition;
	int			last_partition;
	int64		first_offset;
	int64		last_offset;
	TimestampTz first_time;
	TimestampTz last_time;
	bool		empty;			/* nothing can match */
} StreamFaceBounds;

/* planning */
extern bool stream_match_condition(PlannerInfo *root, RelOptInfo *rel, Expr *clause,
								   StreamFaceCondition *condition);
extern List *stream_conditions_to_list(List *conditions);
extern List *stream_condition_values(List *conditions);

/* execution */
extern void stream_compute_bounds(StreamFaceBounds *bounds, List *described, List *value_states,
								  ExprContext *econtext, int32 partitions);
extern bool stream_in_partitions(const StreamFaceBounds *bounds, int32 partition);

#endif							/* STREAM_BOUNDS_H */
