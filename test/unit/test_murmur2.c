/*-------------------------------------------------------------------------
 *
 * test_murmur2.c
 *		The hash of a key against values that others compute.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "murmur2.h"
#include "tap.h"

typedef struct Vector
{
	const char *key;
	int32		hash;
} Vector;

static const Vector vectors[] = {
	/* Kafka's own, UtilsTest.testMurmur2 */
	{"21", -973932308},
	{"foobar", -790332482},
	{"a-little-bit-long-string", -985981536},
	{"a-little-bit-longer-string", -1486304829},
	{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
	{"abc", 479470107},

	/* librdkafka's, unittest_murmur2: tails of every length */
	{"kafka", (int32) 0xd067cf64},
	{"giberish123456789", (int32) 0x8f552b0c},
	{"1234", (int32) 0x9fc97b14},
	{"234", (int32) 0xe7c009ca},
	{"34", (int32) 0x873930da},
	{"4", (int32) 0x5a4b5ca1},
	{"PreAmbleWillBeRemoved,ThePrePartThatIs", (int32) 0x78424f1c},
	{"reAmbleWillBeRemoved,ThePrePartThatIs", (int32) 0x4a62b377},
	{"eAmbleWillBeRemoved,ThePrePartThatIs", (int32) 0xe0e4e09e},
	{"AmbleWillBeRemoved,ThePrePartThatIs", (int32) 0x62b8b43f},
	{"", (int32) 0x106e08d9}
};

/*
 * test_vectors checks each vector, from every alignment and with bytes behind
 * it that must not matter.
 */
static void
test_vectors(void)
{
	for (int i = 0; i < (int) lengthof(vectors); i++)
	{
		const char *key = vectors[i].key;
		Size		len = strlen(key);
		bool		passed = true;

		for (int shift = 0; shift < 8; shift++)
		{
			unsigned char buffer[128];

			memset(buffer, 0xa5, sizeof(buffer));
			memcpy(buffer + shift, key, len);
			if ((int32) stream_murmur2(buffer + shift, len) != vectors[i].hash)
				passed = false;
		}
		tap_ok(passed, "murmur2 of \"%s\" is %d", key, vectors[i].hash);
	}
}

/*
 * test_partitions checks the partition of each vector's key against plain
 * arithmetic on the published hash.
 */
static void
test_partitions(void)
{
	static const int32 counts[] = {1, 2, 3, 12, 50, 1000, 1024, PG_INT32_MAX};
	bool		passed = true;

	for (int i = 0; i < (int) lengthof(vectors); i++)
	{
		for (int j = 0; j < (int) lengthof(counts); j++)
		{
			int64		hash = vectors[i].hash;
			int64		positive = hash < 0 ? hash + (INT64CONST(1) << 31) : hash;

			if (stream_key_partition(vectors[i].key, strlen(vectors[i].key),
									 counts[j]) != positive % counts[j])
				passed = false;
		}
	}
	tap_ok(passed, "a negative hash loses its sign bit, then the remainder is taken");
	tap_ok(stream_key_partition("foobar", 6, 50) == 16,
		   "\"foobar\" goes to partition 16 of 50");
}

int
main(void)
{
	test_vectors();
	test_partitions();
	return tap_done();
}
