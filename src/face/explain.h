/*-------------------------------------------------------------------------
 *
 * explain.h
 *		EXPLAIN of scans of the foreign table of a stream.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_EXPLAIN_H
#define STREAM_EXPLAIN_H

#include "compat.h"
#include "face/bounds.h"

extern void stream_explain_planned(Oid table, List *conditions, List *values, PlanState *parent,
								   ExplainState *es);
extern void stream_explain_executed(Oid table, const StreamFaceBounds *bounds, int64 batches_read,
									ExplainState *es);

#endif							/* STREAM_EXPLAIN_H */
