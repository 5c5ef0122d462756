/*-------------------------------------------------------------------------
 *
 * replay.h
 *		Whether a projection's records could be applied again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_REPLAY_H
#define STREAM_REPLAY_H

#include "nodes/parsenodes.h"
#include "projection/merge.h"

extern bool stream_is_replay_safe(Query *query, Oid target, const StreamMergeColumn *columns);

#endif							/* STREAM_REPLAY_H */
