/*-------------------------------------------------------------------------
 *
 * test_status.c
 *		Each kind of damage and the status it must give.
 *
 * Starts from one sound batch, changes one thing, makes the CRC right again
 * unless the CRC is the point, and names the status.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <lz4.h>

#include "batch.h"
#include "reference.h"
#include "tap.h"

#define MAX_SIZE	4096

/*
 * Three records: offsets 100, 101, 103; timestamps 500, 500, 510.  Each is five
 * bytes and, where not null, its key and value.
 */
static const char sound_body[] = {
	0, 0, 2, 'a', 2, 'A', 0,
	1, 0, 2, 'b', 2, 'B', 0,
	2, 10, 0, 1, 1
};

/* A batch under construction. */
static char batch[MAX_SIZE];
static Size batch_size;

static void
set_32(int at, uint32 value)
{
	memcpy(batch + at, &value, sizeof(value));
}

static void
set_64(int at, int64 value)
{
	memcpy(batch + at, &value, sizeof(value));
}

/*
 * start makes an uncompressed batch of a body: three records from offset 100 to
 * 103.
 */
static void
start(const char *body, Size len)
{
	memset(batch, 0, STREAM_BATCH_HEADER_SIZE);
	batch[AT_VERSION] = STREAM_BATCH_VERSION;
	set_32(AT_LEADER_EPOCH, 1);
	set_32(AT_RECORD_COUNT, 3);
	set_64(AT_BASE_OFFSET, 100);
	set_64(AT_BASE_TIMESTAMP, 500);
	set_32(AT_LAST_OFFSET_DELTA, 3);
	set_32(AT_RAW_LENGTH, len);
	memcpy(batch + STREAM_BATCH_HEADER_SIZE, body, len);
	batch_size = STREAM_BATCH_HEADER_SIZE + len;
}

static void
start_sound(void)
{
	start(sound_body, sizeof(sound_body));
}

/*
 * read_batch reads the batch to its end and returns the last status.
 */
static StreamBatchStatus
read_batch(void)
{
	StreamBatchReader reader = {0};
	StreamRecord record;
	StreamBatchStatus status = stream_batch_open(&reader, batch, batch_size);

	while (status == STREAM_BATCH_OK)
		status = stream_batch_next(&reader, &record);
	stream_batch_reader_free(&reader);
	return status;
}

/*
 * expect reads the batch as it is and compares the status.
 */
static void
expect(StreamBatchStatus expected, const char *what)
{
	StreamBatchStatus status = read_batch();

	tap_ok(status == expected, "%s: %s%s%s", what,
		   stream_batch_status_text(expected),
		   status == expected ? "" : ", not: ",
		   status == expected ? "" : stream_batch_status_text(status));
}

/*
 * expect_fixed does so after making the CRC right; and damage to the header
 * alone must be told from the header alone.
 */
static void
expect_fixed(StreamBatchStatus expected, const char *what)
{
	reference_fix_crc(batch, batch_size);
	expect(expected, what);
}

static void
expect_header(StreamBatchStatus expected, const char *what)
{
	StreamBatchHeader header;

	expect_fixed(expected, what);
	tap_ok(stream_batch_read_header(batch, STREAM_BATCH_HEADER_SIZE, &header) == expected,
		   "%s: read_header says so too", what);
}

static void
test_header(void)
{
	StreamBatchHeader header;
	StreamBatchStatus status;

	start_sound();
	expect_fixed(STREAM_BATCH_END, "sound");

	status = stream_batch_read_header(batch, STREAM_BATCH_HEADER_SIZE, &header);
	tap_ok(status == STREAM_BATCH_OK &&
		   header.compression == STREAM_COMPRESSION_NONE &&
		   header.leader_epoch == 1 && header.record_count == 3 &&
		   header.base_offset == 100 && header.last_offset == 103 &&
		   header.base_timestamp == 500 &&
		   header.raw_length == sizeof(sound_body),
		   "the header is read from its 40 bytes");
	status = stream_batch_read_header(batch, STREAM_BATCH_HEADER_SIZE - 1, &header);
	tap_ok(status == STREAM_BATCH_TRUNCATED, "but not from 39");

	start_sound();
	batch_size = 0;
	expect(STREAM_BATCH_TRUNCATED, "no bytes");
	batch_size = STREAM_BATCH_HEADER_SIZE - 1;
	expect(STREAM_BATCH_TRUNCATED, "39 bytes");

	start_sound();
	batch[AT_VERSION] = 0;
	expect_header(STREAM_BATCH_BAD_VERSION, "version 0");
	batch[AT_VERSION] = 2;
	expect_header(STREAM_BATCH_BAD_VERSION, "version 2");

	start_sound();
	reference_fix_crc(batch, batch_size);
	batch[AT_CRC] ^= 1;
	expect(STREAM_BATCH_BAD_CRC, "a wrong CRC");
	start_sound();
	reference_fix_crc(batch, batch_size);
	batch_size--;
	expect(STREAM_BATCH_BAD_CRC, "the last byte missing");

	for (int bit = 2; bit < 8; bit++)
	{
		start_sound();
		batch[AT_ATTRIBUTES] |= 1 << bit;
		expect_header(STREAM_BATCH_BAD_HEADER, "a reserved attribute");
	}
	for (int i = 0; i < 2; i++)
	{
		start_sound();
		batch[AT_RESERVED + i] = 1;
		expect_header(STREAM_BATCH_BAD_HEADER, "a reserved byte");
	}

	start_sound();
	set_32(AT_RECORD_COUNT, 0);
	expect_header(STREAM_BATCH_BAD_HEADER, "no records");
	set_32(AT_LAST_OFFSET_DELTA, PG_UINT32_MAX);
	expect_header(STREAM_BATCH_BAD_HEADER, "no records, 2^32 offsets");
	start_sound();
	set_32(AT_RECORD_COUNT, PG_UINT32_MAX);
	expect_header(STREAM_BATCH_BAD_HEADER, "2^32 - 1 records");
	set_32(AT_LAST_OFFSET_DELTA, PG_UINT32_MAX);
	expect_header(STREAM_BATCH_BAD_HEADER, "2^32 - 1 records in few bytes");
	set_32(AT_RECORD_COUNT, 4);
	set_32(AT_LAST_OFFSET_DELTA, 3);
	expect_header(STREAM_BATCH_BAD_HEADER, "four records in 19 bytes");

	start_sound();
	set_32(AT_LAST_OFFSET_DELTA, 1);
	expect_header(STREAM_BATCH_BAD_HEADER, "more records than offsets");
	start_sound();
	set_32(AT_RECORD_COUNT, 1);
	expect_header(STREAM_BATCH_BAD_HEADER, "one record with two offsets");

	start_sound();
	set_64(AT_BASE_OFFSET, -1);
	expect_header(STREAM_BATCH_BAD_HEADER, "a negative base offset");
	set_64(AT_BASE_OFFSET, PG_INT64_MIN);
	expect_header(STREAM_BATCH_BAD_HEADER, "the least base offset");
	set_64(AT_BASE_OFFSET, PG_INT64_MAX - 2);
	expect_header(STREAM_BATCH_BAD_HEADER, "a last offset of 2^63");
	set_64(AT_BASE_OFFSET, PG_INT64_MAX - 3);
	expect_fixed(STREAM_BATCH_END, "a last offset of 2^63 - 1");

	start_sound();
	set_32(AT_RAW_LENGTH, 0);
	expect_header(STREAM_BATCH_BAD_HEADER, "a raw length of 0");
	set_32(AT_RAW_LENGTH, STREAM_BATCH_MAX_RAW + 1);
	expect_header(STREAM_BATCH_BAD_HEADER, "a raw length above the maximum");
	set_32(AT_RAW_LENGTH, PG_UINT32_MAX);
	expect_header(STREAM_BATCH_BAD_HEADER, "a raw length of 2^32 - 1");
	set_32(AT_RAW_LENGTH, sizeof(sound_body) - 1);
	expect_fixed(STREAM_BATCH_BAD_HEADER, "a raw length below the body's");
	set_32(AT_RAW_LENGTH, sizeof(sound_body) + 1);
	expect_fixed(STREAM_BATCH_BAD_HEADER, "a raw length above the body's");
}

/*
 * start_compressed makes a batch with an LZ4 body of 200 records of nulls.
 */
static void
start_compressed(void)
{
	char		body[1000];
	int			packed;

	memset(body, 0, sizeof(body));
	for (int i = 1; i < 200; i++)
		body[i * 5] = 1;
	start(body, sizeof(body));
	packed = LZ4_compress_default(body, batch + STREAM_BATCH_HEADER_SIZE,
								  sizeof(body), MAX_SIZE - STREAM_BATCH_HEADER_SIZE);
	batch[AT_ATTRIBUTES] = STREAM_COMPRESSION_LZ4;
	batch_size = STREAM_BATCH_HEADER_SIZE + packed;
	set_32(AT_RECORD_COUNT, 200);
	set_32(AT_LAST_OFFSET_DELTA, 199);
}

static void
test_compression(void)
{
	StreamBatchReader reader = {0};

	start_compressed();
	expect_fixed(STREAM_BATCH_END, "compressed");

	start_sound();
	batch[AT_ATTRIBUTES] = 2;
	expect_header(STREAM_BATCH_BAD_COMPRESSION, "compression 2");
	batch[AT_ATTRIBUTES] = 3;
	expect_header(STREAM_BATCH_BAD_COMPRESSION, "compression 3");

	start_sound();
	batch[AT_ATTRIBUTES] = STREAM_COMPRESSION_LZ4;
	expect_fixed(STREAM_BATCH_BAD_COMPRESSION, "a body that is not LZ4's");

	start_compressed();
	set_32(AT_RAW_LENGTH, 1001);
	expect_fixed(STREAM_BATCH_BAD_COMPRESSION, "a body that unpacks to less");
	set_32(AT_RAW_LENGTH, 1000);
	set_32(AT_RECORD_COUNT, 199);
	set_32(AT_RAW_LENGTH, 999);
	expect_fixed(STREAM_BATCH_BAD_COMPRESSION, "a body that unpacks to more");

	start_compressed();
	batch_size--;
	expect_fixed(STREAM_BATCH_BAD_COMPRESSION, "a compressed body cut short");
	batch_size = STREAM_BATCH_HEADER_SIZE;
	expect_fixed(STREAM_BATCH_BAD_COMPRESSION, "no compressed body");

	/* The header could ask for 1 GB: nothing is taken for what cannot be. */
	start_compressed();
	set_32(AT_RAW_LENGTH, STREAM_BATCH_MAX_RAW);
	reference_fix_crc(batch, batch_size);
	tap_ok(stream_batch_open(&reader, batch, batch_size) == STREAM_BATCH_BAD_COMPRESSION &&
		   reader.scratch == NULL,
		   "no memory is taken for a raw length that LZ4 cannot reach");
	stream_batch_reader_free(&reader);
}

/*
 * expect_body puts a body of three records behind a sound header.
 */
static void
expect_body(const char *body, Size len, StreamBatchStatus expected,
			const char *what)
{
	start(body, len);
	expect_fixed(expected, what);
}

/* A body, as the bytes of a string constant without its end. */
#define BODY(bytes)		(bytes), sizeof(bytes) - 1

static void
test_records(void)
{
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2\0\0\0\0"),
				STREAM_BATCH_END, "records of nulls");
	expect_body(BODY("\1\0\0\0\0" "\1\0\0\0\0" "\1\0\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "a first offset delta");
	expect_body(BODY("\0\1\0\0\0" "\1\0\0\0\0" "\2\0\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "a first timestamp delta");
	expect_body(BODY("\0\0\0\0\0" "\0\0\0\0\0" "\3\0\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "an offset twice");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\1\0\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "a last offset below the header's");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\3\0\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "a last offset above the header's");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2\0\0\0\0" "\1\0\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "a fourth record");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2\0\0\0\0" "\0"),
				STREAM_BATCH_BAD_RECORD, "a byte too many");
	expect_body(BODY("\0\0\5abcd\0\0" "\1\0\0\0\0" "\2\0"),
				STREAM_BATCH_BAD_RECORD, "a record cut short");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2\0\0\0\2"),
				STREAM_BATCH_BAD_RECORD, "a length one too long");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2\0\0\0\1"),
				STREAM_BATCH_END, "an empty string at the end");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2\0\377\377\377\377\7\0\0"),
				STREAM_BATCH_BAD_RECORD, "a length of 2^31 - 2");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2\0\377\377\377\377\17\0\0"),
				STREAM_BATCH_BAD_RECORD, "a length of 2^32 - 2");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2\0\200\200\200\200\20\0\0"),
				STREAM_BATCH_BAD_RECORD, "a length of 2^32 - 1");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2\0"
					 "\377\377\377\377\377\377\377\377\377\1\0\0"),
				STREAM_BATCH_BAD_RECORD, "a length of 2^64 - 2");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0"
					 "\377\377\377\377\377\377\377\377\377\1\0\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "an offset delta of 2^64 - 1");

	/* From 500 to the largest timestamp, and one more. */
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2"
					 "\213\374\377\377\377\377\377\377\177\0\0\0"),
				STREAM_BATCH_END, "the largest timestamp");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2"
					 "\214\374\377\377\377\377\377\377\177\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "a timestamp of 2^63");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2"
					 "\377\377\377\377\377\377\377\377\377\1\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "a timestamp delta of 2^64 - 1");
	start(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2"
			   "\377\377\377\377\377\377\377\377\377\1\0\0\0"));
	set_64(AT_BASE_TIMESTAMP, PG_INT64_MIN);
	expect_fixed(STREAM_BATCH_END, "which is right from the least timestamp");

	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\202\0\0\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "a varint not in its shortest form");
	start(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2"
			   "\377\377\377\377\377\377\377\377\377\2\0\0\0"));
	set_64(AT_BASE_TIMESTAMP, PG_INT64_MIN);
	expect_fixed(STREAM_BATCH_BAD_RECORD, "a varint of 65 bits");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2"
					 "\200\200\200\200\200\200\200\200\200\200\1\0\0\0"),
				STREAM_BATCH_BAD_RECORD, "a varint of 11 bytes");
	expect_body(BODY("\0\0\0\0\0" "\1\0\0\0\0" "\2\0\0\0\200"),
				STREAM_BATCH_BAD_RECORD, "a varint without end");
}

/*
 * test_reuse checks that a reader that failed serves for the next batch.
 */
static void
test_reuse(void)
{
	StreamBatchReader reader = {0};
	StreamRecord record;
	int			count = 0;

	start_sound();
	stream_batch_open(&reader, batch, batch_size);
	tap_ok(stream_batch_next(&reader, &record) == STREAM_BATCH_BAD_RECORD,
		   "a batch that failed to open has no records and no end");
	reference_fix_crc(batch, batch_size);
	if (stream_batch_open(&reader, batch, batch_size) == STREAM_BATCH_OK)
	{
		while (stream_batch_next(&reader, &record) == STREAM_BATCH_OK)
			count++;
	}
	tap_ok(count == 3 && record.offset == 103 && record.timestamp == 510,
		   "the reader can be opened on another");
	stream_batch_reader_free(&reader);
}

static void
test_texts(void)
{
	bool		passed = true;

	for (int i = STREAM_BATCH_OK; i <= STREAM_BATCH_BAD_RECORD; i++)
	{
		const char *text = stream_batch_status_text(i);

		if (text == NULL || strlen(text) < 5)
			passed = false;
		for (int j = STREAM_BATCH_OK; j < i; j++)
		{
			if (strcmp(text, stream_batch_status_text(j)) == 0)
				passed = false;
		}
	}
	tap_ok(passed, "each status has a text of its own");
}

int
main(void)
{
	test_header();
	test_compression();
	test_records();
	test_reuse();
	test_texts();
	return tap_done();
}
