/*-------------------------------------------------------------------------
 *
 * target.h
 *		The table that a projection keeps, and its columns.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_PROJECTION_TARGET_H
#define STREAM_PROJECTION_TARGET_H

#include "catalog/projections.h"
#include "nodes/parsenodes.h"
#include "projection/merge.h"
#include "utils/jsonb.h"
#include "utils/relcache.h"

/* What has become of a target. */
typedef enum StreamTargetState
{
	STREAM_TARGET_READY,
	STREAM_TARGET_MISSING,		/* no table has its name */
	STREAM_TARGET_REPLACED,		/* another one has */
	STREAM_TARGET_UNLOGGED		/* it, or a partition of it */
} StreamTargetState;

extern Relation stream_open_target(Oid relid);
extern StreamTargetState stream_target_state(const StreamProjection *projection);
extern void stream_check_target(const StreamProjection *projection, Oid owner);
extern void stream_check_key(Relation target, Bitmapset *key);
extern void stream_check_other_columns(Relation target, Bitmapset *produced);
extern StreamMergeColumn *stream_merge_columns(Relation target, Query *query, Jsonb *merges, int *n, List **key);

#endif							/* STREAM_PROJECTION_TARGET_H */
