/*-------------------------------------------------------------------------
 *
 * rows.c
 *		The records that a function returns, as rows.
 *
 * A function says which records it returns, as ranges of offsets.  Called as any
 * function is, it has them in a tuplestore when it ends.  A scan that calls it
 * by itself reads them one by one, when they are asked for, and only the columns
 * that are wanted; for small records that takes half the time.  All of a range
 * is committed before it is taken, and a record never changes, so it does not
 * matter when it is read, or how often.  No lock keeps the segments in between:
 * nothing but a drop of the stream takes one away.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "funcapi.h"
#include "log/rows.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define ROWS_NAME		"StreamRows"

/* stream_rows_begin returns where a function puts what it returns. */
StreamRows *
stream_rows_begin(FunctionCallInfo fcinfo, Oid table, Snapshot own)
{
	StreamRows *rows;

	if (fcinfo->context != NULL && IsA(fcinfo->context, ExtensibleNode) &&
		strcmp(((ExtensibleNode *) fcinfo->context)->extnodename, ROWS_NAME) == 0)
	{
		rows = (StreamRows *) fcinfo->context;
		/* a cursor is read when another one is active */
		own = rows->registered = RegisterSnapshot(own);
	}
	else
	{
		InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
		rows = palloc0_object(StreamRows);
		rows->store = ((ReturnSetInfo *) fcinfo->resultinfo)->setResult;
	}
	rows->table = table;
	rows->own = own;
	return rows;
}

/* put_range reads a range into the tuplestore. */
static void
put_range(StreamRows *rows, const StreamTaken *range)
{
	StreamReader reader;
	StreamRecord record;

	stream_reader_begin(&reader, rows->table, range->partition, range->from, rows->own);
	reader.limit = Min(reader.limit, range->to);
	while (stream_reader_next(&reader, &record))
		stream_put_record(&rows->copies, rows->store, range->partition, &record);
	stream_reader_end(&reader);
}

static void
add_range(StreamRows *rows, const StreamTaken *range)
{
	if (rows->nranges == rows->allocated)
	{
		rows->allocated = Max(4, 2 * rows->allocated);
		if (rows->ranges == NULL)
			rows->ranges = MemoryContextAlloc(rows->context, rows->allocated * sizeof(StreamTaken));
		else
			rows->ranges = repalloc_array(rows->ranges, StreamTaken, rows->allocated);
	}
	rows->ranges[rows->nranges++] = *range;
}

static void
take_range(StreamRows *rows, int32 partition, int64 from, int64 to)
{
	StreamTaken range = {partition, from, to};

	if (rows->store == NULL)
		add_range(rows, &range);
	else
		put_range(rows, &range);
}

/*
 * stream_rows_take adds the next records of a reader that stands at the first of
 * them, as many as the limits allow.  It returns the offset behind the last one.
 */
int64
stream_rows_take(StreamRows *rows, StreamReader *reader, StreamLimits *limits)
{
	int64		from = reader->position;
	int64		records = limits->records;
	int64		to = stream_reader_take(reader, limits);

	if (limits->records > records)
		take_range(rows, reader->partition, from, to);
	return to;
}

/* stream_rows_take_all adds all that a reader has, without counting. */
void
stream_rows_take_all(StreamRows *rows, StreamReader *reader)
{
	if (!reader->finished)
		take_range(rows, reader->partition, reader->position, reader->limit);
}

/* stream_rows_unlock releases the AccessShareLock on the stream's foreign table when all has been read. */
void
stream_rows_unlock(StreamRows *rows)
{
	if (rows->store == NULL)
		rows->unlocks = true;
	else
		UnlockRelationOid(rows->table, AccessShareLock);
}

/* stream_rows_for_scan returns a place for rows, in the current memory context. */
StreamRows *
stream_rows_for_scan(int wanted)
{
	StreamRows *rows = palloc0_object(StreamRows);

	NodeSetTag(rows, T_ExtensibleNode);
	rows->node.extnodename = ROWS_NAME;
	rows->wanted = wanted;
	rows->context = CurrentMemoryContext;
	rows->reading_context = AllocSetContextCreate(CurrentMemoryContext, "stream rows", ALLOCSET_DEFAULT_SIZES);
	return rows;
}

/* stream_rows_share has one scan read what a call has put into another's rows, which live longer. */
void
stream_rows_share(StreamRows *rows, const StreamRows *original)
{
	rows->table = original->table;
	rows->own = original->own;
	rows->ranges = original->ranges;
	rows->nranges = original->nranges;
	rows->next_range = 0;
}

static void
end_reader(StreamRows *rows)
{
	if (rows->reading)
		stream_reader_end(&rows->reader);
	rows->reading = false;
	rows->copies.memory = NULL;
	rows->copies.size = 0;
	MemoryContextReset(rows->reading_context);
}

/* begin_reader begins to read the next range; false: there is none. */
static bool
begin_reader(StreamRows *rows)
{
	StreamTaken *range;

	if (rows->next_range == rows->nranges)
		return false;
	range = &rows->ranges[rows->next_range++];
	stream_reader_begin(&rows->reader, rows->table, range->partition, range->from, rows->own);
	rows->reader.limit = Min(rows->reader.limit, range->to);
	rows->reading = true;
	return true;
}

/*
 * stream_rows_next reads the next row; false: there is none.  What it returns is
 * good until the next call.
 */
bool
stream_rows_next(StreamRows *rows, Datum *values, bool *nulls)
{
	MemoryContext save = MemoryContextSwitchTo(rows->reading_context);
	StreamRecord record;
	bool		found = false;

	do
	{
		if (likely(rows->reading))
		{
			found = stream_reader_next(&rows->reader, &record);
			if (likely(found))
				stream_record_datums(&rows->copies, rows->reader.partition, &record, rows->wanted, values, nulls);
			else
				end_reader(rows);
		}
	} while (!found && begin_reader(rows));
	MemoryContextSwitchTo(save);
	return found;
}

/* stream_rows_rewind goes back to the first row. */
void
stream_rows_rewind(StreamRows *rows)
{
	end_reader(rows);
	rows->next_range = 0;
}

/* stream_rows_clear removes all rows. */
void
stream_rows_clear(StreamRows *rows)
{
	stream_rows_rewind(rows);
	rows->nranges = 0;
	if (rows->registered != NULL)
		UnregisterSnapshot(rows->registered);
	rows->registered = NULL;
	if (rows->unlocks)
		UnlockRelationOid(rows->table, AccessShareLock);
	rows->unlocks = false;
}
