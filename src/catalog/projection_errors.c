/*-------------------------------------------------------------------------
 *
 * projection_errors.c
 *		The table stream_internal.projection_errors.
 *
 * A row says why a projection does not get on in a partition.  It is written
 * after the batch has been rolled back, by a transaction of its own, and goes
 * with the first batch that succeeds; so it survives a restart.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/projection_errors.h"
#include "catalog/tables.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

#define ERRORS_TABLE	"projection_errors"
#define ERRORS_PKEY		"projection_errors_pkey"

#define Anum_errors_projection_id	1
#define Anum_errors_partition		2
#define Anum_errors_record_offset	3
#define Anum_errors_stopped			4
#define Anum_errors_sqlstate		5
#define Anum_errors_message			6
#define Anum_errors_detail			7
#define Anum_errors_hint			8
#define Anum_errors_failing_since	9
#define Anum_errors_failed_at		10
#define Anum_errors_next_retry_at	11
#define Anum_errors_retries			12
#define Natts_errors				12

static void
init_keys(ScanKey keys, int32 projection_id, int32 partition)
{
	ScanKeyInit(&keys[0], Anum_errors_projection_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(projection_id));
	ScanKeyInit(&keys[1], Anum_errors_partition, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(partition));
}

/* get_text returns a copy of a text, or null. */
static char *
get_text(StreamCatalogScan *scan, HeapTuple tuple, int attnum)
{
	bool		isnull;
	Datum		value = stream_catalog_get(scan, tuple, attnum, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

static void
put_text(Datum *values, bool *nulls, int attnum, const char *text)
{
	nulls[attnum - 1] = text == NULL;
	if (text != NULL)
		values[attnum - 1] = CStringGetTextDatum(text);
}

/* stream_projection_error returns the row of a partition, or null. */
StreamProjectionError *
stream_projection_error(int32 projection_id, int32 partition)
{
	StreamProjectionError *result = NULL;
	StreamCatalogScan scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;

	init_keys(keys, projection_id, partition);
	stream_catalog_begin(&scan, ERRORS_TABLE, ERRORS_PKEY, 2, keys, false);
	tuple = stream_catalog_next(&scan, ForwardScanDirection);
	if (HeapTupleIsValid(tuple))
	{
		result = palloc0_object(StreamProjectionError);
		result->projection_id = projection_id;
		result->partition = partition;
		result->record_offset = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_errors_record_offset, NULL));
		result->stopped = DatumGetBool(stream_catalog_get(&scan, tuple, Anum_errors_stopped, NULL));
		result->sqlstate = TextDatumGetCString(stream_catalog_get(&scan, tuple, Anum_errors_sqlstate, NULL));
		result->message = TextDatumGetCString(stream_catalog_get(&scan, tuple, Anum_errors_message, NULL));
		result->detail = get_text(&scan, tuple, Anum_errors_detail);
		result->hint = get_text(&scan, tuple, Anum_errors_hint);
		result->failing_since = DatumGetTimestampTz(stream_catalog_get(&scan, tuple, Anum_errors_failing_since, NULL));
		result->failed_at = DatumGetTimestampTz(stream_catalog_get(&scan, tuple, Anum_errors_failed_at, NULL));
		result->next_retry_at = DatumGetTimestampTz(stream_catalog_get(&scan, tuple, Anum_errors_next_retry_at, NULL));
		result->retries = DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_errors_retries, NULL));
	}
	stream_catalog_end(&scan);
	return result;
}

/* stream_put_projection_error replaces the row of a partition. */
void
stream_put_projection_error(const StreamProjectionError *error)
{
	Datum		values[Natts_errors] = {0};
	bool		nulls[Natts_errors] = {false};

	stream_delete_projection_error(error->projection_id, error->partition);
	CommandCounterIncrement();
	values[Anum_errors_projection_id - 1] = Int32GetDatum(error->projection_id);
	values[Anum_errors_partition - 1] = Int32GetDatum(error->partition);
	values[Anum_errors_record_offset - 1] = Int64GetDatum(error->record_offset);
	values[Anum_errors_stopped - 1] = BoolGetDatum(error->stopped);
	values[Anum_errors_sqlstate - 1] = CStringGetTextDatum(error->sqlstate);
	values[Anum_errors_message - 1] = CStringGetTextDatum(error->message);
	put_text(values, nulls, Anum_errors_detail, error->detail);
	put_text(values, nulls, Anum_errors_hint, error->hint);
	values[Anum_errors_failing_since - 1] = TimestampTzGetDatum(error->failing_since);
	values[Anum_errors_failed_at - 1] = TimestampTzGetDatum(error->failed_at);
	values[Anum_errors_next_retry_at - 1] = TimestampTzGetDatum(error->next_retry_at);
	values[Anum_errors_retries - 1] = Int32GetDatum(error->retries);
	stream_catalog_insert(ERRORS_TABLE, Natts_errors, values, nulls);
}

void
stream_delete_projection_error(int32 projection_id, int32 partition)
{
	ScanKeyData keys[2];

	init_keys(keys, projection_id, partition);
	stream_catalog_delete(ERRORS_TABLE, ERRORS_PKEY, 2, keys);
}

/* stream_delete_projection_errors removes the rows of all partitions. */
void
stream_delete_projection_errors(int32 projection_id)
{
	ScanKeyData keys[2];

	init_keys(keys, projection_id, 0);
	stream_catalog_delete(ERRORS_TABLE, ERRORS_PKEY, 1, keys);
}
