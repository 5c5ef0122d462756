/*-------------------------------------------------------------------------
 *
 * batch.h
 *		The record batch: the unit of storage.
 *
 * A batch holds one or more consecutive records of one partition, compressed
 * as a whole.  It is self-contained: header, then the body.  The codec knows
 * nothing of relations; with FRONTEND defined it builds outside the server,
 * for the unit tests and the fuzzer.
 *
 * Version 1, integers in the byte order of the machine that wrote them:
 *
 *		 0                   4                   8
 *		+----+----+---------+-------------------+
 *		|ver |attr| zero    | CRC-32C           |
 *		+----+----+---------+-------------------+
 *		| leader epoch      | record count      |
 *		+-------------------+-------------------+
 *		| base offset                           |
 *		+---------------------------------------+
 *		| base timestamp                        |
 *		+-------------------+-------------------+
 *		| last offset delta | raw length        |
 *		+-------------------+-------------------+
 *		| body ...
 *
 *		ver			STREAM_BATCH_VERSION
 *		attr		bits 0-1: compression of the body, a StreamCompression; the
 *					others are zero
 *		CRC-32C		over bytes 0-3 and everything from byte 8 to the end
 *		leader epoch	the server's timeline when the batch was written
 *		record count	at least 1
 *		base offset		of the first record, >= 0; base offset + last offset delta
 *					fits in 63 bits
 *		base timestamp	of the first record, a TimestampTz (microseconds)
 *		last offset delta	offset of the last record minus base offset, unsigned
 *		raw length		bytes of the body before compression; at most
 *					STREAM_BATCH_MAX_RAW
 *
 * A compressed body is smaller than the raw one: what does not shrink is stored
 * as it is.
 *
 * The body is a sequence of records, each
 *
 *		varint	offset delta to the previous record (the first: 0); > 0 after
 *				the first.  Holes are legal: compaction and rolled-back
 *				subtransactions leave them.
 *		varint	timestamp delta to the previous record (the first: 0), >= 0
 *		varint	key length + 1, 0 = null; then the key's bytes
 *		varint	value length + 1, 0 = null, that is, a tombstone; then bytes
 *		varint	headers length + 1, 0 = null; then bytes
 *
 * A varint is unsigned LEB128 in its shortest form, at most 10 bytes.  So a
 * sequence of records has one uncompressed form only.  A timestamp may be any
 * int64; a delta between two of them is taken modulo 2^64.
 *
 * Needs liblz4 1.9 or later.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_BATCH_H
#define STREAM_BATCH_H

#define STREAM_BATCH_VERSION		1
#define STREAM_BATCH_HEADER_SIZE	40

/*
 * The largest body a builder takes, in bytes: a palloc chunk's limit, less room
 * for the batch header and a varlena header.
 */
#define STREAM_BATCH_MAX_RAW		((Size) 0x3fffff00)

typedef enum StreamCompression
{
	STREAM_COMPRESSION_NONE = 0,
	STREAM_COMPRESSION_LZ4 = 1
} StreamCompression;

/*
 * One record.  The pointers lead into the reader's or the caller's memory: from
 * a reader they are valid until it is opened on another batch or freed, and no
 * longer than the bytes it was opened on.  A length of -1 means null; an empty
 * string has length 0 and a pointer that is not null.
 */
typedef struct StreamRecord
{
	int64		offset;
	int64		timestamp;		/* TimestampTz */
	const char *key;
	const char *value;			/* null: a tombstone */
	const char *headers;
	int32		key_len;
	int32		value_len;
	int32		headers_len;
} StreamRecord;

typedef struct StreamBatchHeader
{
	StreamCompression compression;
	uint32		crc;
	uint32		leader_epoch;
	uint32		record_count;
	int64		base_offset;
	int64		last_offset;
	int64		base_timestamp;
	uint32		raw_length;
} StreamBatchHeader;

typedef enum StreamBatchStatus
{
	STREAM_BATCH_OK = 0,
	STREAM_BATCH_END,			/* no further record: not an error */
	STREAM_BATCH_TRUNCATED,		/* shorter than a header */
	STREAM_BATCH_BAD_VERSION,
	STREAM_BATCH_BAD_HEADER,	/* fields contradict one another or the size */
	STREAM_BATCH_BAD_CRC,		/* damaged, also when the end is missing */
	STREAM_BATCH_BAD_COMPRESSION,	/* unknown, or does not unpack to the raw
									 * length */
	STREAM_BATCH_BAD_RECORD		/* the body is not the records it should be */
} StreamBatchStatus;

/*
 * Records on their way into a batch: an encoded body that grows.  Zero the
 * struct before its first use.
 *
 *		len <= capacity <= STREAM_BATCH_MAX_RAW
 *		0 <= base_offset <= last_offset < base_offset + 2^32
 *		base_timestamp <= last_timestamp
 *
 * The offsets and timestamps are meaningless while count is 0; len is 0 then.
 */
typedef struct StreamBatchBuilder
{
	char	   *data;			/* palloc'd; null: nothing allocated yet.  Its
								 * first two bytes, the first record's deltas,
								 * are zero */
	Size		len;			/* bytes of body so far */
	Size		capacity;
	uint32		count;			/* records */
	int64		base_offset;
	int64		last_offset;
	int64		base_timestamp;
	int64		last_timestamp;
} StreamBatchBuilder;

/* A leading part of a builder's records, as stream_batch_encode took it. */
typedef struct StreamBatchPrefix
{
	uint32		count;			/* records */
	Size		raw_len;		/* bytes of body */
	int64		last_offset;	/* of the part's last record */
	int64		last_timestamp;
} StreamBatchPrefix;

/*
 * A cursor over a batch's records.  scratch holds the decompressed body and is
 * kept from one batch to the next; zero the struct before its first use.
 */
typedef struct StreamBatchReader
{
	StreamBatchHeader header;
	const char *pos;
	const char *end;
	uint32		remaining;		/* records not yet returned */
	int64		offset;			/* of the last record returned */
	int64		timestamp;
	char	   *scratch;		/* palloc'd; null: none yet */
	Size		scratch_size;
} StreamBatchReader;

/* Building.  Memory comes from CurrentMemoryContext on first use. */
extern void stream_batch_builder_reset(StreamBatchBuilder *builder);
extern void stream_batch_builder_free(StreamBatchBuilder *builder);
extern bool stream_batch_append(StreamBatchBuilder *builder, const StreamRecord *record);
extern bool stream_batch_concat(StreamBatchBuilder *dst, const StreamBatchBuilder *src);
extern Size stream_batch_bound(Size raw_len);
extern Size stream_batch_encode(const StreamBatchBuilder *builder, Size raw_limit,
								StreamCompression compression, uint32 leader_epoch,
								char *dst, Size dst_size, StreamBatchPrefix *taken);
extern void stream_batch_discard(StreamBatchBuilder *builder, const StreamBatchPrefix *taken);

/*
 * Reading.  Memory for decompressed bodies comes from CurrentMemoryContext when
 * a batch is opened, and must live as long as the reader does.
 */
extern StreamBatchStatus stream_batch_read_header(const char *data, Size len, StreamBatchHeader *header);
extern StreamBatchStatus stream_batch_open(StreamBatchReader *reader, const char *data, Size len);
extern StreamBatchStatus stream_batch_next(StreamBatchReader *reader, StreamRecord *record);
extern void stream_batch_reader_free(StreamBatchReader *reader);
extern const char *stream_batch_status_text(StreamBatchStatus status);

#endif							/* STREAM_BATCH_H */
