/*-------------------------------------------------------------------------
 *
 * position.h
 *		The type stream.record_position.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_POSITION_H
#define STREAM_POSITION_H

#include "fmgr.h"

/* 16 bytes, as the SQL type says; compared field by field, hashed as a whole. */
typedef struct StreamPosition
{
	int64		offset;
	int32		partition;
	int32		unused;			/* zero */
} StreamPosition;

#define DatumGetStreamPosition(X)		((StreamPosition *) DatumGetPointer(X))
#define PG_GETARG_STREAM_POSITION(n)	DatumGetStreamPosition(PG_GETARG_DATUM(n))

extern Datum stream_make_position(int32 partition, int64 offset);

#endif							/* STREAM_POSITION_H */
