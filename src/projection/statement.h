/*-------------------------------------------------------------------------
 *
 * statement.h
 *		Running a projection's statement over records.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_STATEMENT_H
#define STREAM_STATEMENT_H

#include "catalog/projections.h"
#include "utils/tuplestore.h"

extern TupleDesc stream_batch_desc(StreamValueType value_type);
extern Oid	stream_projection_owner(const StreamProjection *projection);
extern void stream_run_statement(const StreamProjection *projection, StreamValueType value_type,
								 Tuplestorestate *batch, int64 records);
extern void stream_keep_statements(const int32 *projection_ids, int n);

#endif							/* STREAM_STATEMENT_H */
