/*-------------------------------------------------------------------------
 *
 * batch.c
 *		The record batch: collecting records and encoding them.
 *
 * The format is drawn in batch.h.  Nothing here knows of relations or of the
 * server beyond palloc.
 *
 * A builder's body is our own work and is trusted: where it is walked, only
 * assertions check it.
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include <lz4.h>

#include "port/pg_bitutils.h"

#include "batch_format.h"

/* Bodies of this size and more are compressed with a fresh state, in bytes. */
#define STREAM_FRESH_STATE_FROM		4096

StaticAssertDecl(STREAM_BATCH_MAX_RAW <= LZ4_MAX_INPUT_SIZE,
				 "LZ4 takes every body a builder can hold");

/* The first record's two deltas, both 0, take one byte each. */
#define FIRST_DELTAS_SIZE		2

/* What a record's five varints can take. */
#define MAX_RECORD_OVERHEAD		(5 * MAX_VARINT_SIZE)

#define INITIAL_CAPACITY		256


/*
 * stream_batch_builder_reset drops the records and keeps the memory.
 */
void
stream_batch_builder_reset(StreamBatchBuilder *builder)
{
	builder->len = 0;
	builder->count = 0;
}

/*
 * stream_batch_builder_free drops the records and the memory.  The builder is
 * then as good as a zeroed one.
 */
void
stream_batch_builder_free(StreamBatchBuilder *builder)
{
	if (builder->data != NULL)
		pfree(builder->data);
	memset(builder, 0, sizeof(StreamBatchBuilder));
}

/*
 * make_room grows a builder until "needed" more bytes fit.  Returns false when
 * the body would exceed STREAM_BATCH_MAX_RAW.
 */
static pg_noinline bool
make_room(StreamBatchBuilder *builder, uint64 needed)
{
	Size		capacity = builder->capacity;

	if (needed > STREAM_BATCH_MAX_RAW - builder->len)
		return false;

	needed += builder->len;
	if (needed <= capacity)
		return true;

	capacity = Max(capacity, INITIAL_CAPACITY);
	while (capacity < needed)
		capacity = Min(capacity * 2, STREAM_BATCH_MAX_RAW);

	if (builder->data == NULL)
		builder->data = palloc(capacity);
	else
		builder->data = repalloc(builder->data, capacity);
	builder->capacity = capacity;
	return true;
}

/*
 * varint_size gives the bytes put_varint writes.
 */
static inline Size
varint_size(uint64 value)
{
	return pg_leftmost_one_pos64(value | 1) / 7 + 1;
}

/*
 * put_varint writes a varint and returns the place behind it.
 */
static inline char *
put_varint(char *p, uint64 value)
{
	while (value >= 0x80)
	{
		*p++ = (char) (value | 0x80);
		value >>= 7;
	}
	*p++ = (char) value;
	return p;
}

/*
 * field_size gives the bytes put_field writes.
 */
static inline uint64
field_size(int32 len)
{
	return len < 0 ? 1 : varint_size((uint64) len + 1) + (uint64) len;
}

/*
 * put_field writes a length and its bytes; a negative length is null.
 */
static inline char *
put_field(char *p, const char *data, int32 len)
{
	if (len < 0)
	{
		*p++ = 0;
		return p;
	}

	p = put_varint(p, (uint64) len + 1);
	if (len > 0)
		memcpy(p, data, len);
	return p + len;
}

/*
 * spread_too_wide says whether an offset is too far behind a builder's first
 * one for the header's last offset delta, which has 32 bits.
 */
static inline bool
spread_too_wide(const StreamBatchBuilder *builder, int64 offset)
{
	return delta_between(builder->base_offset, offset) > PG_UINT32_MAX;
}

/*
 * stream_batch_append adds a record behind the others.
 *
 * Its offset must be above last_offset.  A timestamp below the previous
 * record's is raised to it, since time never runs backwards within a
 * partition.
 *
 * Returns false, with nothing changed, when the body would exceed
 * STREAM_BATCH_MAX_RAW, or when the offset is 2^32 or more above the batch's
 * first: the caller closes this batch and starts another.  An empty builder
 * refuses only a record that is too large for any batch.
 */
bool
stream_batch_append(StreamBatchBuilder *builder, const StreamRecord *record)
{
	uint64		offset_delta = 0;
	uint64		timestamp_delta = 0;
	uint64		payload;
	char	   *p;

	Assert(record->offset >= 0);
	Assert(record->key_len >= -1 && record->value_len >= -1 &&
		   record->headers_len >= -1);

	if (builder->count > 0)
	{
		Assert(record->offset > builder->last_offset);
		if (unlikely(spread_too_wide(builder, record->offset)))
			return false;
		offset_delta = delta_between(builder->last_offset, record->offset);
		if (record->timestamp > builder->last_timestamp)
			timestamp_delta = delta_between(builder->last_timestamp,
											record->timestamp);
	}

	/*
	 * Most records pass by the largest size they could take.  The exact size
	 * is worked out only near the end of the buffer; it matters at the limit.
	 */
	payload = (uint64) Max(record->key_len, 0) +
		(uint64) Max(record->value_len, 0) +
		(uint64) Max(record->headers_len, 0);
	if (unlikely(payload + MAX_RECORD_OVERHEAD > builder->capacity - builder->len))
	{
		uint64		needed = varint_size(offset_delta) +
			varint_size(timestamp_delta) +
			field_size(record->key_len) +
			field_size(record->value_len) +
			field_size(record->headers_len);

		if (!make_room(builder, needed))
			return false;
	}

	p = builder->data + builder->len;
	p = put_varint(p, offset_delta);
	p = put_varint(p, timestamp_delta);
	p = put_field(p, record->key, record->key_len);
	p = put_field(p, record->value, record->value_len);
	p = put_field(p, record->headers, record->headers_len);

	if (builder->count == 0)
	{
		builder->base_offset = record->offset;
		builder->base_timestamp = record->timestamp;
		builder->last_timestamp = record->timestamp;
	}
	else
		builder->last_timestamp = add_delta(builder->last_timestamp,
											timestamp_delta);
	builder->last_offset = record->offset;
	builder->len = p - builder->data;
	builder->count++;
	return true;
}

/*
 * concat_by_append adds src's records to dst one by one; all of them or none.
 */
static bool
concat_by_append(StreamBatchBuilder *dst, const StreamBatchBuilder *src)
{
	StreamBatchBuilder saved = *dst;
	const char *p = src->data;
	const char *end = src->data + src->len;
	StreamRecord record;

	record.offset = src->base_offset;
	record.timestamp = src->base_timestamp;
	while (p < end)
	{
		uint64		offset_delta = 0;
		uint64		timestamp_delta = 0;

		/* our own encoding: it cannot fail */
		p = get_record(p, end, &offset_delta, &timestamp_delta, &record);
		Assert(p != NULL);
		record.offset = add_delta(record.offset, offset_delta);
		record.timestamp = add_delta(record.timestamp, timestamp_delta);

		if (!stream_batch_append(dst, &record))
		{
			/* The buffer may have grown, and stays so. */
			saved.data = dst->data;
			saved.capacity = dst->capacity;
			*dst = saved;
			return false;
		}
	}
	return true;
}

/*
 * stream_batch_concat adds src's records behind dst's, as if each had been
 * appended, and leaves src as it is.  src's first offset must be above dst's
 * last.
 *
 * Returns false, with nothing changed, when they do not fit; the limits are
 * those of stream_batch_append.
 */
bool
stream_batch_concat(StreamBatchBuilder *dst, const StreamBatchBuilder *src)
{
	uint64		offset_delta = 0;
	uint64		timestamp_delta = 0;
	Size		rest;
	char	   *p;

	Assert(dst != src);

	if (src->count == 0)
		return true;

	if (dst->count > 0)
	{
		Assert(src->base_offset > dst->last_offset);
		if (spread_too_wide(dst, src->last_offset))
			return false;

		/* A clock that was set back: more than one delta changes. */
		if (src->base_timestamp < dst->last_timestamp)
			return concat_by_append(dst, src);

		offset_delta = delta_between(dst->last_offset, src->base_offset);
		timestamp_delta = delta_between(dst->last_timestamp,
										src->base_timestamp);
	}

	rest = src->len - FIRST_DELTAS_SIZE;
	if (!make_room(dst, varint_size(offset_delta) +
				   varint_size(timestamp_delta) + rest))
		return false;

	p = dst->data + dst->len;
	p = put_varint(p, offset_delta);
	p = put_varint(p, timestamp_delta);
	memcpy(p, src->data + FIRST_DELTAS_SIZE, rest);

	if (dst->count == 0)
	{
		dst->base_offset = src->base_offset;
		dst->base_timestamp = src->base_timestamp;
	}
	dst->last_offset = src->last_offset;
	dst->last_timestamp = src->last_timestamp;
	dst->len = p + rest - dst->data;
	dst->count += src->count;
	return true;
}

/*
 * stream_batch_bound gives the bytes that always suffice to encode a body of
 * raw_len bytes.  A body that LZ4 would not shrink is stored as it is, so LZ4's
 * own, larger bound does not matter; and what a full builder needs still fits
 * in one palloc chunk with a varlena header.
 */
Size
stream_batch_bound(Size raw_len)
{
	return STREAM_BATCH_HEADER_SIZE + raw_len;
}

/*
 * take_prefix finds the leading records whose bytes are at most raw_limit, at
 * least one.
 */
static void
take_prefix(const StreamBatchBuilder *builder, Size raw_limit,
			StreamBatchPrefix *taken)
{
	const char *start = builder->data;
	const char *end = start + builder->len;
	const char *p = start;

	if (raw_limit >= builder->len)
	{
		taken->count = builder->count;
		taken->raw_len = builder->len;
		taken->last_offset = builder->last_offset;
		taken->last_timestamp = builder->last_timestamp;
		return;
	}

	taken->count = 0;
	taken->last_offset = builder->base_offset;
	taken->last_timestamp = builder->base_timestamp;
	do
	{
		StreamRecord record;
		uint64		offset_delta;
		uint64		timestamp_delta;
		const char *next;

		next = get_record(p, end, &offset_delta, &timestamp_delta, &record);
		Assert(next != NULL);
		if (taken->count > 0 && (Size) (next - start) > raw_limit)
			break;

		p = next;
		taken->count++;
		taken->last_offset = add_delta(taken->last_offset, offset_delta);
		taken->last_timestamp = add_delta(taken->last_timestamp,
										  timestamp_delta);
	} while ((Size) (p - start) < raw_limit);
	taken->raw_len = p - start;
}

/*
 * compress packs a body with LZ4 and returns the bytes written; 0 when it would
 * not shrink or not fit into "room".
 *
 * The state is kept: clearing its 16 kB anew costs more than to compress a
 * single record.  Nothing of one body is used for the next.
 */
static Size
compress(const char *raw, Size raw_len, char *dst, Size room)
{
	static LZ4_stream_t state;
	static bool state_valid = false;
	int			written;

	/*
	 * LZ4 is faster by half on a larger body when it begins anew; on a small
	 * one, clearing its 16 kB of state would cost more than the rest.
	 */
	if (raw_len >= STREAM_FRESH_STATE_FROM)
	{
		state_valid = false;
		return LZ4_compress_fast_extState(&state, raw, dst, (int) raw_len, (int) Min(room, raw_len - 1), 1);
	}

	if (state_valid)
		LZ4_resetStream_fast(&state);
	else
		LZ4_initStream(&state, sizeof(state));

	written = LZ4_compress_fast_continue(&state, raw, dst, (int) raw_len,
										 (int) Min(room, raw_len - 1), 1);

	/* When it gives up, LZ4 leaves the state undefined. */
	state_valid = written > 0;
	return written;
}

/*
 * stream_batch_encode writes a batch of the leading records whose raw bytes are
 * at most raw_limit, but at least of one, and tells in "taken" which they are.
 * The builder, which must not be empty, stays as it is;
 * stream_batch_discard drops what was taken.
 *
 * A body that LZ4 does not shrink is stored uncompressed.
 *
 * Returns the bytes written; 0 when dst_size is too small, with "taken" filled
 * in even so.  stream_batch_bound(taken->raw_len) bytes always suffice.
 */
Size
stream_batch_encode(const StreamBatchBuilder *builder, Size raw_limit,
					StreamCompression compression, uint32 leader_epoch,
					char *dst, Size dst_size, StreamBatchPrefix *taken)
{
	StoredHeader header;
	char	   *body;
	Size		body_len = 0;
	Size		room;
	Size		total;

	Assert(builder->count > 0);
	Assert(compression == STREAM_COMPRESSION_NONE ||
		   compression == STREAM_COMPRESSION_LZ4);

	take_prefix(builder, raw_limit, taken);

	if (dst_size <= STREAM_BATCH_HEADER_SIZE)
		return 0;
	body = dst + STREAM_BATCH_HEADER_SIZE;
	room = dst_size - STREAM_BATCH_HEADER_SIZE;

	if (compression == STREAM_COMPRESSION_LZ4)
		body_len = compress(builder->data, taken->raw_len, body, room);
	if (body_len == 0)
	{
		if (taken->raw_len > room)
			return 0;
		compression = STREAM_COMPRESSION_NONE;
		body_len = taken->raw_len;
		memcpy(body, builder->data, body_len);
	}

	header.version = STREAM_BATCH_VERSION;
	header.attributes = (uint8) compression;
	header.reserved = 0;
	header.crc = 0;
	header.leader_epoch = leader_epoch;
	header.record_count = taken->count;
	header.base_offset = builder->base_offset;
	header.base_timestamp = builder->base_timestamp;
	header.last_offset_delta = (uint32) (taken->last_offset - builder->base_offset);
	header.raw_length = (uint32) taken->raw_len;
	memcpy(dst, &header, STREAM_BATCH_HEADER_SIZE);

	total = STREAM_BATCH_HEADER_SIZE + body_len;
	header.crc = compute_crc(dst, total);
	memcpy(dst + CRC_START, &header.crc, sizeof(header.crc));
	return total;
}

/*
 * stream_batch_discard drops the leading records that stream_batch_encode took;
 * the builder must not have changed since.  Moves the bytes that remain.
 */
void
stream_batch_discard(StreamBatchBuilder *builder, const StreamBatchPrefix *taken)
{
	const char *p;
	const char *end = builder->data + builder->len;
	uint64		offset_delta = 0;
	uint64		timestamp_delta = 0;

	Assert(taken->count <= builder->count && taken->raw_len <= builder->len);

	if (taken->count == builder->count)
	{
		stream_batch_builder_reset(builder);
		return;
	}

	p = builder->data + taken->raw_len;
	p = get_varint(p, end, &offset_delta);
	Assert(p != NULL);
	p = get_varint(p, end, &timestamp_delta);
	Assert(p != NULL);

	/* Two bytes were there before: there is always room for two zeros. */
	memset(builder->data, 0, FIRST_DELTAS_SIZE);
	memmove(builder->data + FIRST_DELTAS_SIZE, p, end - p);

	builder->base_offset = add_delta(taken->last_offset, offset_delta);
	builder->base_timestamp = add_delta(taken->last_timestamp, timestamp_delta);
	builder->len = FIRST_DELTAS_SIZE + (end - p);
	builder->count -= taken->count;
}
