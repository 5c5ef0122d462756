/*-------------------------------------------------------------------------
 *
 * publish.c
 *		The SQL functions that publish.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "funcapi.h"
#include "log/append.h"
#include "log/position.h"
#include "log/publish.h"
#include "log/value.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(stream_publish_jsonb);
PG_FUNCTION_INFO_V1(stream_publish_json);
PG_FUNCTION_INFO_V1(stream_publish_text);
PG_FUNCTION_INFO_V1(stream_publish_bytes);
PG_FUNCTION_INFO_V1(stream_publish_tombstone);
PG_FUNCTION_INFO_V1(stream_publish_batch);
PG_FUNCTION_INFO_V1(stream_publish_bytes_batch);

/* Arguments of the functions for one record. */
#define ARG_STREAM		0
#define ARG_KEY			1
#define ARG_VALUE		2
#define ARG_HEADERS		3
#define ARG_PARTITION	4

/* One of publish_batch's arrays. */
typedef struct RecordArray
{
	Datum	   *elements;		/* null: the array is null */
	bool	   *nulls;
	int			count;
} RecordArray;

static StreamTarget *
target_argument(FunctionCallInfo fcinfo)
{
	text	   *name;

	if (unlikely(PG_ARGISNULL(ARG_STREAM)))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("stream must not be null")));
	name = PG_GETARG_TEXT_PP(ARG_STREAM);
	return stream_target(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
}

static void
null_value(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", what),
			 errhint("To say that a key is gone, call stream.publish_tombstone.")));
}

/* set_key makes a record's key of a text, which must stay in place. */
static inline void
set_key(StreamRecord *record, Datum datum)
{
	text	   *key = DatumGetTextPP(datum);

	record->key = VARDATA_ANY(key);
	record->key_len = VARSIZE_ANY_EXHDR(key);
}

/* set_value does so for a jsonb's or a bytea's bytes. */
static inline void
set_value(StreamRecord *record, Datum datum)
{
	struct varlena *value = PG_DETOAST_DATUM_PACKED(datum);

	record->value = VARDATA_ANY(value);
	record->value_len = VARSIZE_ANY_EXHDR(value);
}

static inline void
set_headers(StreamRecord *record, Datum datum, int element)
{
	struct varlena *headers;

	stream_check_headers(datum, element);
	headers = PG_DETOAST_DATUM_PACKED(datum);
	record->headers = VARDATA_ANY(headers);
	record->headers_len = VARSIZE_ANY_EXHDR(headers);
}

static inline void
clear_record(StreamRecord *record)
{
	record->key = record->value = record->headers = NULL;
	record->key_len = record->value_len = record->headers_len = -1;
}

/*
 * stream_choose_partition places a record by its key; without one, records go
 * to all partitions in turn, beginning anywhere.
 */
int32
stream_choose_partition(StreamTarget *target, const StreamRecord *record)
{
	static uint32 turn = 0;

	if (record->key_len >= 0)
		return stream_partition_of_key(record->key, record->key_len, target->partitions);
	if (unlikely(turn == 0))
		turn = pg_prng_uint32(&pg_global_prng_state);
	return turn++ % (uint32) target->partitions;
}

/* stream_publish_record publishes one record to a partition, and returns its offset. */
int64
stream_publish_record(StreamTarget *target, int32 partition, StreamRecord *record)
{
	StreamBlock block;

	stream_block_reserve(&block, target, partition, 1);
	stream_block_append(&block, record);
	stream_publish_call_done();
	return record->offset;
}

/*
 * stream_publish_records publishes n records to the partitions given: it
 * reserves one block in each partition that gets some, then fills the blocks in
 * order.  Offsets and times are set in the records.
 */
void
stream_publish_records(StreamTarget *target, StreamRecord *records, const int32 *partitions, int n)
{
	int32	   *counts = palloc0_array(int32, target->partitions);
	StreamBlock *blocks = palloc_array(StreamBlock, target->partitions);

	for (int i = 0; i < n; i++)
		counts[partitions[i]]++;
	for (int32 p = 0; p < target->partitions; p++)
		if (counts[p] > 0)
			stream_block_reserve(&blocks[p], target, p, counts[p]);
	for (int i = 0; i < n; i++)
		stream_block_append(&blocks[partitions[i]], &records[i]);
	stream_publish_call_done();
	pfree(counts);
	pfree(blocks);
}

/*
 * publish_one publishes a record with the value given, which is null for a
 * tombstone.  partition_arg is -1 for a function without that argument.
 */
static Datum
publish_one(FunctionCallInfo fcinfo, StreamTarget *target, Datum value, bool tombstone,
			int headers_arg, int partition_arg)
{
	StreamRecord record;
	int32		partition;

	clear_record(&record);
	if (!PG_ARGISNULL(ARG_KEY))
		set_key(&record, PG_GETARG_DATUM(ARG_KEY));
	if (!tombstone)
		set_value(&record, value);
	if (!PG_ARGISNULL(headers_arg))
		set_headers(&record, PG_GETARG_DATUM(headers_arg), 0);
	if (partition_arg >= 0 && !PG_ARGISNULL(partition_arg))
	{
		partition = PG_GETARG_INT32(partition_arg);
		if (partition < 0 || partition >= target->partitions)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("partition %d of stream \"%s\" does not exist", partition, NameStr(target->name)),
					 errdetail("The stream's partitions are 0 to %d.", target->partitions - 1)));
	}
	else
		partition = stream_choose_partition(target, &record);

	return stream_make_position(partition, stream_publish_record(target, partition, &record));
}

Datum
stream_publish_jsonb(PG_FUNCTION_ARGS)
{
	StreamTarget *target = target_argument(fcinfo);

	stream_check_value_type(NameStr(target->name), target->value_type, STREAM_VALUE_JSONB);
	if (PG_ARGISNULL(ARG_VALUE))
		null_value("value");
	return publish_one(fcinfo, target, PG_GETARG_DATUM(ARG_VALUE), false, ARG_HEADERS, ARG_PARTITION);
}

/* A json is a text that is valid JSON. */
Datum
stream_publish_json(PG_FUNCTION_ARGS)
{
	return stream_publish_text(fcinfo);
}

Datum
stream_publish_text(PG_FUNCTION_ARGS)
{
	StreamTarget *target = target_argument(fcinfo);
	char	   *json;

	stream_check_value_type(NameStr(target->name), target->value_type, STREAM_VALUE_JSONB);
	if (PG_ARGISNULL(ARG_VALUE))
		null_value("value");
	json = text_to_cstring(PG_GETARG_TEXT_PP(ARG_VALUE));
	return publish_one(fcinfo, target, DirectFunctionCall1(jsonb_in, CStringGetDatum(json)), false,
					   ARG_HEADERS, ARG_PARTITION);
}

Datum
stream_publish_bytes(PG_FUNCTION_ARGS)
{
	StreamTarget *target = target_argument(fcinfo);

	stream_check_value_type(NameStr(target->name), target->value_type, STREAM_VALUE_BYTEA);
	if (PG_ARGISNULL(ARG_VALUE))
		null_value("value");
	return publish_one(fcinfo, target, PG_GETARG_DATUM(ARG_VALUE), false, ARG_HEADERS, ARG_PARTITION);
}

Datum
stream_publish_tombstone(PG_FUNCTION_ARGS)
{
	StreamTarget *target = target_argument(fcinfo);

	if (PG_ARGISNULL(ARG_KEY))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("key of a tombstone must not be null")));
	return publish_one(fcinfo, target, (Datum) 0, true, 2, -1);
}

/* array_argument takes an array argument apart; null is an array of no length. */
static void
array_argument(FunctionCallInfo fcinfo, int arg, const char *name, RecordArray *result)
{
	ArrayType  *array;
	Oid			type;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	memset(result, 0, sizeof(RecordArray));
	if (PG_ARGISNULL(arg))
		return;
	array = PG_GETARG_ARRAYTYPE_P(arg);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("%s must be an array of one dimension", name)));
	type = ARR_ELEMTYPE(array);
	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	deconstruct_array(array, type, typlen, typbyval, typalign,
					  &result->elements, &result->nulls, &result->count);
}

static void
check_length(const RecordArray *array, const char *name, int count)
{
	if (array->elements != NULL && array->count != count)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("%s and record_values must have the same length", name),
				 errdetail("They have %d and %d elements.", array->count, count)));
}

/* publish_batch publishes the records that three arrays make up. */
static Datum
publish_batch(FunctionCallInfo fcinfo, StreamValueType value_type)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StreamTarget *target = target_argument(fcinfo);
	RecordArray keys;
	RecordArray record_values;
	RecordArray headers;
	StreamRecord *records;
	int32	   *partitions;
	StreamPosition position = {0};
	Datum		value = PointerGetDatum(&position);
	bool		isnull = false;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	stream_check_value_type(NameStr(target->name), target->value_type, value_type);
	array_argument(fcinfo, 1, "keys", &keys);
	array_argument(fcinfo, 2, "record_values", &record_values);
	array_argument(fcinfo, 3, "headers", &headers);
	if (PG_ARGISNULL(2))
		null_value("record_values");
	check_length(&keys, "keys", record_values.count);
	check_length(&headers, "headers", record_values.count);
	if (record_values.count == 0)
		return (Datum) 0;

	records = palloc_extended(record_values.count * sizeof(StreamRecord), MCXT_ALLOC_HUGE);
	partitions = palloc_extended(record_values.count * sizeof(int32), MCXT_ALLOC_HUGE);

	/* everything that can be wrong with the input, before anything is reserved */
	for (int i = 0; i < record_values.count; i++)
	{
		StreamRecord *record = &records[i];

		clear_record(record);
		if (record_values.nulls[i])
			null_value(psprintf("element %d of record_values", i + 1));
		set_value(record, record_values.elements[i]);
		if (keys.elements != NULL && !keys.nulls[i])
			set_key(record, keys.elements[i]);
		if (headers.elements != NULL && !headers.nulls[i])
			set_headers(record, headers.elements[i], i + 1);
		partitions[i] = stream_choose_partition(target, record);
	}

	stream_publish_records(target, records, partitions, record_values.count);
	for (int i = 0; i < record_values.count; i++)
	{
		position.partition = partitions[i];
		position.offset = records[i].offset;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
	}
	return (Datum) 0;
}

Datum
stream_publish_batch(PG_FUNCTION_ARGS)
{
	return publish_batch(fcinfo, STREAM_VALUE_JSONB);
}

Datum
stream_publish_bytes_batch(PG_FUNCTION_ARGS)
{
	return publish_batch(fcinfo, STREAM_VALUE_BYTEA);
}
