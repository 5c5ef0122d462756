/*-------------------------------------------------------------------------
 *
 * batch_format.h
 *		What writing and reading a batch share: the stored header and records.
 *
 * For batch.c and batch_read.c alone.  The format is drawn in batch.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_BATCH_FORMAT_H
#define STREAM_BATCH_FORMAT_H

#include "port/pg_crc32c.h"

#include "batch.h"

/* The header as it is stored, byte for byte. */
typedef struct StoredHeader
{
	uint8		version;
	uint8		attributes;
	uint16		reserved;
	uint32		crc;
	uint32		leader_epoch;
	uint32		record_count;
	int64		base_offset;
	int64		base_timestamp;
	uint32		last_offset_delta;
	uint32		raw_length;
} StoredHeader;

StaticAssertDecl(sizeof(StoredHeader) == STREAM_BATCH_HEADER_SIZE,
				 "the stored header has no padding");

#define ATTRIBUTE_COMPRESSION	0x03
#define CRC_START				offsetof(StoredHeader, crc)
#define CRC_END					(offsetof(StoredHeader, crc) + sizeof(uint32))

#define MAX_VARINT_SIZE			10

/*
 * add_delta adds a delta to an offset or a timestamp.  Unsigned, since between
 * two timestamps there may lie more than an int64 holds.
 */
static inline int64
add_delta(int64 value, uint64 delta)
{
	return (int64) ((uint64) value + delta);
}

/*
 * delta_between gives what add_delta adds to "from" to reach "to".
 */
static inline uint64
delta_between(int64 from, int64 to)
{
	return (uint64) to - (uint64) from;
}

/*
 * get_long_varint is get_varint for more than one byte, or for none.
 */
static pg_noinline const char *
get_long_varint(const char *p, const char *end, uint64 *value)
{
	uint64		result = 0;

	for (int shift = 0; shift < 7 * MAX_VARINT_SIZE && p < end; shift += 7)
	{
		unsigned char byte = (unsigned char) *p++;

		/* The tenth byte holds bit 63 alone. */
		if (shift == 63 && byte > 1)
			return NULL;

		result |= (uint64) (byte & 0x7f) << shift;
		if (byte < 0x80)
		{
			/* A zero at the end: not the shortest form. */
			if (byte == 0 && shift > 0)
				return NULL;
			*value = result;
			return p;
		}
	}
	return NULL;
}

/*
 * get_varint reads a varint and returns the place behind it; null when it does
 * not end before "end", is larger than 64 bits or is not the shortest form.
 */
static pg_attribute_always_inline const char *
get_varint(const char *p, const char *end, uint64 *value)
{
	if (likely(p < end && (unsigned char) *p < 0x80))
	{
		*value = (unsigned char) *p;
		return p + 1;
	}
	return get_long_varint(p, end, value);
}

/*
 * get_field reads what put_field of batch.c wrote and returns the place behind
 * it; null when it does not end within "end".  The body is shorter than 1 GB,
 * so a length that fits in it fits in an int32.
 */
static pg_attribute_always_inline const char *
get_field(const char *p, const char *end, const char **data, int32 *len)
{
	uint64		stored;

	p = get_varint(p, end, &stored);
	if (unlikely(p == NULL))
		return NULL;

	if (stored == 0)
	{
		*data = NULL;
		*len = -1;
		return p;
	}

	stored--;
	if (unlikely(stored > (uint64) (end - p)))
		return NULL;

	*data = p;
	*len = (int32) stored;
	return p + stored;
}

/*
 * get_record reads one record: the two deltas, and all of "record" but offset
 * and timestamp.  Returns the place behind it, or null when it is damaged.
 */
static pg_attribute_always_inline const char *
get_record(const char *p, const char *end, uint64 *offset_delta,
		   uint64 *timestamp_delta, StreamRecord *record)
{
	p = get_varint(p, end, offset_delta);
	if (unlikely(p == NULL))
		return NULL;
	p = get_varint(p, end, timestamp_delta);
	if (unlikely(p == NULL))
		return NULL;
	p = get_field(p, end, &record->key, &record->key_len);
	if (unlikely(p == NULL))
		return NULL;
	p = get_field(p, end, &record->value, &record->value_len);
	if (unlikely(p == NULL))
		return NULL;
	return get_field(p, end, &record->headers, &record->headers_len);
}

/*
 * compute_crc gives the CRC of a whole batch, that is, of all but the CRC.
 */
static inline uint32
compute_crc(const char *data, Size len)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, data, CRC_START);
	COMP_CRC32C(crc, data + CRC_END, len - CRC_END);
	FIN_CRC32C(crc);
	return crc;
}

#endif							/* STREAM_BATCH_FORMAT_H */
