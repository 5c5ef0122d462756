/*-------------------------------------------------------------------------
 *
 * query.h
 *		SQL over the relation "batch", before it is first run.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_QUERY_H
#define STREAM_QUERY_H

#include "catalog/streams.h"
#include "nodes/parsenodes.h"

/* the records, for queries of projections */
#define STREAM_BATCH_RELATION	"batch"

extern Query *stream_analyze_over_batch(const char *sql, const char *what, StreamValueType value_type, char **text);
extern void stream_check_over_batch(const char *sql, StreamValueType value_type);
extern bool stream_reads_batch(Query *query);

#endif							/* STREAM_QUERY_H */
