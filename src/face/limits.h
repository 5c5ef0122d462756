/*-------------------------------------------------------------------------
 *
 * limits.h
 *		How far a statement reads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_LIMITS_H
#define STREAM_LIMITS_H

#include "nodes/execnodes.h"

extern int64 *stream_statement_limits(EState *estate, Oid table, int32 partitions);

#endif							/* STREAM_LIMITS_H */
