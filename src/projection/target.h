/*-------------------------------------------------------------------------
 *
 * target.h
 *		The table that a projection keeps, and its columns.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_PROJECTION_TARGET_H
#define STREAM_PROJECTION_TARGET_H

#include "nodes/parsenodes.h"
#include "projection/merge.h"
#include "utils/jsonb.h"
#include "utils/relcache.h"

extern Relation stream_open_target(Oid relid);
extern void stream_check_key(Relation target, Bitmapset *key);
extern void stream_check_other_columns(Relation target, Bitmapset *produced);
extern StreamMergeColumn *stream_merge_columns(Relation target, Query *query, Jsonb *merges, int *n, List **key);

#endif							/* STREAM_PROJECTION_TARGET_H */
