/*-------------------------------------------------------------------------
 *
 * fetch.h
 *		Reading a consumer group's records into the result of a function.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_FETCH_H
#define STREAM_FETCH_H

#include "catalog/groups.h"
#include "compat.h"
#include "log/rows.h"

/* A call that returns a group's records. */
typedef struct StreamFetch
{
	StreamRows *rows;			/* its result */
	Oid			table;
	StreamGroup group;			/* a copy: the cache can be rebuilt */
	uint32		changes;		/* of the stream's info when it was made */
	Snapshot	own;			/* the statement's */
	StreamLimits limits;		/* of the call */
} StreamFetch;

extern int32 stream_fetch_begin(StreamFetch *fetch, FunctionCallInfo fcinfo, const char *group_name,
								StreamValueType value_type);
extern void stream_fetch_refresh(StreamFetch *fetch);
extern int64 stream_fetch_start(StreamFetch *fetch, int32 partition, int64 committed, int64 *skipped);
extern int64 stream_fetch_partition(StreamFetch *fetch, int32 partition, int64 position);
extern void stream_check_group(Oid table, const char *group_name, int32 group_id);
extern stream_noreturn void stream_report_missing_offset(Oid table, const char *group_name,
														 int32 group_id, int32 partition);

#endif							/* STREAM_FETCH_H */
