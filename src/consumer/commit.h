/*-------------------------------------------------------------------------
 *
 * commit.h
 *		Commits of a consumer group's members.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_COMMIT_H
#define STREAM_COMMIT_H

#include "catalog/groups.h"
#include "fmgr.h"

/* For each partition the offset behind the last position given, or -1. */
extern int64 *stream_positions_argument(FunctionCallInfo fcinfo, int arg, const char *name, StreamInfo *info);
extern void stream_check_position(StreamInfo *info, const StreamGroup *group, const char *member_id, int32 partition,
								  int64 offset, bool polls);
extern bool stream_commit_processed(Oid table, const StreamGroup *group, const char *member_id,
									int32 client_epoch, const int64 *processed);

#endif							/* STREAM_COMMIT_H */
