/*-------------------------------------------------------------------------
 *
 * read.c
 *		Reading a partition's records in order.
 *
 * The order of steps is what makes reading correct:
 *
 *	1.	lock the first segment's table, and check that the catalog still has it;
 *	2.	read the high watermark;
 *	3.	take a fresh snapshot: it sees all below the watermark that will ever
 *		be seen.  When the partition has no shared state, look again: if it has
 *		appeared, a publisher may have committed in between, so start over;
 *		else nothing was in flight and the log ends where the snapshot says;
 *	4.	read below the watermark, segment by segment, always with the same
 *		watermark and snapshot.  A newer watermark would let the reader pass over
 *		what was committed to the segment it has just left;
 *	5.	look up the next segment only when the last one is exhausted: a record
 *		below the watermark is in a segment that was committed and announced
 *		before the watermark was read;
 *	6.	stop before the first batch that the statement's own snapshot cannot
 *		see: the tables beside it do not show its transaction's other writes.
 *		What it leaves is read by a later statement.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xlog.h"
#include "log/read.h"
#include "log/reserve.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * next_segment returns the first segment after the given one that may have a
 * record of the partition at or behind a position, or 0.
 */
static int32
next_segment(StreamInfo *info, int32 partition, int64 position, int32 after)
{
	StreamPartitionInfo *known = stream_partition_info(info, partition);
	int			r = 0;

	for (int i = 0; i < info->nsegments; i++)
	{
		StreamSegment *segment = &info->segments[i];

		if (segment->segment_no <= after)
			continue;
		if (!segment->sealed)
			return segment->segment_no;
		/* both lists are ordered; a sealed segment without a range has nothing */
		while (r < known->nranges && known->ranges[r].segment_no < segment->segment_no)
			r++;
		if (r < known->nranges && known->ranges[r].segment_no == segment->segment_no &&
			known->ranges[r].end_offset > position)
			return segment->segment_no;
	}
	return 0;
}

/*
 * stream_check_from_offset refuses an offset that retention has passed, and
 * one that was never issued.  It returns the offset to begin at: -1 stands for
 * the log start.
 */
int64
stream_check_from_offset(StreamInfo *info, int32 partition, int64 from_offset)
{
	StreamWatermark state;
	int64		log_start = stream_partition_info(info, partition)->log_start_offset;
	int64		issued;

	if (from_offset == -1)
		return log_start;
	if (from_offset < log_start)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("offset %lld of stream \"%s\", partition %d, is below the log start",
						(long long) from_offset, NameStr(info->name), partition),
				 errdetail("The log starts at offset %lld.", (long long) log_start),
				 errhint("Pass a null offset to read from the log start.")));
	if (stream_get_watermark(info->table, partition, &state))
		issued = state.next_offset;
	else
		issued = Max(stream_sequence_ceiling(info->stream_id, partition),
					 stream_log_end(info, partition, NULL));
	if (from_offset > issued)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("offset %lld of stream \"%s\", partition %d, is beyond the log end",
						(long long) from_offset, NameStr(info->name), partition),
				 errdetail("Offsets below %lld have been issued.", (long long) issued)));
	return from_offset;
}

/*
 * stream_current_watermark returns a partition's high watermark: without shared
 * state, the log's end.
 */
int64
stream_current_watermark(StreamInfo *info, int32 partition)
{
	StreamWatermark state;
	int64		log_end;

	if (stream_get_watermark(info->table, partition, &state))
		return state.watermark;
	log_end = stream_log_end(info, partition, NULL);
	/* it may have appeared meanwhile, with records in flight below that end */
	if (stream_get_watermark(info->table, partition, &state))
		return state.watermark;
	return log_end;
}

/*
 * open_segment opens a segment for the reader; false: it has just gone.  When
 * the catalog still has it, its table has been dropped behind our back.
 */
static bool
open_segment(StreamReader *reader, int32 segment_no)
{
	if (!stream_segment_open(&reader->segment, reader->stream_id, segment_no, AccessShareLock, true))
	{
		StreamInfo *info = stream_info(reader->table);

		for (int i = 0; i < info->nsegments; i++)
			if (info->segments[i].segment_no == segment_no)
				ereport(ERROR,
						(errcode(ERRCODE_DATA_CORRUPTED),
						 errmsg("table of segment %d of stream \"%s\" is missing", segment_no, NameStr(info->name)),
						 errhint("When a restore is under way, let it finish first.")));
		return false;
	}
	reader->segment_no = segment_no;
	reader->segment_open = true;
	return true;
}

static void
begin_scan(StreamReader *reader)
{
	stream_batch_scan_begin(&reader->scan, &reader->segment, reader->fresh,
							reader->partition, reader->position, ForwardScanDirection);
}

static void
close_segment(StreamReader *reader)
{
	stream_segment_close(&reader->segment, false);
	reader->segment_open = false;
}

/*
 * stream_reader_begin prepares to read from an offset on (-1: the log start).
 * The caller has a lock on the foreign table, and keeps it until the end; own
 * is the snapshot of the statement for which it reads, or null.
 */
void
stream_reader_begin(StreamReader *reader, Oid table, int32 partition, int64 from_offset, Snapshot own)
{
	StreamInfo *info = stream_info(table);

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read a stream during recovery"),
				 errhint("Read it on the primary server.")));
	stream_check_format(info);

	memset(reader, 0, sizeof(StreamReader));
	reader->table = table;
	reader->stream_id = info->stream_id;
	reader->partition = partition;
	reader->own = own;
	reader->position = from_offset;
	if (from_offset == -1)
		reader->position = stream_partition_info(info, partition)->log_start_offset;

	for (;;)
	{
		StreamWatermark state;
		bool		has_state;
		int32		segment_no;

		CHECK_FOR_INTERRUPTS();
		segment_no = next_segment(stream_info(table), partition, reader->position, 0);
		if (segment_no == 0)
		{
			reader->finished = true;
			return;
		}
		if (!open_segment(reader, segment_no))
			continue;
		/* having the lock, ask again whether it is the one */
		if (next_segment(stream_info(table), partition, reader->position, 0) != segment_no)
		{
			close_segment(reader);
			continue;
		}
		has_state = stream_get_watermark(reader->table, partition, &state);
		reader->fresh = stream_fresh_snapshot(RelationGetRelid(reader->segment.rel));
		if (has_state || !stream_get_watermark(reader->table, partition, &state))
		{
			reader->limit = has_state ? state.watermark : PG_INT64_MAX;
			break;
		}
		UnregisterSnapshot(reader->fresh);
		reader->fresh = NULL;
		close_segment(reader);
	}
	begin_scan(reader);
}

/*
 * next_row moves to the next batch's row; false: there is none that this
 * reader may see.
 */
static bool
next_row(StreamReader *reader)
{
	while (!stream_batch_scan_next(&reader->scan))
	{
		int32		segment_no;

		stream_batch_scan_end(&reader->scan);
		close_segment(reader);
		do
		{
			CHECK_FOR_INTERRUPTS();
			AcceptInvalidationMessages();
			segment_no = next_segment(stream_info(reader->table), reader->partition,
									  reader->position, reader->segment_no);
			if (segment_no == 0)
				return false;
			/* one that has gone meanwhile was dropped by retention */
		} while (!open_segment(reader, segment_no));
		begin_scan(reader);
	}
	if (reader->own != NULL &&
		!table_tuple_satisfies_snapshot(reader->segment.rel, reader->scan.slot, reader->own))
	{
		reader->unseen = true;
		return false;
	}
	return true;
}

/* enter_batch opens the batch of the current row. */
static void
enter_batch(StreamReader *reader)
{
	struct varlena *batch;
	struct varlena *stored;

	stored = (struct varlena *) DatumGetPointer(stream_batch_scan_batch(&reader->scan));
	batch = pg_detoast_datum_packed(stored);
	if (batch != stored)
		reader->detoasted = batch;
	stream_open_batch(&reader->batch, batch, RelationGetRelationName(reader->segment.rel),
					  reader->partition, stream_batch_scan_last_offset(&reader->scan));
	reader->in_batch = true;
	reader->batches_read++;
}

static void
leave_batch(StreamReader *reader)
{
	if (reader->detoasted != NULL)
		pfree(reader->detoasted);
	reader->detoasted = NULL;
	reader->in_batch = false;
}

/*
 * stream_reader_next returns the next record, whose parts are good until the
 * next call; false: there is none yet.
 */
bool
stream_reader_next(StreamReader *reader, StreamRecord *record)
{
	while (!reader->finished)
	{
		StreamBatchStatus status;

		if (!reader->in_batch)
		{
			if (!next_row(reader))
				break;
			enter_batch(reader);
		}
		status = stream_batch_next(&reader->batch, record);
		if (likely(status == STREAM_BATCH_OK))
		{
			if (record->offset < reader->position)
				continue;
			if (record->offset >= reader->limit)
				break;
			reader->position = record->offset + 1;
			return true;
		}
		if (status != STREAM_BATCH_END)
			stream_batch_damaged(status, RelationGetRelationName(reader->segment.rel),
								 reader->partition, reader->batch.header.last_offset);
		leave_batch(reader);
	}
	reader->finished = true;
	return false;
}

/*
 * stream_reader_count reads to the end and returns how many records that was.
 * It opens a batch only where the bounds may cut through it; of the others it
 * believes the row.
 */
int64
stream_reader_count(StreamReader *reader)
{
	bool		first = true;
	int64		count = 0;
	StreamRecord record;

	while (!reader->finished)
	{
		int64		last_offset;

		if (!next_row(reader))
			break;
		last_offset = stream_batch_scan_last_offset(&reader->scan);
		if (!first && last_offset < reader->limit)
		{
			count += stream_batch_scan_records(&reader->scan);
			reader->position = last_offset + 1;
			continue;
		}
		first = false;
		enter_batch(reader);
		while (reader->position <= last_offset && stream_reader_next(reader, &record))
			count++;
		if (reader->in_batch)
			leave_batch(reader);
	}
	reader->finished = true;
	return count;
}

/* take_opened takes records of the current batch one by one, as far as the limits allow. */
static void
take_opened(StreamReader *reader, StreamLimits *limits, int64 last_offset)
{
	StreamRecord record;

	enter_batch(reader);
	while (limits->records_left > 0 && reader->position <= last_offset)
	{
		int64		position = reader->position;
		int64		bytes;

		if (!stream_reader_next(reader, &record))
			break;
		bytes = Max(record.key_len, 0) + (int64) Max(record.value_len, 0) + Max(record.headers_len, 0);
		/* the first one comes whatever its size, or a reader would be stuck */
		if (bytes > limits->bytes_left && limits->records > 0)
		{
			reader->position = position;
			limits->records_left = 0;
			break;
		}
		limits->records++;
		limits->records_left--;
		limits->bytes_left -= Min(bytes, limits->bytes_left);
	}
	if (reader->in_batch)
		leave_batch(reader);
}

/* A part of a batch is not opened when the batch is at most this part of the bytes left. */
#define SMALL_BATCH		8

/*
 * take_closed takes records of the current batch without opening it; false: that
 * cannot be.  A batch can be taken as a whole when its body is within the limits.
 * A part of one, when it has no holes, so that its offsets say how many records
 * there are, and when it is small: their share of its bytes is a guess.
 */
static bool
take_closed(StreamReader *reader, StreamLimits *limits, int64 last_offset)
{
	StreamBatchHeader header;
	int64		from;
	int64		to = Min(last_offset + 1, reader->limit);
	int64		records;

	stream_batch_scan_header(&reader->scan, &reader->segment, &header);
	from = Max(reader->position, header.base_offset);
	if (header.last_offset != last_offset || from >= to)
		return false;
	if (from == header.base_offset && to > last_offset && header.record_count <= limits->records_left &&
		header.raw_length <= limits->bytes_left)
		records = header.record_count;
	else if (last_offset - header.base_offset == (int64) header.record_count - 1 &&
			 header.raw_length <= limits->bytes_left / SMALL_BATCH)
	{
		records = Min(to - from, limits->records_left);
		to = from + records;
	}
	else
		return false;
	limits->records += records;
	limits->records_left -= records;
	limits->bytes_left -= (int64) ((double) header.raw_length * records / header.record_count);
	reader->position = to;
	return true;
}

/*
 * stream_reader_take counts the next records against the limits, and returns the
 * offset behind the last one that they allow.  The records are to be read by
 * another reader, up to there.  It opens a batch only where it has to, and
 * believes the header of others: who reads them finds out whether that was right.
 */
int64
stream_reader_take(StreamReader *reader, StreamLimits *limits)
{
	int64		taken = reader->position;

	while (limits->records_left > 0 && !reader->finished)
	{
		int64		last_offset;
		int64		before = limits->records;

		if (!next_row(reader))
		{
			reader->finished = true;
			break;
		}
		last_offset = stream_batch_scan_last_offset(&reader->scan);
		if (!take_closed(reader, limits, last_offset))
			take_opened(reader, limits, last_offset);
		if (limits->records > before)
			taken = reader->position;
		if (reader->limit <= last_offset && reader->position >= reader->limit)
			reader->finished = true;
	}
	if (limits->records_left == 0 && taken < reader->limit)
		limits->more = true;
	return taken;
}

/* stream_reader_end releases everything, the locks on segments too. */
void
stream_reader_end(StreamReader *reader)
{
	leave_batch(reader);
	if (reader->segment_open)
	{
		stream_batch_scan_end(&reader->scan);
		close_segment(reader);
	}
	if (reader->fresh != NULL)
		UnregisterSnapshot(reader->fresh);
	reader->fresh = NULL;
	stream_batch_reader_free(&reader->batch);
}
