/*-------------------------------------------------------------------------
 *
 * test_large.c
 *		Batches of hundreds of megabytes, and the largest body.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <sys/mman.h>
#include <unistd.h>

#include "batch.h"
#include "seed.h"
#include "tap.h"

#define MEGABYTE	(1024 * 1024)

/* A record of the value alone takes this much more, for a value of 256 MB up. */
#define OVERHEAD	9

/* A record of nulls. */
#define LEAST		5

/*
 * memory_available gives the megabytes that can be used without swapping; where
 * that cannot be told, none.
 */
static long
memory_available(void)
{
	FILE	   *file = fopen("/proc/meminfo", "r");
	char		line[256];
	long		kilobytes = 0;

	if (file == NULL)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		if (sscanf(line, "MemAvailable: %ld", &kilobytes) == 1)
			break;
	}
	fclose(file);
	return kilobytes / 1024;
}

/*
 * null_record is the smallest record.
 */
static StreamRecord
null_record(int64 offset)
{
	StreamRecord record = {0};

	record.offset = offset;
	record.key_len = record.value_len = record.headers_len = -1;
	return record;
}

/*
 * test_noise packs a large value that does not shrink.
 */
static void
test_noise(Random *random)
{
	Size		len = 300 * MEGABYTE;
	uint64	   *noise = palloc(len);
	StreamBatchBuilder builder = {0};
	StreamBatchReader reader = {0};
	StreamBatchPrefix taken;
	StreamRecord record = null_record(1);
	Size		bound;
	Size		size;
	char	   *datum;

	for (Size i = 0; i < len / sizeof(uint64); i++)
		noise[i] = random_next(random);
	record.value = (const char *) noise;
	record.value_len = len;
	stream_batch_append(&builder, &record);

	bound = stream_batch_bound(builder.len);
	datum = palloc(bound);
	size = stream_batch_encode(&builder, builder.len, STREAM_COMPRESSION_LZ4,
							   1, datum, bound, &taken);
	stream_batch_builder_free(&builder);
	tap_ok(size == STREAM_BATCH_HEADER_SIZE + len + OVERHEAD &&
		   stream_batch_open(&reader, datum, size) == STREAM_BATCH_OK &&
		   stream_batch_next(&reader, &record) == STREAM_BATCH_OK &&
		   record.value_len == (int32) len &&
		   memcmp(record.value, noise, len) == 0 &&
		   stream_batch_next(&reader, &record) == STREAM_BATCH_END,
		   "300 MB of noise");

	pfree(datum);
	pfree(noise);
	stream_batch_reader_free(&reader);
}

/*
 * test_maximum fills a builder to its last byte, and packs it.
 */
static void
test_maximum(void)
{
	StreamBatchBuilder builder = {0};
	StreamBatchBuilder other = {0};
	StreamBatchBuilder before;
	StreamBatchReader reader = {0};
	StreamBatchPrefix taken;
	StreamRecord record = null_record(1);
	StreamRecord least = null_record(2);
	Size		dst_size = 8 * MEGABYTE;
	char	   *datum = palloc(dst_size);
	char	   *zeros;
	Size		size;
	bool		all_zero = true;

	/* Memory that is only read stays one page of zeros. */
	zeros = mmap(NULL, STREAM_BATCH_MAX_RAW, PROT_READ,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (zeros == MAP_FAILED)
	{
		perror("could not map memory");
		exit(EXIT_FAILURE);
	}

	/* One byte too many for any batch. */
	record.value = zeros;
	record.value_len = STREAM_BATCH_MAX_RAW - OVERHEAD + 1;
	tap_ok(!stream_batch_append(&builder, &record) && builder.count == 0 &&
		   builder.data == NULL, "a value too large for any batch is refused");

	/* Two values and a key, each large: more than an int32 in all. */
	record.key = record.headers = zeros;
	record.value_len = record.key_len = record.headers_len = PG_INT32_MAX;
	tap_ok(!stream_batch_append(&builder, &record) && builder.data == NULL,
		   "and so are three of 2 GB in one record");

	/* Room for one more record of nulls, not for two. */
	record = null_record(1);
	record.value = zeros;
	record.value_len = STREAM_BATCH_MAX_RAW - OVERHEAD - LEAST;
	tap_ok(stream_batch_append(&builder, &record) &&
		   builder.len == STREAM_BATCH_MAX_RAW - LEAST &&
		   builder.capacity == STREAM_BATCH_MAX_RAW,
		   "a builder grows to just the maximum");

	/* The second time the clock was set back, and the first one does fit. */
	before = builder;
	for (int back = 0; back < 2; back++)
	{
		stream_batch_builder_reset(&other);
		least = null_record(2);
		least.timestamp = -back;
		stream_batch_append(&other, &least);
		least.offset = 3;
		stream_batch_append(&other, &least);
		tap_ok(!stream_batch_concat(&builder, &other) &&
			   memcmp(&before, &builder, sizeof(builder)) == 0,
			   "two more do not fit%s: concat refuses and changes nothing",
			   back ? ", after a clock was set back" : "");
	}

	least = null_record(2);
	least.value = zeros;
	least.value_len = 1;
	tap_ok(!stream_batch_append(&builder, &least) &&
		   memcmp(&before, &builder, sizeof(builder)) == 0,
		   "nor does one with a byte: append refuses and changes nothing");

	stream_batch_builder_reset(&other);
	least = null_record(2);
	stream_batch_append(&other, &least);
	tap_ok(stream_batch_concat(&builder, &other) &&
		   builder.len == STREAM_BATCH_MAX_RAW, "one more does, to the last byte");
	least = null_record(3);
	tap_ok(!stream_batch_append(&builder, &least) && builder.count == 2,
		   "then nothing more");

	tap_ok(stream_batch_bound(builder.len) + 4 <= MaxAllocSize,
		   "what the fullest batch needs, and a varlena header, can be palloc'd");

	size = stream_batch_encode(&builder, builder.len, STREAM_COMPRESSION_LZ4,
							   1, datum, dst_size, &taken);
	tap_ok(size > 0 && taken.count == 2 && taken.raw_len == STREAM_BATCH_MAX_RAW,
		   "the fullest batch of zeros is packed to %d bytes", (int) size);

	/* The first record alone, then the second. */
	size = stream_batch_encode(&builder, builder.len - 1, STREAM_COMPRESSION_LZ4,
							   1, datum, dst_size, &taken);
	tap_ok(size > 0 && taken.count == 1 &&
		   taken.raw_len == STREAM_BATCH_MAX_RAW - LEAST,
		   "a limit a byte lower leaves the second record");
	stream_batch_discard(&builder, &taken);
	tap_ok(builder.count == 1 && builder.len == LEAST &&
		   builder.base_offset == 2, "which is all that remains");

	stream_batch_builder_free(&builder);
	if (stream_batch_open(&reader, datum, size) != STREAM_BATCH_OK ||
		stream_batch_next(&reader, &record) != STREAM_BATCH_OK)
		all_zero = false;
	else
		all_zero = record.value_len == (int32) (STREAM_BATCH_MAX_RAW - OVERHEAD - LEAST) &&
			record.value[0] == 0 &&
			memcmp(record.value, record.value + 1, record.value_len - 1) == 0;
	tap_ok(all_zero && stream_batch_next(&reader, &record) == STREAM_BATCH_END,
		   "and the first is read back, all of it");

	munmap(zeros, STREAM_BATCH_MAX_RAW);
	pfree(datum);
	stream_batch_builder_free(&other);
	stream_batch_reader_free(&reader);
}

int
main(void)
{
	Random		random = seed_random();

	if (memory_available() < 3 * 1024)
	{
		tap_skip("batches of hundreds of megabytes", "needs 3 GB of memory");
		return tap_done();
	}
	test_noise(&random);
	test_maximum();
	return tap_done();
}
