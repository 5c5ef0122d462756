/*-------------------------------------------------------------------------
 *
 * bench_batch.c
 *		Time per record of the codec's hot paths.
 *
 * Prints nanoseconds a record (append, next) or a byte count a batch, median
 * of several runs, for records of about 120 bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <time.h>

#include "batch.h"

#define RECORDS		200000
#define RUNS		9
#define VALUE_SIZE	120

/* Raw bytes of one batch, as the server would cut them. */
#define RAW_LIMIT	32768

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static int
compare_doubles(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

/*
 * report prints the median of the runs, each divided by "units".
 */
static void
report(const char *what, double *runs, double units)
{
	qsort(runs, RUNS, sizeof(double), compare_doubles);
	printf("%-28s %8.1f ns\n", what, runs[RUNS / 2] / units * 1e9);
}

/*
 * make_value writes a value that looks like a small JSON object and shrinks as
 * one does.
 */
static void
make_value(char *value, int i)
{
	int			len;

	len = snprintf(value, VALUE_SIZE + 1,
				   "{\"id\": %d, \"customer\": %d, \"state\": \"%s\", \"amount\": %d.%02d, \"note\": \"",
				   i, (int) ((uint32) i * 2654435761U % 100000), i % 3 ? "shipped" : "ordered",
				   i % 1000, i % 100);
	for (; len < VALUE_SIZE; len++)
		value[len] = 'a' + (len * 7 + i) % 26;
}

int
main(void)
{
	static char values[1024][VALUE_SIZE + 1];
	static char datum[RAW_LIMIT + 1024];
	static double append[RUNS];
	static double encode[RUNS];
	static double open[RUNS];
	static double next[RUNS];
	static double single[RUNS];
	int			batches = 0;
	Size		stored = 0;
	uint64		checksum = 0;

	for (int i = 0; i < (int) lengthof(values); i++)
		make_value(values[i], i);

	for (int run = 0; run < RUNS; run++)
	{
		StreamBatchBuilder builder = {0};
		StreamBatchReader reader = {0};
		StreamBatchPrefix taken;
		StreamRecord record = {0};
		StreamRecord got;
		double		start;

		append[run] = encode[run] = open[run] = next[run] = 0;
		batches = 0;
		stored = 0;
		record.headers_len = -1;
		record.key_len = 12;
		record.value_len = VALUE_SIZE;

		for (int i = 0; i < RECORDS;)
		{
			Size		size;

			start = seconds();
			while (builder.len < RAW_LIMIT && i < RECORDS)
			{
				record.offset = i;
				record.timestamp = i * INT64CONST(3);
				record.key = values[i & 1023] + 6;
				record.value = values[i & 1023];
				stream_batch_append(&builder, &record);
				i++;
			}
			append[run] += seconds() - start;

			start = seconds();
			size = stream_batch_encode(&builder, builder.len,
									   STREAM_COMPRESSION_LZ4, 1, datum,
									   sizeof(datum), &taken);
			encode[run] += seconds() - start;
			stream_batch_discard(&builder, &taken);

			start = seconds();
			if (stream_batch_open(&reader, datum, size) != STREAM_BATCH_OK)
				return 1;
			open[run] += seconds() - start;

			start = seconds();
			while (stream_batch_next(&reader, &got) == STREAM_BATCH_OK)
				checksum += got.offset + got.value_len;
			next[run] += seconds() - start;

			batches++;
			stored += size;
		}

		/* A transaction that publishes one record. */
		start = seconds();
		for (int i = 0; i < RECORDS / 10; i++)
		{
			record.offset = i;
			record.value = values[i & 1023];
			stream_batch_append(&builder, &record);
			checksum += stream_batch_encode(&builder, builder.len,
											STREAM_COMPRESSION_LZ4, 1, datum,
											sizeof(datum), &taken);
			stream_batch_discard(&builder, &taken);
		}
		single[run] = seconds() - start;

		stream_batch_builder_free(&builder);
		stream_batch_reader_free(&reader);
	}

	printf("%d records of %d bytes in %d batches, %.1f bytes a record stored, checksum %llu\n",
		   RECORDS, VALUE_SIZE, batches, (double) stored / RECORDS,
		   (unsigned long long) checksum);
	report("append, a record", append, RECORDS);
	report("encode (LZ4), a record", encode, RECORDS);
	report("open (LZ4), a record", open, RECORDS);
	report("next, a record", next, RECORDS);
	report("append + encode of a single", single, RECORDS / 10);
	return 0;
}
