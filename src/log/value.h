/*-------------------------------------------------------------------------
 *
 * value.h
 *		Records as Datums, and back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_VALUE_H
#define STREAM_VALUE_H

#include "catalog/streams.h"
#include "log/batch.h"
#include "lib/stringinfo.h"
#include "utils/tuplestore.h"

/* Columns of a record, in the order of the read functions and foreign tables. */
#define Anum_record_partition		1
#define Anum_record_offset			2
#define Anum_record_published_at	3
#define Anum_record_key				4
#define Anum_record_value			5
#define Anum_record_headers			6
#define Natts_record				6

extern Oid	stream_value_type_oid(StreamValueType type);
extern const char *stream_value_type_name(StreamValueType type);
extern void stream_check_value_type(const char *stream, StreamValueType actual, StreamValueType wanted);
extern void stream_check_headers(Datum headers, int element);
extern int32 stream_partition_of_key(const char *key, int32 len, int32 partitions);

/* Copies of a record's parts as varlenas, good until the next record. */
typedef struct StreamRecordDatums
{
	char	   *memory;			/* palloc'd */
	Size		size;
} StreamRecordDatums;

/* Which of the parts that cost a copy are wanted: bits by column number. */
#define STREAM_WANT(attnum)		(1 << (attnum))
#define STREAM_WANT_ALL			(-1)

extern void stream_record_datums(StreamRecordDatums *copies, int32 partition, const StreamRecord *record,
								 int wanted, Datum *values, bool *nulls);
extern void stream_put_record(StreamRecordDatums *copies, Tuplestorestate *rows, int32 partition,
							  const StreamRecord *record);

#endif							/* STREAM_VALUE_H */
