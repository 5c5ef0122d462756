/*-------------------------------------------------------------------------
 *
 * records.c
 *		Random records, and what a batch of them should hold.
 *
 * Keys, values and headers point into one pool of bytes, half of it text that
 * shrinks and half noise that does not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "records.h"

#define POOL_SIZE	(1024 * 1024)

static char pool[POOL_SIZE];
static bool pool_filled = false;

/*
 * fill_pool makes the pool, the same one for every seed.
 */
static void
fill_pool(void)
{
	static const char *const words[] = {
		"{\"order\": ", "\"customer\": ", "\"state\": \"shipped\"", ", ", "}",
		"0", "1", "17", "2500", "null", "true"
	};
	Random		random = {42};
	int			pos = 0;

	while (pos < POOL_SIZE / 2)
	{
		const char *word = words[random_below(&random, lengthof(words))];

		while (*word != '\0' && pos < POOL_SIZE / 2)
			pool[pos++] = *word++;
	}
	while (pos < POOL_SIZE)
		pool[pos++] = (char) random_next(&random);
	pool_filled = true;
}

/*
 * random_field picks a length, with the varints' borders well represented, and
 * bytes of that length.
 */
static void
random_field(Random *random, const char **data, int32 *len)
{
	uint64		dice = random_below(random, 100);

	if (!pool_filled)
		fill_pool();

	if (dice < 15)
	{
		*data = NULL;
		*len = -1;
		return;
	}

	if (dice < 25)
		*len = 0;
	else if (dice < 60)
		*len = 1 + random_below(random, 20);
	else if (dice < 75)
		*len = 124 + random_below(random, 6);
	else if (dice < 98)
		*len = random_below(random, 250);
	else if (random_chance(random, 4))
		*len = 16380 + random_below(random, 6);
	else if (random_chance(random, 10))
		*len = random_below(random, 200000);
	else
		*len = random_below(random, 3000);

	*data = pool + random_below(random, POOL_SIZE - *len);
}

/*
 * records_add puts a copy of a record, but not of its bytes, behind a list.
 */
void
records_add(RecordList *list, const StreamRecord *record)
{
	if (list->count == list->allocated)
	{
		list->allocated = Max(list->allocated * 2, 64);
		if (list->items == NULL)
			list->items = palloc(list->allocated * sizeof(TestRecord));
		else
			list->items = repalloc(list->items,
								   list->allocated * sizeof(TestRecord));
	}
	list->items[list->count].record = *record;
	list->items[list->count].given_timestamp = record->timestamp;
	list->count++;
}

/*
 * records_generate makes "count" records that one batch can take, with holes
 * between offsets, jumps in time, and a clock that is set back now and then.
 */
void
records_generate(Random *random, int count, RecordList *list)
{
	static const int64 base_offsets[] = {
		0, 1, 127, 128, INT64CONST(1) << 40,
		PG_INT64_MAX - PG_UINT32_MAX, PG_INT64_MAX - 100000000
	};
	static const int64 base_timestamps[] = {
		0, -1, INT64CONST(800000000000000), PG_INT64_MIN, PG_INT64_MAX
	};
	int64		offset = base_offsets[random_below(random, lengthof(base_offsets))];
	int64		timestamp = base_timestamps[random_below(random, lengthof(base_timestamps))];
	int64		last_offset = offset > PG_INT64_MAX - PG_UINT32_MAX ?
		PG_INT64_MAX : offset + PG_UINT32_MAX;

	list->count = 0;
	for (int i = 0; i < count; i++)
	{
		StreamRecord record;

		if (i > 0)
		{
			int64		step = 1;

			if (random_chance(random, 5))
				step += random_below(random, 300);
			if (random_chance(random, 50))
				step += random_below(random, UINT64CONST(1) << 31);

			/* Leave one offset for each record still to come. */
			offset += Min(step, last_offset - offset - (count - i - 1));

			if (random_chance(random, 2))
			{
				uint64		jump = random_below(random, 1000);

				if (random_chance(random, 100))
					jump = random_next(random) >> random_below(random, 64);
				if (jump < (uint64) PG_INT64_MAX - (uint64) timestamp)
					timestamp = (int64) ((uint64) timestamp + jump);
			}
		}

		record.offset = offset;
		record.timestamp = timestamp;
		random_field(random, &record.key, &record.key_len);
		random_field(random, &record.value, &record.value_len);
		random_field(random, &record.headers, &record.headers_len);
		records_add(list, &record);

		/* Below the previous record's: it is that one's timestamp that counts. */
		if (i > 0 && random_chance(random, 20))
		{
			TestRecord *item = &list->items[i];
			int64		previous = list->items[i - 1].record.timestamp;
			uint64		back = random_next(random) >> random_below(random, 64);

			if (back < (uint64) previous - (uint64) PG_INT64_MIN)
			{
				item->given_timestamp = (int64) ((uint64) previous - back);
				item->record.timestamp = timestamp = previous;
			}
		}
	}
}

/*
 * records_random_count picks a size for a batch: mostly small.
 */
int
records_random_count(Random *random)
{
	if (random_chance(random, 4))
		return 1;
	if (random_chance(random, 40))
		return 1 + random_below(random, 1000);
	return 1 + random_below(random, 40);
}

/*
 * records_append appends a part of a list to a builder.
 */
bool
records_append(StreamBatchBuilder *builder, const RecordList *list,
			   int first, int count)
{
	for (int i = first; i < first + count; i++)
	{
		StreamRecord record = list->items[i].record;

		record.timestamp = list->items[i].given_timestamp;
		if (!stream_batch_append(builder, &record))
			return false;
	}
	return true;
}

/*
 * fields_equal compares two keys, values or headers.
 */
static bool
fields_equal(const char *a, int32 a_len, const char *b, int32 b_len)
{
	if (a_len != b_len)
		return false;
	if (a_len < 0)
		return a == NULL && b == NULL;
	return a != NULL && b != NULL && memcmp(a, b, a_len) == 0;
}

/*
 * records_equal compares two records, bytes and all.
 */
bool
records_equal(const StreamRecord *a, const StreamRecord *b)
{
	return a->offset == b->offset &&
		a->timestamp == b->timestamp &&
		fields_equal(a->key, a->key_len, b->key, b->key_len) &&
		fields_equal(a->value, a->value_len, b->value, b->value_len) &&
		fields_equal(a->headers, a->headers_len, b->headers, b->headers_len);
}

/*
 * records_match reads an open batch to its end and says whether it holds just
 * this part of a list.
 */
bool
records_match(StreamBatchReader *reader, const RecordList *list,
			  int first, int count)
{
	StreamRecord record;

	for (int i = first; i < first + count; i++)
	{
		if (stream_batch_next(reader, &record) != STREAM_BATCH_OK ||
			!records_equal(&record, &list->items[i].record))
			return false;
	}

	/* It keeps saying END. */
	return stream_batch_next(reader, &record) == STREAM_BATCH_END &&
		stream_batch_next(reader, &record) == STREAM_BATCH_END;
}

/*
 * records_free frees a list.
 */
void
records_free(RecordList *list)
{
	if (list->items != NULL)
		pfree(list->items);
	memset(list, 0, sizeof(RecordList));
}
