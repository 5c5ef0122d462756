/*-------------------------------------------------------------------------
 *
 * fuzz_batch.c
 *		A fuzz target for the record batch, in libFuzzer's form.
 *
 * An input is a batch to read or a script of calls that build batches.  Beside
 * what the sanitizers find, it is an error when
 *
 *		- a record reaches out of the batch, or is out of order;
 *		- a sound batch, built again from its records, has another body;
 *		- a script's batches do not hold just the records it appended.
 *
 * Inputs lie in memory of just their size, so that a byte too far is noticed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <lz4.h>

#include "batch.h"
#include "records.h"
#include "reference.h"

#include "fuzz_batch.h"

FuzzCounts	fuzz_counts;

/*
 * check stops the program when something is wrong.
 */
static void
check(bool right, const char *what)
{
	if (!right)
	{
		fprintf(stderr, "wrong: %s\n", what);
		abort();
	}
}

/*
 * check_field checks that a key, value or headers lie within the body.  Reads
 * the bytes, so that the address sanitizer sees them read.
 */
static void
check_field(const char *data, int32 len, const char *start, const char *end)
{
	volatile char sum = 0;

	if (len < 0)
	{
		check(len == -1 && data == NULL, "a null field");
		return;
	}
	check(data >= start && data <= end && len <= end - data,
		  "a field reaches out of the body");
	for (int32 i = 0; i < len; i++)
		sum ^= data[i];
}

/*
 * read_batch reads a batch and collects its records, which point into the
 * reader's memory or the batch.  Returns whether it is sound.
 */
static bool
read_batch(StreamBatchReader *reader, const char *datum, Size size,
		   RecordList *list)
{
	StreamBatchStatus status;
	StreamRecord record;
	const char *start;
	const char *end;

	status = stream_batch_open(reader, datum, size);
	if (status != STREAM_BATCH_OK)
	{
		check(stream_batch_next(reader, &record) == STREAM_BATCH_BAD_RECORD,
			  "a reader that failed to open goes on");
		return false;
	}
	fuzz_counts.opened++;

	start = reader->pos;
	end = reader->end;
	while ((status = stream_batch_next(reader, &record)) == STREAM_BATCH_OK)
	{
		check_field(record.key, record.key_len, start, end);
		check_field(record.value, record.value_len, start, end);
		check_field(record.headers, record.headers_len, start, end);
		check(record.offset >= reader->header.base_offset &&
			  record.offset <= reader->header.last_offset,
			  "an offset outside the header's range");
		if (list->count > 0)
		{
			const StreamRecord *previous = &list->items[list->count - 1].record;

			check(record.offset > previous->offset, "the order of offsets");
			check(record.timestamp >= previous->timestamp,
				  "the order of timestamps");
		}
		records_add(list, &record);
	}
	check(stream_batch_next(reader, &record) == status, "a status that stays");
	if (status != STREAM_BATCH_END)
		return false;

	check(list->count == (int) reader->header.record_count &&
		  list->items[list->count - 1].record.offset == reader->header.last_offset,
		  "the header's count and last offset");
	fuzz_counts.sound++;
	return true;
}

/*
 * check_batch encodes a builder's first records, reads them back, compares them
 * with a list from "first" on, and drops them.  Returns how many they were.
 */
static int
check_batch(StreamBatchBuilder *builder, Size raw_limit,
			StreamCompression compression, const RecordList *list, int first)
{
	StreamBatchReader reader = {0};
	StreamBatchPrefix taken;
	Size		bound = stream_batch_bound(builder->len);
	char	   *buffer = palloc(bound);
	char	   *datum;
	Size		size;

	size = stream_batch_encode(builder, raw_limit, compression, 1, buffer,
							   bound, &taken);
	check(size > 0 && size <= bound, "the bound");
	check(taken.count == 1 || taken.raw_len <= raw_limit, "the limit");

	datum = palloc(size);
	memcpy(datum, buffer, size);
	pfree(buffer);

	check(stream_batch_open(&reader, datum, size) == STREAM_BATCH_OK &&
		  reader.header.record_count == taken.count &&
		  reader.header.last_offset == taken.last_offset &&
		  records_match(&reader, list, first, taken.count),
		  "what was built is what is read");
	check(reader.timestamp == taken.last_timestamp, "the last timestamp");
	stream_batch_discard(builder, &taken);

	stream_batch_reader_free(&reader);
	pfree(datum);
	return taken.count;
}

/*
 * check_sound builds a sound batch again from its records: the body must be the
 * same, byte for byte, and may be split anywhere and put together again.
 */
static void
check_sound(const StreamBatchReader *reader, const char *body,
			const RecordList *list)
{
	StreamBatchBuilder whole = {0};
	StreamBatchBuilder front = {0};
	StreamBatchBuilder back = {0};
	Size		raw_limit = reader->header.raw_length / 3;
	int			half = list->count / 2;
	int			done = 0;

	check(records_append(&whole, list, 0, list->count), "append");
	check(whole.len == reader->header.raw_length &&
		  memcmp(whole.data, body, whole.len) == 0, "the body built again");

	records_append(&front, list, 0, half);
	records_append(&back, list, half, list->count - half);
	check(stream_batch_concat(&front, &back) && front.len == whole.len &&
		  memcmp(front.data, whole.data, whole.len) == 0, "concat");

	while (whole.count > 0)
		done += check_batch(&whole, raw_limit,
							done % 2 ? STREAM_COMPRESSION_NONE : STREAM_COMPRESSION_LZ4,
							list, done);
	check(done == list->count, "the count of all parts");

	stream_batch_builder_free(&whole);
	stream_batch_builder_free(&front);
	stream_batch_builder_free(&back);
}

/*
 * fuzz_datum reads bytes as a batch.
 */
static void
fuzz_datum(const char *datum, Size size)
{
	StreamBatchReader reader = {0};
	StreamBatchHeader header;
	RecordList	list = {0};

	/* The header alone, whatever follows. */
	if (size > STREAM_BATCH_HEADER_SIZE)
	{
		char	   *head = palloc(STREAM_BATCH_HEADER_SIZE);

		memcpy(head, datum, STREAM_BATCH_HEADER_SIZE);
		if (stream_batch_read_header(head, STREAM_BATCH_HEADER_SIZE, &header) == STREAM_BATCH_OK)
			check(header.base_offset >= 0 && header.record_count > 0 &&
				  header.last_offset - header.base_offset >= header.record_count - 1,
				  "a header");
		pfree(head);
	}

	if (read_batch(&reader, datum, size, &list))
	{
		const char *body = reader.header.compression == STREAM_COMPRESSION_LZ4 ?
			reader.scratch : datum + STREAM_BATCH_HEADER_SIZE;

		check_sound(&reader, body, &list);
	}

	records_free(&list);
	stream_batch_reader_free(&reader);
}

/*
 * fuzz_raw_datum reads an input as a batch, after making the CRC and the raw
 * length right where the input asks for it.
 */
static void
fuzz_raw_datum(int control, const char *data, Size size)
{
	char	   *datum = palloc(size);

	if (size > 0)
		memcpy(datum, data, size);

	if ((control & FUZZ_FIX_LENGTH) && size > STREAM_BATCH_HEADER_SIZE &&
		datum[AT_ATTRIBUTES] == STREAM_COMPRESSION_NONE)
	{
		uint32		raw_length = size - STREAM_BATCH_HEADER_SIZE;

		memcpy(datum + AT_RAW_LENGTH, &raw_length, sizeof(raw_length));
	}
	if (control & FUZZ_FIX_CRC)
		reference_fix_crc(datum, size);

	fuzz_datum(datum, size);
	pfree(datum);
}

/*
 * fuzz_body puts a fitting header before a body: the first byte is the count of
 * records less one, the second what the last offset is above the least.
 */
static void
fuzz_body(bool packed, const char *data, Size size)
{
	uint32		count;
	uint32		delta;
	uint32		raw_length;
	Size		datum_size;
	char	   *datum;

	if (size < 2)
		return;
	count = 1 + (unsigned char) data[0];
	delta = count - 1 + (unsigned char) data[1];
	data += 2;
	raw_length = size - 2;

	datum_size = STREAM_BATCH_HEADER_SIZE + raw_length;
	datum = palloc(datum_size);
	memset(datum, 0, STREAM_BATCH_HEADER_SIZE);
	datum[AT_VERSION] = STREAM_BATCH_VERSION;
	memcpy(datum + AT_RECORD_COUNT, &count, 4);
	memcpy(datum + AT_LAST_OFFSET_DELTA, &delta, 4);
	memcpy(datum + AT_RAW_LENGTH, &raw_length, 4);

	if (packed && raw_length > 0)
	{
		int			written = LZ4_compress_default(data,
												   datum + STREAM_BATCH_HEADER_SIZE,
												   raw_length, raw_length);

		if (written > 0)
		{
			datum[AT_ATTRIBUTES] = STREAM_COMPRESSION_LZ4;
			datum_size = STREAM_BATCH_HEADER_SIZE + written;
			datum = repalloc(datum, datum_size);
		}
		else
			packed = false;
	}
	if (!packed)
		memcpy(datum + STREAM_BATCH_HEADER_SIZE, data, raw_length);

	reference_fix_crc(datum, datum_size);
	fuzz_datum(datum, datum_size);
	pfree(datum);
}

/* A script, read from its front; behind its end it is all zeros. */
typedef struct Script
{
	const char *pos;
	const char *end;
} Script;

static uint64
take_number(Script *script, int bytes)
{
	uint64		number = 0;

	for (int i = 0; i < bytes && script->pos < script->end; i++)
		number = number << 8 | (unsigned char) *script->pos++;
	return number;
}

/*
 * take_field takes a length and that many of the script's own bytes, which it
 * does not step over: one script then makes many records.
 */
static void
take_field(Script *script, const char **data, int32 *len)
{
	int32		wanted = (int32) take_number(script, 1) - 1;

	if (wanted == 254)
		wanted = (int32) take_number(script, 2);
	*len = Min(wanted, (int32) (script->end - script->pos));
	*data = *len < 0 ? NULL : script->pos;
}

/*
 * fuzz_script runs calls on two builders, of which the second holds records
 * behind the first's, and compares with a list of what they should hold.
 */
static void
fuzz_script(const char *data, Size size)
{
	Script		script = {data, data + size};
	StreamBatchBuilder builders[2] = {{0}, {0}};
	RecordList	list = {0};
	int			done = 0;
	int64		offset = (int64) (take_number(&script, 8) >> 1);
	int64		timestamp = (int64) take_number(&script, 8);
	int			target = 0;

	while (script.pos < script.end)
	{
		int			op = (int) take_number(&script, 1);

		switch (op % 8)
		{
			default:			/* append */
				{
					StreamRecord record;
					bool		big_step = (op & 8) != 0;
					uint64		step = 1 + take_number(&script, big_step ? 4 : 1);
					StreamBatchBuilder *builder = &builders[target];
					bool		fits;

					if (step > (uint64) (PG_INT64_MAX - offset))
						break;
					offset += (int64) step;
					if (op & 16)
						timestamp = (int64) take_number(&script, 8);
					else
						timestamp = (int64) ((uint64) timestamp + (op & 32 ? 1 : 0));

					record.offset = offset;
					record.timestamp = timestamp;
					take_field(&script, &record.key, &record.key_len);
					take_field(&script, &record.value, &record.value_len);
					take_field(&script, &record.headers, &record.headers_len);

					fits = builder->count == 0 ||
						offset - builder->base_offset <= (int64) PG_UINT32_MAX;
					check(stream_batch_append(builder, &record) == fits,
						  "what append takes");
					if (fits)
						records_add(&list, &record);
				}
				break;

			case 5:				/* the next records go to the second builder */
				target = 1;
				break;

			case 6:				/* the second behind the first */
				if (stream_batch_concat(&builders[0], &builders[1]))
					stream_batch_builder_reset(&builders[1]);
				else
				{
					check(builders[0].count > 0 &&
						  builders[1].last_offset - builders[0].base_offset > (int64) PG_UINT32_MAX,
						  "what concat refuses");
				}
				if (builders[1].count == 0)
					target = 0;
				break;

			case 7:				/* encode a part of the first */
				if (builders[0].count > 0)
				{
					StreamBatchBuilder *builder = &builders[0];
					Size		limit = take_number(&script, 2);

					/* What the previous batch cut off no longer counts. */
					for (int i = done; i < done + (int) builder->count; i++)
					{
						StreamRecord *record = &list.items[i].record;
						int64		least = i == done ?
							builder->base_timestamp : list.items[i - 1].record.timestamp;

						record->timestamp = Max(record->timestamp, least);
					}
					done += check_batch(builder, limit, (op >> 3) & 1, &list, done);
					fuzz_counts.built++;
				}
				break;
		}
	}

	stream_batch_builder_free(&builders[0]);
	stream_batch_builder_free(&builders[1]);
	records_free(&list);
}

/*
 * LLVMFuzzerTestOneInput runs one input.
 */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *rest = (const char *) data + 1;
	int			control;

	fuzz_counts.inputs++;
	if (size == 0)
		return 0;
	control = data[0];
	size--;

	switch (control & FUZZ_KIND_MASK)
	{
		case FUZZ_DATUM:
			fuzz_raw_datum(control, rest, size);
			break;
		case FUZZ_BODY:
			fuzz_body(false, rest, size);
			break;
		case FUZZ_PACKED_BODY:
			fuzz_body(true, rest, size);
			break;
		case FUZZ_SCRIPT:
			fuzz_script(rest, size);
			break;
	}
	return 0;
}
