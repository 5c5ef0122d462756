/*-------------------------------------------------------------------------
 *
 * batch_read.c
 *		The record batch: checking one and reading its records.
 *
 * The format is drawn in batch.h.  A reader trusts nothing: whatever the bytes,
 * it reads within them and ends in a status.
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include <lz4.h>

#include "batch_format.h"

/* Five varints, each of one byte: a record of nulls. */
#define MIN_RECORD_SIZE			5

/* One byte of LZ4 never stands for more bytes than this. */
#define LZ4_MAX_RATIO			255


/*
 * stream_batch_read_header reads and checks the header alone: len may end
 * anywhere behind it.  Nothing vouches for its bytes, since the CRC needs the
 * whole batch; but what it returns is consistent in itself:
 *
 *		0 <= base_offset <= last_offset
 *		1 <= record_count <= last_offset - base_offset + 1
 */
StreamBatchStatus
stream_batch_read_header(const char *data, Size len, StreamBatchHeader *header)
{
	StoredHeader stored;
	uint32		compression;

	if (len < STREAM_BATCH_HEADER_SIZE)
		return STREAM_BATCH_TRUNCATED;
	memcpy(&stored, data, STREAM_BATCH_HEADER_SIZE);

	if (stored.version != STREAM_BATCH_VERSION)
		return STREAM_BATCH_BAD_VERSION;
	if ((stored.attributes & ~ATTRIBUTE_COMPRESSION) != 0 || stored.reserved != 0)
		return STREAM_BATCH_BAD_HEADER;

	compression = stored.attributes & ATTRIBUTE_COMPRESSION;
	if (compression != STREAM_COMPRESSION_NONE &&
		compression != STREAM_COMPRESSION_LZ4)
		return STREAM_BATCH_BAD_COMPRESSION;

	/* A single record is first and last; several have different offsets. */
	if (stored.record_count == 0 ||
		stored.last_offset_delta < stored.record_count - 1 ||
		(stored.record_count == 1 && stored.last_offset_delta != 0))
		return STREAM_BATCH_BAD_HEADER;
	if (stored.base_offset < 0 ||
		stored.base_offset > PG_INT64_MAX - (int64) stored.last_offset_delta)
		return STREAM_BATCH_BAD_HEADER;
	if (stored.raw_length > STREAM_BATCH_MAX_RAW ||
		stored.raw_length / MIN_RECORD_SIZE < stored.record_count)
		return STREAM_BATCH_BAD_HEADER;

	header->compression = (StreamCompression) compression;
	header->crc = stored.crc;
	header->leader_epoch = stored.leader_epoch;
	header->record_count = stored.record_count;
	header->base_offset = stored.base_offset;
	header->last_offset = stored.base_offset + stored.last_offset_delta;
	header->base_timestamp = stored.base_timestamp;
	header->raw_length = stored.raw_length;
	return STREAM_BATCH_OK;
}

/*
 * decompress unpacks an LZ4 body into the reader's scratch memory, which grows
 * to the largest body so far.  Returns whether raw_length bytes came out.
 */
static bool
decompress(StreamBatchReader *reader, const char *body, Size body_len)
{
	Size		raw_length = reader->header.raw_length;

	/* A shrunken body, but one that could unpack to that much. */
	if (body_len >= raw_length || raw_length / LZ4_MAX_RATIO > body_len)
		return false;

	if (reader->scratch_size < raw_length)
	{
		/* The old bytes are of no use; and palloc may not return. */
		if (reader->scratch != NULL)
			pfree(reader->scratch);
		reader->scratch = NULL;
		reader->scratch_size = 0;

		reader->scratch = palloc(raw_length);
		reader->scratch_size = raw_length;
	}

	return LZ4_decompress_safe(body, reader->scratch, (int) body_len,
							   (int) raw_length) == (int) raw_length;
}

/*
 * stream_batch_open checks a batch of exactly len bytes and places the reader
 * before its first record.
 *
 * The version comes first, since it says where the CRC is, then the CRC, so
 * that damage is called damage.  Memory is taken only after that.  The data
 * must stay in place while records are read: those of an uncompressed body
 * point into it.
 *
 * After a failure the reader has no records, and stream_batch_next says
 * BAD_RECORD; it can be opened on another batch.
 */
StreamBatchStatus
stream_batch_open(StreamBatchReader *reader, const char *data, Size len)
{
	StreamBatchStatus status;
	const char *body;
	Size		body_len;
	uint32		crc;

	/* No batch ends at offset -1. */
	reader->pos = reader->end = NULL;
	reader->remaining = 0;
	reader->offset = -1;

	if (len < STREAM_BATCH_HEADER_SIZE)
		return STREAM_BATCH_TRUNCATED;
	if (*(const uint8 *) data != STREAM_BATCH_VERSION)
		return STREAM_BATCH_BAD_VERSION;

	memcpy(&crc, data + CRC_START, sizeof(crc));
	if (compute_crc(data, len) != crc)
		return STREAM_BATCH_BAD_CRC;

	status = stream_batch_read_header(data, len, &reader->header);
	if (status != STREAM_BATCH_OK)
		return status;

	body = data + STREAM_BATCH_HEADER_SIZE;
	body_len = len - STREAM_BATCH_HEADER_SIZE;
	if (reader->header.compression == STREAM_COMPRESSION_LZ4)
	{
		if (!decompress(reader, body, body_len))
			return STREAM_BATCH_BAD_COMPRESSION;
		body = reader->scratch;
	}
	else if (body_len != reader->header.raw_length)
		return STREAM_BATCH_BAD_HEADER;

	reader->pos = body;
	reader->end = body + reader->header.raw_length;
	reader->remaining = reader->header.record_count;
	reader->offset = reader->header.base_offset;
	reader->timestamp = reader->header.base_timestamp;
	return STREAM_BATCH_OK;
}

/*
 * stream_batch_next reads the next record.  What it returns is within the
 * header's range of offsets, and both offsets and timestamps only grow.
 *
 * END comes behind the last record, and only when nothing is left over and the
 * last offset is the header's.  Once it has said BAD_RECORD it keeps saying it.
 */
StreamBatchStatus
stream_batch_next(StreamBatchReader *reader, StreamRecord *record)
{
	bool		first = reader->remaining == reader->header.record_count;
	uint64		offset_delta;
	uint64		timestamp_delta;
	const char *p;

	if (unlikely(reader->remaining == 0))
	{
		if (reader->pos != reader->end ||
			reader->offset != reader->header.last_offset)
			return STREAM_BATCH_BAD_RECORD;
		return STREAM_BATCH_END;
	}

	p = get_record(reader->pos, reader->end, &offset_delta, &timestamp_delta,
				   record);
	if (unlikely(p == NULL))
		return STREAM_BATCH_BAD_RECORD;

	/* The first record's deltas are 0; later offsets grow. */
	if (unlikely((offset_delta == 0) != first) ||
		unlikely(first && timestamp_delta != 0))
		return STREAM_BATCH_BAD_RECORD;

	/* Neither may pass its end. */
	if (unlikely(offset_delta > delta_between(reader->offset,
											  reader->header.last_offset)) ||
		unlikely(timestamp_delta > delta_between(reader->timestamp,
												 PG_INT64_MAX)))
		return STREAM_BATCH_BAD_RECORD;

	reader->pos = p;
	reader->remaining--;
	reader->offset = add_delta(reader->offset, offset_delta);
	reader->timestamp = add_delta(reader->timestamp, timestamp_delta);
	record->offset = reader->offset;
	record->timestamp = reader->timestamp;
	return STREAM_BATCH_OK;
}

/*
 * stream_batch_reader_free frees the reader's scratch memory.  The reader is
 * then as good as a zeroed one.
 */
void
stream_batch_reader_free(StreamBatchReader *reader)
{
	if (reader->scratch != NULL)
		pfree(reader->scratch);
	memset(reader, 0, sizeof(StreamBatchReader));
}

/*
 * stream_batch_status_text says what a status means, in a form fit to end a
 * sentence with, as in "The batch is damaged: %s."
 */
const char *
stream_batch_status_text(StreamBatchStatus status)
{
	switch (status)
	{
		case STREAM_BATCH_OK:
			return "no error";
		case STREAM_BATCH_END:
			return "no further record";
		case STREAM_BATCH_TRUNCATED:
			return "shorter than a batch header";
		case STREAM_BATCH_BAD_VERSION:
			return "format version is unknown";
		case STREAM_BATCH_BAD_HEADER:
			return "header is inconsistent";
		case STREAM_BATCH_BAD_CRC:
			return "checksum does not match";
		case STREAM_BATCH_BAD_COMPRESSION:
			return "compression is unknown or its data is damaged";
		case STREAM_BATCH_BAD_RECORD:
			return "record is damaged";
	}
	return "unknown status";
}
