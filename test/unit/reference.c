/*-------------------------------------------------------------------------
 *
 * reference.c
 *		A second, plain implementation of the batch format.
 *
 * Written from the drawing in batch.h, with nothing of batch.c: the tests
 * compare the two, and use this one to forge damaged batches.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "reference.h"

/*
 * crc_step takes one byte into a CRC-32C, bit by bit.
 */
static uint32
crc_step(uint32 crc, unsigned char byte)
{
	crc ^= byte;
	for (int bit = 0; bit < 8; bit++)
		crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78 : 0);
	return crc;
}

/*
 * reference_crc gives the CRC a batch should have; 0 when it is too short to
 * have one.
 */
uint32
reference_crc(const char *data, Size len)
{
	static uint32 table[256];
	uint32		crc = 0xffffffff;

	if (table[1] == 0)
	{
		for (int i = 0; i < 256; i++)
			table[i] = crc_step(0, (unsigned char) i);
	}

	if (len < AT_LEADER_EPOCH)
		return 0;
	for (Size i = 0; i < len; i++)
	{
		if (i < AT_CRC || i >= AT_LEADER_EPOCH)
			crc = table[(crc ^ (unsigned char) data[i]) & 0xff] ^ (crc >> 8);
	}
	return ~crc;
}

/*
 * reference_fix_crc makes a batch's CRC right.
 */
void
reference_fix_crc(char *data, Size len)
{
	uint32		crc = reference_crc(data, len);

	if (len >= AT_LEADER_EPOCH)
		memcpy(data + AT_CRC, &crc, sizeof(crc));
}

/*
 * write_varint writes a varint and returns the place behind it.
 */
static char *
write_varint(char *p, uint64 value)
{
	do
	{
		unsigned char byte = value & 0x7f;

		value >>= 7;
		*p++ = (char) (value != 0 ? byte | 0x80 : byte);
	} while (value != 0);
	return p;
}

/*
 * write_field writes a key, a value or headers.
 */
static char *
write_field(char *p, const char *data, int32 len)
{
	p = write_varint(p, (uint64) ((int64) len + 1));
	for (int32 i = 0; i < len; i++)
		*p++ = data[i];
	return p;
}

/*
 * reference_encode writes an uncompressed batch of a part of a list and returns
 * its size.
 */
Size
reference_encode(const RecordList *list, int first, int count,
				 uint32 leader_epoch, char *dst)
{
	const StreamRecord *base = &list->items[first].record;
	const StreamRecord *last = &list->items[first + count - 1].record;
	const StreamRecord *previous = base;
	char	   *p = dst + STREAM_BATCH_HEADER_SIZE;
	uint32		record_count = count;
	uint32		last_offset_delta = last->offset - base->offset;
	uint32		raw_length;
	Size		size;

	for (int i = first; i < first + count; i++)
	{
		const StreamRecord *record = &list->items[i].record;

		p = write_varint(p, (uint64) record->offset - (uint64) previous->offset);
		p = write_varint(p, (uint64) record->timestamp -
						 (uint64) previous->timestamp);
		p = write_field(p, record->key, record->key_len);
		p = write_field(p, record->value, record->value_len);
		p = write_field(p, record->headers, record->headers_len);
		previous = record;
	}
	size = p - dst;
	raw_length = size - STREAM_BATCH_HEADER_SIZE;

	memset(dst, 0, STREAM_BATCH_HEADER_SIZE);
	dst[AT_VERSION] = 1;
	memcpy(dst + AT_LEADER_EPOCH, &leader_epoch, 4);
	memcpy(dst + AT_RECORD_COUNT, &record_count, 4);
	memcpy(dst + AT_BASE_OFFSET, &base->offset, 8);
	memcpy(dst + AT_BASE_TIMESTAMP, &base->timestamp, 8);
	memcpy(dst + AT_LAST_OFFSET_DELTA, &last_offset_delta, 4);
	memcpy(dst + AT_RAW_LENGTH, &raw_length, 4);
	reference_fix_crc(dst, size);
	return size;
}
