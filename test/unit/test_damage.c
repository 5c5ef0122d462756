/*-------------------------------------------------------------------------
 *
 * test_damage.c
 *		What is not a sound batch is refused, and never harms the reader.
 *
 * Every batch is read at the very end of a page that is followed by one without
 * access, so that a read beyond its end is a crash.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <lz4.h>
#include <sys/mman.h>
#include <unistd.h>

#include "batch.h"
#include "records.h"
#include "reference.h"
#include "seed.h"
#include "tap.h"

#define SAMPLES		12			/* batches to damage */
#define SAMPLE_MAX	(64 * 1024)

typedef struct Sample
{
	char		data[SAMPLE_MAX];
	Size		size;
} Sample;

static Sample samples[SAMPLES];
static char *guard;				/* the first byte without access */

/* How often each status came out, over all tests. */
static int	seen[STREAM_BATCH_BAD_RECORD + 1];

/*
 * make_guard maps memory that ends in a page without access.
 */
static void
make_guard(void)
{
	Size		page = sysconf(_SC_PAGESIZE);
	Size		len = (2 * SAMPLE_MAX / page + 1) * page;
	char	   *start = mmap(NULL, len + page, PROT_READ | PROT_WRITE,
							 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED || mprotect(start + len, page, PROT_NONE) != 0)
	{
		perror("could not map memory");
		exit(EXIT_FAILURE);
	}
	guard = start + len;
}

/*
 * headers_equal compares two headers.
 */
static bool
headers_equal(const StreamBatchHeader *a, const StreamBatchHeader *b)
{
	return a->compression == b->compression && a->crc == b->crc &&
		a->leader_epoch == b->leader_epoch &&
		a->record_count == b->record_count &&
		a->base_offset == b->base_offset && a->last_offset == b->last_offset &&
		a->base_timestamp == b->base_timestamp &&
		a->raw_length == b->raw_length;
}

/*
 * within says whether a key, value or headers are null or lie in the body.
 */
static bool
within(const char *data, int32 len, const char *start, const char *end)
{
	if (len < 0)
		return len == -1 && data == NULL;
	return data >= start && data <= end && len <= end - data;
}

/*
 * read_all opens a batch at the guard and reads it to its end or its first
 * error, which it returns; END when it is sound.  Checks on the way that what
 * is returned is within the batch and in order: "broken" says what is not.
 */
static StreamBatchStatus
read_all(const char *data, Size size, const char **broken)
{
	StreamBatchReader reader = {0};
	StreamBatchHeader header;
	StreamBatchStatus status;
	StreamRecord record;
	char	   *datum = guard - size;
	uint32		count = 0;
	int64		offset = -1;
	int64		timestamp = PG_INT64_MIN;

	memcpy(datum, data, size);

	status = stream_batch_open(&reader, datum, size);
	seen[status]++;
	if (status != STREAM_BATCH_OK)
	{
		/* A failed open leaves an error behind, not an empty batch. */
		if (stream_batch_next(&reader, &record) != STREAM_BATCH_BAD_RECORD)
			*broken = "a reader that failed to open does not say so";
		if (reader.scratch != NULL && status != STREAM_BATCH_BAD_COMPRESSION)
			*broken = "memory was taken for a damaged batch";
		stream_batch_reader_free(&reader);
		return status;
	}

	if (stream_batch_read_header(datum, size, &header) != STREAM_BATCH_OK ||
		!headers_equal(&header, &reader.header))
		*broken = "read_header and open differ";

	while ((status = stream_batch_next(&reader, &record)) == STREAM_BATCH_OK)
	{
		const char *start = reader.header.compression == STREAM_COMPRESSION_NONE ?
			datum + STREAM_BATCH_HEADER_SIZE : reader.scratch;
		const char *end = start + reader.header.raw_length;

		if (!within(record.key, record.key_len, start, end) ||
			!within(record.value, record.value_len, start, end) ||
			!within(record.headers, record.headers_len, start, end))
			*broken = "a record reaches out of the batch";
		if (record.offset <= offset || record.offset < reader.header.base_offset ||
			record.offset > reader.header.last_offset)
			*broken = "offsets are out of order or range";
		if (record.timestamp < timestamp)
			*broken = "timestamps are out of order";
		offset = record.offset;
		timestamp = record.timestamp;
		count++;
	}
	seen[status]++;
	if (status == STREAM_BATCH_END &&
		(count != reader.header.record_count || offset != reader.header.last_offset))
		*broken = "the header's count or last offset is wrong";
	if (stream_batch_next(&reader, &record) != status)
		*broken = "the status does not stay";

	stream_batch_reader_free(&reader);
	return status;
}

/*
 * make_samples fills in the samples: random batches, every second compressed.
 */
static void
make_samples(Random *random)
{
	StreamBatchBuilder builder = {0};
	RecordList	list = {0};

	for (int i = 0; i < SAMPLES; i++)
	{
		StreamBatchPrefix taken;

		do
		{
			int			count = 1 + i + random_below(random, 4);

			records_generate(random, count, &list);
			stream_batch_builder_reset(&builder);
			records_append(&builder, &list, 0, count);
			samples[i].size = stream_batch_encode(&builder, builder.len,
												  i % 2, 1, samples[i].data,
												  2500, &taken);
		} while (samples[i].size == 0 || samples[i].data[AT_ATTRIBUTES] != i % 2);
	}

	records_free(&list);
	stream_batch_builder_free(&builder);
}

/*
 * test_samples checks that the undamaged samples are sound.
 */
static void
test_samples(void)
{
	const char *broken = NULL;
	bool		sound = true;
	int			bytes = 0;

	for (int i = 0; i < SAMPLES; i++)
	{
		if (read_all(samples[i].data, samples[i].size, &broken) != STREAM_BATCH_END)
			sound = false;
		bytes += samples[i].size;
	}
	tap_ok(sound && broken == NULL, "%d samples of %d bytes in all are sound",
		   SAMPLES, bytes);
}

/*
 * test_bit_flips turns each single bit of each sample.
 */
static void
test_bit_flips(void)
{
	const char *broken = NULL;
	int			passed = 0;
	int			flips = 0;

	for (int i = 0; i < SAMPLES; i++)
	{
		for (Size bit = 0; bit < samples[i].size * 8; bit++)
		{
			char	   *byte = &samples[i].data[bit / 8];
			StreamBatchStatus status;

			*byte ^= 1 << (bit % 8);
			status = read_all(samples[i].data, samples[i].size, &broken);
			if (status != STREAM_BATCH_BAD_VERSION &&
				status != STREAM_BATCH_BAD_CRC)
				passed++;
			*byte ^= 1 << (bit % 8);
			flips++;
		}
	}
	tap_ok(passed == 0 && broken == NULL,
		   "none of %d flipped bits passes as sound or as something else than damage: %d do%s%s",
		   flips, passed, broken ? "; " : "", broken ? broken : "");
}

/*
 * test_lengths cuts each sample at each length, and makes it longer.
 */
static void
test_lengths(Random *random)
{
	static char longer[SAMPLE_MAX];
	const char *broken = NULL;
	int			passed = 0;
	int			cuts = 0;

	for (int i = 0; i < SAMPLES; i++)
	{
		for (Size size = 0; size < samples[i].size; size++)
		{
			StreamBatchStatus status = read_all(samples[i].data, size, &broken);

			if (status != (size < STREAM_BATCH_HEADER_SIZE ?
						   STREAM_BATCH_TRUNCATED : STREAM_BATCH_BAD_CRC))
				passed++;
			cuts++;
		}

		memcpy(longer, samples[i].data, samples[i].size);
		for (int more = 1; more <= 100; more++)
		{
			longer[samples[i].size + more - 1] = random_chance(random, 2) ?
				0 : (char) random_next(random);
			if (read_all(longer, samples[i].size + more, &broken) != STREAM_BATCH_BAD_CRC)
				passed++;
			cuts++;
		}
	}
	tap_ok(passed == 0 && broken == NULL,
		   "none of %d other lengths passes: %d do%s%s", cuts, passed,
		   broken ? "; " : "", broken ? broken : "");
}

/*
 * mutate changes a batch at random and returns its new size.
 */
static Size
mutate(Random *random, char *data, Size size)
{
	static const unsigned char bytes[] = {0, 1, 0x7f, 0x80, 0x81, 0xfe, 0xff};
	int			changes = 1 + random_below(random, 4);

	while (changes-- > 0 && size > 0)
	{
		/* The header is small: give it a third of the changes. */
		Size		at = random_chance(random, 3) ?
			random_below(random, Min(size, STREAM_BATCH_HEADER_SIZE + 4)) :
			random_below(random, size);
		Size		len = 1 + random_below(random, Min(size - at, 12));

		switch (random_below(random, 6))
		{
			case 0:
				data[at] ^= 1 << random_below(random, 8);
				break;
			case 1:
				data[at] = (char) bytes[random_below(random, lengthof(bytes))];
				break;
			case 2:
				memset(data + at,
					   bytes[random_below(random, lengthof(bytes))], len);
				break;
			case 3:				/* take out */
				memmove(data + at, data + at + len, size - at - len);
				size -= len;
				break;
			case 4:				/* double */
				memmove(data + at + len, data + at, size - at);
				size += len;
				break;
			case 5:				/* copy from elsewhere */
				memmove(data + at, data + random_below(random, size - len + 1),
						len);
				break;
		}
	}
	return size;
}

/*
 * test_mutations damages samples at random, with the CRC they had or with a new
 * one.  With the old one nothing passes.  With a new one anything may, but it
 * must be a batch in itself.
 */
static void
test_mutations(Random *random, int rounds, bool fix_crc)
{
	static char data[SAMPLE_MAX];
	const char *broken = NULL;
	int			passed = 0;
	int			changed = 0;
	int			deep = 0;

	for (int round = 0; round < rounds; round++)
	{
		const Sample *sample = &samples[random_below(random, SAMPLES)];
		StreamBatchStatus status;
		Size		size;

		memcpy(data, sample->data, sample->size);
		size = mutate(random, data, sample->size);

		/* Half of them keep a body of the length the header says. */
		if (fix_crc && size > STREAM_BATCH_HEADER_SIZE && random_chance(random, 2))
		{
			uint32		raw_length = size - STREAM_BATCH_HEADER_SIZE;

			if (data[AT_ATTRIBUTES] == STREAM_COMPRESSION_NONE)
				memcpy(data + AT_RAW_LENGTH, &raw_length, sizeof(raw_length));
			else
				memcpy(data, sample->data, STREAM_BATCH_HEADER_SIZE);
		}
		if (fix_crc)
			reference_fix_crc(data, size);
		else if (size == sample->size && memcmp(data, sample->data, size) == 0)
			continue;

		changed++;
		status = read_all(data, size, &broken);
		if (status == STREAM_BATCH_END)
			passed++;
		if (status == STREAM_BATCH_BAD_RECORD)
			deep++;
	}

	if (fix_crc)
		tap_ok(broken == NULL && passed > 0 && deep > 0,
			   "%d random changes with a new CRC: %d batches, %d broken in a record%s%s",
			   changed, passed, deep, broken ? "; " : "", broken ? broken : "");
	else
		tap_ok(broken == NULL && passed == 0,
			   "none of %d random changes passes: %d do%s%s",
			   changed, passed, broken ? "; " : "", broken ? broken : "");
}

/*
 * test_bodies puts random bytes, made of what varints and lengths are made of,
 * behind a fitting header and a right CRC, raw and compressed.
 */
static void
test_bodies(Random *random, int rounds)
{
	static char data[SAMPLE_MAX];
	const char *broken = NULL;
	int			passed = 0;

	for (int round = 0; round < rounds; round++)
	{
		char		body[200];
		uint32		body_len = 5 + random_below(random, sizeof(body) - 4);
		uint32		count = 1 + random_below(random, 1 + body_len / 5);
		uint32		delta = count == 1 ? 0 :
			count - 1 + random_below(random, 4);
		Size		size = STREAM_BATCH_HEADER_SIZE + body_len;

		count = Min(count, body_len / 5);
		delta = count == 1 ? 0 : Max(delta, count - 1);
		for (uint32 i = 0; i < body_len; i++)
			body[i] = random_chance(random, 8) ? (char) random_next(random) :
				random_chance(random, 12) ? (char) 0xff : (char) random_below(random, 3);
		body[0] = body[1] = 0;

		memset(data, 0, STREAM_BATCH_HEADER_SIZE);
		data[AT_VERSION] = STREAM_BATCH_VERSION;
		memcpy(data + AT_RECORD_COUNT, &count, 4);
		memcpy(data + AT_LAST_OFFSET_DELTA, &delta, 4);
		memcpy(data + AT_RAW_LENGTH, &body_len, 4);
		memcpy(data + STREAM_BATCH_HEADER_SIZE, body, body_len);

		if (random_chance(random, 2))
		{
			int			packed = LZ4_compress_default(body,
													  data + STREAM_BATCH_HEADER_SIZE,
													  body_len, body_len - 1);

			if (packed <= 0)
				continue;
			data[AT_ATTRIBUTES] = STREAM_COMPRESSION_LZ4;
			size = STREAM_BATCH_HEADER_SIZE + packed;
		}
		reference_fix_crc(data, size);
		if (read_all(data, size, &broken) == STREAM_BATCH_END)
			passed++;
	}
	tap_ok(broken == NULL && passed > 0,
		   "%d random bodies with a right CRC: %d are batches%s%s",
		   rounds, passed, broken ? "; " : "", broken ? broken : "");
}

/*
 * test_garbage reads random bytes.
 */
static void
test_garbage(Random *random, int rounds)
{
	char		data[300];
	const char *broken = NULL;
	int			passed = 0;

	for (int round = 0; round < rounds; round++)
	{
		Size		size = random_below(random, sizeof(data) + 1);

		for (Size i = 0; i < size; i++)
			data[i] = (char) random_next(random);
		if (size > 0 && round % 2 == 0)
			data[AT_VERSION] = STREAM_BATCH_VERSION;
		if (read_all(data, size, &broken) == STREAM_BATCH_END)
			passed++;
	}
	tap_ok(broken == NULL && passed == 0, "random bytes are no batch, %d times",
		   rounds);
}

int
main(void)
{
	Random		random = seed_random();
	bool		all_seen = true;

	make_guard();
	make_samples(&random);
	test_samples();
	test_bit_flips();
	test_lengths(&random);
	test_mutations(&random, 200000, false);
	test_mutations(&random, 400000, true);
	test_bodies(&random, 200000);
	test_garbage(&random, 100000);

	for (int status = 0; status < (int) lengthof(seen); status++)
	{
		tap_note("%-50s %8d", stream_batch_status_text(status), seen[status]);
		if (seen[status] == 0)
			all_seen = false;
	}
	tap_ok(all_seen, "every status was reached");
	return tap_done();
}
