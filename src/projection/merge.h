/*-------------------------------------------------------------------------
 *
 * merge.h
 *		Merges, and the statement that applies a batch by them.
 *
 * Pure: knows nothing of catalogs, and works outside the server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_MERGE_H
#define STREAM_MERGE_H

#include "lib/stringinfo.h"

/* How a column of the target takes up a value of the query. */
typedef enum StreamMerge
{
	STREAM_MERGE_KEY,			/* part of the key: no merge */
	STREAM_MERGE_MAX,
	STREAM_MERGE_MIN,
	STREAM_MERGE_AND,
	STREAM_MERGE_OR,
	STREAM_MERGE_BIT_AND,
	STREAM_MERGE_BIT_OR,
	STREAM_MERGE_UNION,
	STREAM_MERGE_LATEST,		/* of the row with the greatest value of another column */
	STREAM_MERGE_EARLIEST,		/* … the least … */
	STREAM_MERGE_SUM,
	STREAM_MERGE_COUNT
} StreamMerge;

/* A column that the query produces.  All strings are SQL, names are quoted. */
typedef struct StreamMergeColumn
{
	StreamMerge merge;
	const char *column;			/* in the target */
	const char *input;			/* an expression over a row q of the query, of the target's type */
	const char *aggregate;		/* merges a batch's values; null for a key, latest and earliest */
	const char *operator;		/* merges two values, nulls aside; null: the merge has its own way */
	const char *equality;		/* operator; null: IS DISTINCT FROM finds the right one */
	int			by;				/* index of the column that decides for latest and earliest; else -1 */
} StreamMergeColumn;

extern bool stream_parse_merge(const char *text, StreamMerge *merge, const char **by);
extern bool stream_merge_is_replay_safe(StreamMerge merge);
extern void stream_apply_statement(StringInfo out, const char *target, const char *query,
								   const StreamMergeColumn *columns, int n);

#endif							/* STREAM_MERGE_H */
