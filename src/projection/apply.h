/*-------------------------------------------------------------------------
 *
 * apply.h
 *		Applying records of one partition to a projection.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_APPLY_H
#define STREAM_APPLY_H

#include "catalog/projections.h"
#include "utils/elog.h"

/* How an attempt has ended. */
typedef enum StreamApplyEnd
{
	STREAM_APPLY_GONE,			/* no such projection, or paused */
	STREAM_APPLY_BUSY,			/* somebody else holds the partition */
	STREAM_APPLY_IDLE,			/* there is nothing to apply */
	STREAM_APPLY_DONE			/* the offset has advanced */
} StreamApplyEnd;

/* One attempt to apply a batch: what is asked, and how far it has come. */
typedef struct StreamApply
{
	/* in */
	int32		projection_id;
	Oid			table;			/* the stream's */
	int32		partition;
	int32		max_records;
	bool		failing;		/* a row in projection_errors is to go */
	const ErrorData *dead;		/* why the next record is to become a dead letter,
								 * or null */
	int64		dead_offset;	/* that record's */

	/* out, also after an error */
	int64		first_offset;	/* of the batch, -1: none yet */
	int64		applied_offset; /* the next one to apply */
	int32		records;
	bool		full;			/* more was left, but for holes */
	bool		in_statement;	/* the error, if any, is the projection's own */
	bool		dead_letters;	/* it is the projection's policy to make some */
	NameData	name;			/* the projection's */
} StreamApply;

extern StreamApplyEnd stream_apply(StreamApply *apply);

#endif							/* STREAM_APPLY_H */
