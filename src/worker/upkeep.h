/*-------------------------------------------------------------------------
 *
 * upkeep.h
 *		The manager's care for the logs of a database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_WORKER_UPKEEP_H
#define STREAM_WORKER_UPKEEP_H

#include "nodes/parsenodes.h"
#include "utils/timestamp.h"

extern bool stream_keep_logs(bool *done, TimestampTz *next_turn);

/* freeze.c */
extern List *stream_find_unfrozen(Oid table, List *result);
extern void stream_freeze(VacuumRelation *relation);

#endif							/* STREAM_WORKER_UPKEEP_H */
