/*-------------------------------------------------------------------------
 *
 * position.c
 *		The type stream.record_position.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "libpq/pqformat.h"
#include "log/position.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(stream_record_position_in);
PG_FUNCTION_INFO_V1(stream_record_position_out);
PG_FUNCTION_INFO_V1(stream_record_position_recv);
PG_FUNCTION_INFO_V1(stream_record_position_send);
PG_FUNCTION_INFO_V1(stream_record_position_make);
PG_FUNCTION_INFO_V1(stream_partition_of);
PG_FUNCTION_INFO_V1(stream_offset_of);
PG_FUNCTION_INFO_V1(stream_record_position_eq);
PG_FUNCTION_INFO_V1(stream_record_position_ne);
PG_FUNCTION_INFO_V1(stream_record_position_lt);
PG_FUNCTION_INFO_V1(stream_record_position_le);
PG_FUNCTION_INFO_V1(stream_record_position_gt);
PG_FUNCTION_INFO_V1(stream_record_position_ge);
PG_FUNCTION_INFO_V1(stream_record_position_cmp);
PG_FUNCTION_INFO_V1(stream_record_position_hash);
PG_FUNCTION_INFO_V1(stream_record_position_hash_extended);

/* stream_make_position makes a position, without checks. */
Datum
stream_make_position(int32 partition, int64 offset)
{
	StreamPosition *position = palloc(sizeof(StreamPosition));

	position->offset = offset;
	position->partition = partition;
	position->unused = 0;
	return PointerGetDatum(position);
}

static Datum
checked_position(int32 partition, int64 offset)
{
	if (partition < 0 || offset < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("record position %d:%lld is negative", partition, (long long) offset)));
	return stream_make_position(partition, offset);
}

/* The text form is partition:offset, two decimal numbers. */
Datum
stream_record_position_in(PG_FUNCTION_ARGS)
{
	char	   *text = PG_GETARG_CSTRING(0);
	char	   *colon = strchr(text, ':');
	char	   *partition;

	if (colon == NULL || strspn(text, "0123456789") != (size_t) (colon - text) || colon == text ||
		colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s: \"%s\"", "stream.record_position", text),
				 errhint("Write partition:offset, for example 3:1042.")));
	partition = pnstrdup(text, colon - text);
	return checked_position(pg_strtoint32(partition),
							DatumGetInt64(DirectFunctionCall1(int8in, CStringGetDatum(colon + 1))));
}

Datum
stream_record_position_out(PG_FUNCTION_ARGS)
{
	StreamPosition *position = PG_GETARG_STREAM_POSITION(0);

	PG_RETURN_CSTRING(psprintf("%d:%lld", position->partition, (long long) position->offset));
}

/* The binary form is int4 partition, int8 offset. */
Datum
stream_record_position_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int32		partition = pq_getmsgint(buf, 4);
	int64		offset = pq_getmsgint64(buf);

	return checked_position(partition, offset);
}

Datum
stream_record_position_send(PG_FUNCTION_ARGS)
{
	StreamPosition *position = PG_GETARG_STREAM_POSITION(0);
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendint32(&buf, position->partition);
	pq_sendint64(&buf, position->offset);
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

Datum
stream_record_position_make(PG_FUNCTION_ARGS)
{
	return checked_position(PG_GETARG_INT32(0), PG_GETARG_INT64(1));
}

Datum
stream_partition_of(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(PG_GETARG_STREAM_POSITION(0)->partition);
}

Datum
stream_offset_of(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_STREAM_POSITION(0)->offset);
}

static int
compare_positions(const StreamPosition *a, const StreamPosition *b)
{
	if (a->partition != b->partition)
		return a->partition < b->partition ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return 0;
}

static int
compare_arguments(FunctionCallInfo fcinfo)
{
	return compare_positions(PG_GETARG_STREAM_POSITION(0), PG_GETARG_STREAM_POSITION(1));
}

Datum
stream_record_position_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) == 0);
}

Datum
stream_record_position_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) != 0);
}

Datum
stream_record_position_lt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) < 0);
}

Datum
stream_record_position_le(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) <= 0);
}

Datum
stream_record_position_gt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) > 0);
}

Datum
stream_record_position_ge(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_arguments(fcinfo) >= 0);
}

Datum
stream_record_position_cmp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare_arguments(fcinfo));
}

Datum
stream_record_position_hash(PG_FUNCTION_ARGS)
{
	return hash_any((unsigned char *) PG_GETARG_STREAM_POSITION(0), sizeof(StreamPosition));
}

Datum
stream_record_position_hash_extended(PG_FUNCTION_ARGS)
{
	return hash_any_extended((unsigned char *) PG_GETARG_STREAM_POSITION(0), sizeof(StreamPosition),
							 PG_GETARG_INT64(1));
}
