/*-------------------------------------------------------------------------
 *
 * readfuncs.c
 *		The SQL functions that read, and those about offsets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "funcapi.h"
#include "guc.h"
#include "log/append.h"
#include "log/position.h"
#include "log/read.h"
#include "log/reserve.h"
#include "log/rows.h"
#include "log/wait.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(stream_read);
PG_FUNCTION_INFO_V1(stream_read_bytes);
PG_FUNCTION_INFO_V1(stream_offset_at);
PG_FUNCTION_INFO_V1(stream_wait_for_offset);


/* open_stream finds and locks the stream named by the first argument, to read it. */
static Oid
open_stream(FunctionCallInfo fcinfo)
{
	return stream_table(stream_text_argument(fcinfo, 0, "stream"), AccessShareLock, ACL_SELECT, false);
}

static Datum
read_records(FunctionCallInfo fcinfo, StreamValueType value_type)
{
	Oid			table = open_stream(fcinfo);
	StreamInfo *info = stream_info(table);
	int32		partition;
	int64		from_offset;
	StreamLimits limits = {0};
	StreamReader reader;
	StreamRows *rows = stream_rows_begin(fcinfo, table, GetActiveSnapshot());

	stream_need_argument(fcinfo, 1, "partition");
	partition = PG_GETARG_INT32(1);
	stream_check_value_type(NameStr(info->name), info->value_type, value_type);
	stream_check_partition(info, partition);
	from_offset = -1;
	if (!PG_ARGISNULL(2))
	{
		from_offset = PG_GETARG_INT64(2);
		if (from_offset < 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("from_offset must not be negative")));
	}
	limits.records_left = stream_limit_argument(fcinfo, 3, false, "max_records");
	limits.bytes_left = stream_limit_argument(fcinfo, 4, true, "max_bytes");

	if (!RecoveryInProgress())	/* the reader has the error for that */
		from_offset = stream_check_from_offset(info, partition, from_offset);
	stream_reader_begin(&reader, table, partition, from_offset, rows->own);
	if (limits.records_left == PG_INT64_MAX && limits.bytes_left == PG_INT64_MAX)
		stream_rows_take_all(rows, &reader);
	else
		(void) stream_rows_take(rows, &reader, &limits);
	stream_reader_end(&reader);
	stream_rows_unlock(rows);
	return (Datum) 0;
}

Datum
stream_read(PG_FUNCTION_ARGS)
{
	return read_records(fcinfo, STREAM_VALUE_JSONB);
}

Datum
stream_read_bytes(PG_FUNCTION_ARGS)
{
	return read_records(fcinfo, STREAM_VALUE_BYTEA);
}

Datum
stream_offset_at(PG_FUNCTION_ARGS)
{
	Oid			table = open_stream(fcinfo);
	int64		result;

	stream_need_argument(fcinfo, 1, "partition");
	stream_need_argument(fcinfo, 2, "at");
	stream_check_partition(stream_info(table), PG_GETARG_INT32(1));
	result = stream_first_offset_at(table, PG_GETARG_INT32(1), PG_GETARG_TIMESTAMPTZ(2), GetActiveSnapshot());
	UnlockRelationOid(table, AccessShareLock);
	PG_RETURN_INT64(result);
}

Datum
stream_wait_for_offset(PG_FUNCTION_ARGS)
{
	Oid			table = open_stream(fcinfo);
	StreamInfo *info = stream_info(table);
	StreamPosition position;
	TimestampTz until;
	bool		passed;

	stream_need_argument(fcinfo, 1, "position");
	stream_need_argument(fcinfo, 2, "timeout");
	stream_prevent_wait_under_snapshot("wait_for_offset()");
	position = *PG_GETARG_STREAM_POSITION(1);
	until = stream_wait_until(PG_GETARG_INTERVAL_P(2));
	stream_check_partition(info, position.partition);
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot wait for a stream during recovery")));
	if (stream_holds_back(table, position.partition, position.offset))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot wait for a record behind what this transaction has published"),
				 errhint("Commit first.")));

	/* register first, look afterwards */
	stream_waiter_register(table);
	stream_waiter_add_partition(position.partition);
	while (!(passed = stream_current_watermark(stream_info(table), position.partition) > position.offset))
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		if (left <= 0)
			break;
		stream_waiter_sleep(left);
	}
	stream_waiter_unregister();
	UnlockRelationOid(table, AccessShareLock);
	PG_RETURN_BOOL(passed);
}
