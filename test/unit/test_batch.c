/*-------------------------------------------------------------------------
 *
 * test_batch.c
 *		What goes into a batch comes out of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "batch.h"
#include "records.h"
#include "reference.h"
#include "seed.h"
#include "tap.h"

#define ROUND_TRIPS		3000
#define EPOCH			7

/* Written behind what the codec may write to. */
#define GUARD			((char) 0x5a)

static const StreamCompression compressions[] = {
	STREAM_COMPRESSION_NONE, STREAM_COMPRESSION_LZ4
};

/*
 * make_record fills in a record of strings; null stands for null.
 */
static StreamRecord
make_record(int64 offset, int64 timestamp, const char *key, const char *value,
			const char *headers)
{
	StreamRecord record;

	record.offset = offset;
	record.timestamp = timestamp;
	record.key = key;
	record.key_len = key != NULL ? (int32) strlen(key) : -1;
	record.value = value;
	record.value_len = value != NULL ? (int32) strlen(value) : -1;
	record.headers = headers;
	record.headers_len = headers != NULL ? (int32) strlen(headers) : -1;
	return record;
}

/*
 * encode_all encodes a whole builder into new memory of just the size that
 * suffices, with a guard behind it; returns null when the guard was broken.
 */
static char *
encode_all(const StreamBatchBuilder *builder, StreamCompression compression,
		   Size *size)
{
	Size		bound = stream_batch_bound(builder->len);
	char	   *datum = palloc(bound + 1);
	StreamBatchPrefix taken;

	datum[bound] = GUARD;
	*size = stream_batch_encode(builder, builder->len, compression, EPOCH,
								datum, bound, &taken);
	if (*size == 0 || *size > bound || datum[bound] != GUARD ||
		taken.count != builder->count || taken.raw_len != builder->len ||
		taken.last_offset != builder->last_offset ||
		taken.last_timestamp != builder->last_timestamp)
	{
		pfree(datum);
		return NULL;
	}
	return datum;
}

/*
 * builders_equal compares two builders' records.
 */
static bool
builders_equal(const StreamBatchBuilder *a, const StreamBatchBuilder *b)
{
	if (a->count != b->count || a->len != b->len)
		return false;
	return a->count == 0 ||
		(a->base_offset == b->base_offset &&
		 a->last_offset == b->last_offset &&
		 a->base_timestamp == b->base_timestamp &&
		 a->last_timestamp == b->last_timestamp &&
		 memcmp(a->data, b->data, a->len) == 0);
}

/*
 * test_golden checks a batch byte by byte, so that the format cannot change
 * unnoticed.  The CRC was computed elsewhere.
 */
static void
test_golden(void)
{
	static const unsigned char golden[] = {
		0x01, 0x00, 0x00, 0x00, 0xce, 0xb2, 0xf1, 0xbb,
		0x07, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,
		0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x40, 0x42, 0x0f, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x2e, 0x01, 0x00, 0x00, 0x1c, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x03, 'k', '1', 0x06, 'v', 'a', 'l', 'u', 'e', 0x00,
		0x01, 0xac, 0x02, 0x01, 0x00, 0x02, 'h',
		0xad, 0x02, 0x00, 0x00, 0x04, 'o', 'n', 'e', 0x01
	};
	StreamBatchBuilder builder = {0};
	StreamRecord record;
	Size		size;
	char	   *datum;

#ifdef WORDS_BIGENDIAN
	tap_skip("the bytes of a batch", "written down for little-endian machines");
	return;
#endif

	record = make_record(1000, 1000000, "k1", "value", NULL);
	stream_batch_append(&builder, &record);
	record = make_record(1001, 1000300, "", NULL, "h");
	stream_batch_append(&builder, &record);
	record = make_record(1302, 999999, NULL, "one", "");
	stream_batch_append(&builder, &record);

	datum = encode_all(&builder, STREAM_COMPRESSION_NONE, &size);
	tap_ok(datum != NULL && size == sizeof(golden) &&
		   memcmp(datum, golden, size) == 0, "the bytes of a batch");
	tap_ok(datum != NULL && reference_crc(datum, size) == 0xbbf1b2ce,
		   "its CRC, computed bit by bit");

	if (datum != NULL)
		pfree(datum);
	stream_batch_builder_free(&builder);
}

/*
 * test_reference compares random batches with those of a second implementation.
 */
static void
test_reference(Random *random)
{
	StreamBatchBuilder builder = {0};
	RecordList	list = {0};
	int			wrong = 0;

	for (int round = 0; round < ROUND_TRIPS / 3; round++)
	{
		int			count = records_random_count(random);
		Size		size;
		char	   *datum;
		char	   *expected;

		records_generate(random, count, &list);
		stream_batch_builder_reset(&builder);
		records_append(&builder, &list, 0, count);
		datum = encode_all(&builder, STREAM_COMPRESSION_NONE, &size);
		expected = palloc(builder.len + count * 10 + STREAM_BATCH_HEADER_SIZE);
		if (datum == NULL ||
			reference_encode(&list, 0, count, EPOCH, expected) != size ||
			memcmp(datum, expected, size) != 0)
			wrong++;
		if (datum != NULL)
			pfree(datum);
		pfree(expected);
	}
	tap_ok(wrong == 0, "%d random batches are the same as the reference's, %d are not",
		   ROUND_TRIPS / 3, wrong);

	records_free(&list);
	stream_batch_builder_free(&builder);
}

/*
 * check_part encodes the next part of a builder that holds the records of a
 * list from "first" on, reads it back, and drops it.  Returns the count of
 * records it took, or -1 when anything is wrong.
 */
static int
check_part(StreamBatchBuilder *builder, StreamBatchReader *reader,
		   const RecordList *list, int first, Size raw_limit,
		   StreamCompression compression)
{
	StreamBatchBuilder rest = {0};
	StreamBatchPrefix taken;
	StreamBatchHeader header;
	Size		len = builder->len;
	Size		bound = stream_batch_bound(len);
	char	   *datum = palloc(bound);
	Size		size;
	int			result = -1;
	const StreamRecord *last;

	size = stream_batch_encode(builder, raw_limit, compression, EPOCH, datum,
							   bound, &taken);
	if (size == 0 || taken.count < 1 || taken.count > builder->count)
		goto done;

	/* At most raw_limit, or one record; and one more would be too much. */
	if (taken.raw_len > raw_limit && taken.count > 1)
		goto done;
	last = &list->items[first + taken.count - 1].record;
	if (taken.last_offset != last->offset ||
		taken.last_timestamp != last->timestamp)
		goto done;

	if (stream_batch_read_header(datum, STREAM_BATCH_HEADER_SIZE, &header) != STREAM_BATCH_OK ||
		(header.compression != compression &&
		 header.compression != STREAM_COMPRESSION_NONE) ||
		header.leader_epoch != EPOCH ||
		header.record_count != taken.count ||
		header.base_offset != list->items[first].record.offset ||
		header.base_timestamp != list->items[first].record.timestamp ||
		header.last_offset != last->offset ||
		header.raw_length != taken.raw_len ||
		header.crc != reference_crc(datum, size))
		goto done;

	if (stream_batch_open(reader, datum, size) != STREAM_BATCH_OK ||
		!records_match(reader, list, first, taken.count))
		goto done;

	/* What is left is as if it had been appended to an empty builder. */
	stream_batch_discard(builder, &taken);
	for (int i = first + taken.count; i < list->count; i++)
		stream_batch_append(&rest, &list->items[i].record);
	if (builders_equal(builder, &rest))
		result = taken.count;
	if (rest.count > 0)
	{
		StreamBatchPrefix next;

		/*
		 * The first record left is the one that went beyond the limit: up to
		 * its end is all but what follows it.
		 */
		stream_batch_encode(&rest, 0, compression, EPOCH, NULL, 0, &next);
		if (len - (rest.len - next.raw_len) <= raw_limit)
			result = -1;
	}

done:
	stream_batch_builder_free(&rest);
	pfree(datum);
	return result;
}

/*
 * test_round_trips packs random records, whole and in parts, and reads them
 * back.
 */
static void
test_round_trips(Random *random, StreamCompression compression,
				 const char *name)
{
	StreamBatchBuilder builder = {0};
	StreamBatchReader reader = {0};
	RecordList	list = {0};
	int			wrong = 0;
	int			batches = 0;

	for (int round = 0; round < ROUND_TRIPS; round++)
	{
		int			count = records_random_count(random);
		int			done = 0;
		Size		raw_limit = PG_UINT32_MAX;

		records_generate(random, count, &list);
		stream_batch_builder_reset(&builder);
		if (!records_append(&builder, &list, 0, count))
		{
			wrong++;
			continue;
		}

		while (done < count)
		{
			int			taken;

			/* Half of them whole, the others in parts of up to 30. */
			if (round % 2 == 0)
				raw_limit = builder.len / 30 + random_below(random, builder.len + 1);
			taken = check_part(&builder, &reader, &list, done, raw_limit,
							   compression);
			if (taken < 0 || (round % 2 == 1 && taken != count))
			{
				wrong++;
				break;
			}
			done += taken;
			batches++;
		}
		if (done == count && (builder.count != 0 || builder.len != 0))
			wrong++;
	}
	tap_ok(wrong == 0, "%d times random records make %d batches and come back, %s; wrong: %d",
		   ROUND_TRIPS, batches, name, wrong);

	records_free(&list);
	stream_batch_builder_free(&builder);
	stream_batch_reader_free(&reader);
}

/*
 * test_concat checks that concatenating is the same as appending, also where
 * the clock was set back between the two.
 */
static void
test_concat(Random *random)
{
	StreamBatchBuilder all = {0};
	StreamBatchBuilder dst = {0};
	StreamBatchBuilder src = {0};
	StreamBatchBuilder copy;
	RecordList	list = {0};
	char	   *bytes;
	int			wrong = 0;
	int			set_back = 0;

	for (int round = 0; round < ROUND_TRIPS; round++)
	{
		int			count = records_random_count(random) + 1;
		int			first = random_below(random, count + 1);

		records_generate(random, count, &list);
		stream_batch_builder_reset(&all);
		stream_batch_builder_reset(&dst);
		stream_batch_builder_reset(&src);
		records_append(&all, &list, 0, count);
		records_append(&dst, &list, 0, first);
		records_append(&src, &list, first, count - first);
		if (first > 0 && first < count && src.base_timestamp < dst.last_timestamp)
			set_back++;

		copy = src;
		bytes = palloc(src.len + 1);
		if (src.len > 0)
			memcpy(bytes, src.data, src.len);

		if (!stream_batch_concat(&dst, &src) ||
			!builders_equal(&dst, &all) ||
			memcmp(&copy, &src, sizeof(copy)) != 0 ||
			(src.len > 0 && memcmp(bytes, src.data, src.len) != 0))
			wrong++;
		pfree(bytes);
	}
	tap_ok(wrong == 0, "concatenating is appending, %d times; wrong: %d",
		   ROUND_TRIPS, wrong);
	tap_ok(set_back > 10, "in %d of them time ran backwards between the two",
		   set_back);

	records_free(&list);
	stream_batch_builder_free(&all);
	stream_batch_builder_free(&dst);
	stream_batch_builder_free(&src);
}

/*
 * test_spread checks that offsets too far apart are refused, and that nothing
 * changes then.
 */
static void
test_spread(void)
{
	const int64 base = 5;
	StreamBatchBuilder builder = {0};
	StreamBatchBuilder other = {0};
	StreamBatchBuilder before;
	StreamBatchReader reader = {0};
	StreamRecord record;
	RecordList	list = {0};
	Size		size;
	char	   *datum;

	record = make_record(base, 0, "k", "v", NULL);
	records_add(&list, &record);
	record.offset = base + PG_UINT32_MAX;
	records_add(&list, &record);
	tap_ok(records_append(&builder, &list, 0, 2),
		   "offsets may be 2^32 - 1 apart");
	datum = encode_all(&builder, STREAM_COMPRESSION_LZ4, &size);
	tap_ok(datum != NULL &&
		   stream_batch_open(&reader, datum, size) == STREAM_BATCH_OK &&
		   records_match(&reader, &list, 0, 2), "and are read back");

	before = builder;
	record.offset++;
	tap_ok(!stream_batch_append(&builder, &record) &&
		   memcmp(&before, &builder, sizeof(builder)) == 0,
		   "but not 2^32: append refuses and changes nothing");

	stream_batch_append(&other, &record);
	tap_ok(!stream_batch_concat(&builder, &other) &&
		   memcmp(&before, &builder, sizeof(builder)) == 0,
		   "and so does concat");

	pfree(datum);
	records_free(&list);
	stream_batch_builder_free(&builder);
	stream_batch_builder_free(&other);
	stream_batch_reader_free(&reader);
}

/*
 * test_dst_size encodes into memory of every size: what fits is a sound batch,
 * what does not is refused, and never is a byte written behind the end.
 */
static void
test_dst_size(Random *random)
{
	static char value[600];
	StreamBatchBuilder builder = {0};
	StreamBatchReader reader = {0};
	RecordList	list = {0};

	/* Half noise, half zeros: LZ4 shrinks it by about half. */
	for (int i = 0; i < (int) sizeof(value) / 2; i++)
		value[i] = (char) random_next(random);
	for (int i = 0; i < 4; i++)
	{
		StreamRecord record = make_record(i, i, "key", NULL, NULL);

		record.value = value;
		record.value_len = sizeof(value);
		records_add(&list, &record);
	}
	records_append(&builder, &list, 0, 4);

	for (int c = 0; c < (int) lengthof(compressions); c++)
	{
		Size		bound = stream_batch_bound(builder.len);
		Size		smallest = 0;
		int			wrong = 0;

		for (Size dst_size = 0; dst_size <= bound + 10; dst_size++)
		{
			char	   *datum = palloc(dst_size + 64);
			StreamBatchPrefix taken = {0};
			Size		size;

			memset(datum, GUARD, dst_size + 64);
			size = stream_batch_encode(&builder, builder.len, compressions[c],
									   EPOCH, datum, dst_size, &taken);
			if (taken.count != builder.count || taken.raw_len != builder.len)
				wrong++;
			for (int i = 0; i < 64; i++)
			{
				if (datum[dst_size + i] != GUARD)
					wrong++;
			}
			if (size > dst_size)
				wrong++;
			else if (size > 0)
			{
				if (smallest == 0)
					smallest = dst_size;
				if (stream_batch_open(&reader, datum, size) != STREAM_BATCH_OK ||
					reader.header.compression != compressions[c] ||
					!records_match(&reader, &list, 0, 4))
					wrong++;
			}
			else if (smallest != 0)
				wrong++;
			pfree(datum);
		}
		tap_ok(wrong == 0 && smallest > 0 &&
			   (compressions[c] == STREAM_COMPRESSION_NONE ?
				smallest == bound : smallest < bound * 2 / 3),
			   "memory of any size up to %d, %d or more suffices: wrong %d",
			   (int) bound + 10, (int) smallest, wrong);
	}

	records_free(&list);
	stream_batch_builder_free(&builder);
	stream_batch_reader_free(&reader);
}

/*
 * test_noise checks that a body LZ4 cannot shrink is stored as it is.
 */
static void
test_noise(Random *random)
{
	char		value[2000];
	StreamBatchBuilder builder = {0};
	StreamBatchReader reader = {0};
	StreamRecord record;
	Size		size;
	char	   *datum;

	for (int i = 0; i < (int) sizeof(value); i++)
		value[i] = (char) random_next(random);
	record = make_record(0, 0, NULL, NULL, NULL);
	record.value = value;
	record.value_len = sizeof(value);
	stream_batch_append(&builder, &record);

	datum = encode_all(&builder, STREAM_COMPRESSION_LZ4, &size);
	tap_ok(datum != NULL && size == STREAM_BATCH_HEADER_SIZE + builder.len &&
		   stream_batch_open(&reader, datum, size) == STREAM_BATCH_OK &&
		   reader.header.compression == STREAM_COMPRESSION_NONE,
		   "what does not shrink is stored uncompressed");
	tap_ok(reader.scratch == NULL, "and read without a copy");

	/* After LZ4 gave up, the next body is compressed all the same. */
	pfree(datum);
	memset(value, 'x', sizeof(value));
	stream_batch_builder_reset(&builder);
	stream_batch_append(&builder, &record);
	datum = encode_all(&builder, STREAM_COMPRESSION_LZ4, &size);
	tap_ok(datum != NULL && size < 100 &&
		   stream_batch_open(&reader, datum, size) == STREAM_BATCH_OK &&
		   stream_batch_next(&reader, &record) == STREAM_BATCH_OK &&
		   record.value_len == sizeof(value) &&
		   memcmp(record.value, value, sizeof(value)) == 0,
		   "the next body, which does shrink, is compressed");

	if (datum != NULL)
		pfree(datum);
	stream_batch_builder_free(&builder);
	stream_batch_reader_free(&reader);
}

/*
 * test_memory checks that reset and the reader keep their memory, and that free
 * leaves a zeroed struct.
 */
static void
test_memory(void)
{
	static const StreamBatchBuilder no_builder = {0};
	static const StreamBatchReader no_reader = {0};
	static char value[5000];
	StreamBatchBuilder builder = {0};
	StreamBatchReader reader = {0};
	StreamRecord record;
	Size		size;
	char	   *datum;
	char	   *scratch;

	record = make_record(9, 9, "k", NULL, NULL);
	record.value = value;
	record.value_len = sizeof(value);
	stream_batch_append(&builder, &record);
	datum = encode_all(&builder, STREAM_COMPRESSION_LZ4, &size);
	stream_batch_open(&reader, datum, size);
	scratch = reader.scratch;
	pfree(datum);

	stream_batch_builder_reset(&builder);
	tap_ok(builder.count == 0 && builder.len == 0 && builder.data != NULL &&
		   builder.capacity >= sizeof(value), "reset keeps the memory");

	record.value_len = 4000;
	stream_batch_append(&builder, &record);
	datum = encode_all(&builder, STREAM_COMPRESSION_LZ4, &size);
	tap_ok(stream_batch_open(&reader, datum, size) == STREAM_BATCH_OK &&
		   scratch != NULL && reader.scratch == scratch,
		   "a reader keeps its memory from one batch to the next");
	pfree(datum);

	stream_batch_builder_free(&builder);
	stream_batch_reader_free(&reader);
	tap_ok(memcmp(&builder, &no_builder, sizeof(builder)) == 0 &&
		   memcmp(&reader, &no_reader, sizeof(reader)) == 0,
		   "free leaves nothing");
	stream_batch_builder_free(&builder);
	stream_batch_reader_free(&reader);
}

int
main(void)
{
	Random		random = seed_random();

	test_golden();
	test_reference(&random);
	test_round_trips(&random, STREAM_COMPRESSION_NONE, "uncompressed");
	test_round_trips(&random, STREAM_COMPRESSION_LZ4, "LZ4");
	test_concat(&random);
	test_spread();
	test_dst_size(&random);
	test_noise(&random);
	test_memory();
	return tap_done();
}
