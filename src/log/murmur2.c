/*-------------------------------------------------------------------------
 *
 * murmur2.c
 *		The hash that maps a record's key to a partition.
 *
 * This is MurmurHash2, 32 bits, with the seed Kafka's clients use.  The same
 * key must land in the partition of the same number as in Kafka, so nothing
 * here may ever change: not the constants, not the byte order of the loads.
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "murmur2.h"

#define MURMUR2_SEED		0x9747b28c
#define MURMUR2_MULTIPLIER	0x5bd1e995
#define MURMUR2_SHIFT		24

/*
 * load_le32 reads four bytes as a little-endian integer, wherever they lie and
 * whatever the machine.  Compilers make one load of it where they can.
 */
static inline uint32
load_le32(const unsigned char *p)
{
	return (uint32) p[0] | (uint32) p[1] << 8 |
		(uint32) p[2] << 16 | (uint32) p[3] << 24;
}

/*
 * stream_murmur2 hashes len bytes.
 */
uint32
stream_murmur2(const unsigned char *data, Size len)
{
	uint32		hash = MURMUR2_SEED ^ (uint32) len;

	for (; len >= 4; len -= 4, data += 4)
	{
		uint32		word = load_le32(data) * MURMUR2_MULTIPLIER;

		word ^= word >> MURMUR2_SHIFT;
		word *= MURMUR2_MULTIPLIER;
		hash = (hash * MURMUR2_MULTIPLIER) ^ word;
	}

	/* One to three bytes remain: mixed in as one word, without the shift. */
	if (len > 0)
	{
		uint32		tail = data[0];

		if (len > 1)
			tail |= (uint32) data[1] << 8;
		if (len > 2)
			tail |= (uint32) data[2] << 16;
		hash = (hash ^ tail) * MURMUR2_MULTIPLIER;
	}

	hash ^= hash >> 13;
	hash *= MURMUR2_MULTIPLIER;
	hash ^= hash >> 15;
	return hash;
}

/*
 * stream_key_partition gives the partition of a key, from 0 to partitions - 1.
 * As in Kafka the hash's sign bit is dropped, not the sign.
 */
int32
stream_key_partition(const char *key, Size len, int32 partitions)
{
	uint32		hash = stream_murmur2((const unsigned char *) key, len);

	Assert(partitions > 0);

	return (int32) ((hash & 0x7fffffff) % (uint32) partitions);
}
