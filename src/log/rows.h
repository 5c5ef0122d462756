/*-------------------------------------------------------------------------
 *
 * rows.h
 *		The records that a function returns, as rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_ROWS_H
#define STREAM_ROWS_H

#include "fmgr.h"
#include "log/read.h"
#include "log/value.h"
#include "nodes/extensible.h"

/* Records of a partition that a function returns: from <= offset < to. */
typedef struct StreamTaken
{
	int32		partition;
	int64		from;
	int64		to;
} StreamTaken;

/*
 * What a function returns.  A scan that calls the function by itself passes one
 * of these as the call's context, and reads from it afterwards.
 */
typedef struct StreamRows
{
	ExtensibleNode node;
	Oid			table;			/* the stream's */
	Snapshot	own;			/* the statement's */
	StreamRecordDatums copies;
	Tuplestorestate *store;		/* of a function called as any other; null: for a scan */

	/* for a scan */
	Snapshot	registered;		/* own, until the rows are cleared; or null */
	bool		unlocks;		/* and then the stream's foreign table is unlocked */
	MemoryContext context;		/* of the ranges */
	MemoryContext reading_context;	/* of reader and copies */
	int			wanted;			/* columns: value.h */
	StreamTaken *ranges;		/* may be another's, see stream_rows_share */
	int			nranges;
	int			allocated;
	int			next_range;		/* to be read when the reader has come to its end */
	bool		reading;		/* reader is in use */
	StreamReader reader;
} StreamRows;

extern StreamRows *stream_rows_begin(FunctionCallInfo fcinfo, Oid table, Snapshot own);
extern int64 stream_rows_take(StreamRows *rows, StreamReader *reader, StreamLimits *limits);
extern void stream_rows_take_all(StreamRows *rows, StreamReader *reader);
extern void stream_rows_unlock(StreamRows *rows);

extern StreamRows *stream_rows_for_scan(int wanted);
extern void stream_rows_share(StreamRows *rows, const StreamRows *original);
extern bool stream_rows_next(StreamRows *rows, Datum *values, bool *nulls);
extern void stream_rows_rewind(StreamRows *rows);
extern void stream_rows_clear(StreamRows *rows);

#endif							/* STREAM_ROWS_H */
