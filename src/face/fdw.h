/*-------------------------------------------------------------------------
 *
 * fdw.h
 *		The foreign-data wrapper behind streams.<stream>.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_FDW_H
#define STREAM_FDW_H

#include "catalog/streams.h"
#include "foreign/fdwapi.h"

/*
 * A plan's fdw_private, a list of four:
 *
 *	 - the conditions that bound the scan: bounds.h; their values are fdw_exprs
 *	 - the columns that are wanted: value.h
 *	 - for count(*) the foreign table, which the executor has not opened; else 0
 *	 - and its place in the range table
 */
#define STREAM_PLAN_CONDITIONS(private)	((List *) linitial(private))
#define STREAM_PLAN_WANTED(private)		intVal(lsecond(private))
#define STREAM_PLAN_COUNTED(private)	((Oid) intVal(lthird(private)))

extern StreamInfo *stream_face_info(Relation rel);

/* plan.c */
extern void stream_face_rel_size(PlannerInfo *root, RelOptInfo *rel, Oid table);
extern void stream_face_paths(PlannerInfo *root, RelOptInfo *rel, Oid table);
extern ForeignScan *stream_face_plan(PlannerInfo *root, RelOptInfo *rel, Oid table, ForeignPath *path,
									 List *tlist, List *scan_clauses, Plan *outer_plan);
extern void stream_face_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
									RelOptInfo *output, void *extra);

extern void stream_fdw_scan_routines(FdwRoutine *routine);
extern void stream_fdw_insert_routines(FdwRoutine *routine);
extern double stream_count_pages(Oid table);
extern bool stream_face_analyze(Relation rel, AcquireSampleRowsFunc *func, BlockNumber *pages);

#endif							/* STREAM_FDW_H */
