/*-------------------------------------------------------------------------
 *
 * upkeep.h
 *		What a stream's log needs from time to time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_UPKEEP_H
#define STREAM_UPKEEP_H

#include "catalog/streams.h"
#include "utils/relcache.h"

extern int64 stream_segment_bytes(Relation rel);
extern bool stream_roll_is_due(Oid table, TimestampTz *due_at);
extern bool stream_has_closing(const StreamInfo *info);
extern bool stream_is_frozen(Relation rel);

#endif							/* STREAM_UPKEEP_H */
