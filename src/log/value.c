/*-------------------------------------------------------------------------
 *
 * value.c
 *		Records as Datums, and back.
 *
 * A batch stores keys, values and headers as raw bytes: a text's characters, a
 * jsonb's container, a bytea's bytes, each without its length word.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "log/murmur2.h"
#include "log/value.h"
#include "mb/pg_wchar.h"
#include "utils/jsonb.h"

Oid
stream_value_type_oid(StreamValueType type)
{
	return type == STREAM_VALUE_JSONB ? JSONBOID : BYTEAOID;
}

const char *
stream_value_type_name(StreamValueType type)
{
	return type == STREAM_VALUE_JSONB ? "jsonb" : "bytea";
}

/* stream_check_value_type refuses a function for values of the other type. */
void
stream_check_value_type(const char *stream, StreamValueType actual, StreamValueType wanted)
{
	if (unlikely(actual != wanted))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("stream \"%s\" has values of type %s, not %s",
						stream, stream_value_type_name(actual), stream_value_type_name(wanted)),
				 actual == STREAM_VALUE_BYTEA ?
				 errhint("Use the functions named *_bytes.") :
				 errhint("Use the functions without _bytes in their names.")));
}

/*
 * stream_check_headers refuses headers that are no object; element is their
 * place in an array, or 0.
 */
void
stream_check_headers(Datum headers, int element)
{
	Jsonb	   *jb = DatumGetJsonbP(headers);

	if (!JB_ROOT_IS_OBJECT(jb))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 element == 0 ? errmsg("headers must be a JSON object") :
				 errmsg("element %d of headers must be a JSON object", element)));
}

/* stream_partition_of_key is Kafka's default: murmur2 of the key in UTF-8. */
int32
stream_partition_of_key(const char *key, int32 len, int32 partitions)
{
	char	   *utf8;
	int32		partition;

	if (partitions == 1)
		return 0;
	utf8 = pg_server_to_any(key, len, PG_UTF8);
	if (utf8 == key)
		return stream_key_partition(key, len, partitions);
	partition = stream_key_partition(utf8, strlen(utf8), partitions);
	pfree(utf8);
	return partition;
}

/*
 * put_part makes a column of a part of a record: a copy behind a length word,
 * null when the part is null or not wanted.
 */
static inline void
put_part(char **memory, const char *data, int32 len, bool wanted, Datum *value, bool *isnull)
{
	char	   *start = *memory;

	if (len < 0 || !wanted)
	{
		*isnull = true;
		return;
	}
	SET_VARSIZE(start, VARHDRSZ + len);
	memcpy(VARDATA(start), data, len);
	*memory = start + MAXALIGN(VARHDRSZ + len);
	*value = PointerGetDatum(start);
	*isnull = false;
}

/* reserve gives copies room for a record. */
static inline char *
reserve(StreamRecordDatums *copies, Size needed)
{
	if (unlikely(needed > copies->size))
	{
		Size		size = Max(needed + needed / 4, 1024);

		if (copies->memory != NULL)
			pfree(copies->memory);
		copies->memory = palloc_extended(size, MCXT_ALLOC_HUGE);
		copies->size = size;
	}
	return copies->memory;
}

/* parts_size is the most that a record's parts take as varlenas, alignment included. */
static inline Size
parts_size(const StreamRecord *record)
{
	return MAXALIGN(VARHDRSZ + Max(record->key_len, 0)) +
		MAXALIGN(VARHDRSZ + (Size) Max(record->value_len, 0)) +
		MAXALIGN(VARHDRSZ + (Size) Max(record->headers_len, 0));
}

/*
 * stream_record_datums makes a record's columns.  Zero the copies before their
 * first use; a record's varlenas are good until the next call.
 */
void
stream_record_datums(StreamRecordDatums *copies, int32 partition, const StreamRecord *record,
					 int wanted, Datum *values, bool *nulls)
{
	char	   *memory = reserve(copies, parts_size(record));

	values[Anum_record_partition - 1] = Int32GetDatum(partition);
	values[Anum_record_offset - 1] = Int64GetDatum(record->offset);
	values[Anum_record_published_at - 1] = Int64GetDatum(record->timestamp);
	nulls[Anum_record_partition - 1] = false;
	nulls[Anum_record_offset - 1] = false;
	nulls[Anum_record_published_at - 1] = false;
	put_part(&memory, record->key, record->key_len, wanted & STREAM_WANT(Anum_record_key),
			 &values[Anum_record_key - 1], &nulls[Anum_record_key - 1]);
	put_part(&memory, record->value, record->value_len, wanted & STREAM_WANT(Anum_record_value),
			 &values[Anum_record_value - 1], &nulls[Anum_record_value - 1]);
	put_part(&memory, record->headers, record->headers_len, wanted & STREAM_WANT(Anum_record_headers),
			 &values[Anum_record_headers - 1], &nulls[Anum_record_headers - 1]);
}

/* store_part appends a part of a record to a row that is being made, as heap_fill_tuple does. */
static inline char *
store_part(char *at, const char *data, int32 len)
{
	if (len < 0)
		return at;
	if (len + VARHDRSZ_SHORT <= VARATT_SHORT_MAX)
	{
		SET_VARSIZE_SHORT(at, len + VARHDRSZ_SHORT);
		at += VARHDRSZ_SHORT;
	}
	else
	{
		char	   *aligned = (char *) INTALIGN(at);

		/* a reader knows a long one by the zeros before it */
		while (at < aligned)
			*at++ = 0;
		SET_VARSIZE(at, VARHDRSZ + (Size) len);
		at += VARHDRSZ;
	}
	memcpy(at, data, len);
	return at + len;
}

/*
 * stream_put_record appends a record to a set of rows with the columns of a
 * record.  Its layout is known, so the row is made here, which takes half the
 * time of tuplestore_putvalues.
 */
void
stream_put_record(StreamRecordDatums *copies, Tuplestorestate *rows, int32 partition, const StreamRecord *record)
{
	const Size	hoff = MAXALIGN(SizeofHeapTupleHeader + BITMAPLEN(Natts_record));
	char	   *memory = reserve(copies, hoff + 3 * sizeof(int64) + parts_size(record));
	HeapTupleHeader header = (HeapTupleHeader) memory;
	HeapTupleData tuple;
	char	   *at = memory + hoff;
	bits8		present = (1 << (Anum_record_partition - 1)) | (1 << (Anum_record_offset - 1)) |
		(1 << (Anum_record_published_at - 1));

	((int32 *) at)[0] = partition;
	((int32 *) at)[1] = 0;
	((int64 *) at)[1] = record->offset;
	((int64 *) at)[2] = record->timestamp;
	at = store_part(at + 3 * sizeof(int64), record->key, record->key_len);
	at = store_part(at, record->value, record->value_len);
	at = store_part(at, record->headers, record->headers_len);
	present |= (record->key_len >= 0) << (Anum_record_key - 1);
	present |= (record->value_len >= 0) << (Anum_record_value - 1);
	present |= (record->headers_len >= 0) << (Anum_record_headers - 1);

	MemSet(header, 0, hoff);
	HeapTupleHeaderSetNatts(header, Natts_record);
	header->t_hoff = hoff;
	header->t_infomask = HEAP_HASVARWIDTH;
	if (present != (1 << Natts_record) - 1)
	{
		header->t_infomask |= HEAP_HASNULL;
		header->t_bits[0] = present;
	}
	tuple.t_len = at - memory;
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	tuplestore_puttuple(rows, &tuple);
}
