/*-------------------------------------------------------------------------
 *
 * poll.c
 *		poll: the next records for a member of a consumer group.
 *
 * The client says behind which positions to go on, so a lost answer loses
 * nothing: it asks again.  Where it says nothing, as for a partition that it was
 * just given, it begins at the committed offset.  That one is read under the
 * partition's lock: a commit of the owner before, made while it still was the
 * owner, may be under way, and then the partition has to wait.
 *
 * Polling moves no offset, with one exception: where no record lies between the
 * committed offset and the high watermark, or retention has removed what did,
 * there is nothing that a client could process and commit, so it is passed over
 * here, and lag returns to zero.
 *
 * A full batch, one that left records behind, is processed from one poll to the
 * member's next one, if that goes on behind it: so the group's capacity is
 * measured.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "consumer/commit.h"
#include "consumer/coordinator.h"
#include "consumer/fetch.h"
#include "consumer/holds.h"
#include "consumer/offsets.h"
#include "log/read.h"
#include "meter.h"
#include "miscadmin.h"
#include "sessions.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(stream_poll);
PG_FUNCTION_INFO_V1(stream_poll_bytes);

/* pass_over commits an offset when there is nothing to process below it. */
static void
pass_over(StreamFetch *fetch, const StreamMemberRow *row, int32 partition, int64 committed,
		  int64 offset, int64 skipped)
{
	StreamOffset newest;

	if (!stream_try_lock_offset(fetch->group.group_id, partition))
		return;
	if (stream_newest_offset(fetch->group.group_id, partition, NULL, &newest) != STREAM_OFFSET_FOUND ||
		newest.committed_offset != committed)
	{
		/* somebody has committed meanwhile */
		stream_unlock_offset(fetch->group.group_id, partition);
		return;
	}
	stream_hold_partition(fetch->table, fetch->group.group_id, partition, row->max_poll_interval, 0);
	stream_append_offset(fetch->group.group_id, partition, &newest, offset, skipped);
}

/*
 * end_batch counts what the member has polled of a partition before in a full
 * batch, when it has processed it: it says so, or has committed it.
 */
static void
end_batch(StreamFetch *fetch, uint32 member, int32 partition, int64 after, TimestampTz now)
{
	int32		group_id = fetch->group.group_id;
	StreamPolled polled;
	StreamOffset newest;

	if (!stream_meter_take_polled(group_id, partition, member, &polled))
		return;
	if (after >= polled.end_offset ||
		(stream_newest_offset(group_id, partition, NULL, &newest) == STREAM_OFFSET_FOUND &&
		 newest.committed_offset >= polled.end_offset))
		stream_meter_batch(fetch->table, group_id, partition, polled.records,
						   (int64) (Max(0, now - polled.at) * polled.share), true);
}

/* begin_batch notes what a full batch has of each partition: records[p], behind which ends[p] is. */
static void
begin_batch(StreamFetch *fetch, uint32 member, int32 partitions, const int64 *records, const int64 *ends,
			TimestampTz now)
{
	for (int32 p = 0; p < partitions; p++)
	{
		StreamPolled polled = {member, records[p], ends[p], now, (double) records[p] / fetch->limits.records};

		if (records[p] > 0)
			stream_meter_set_polled(fetch->table, fetch->group.group_id, p, &polled);
	}
}

/*
 * poll_partition returns what a partition has behind a position; after is -1: the
 * committed one.  *reached is set behind the last record.
 */
static void
poll_partition(StreamFetch *fetch, const StreamMemberRow *row, int32 partition, int64 after, int64 *reached)
{
	int32		group_id = fetch->group.group_id;
	StreamOffset newest;
	int64		position;
	int64		end;
	int64		records = fetch->limits.records;
	int64		skipped = 0;

	if (after < 0 && !stream_try_lock_offset(group_id, partition))
		return;
	if (stream_newest_offset(group_id, partition, NULL, &newest) != STREAM_OFFSET_FOUND)
		stream_report_missing_offset(fetch->table, NameStr(fetch->group.name), group_id, partition);
	if (after < 0 && !row->own)
		stream_unlock_offset(group_id, partition);
	else if (after < 0)
		/* until our transaction ends, the owner before could go on committing */
		stream_hold_partition(fetch->table, group_id, partition, row->max_poll_interval, 0);

	if (after > newest.committed_offset)
	{
		stream_check_position(stream_info(fetch->table), &fetch->group, NameStr(row->member_id), partition,
							  after, true);
		position = after;
	}
	else
		position = stream_fetch_start(fetch, partition, newest.committed_offset, &skipped);
	end = stream_fetch_partition(fetch, partition, position);
	*reached = end;

	if (position != newest.committed_offset + skipped)
		return;					/* what lies before is not processed yet */
	if (fetch->limits.records > records)
		end = position;
	if (end > newest.committed_offset)
		pass_over(fetch, row, partition, newest.committed_offset, end, skipped);
}

static Datum
poll(FunctionCallInfo fcinfo, StreamValueType value_type)
{
	StreamFetch fetch = {0};
	StreamMemberRow *row;
	char	   *group_name = stream_text_argument(fcinfo, 1, "consumer_group");
	char	   *member_id = stream_text_argument(fcinfo, 2, "member_id");
	int32		client_epoch;
	int32		partitions;
	int32		first;
	int64	   *after;
	int64	   *processed;
	int64	   *records;
	int64	   *ends;
	TimestampTz now = GetCurrentTimestamp();
	uint32		member = hash_bytes((const unsigned char *) member_id, strlen(member_id));

	stream_need_argument(fcinfo, 0, "stream");
	stream_need_argument(fcinfo, 3, "member_epoch");
	client_epoch = PG_GETARG_INT32(3);
	PreventCommandIfReadOnly("poll()");
	PreventCommandIfParallelMode("poll()");
	PreventCommandDuringRecovery("poll()");
	fetch.limits.records_left = stream_limit_argument(fcinfo, 6, false, "max_records");
	fetch.limits.bytes_left = stream_limit_argument(fcinfo, 7, true, "max_bytes");
	partitions = stream_fetch_begin(&fetch, fcinfo, group_name, value_type);
	after = stream_positions_argument(fcinfo, 4, "after", stream_info(fetch.table));
	processed = stream_positions_argument(fcinfo, 5, "commit", stream_info(fetch.table));

	row = stream_member_calls(fetch.table, &fetch.group, member_id, client_epoch, true);
	if (stream_commit_processed(fetch.table, &fetch.group, member_id, client_epoch, processed))
		row = stream_member_calls(fetch.table, &fetch.group, member_id, client_epoch, true);
	if (fetch.group.paused)
		return (Datum) 0;
	for (int p = -1; (p = stream_pset_next(&row->member.assigned, p)) >= 0;)
		end_batch(&fetch, member, p, after[p], now);

	records = palloc0_array(int64, partitions);
	ends = palloc_array(int64, partitions);
	/* begin anywhere, so that no partition starves while others are busy */
	first = pg_prng_uint32(&pg_global_prng_state) % (uint32) partitions;
	for (int32 i = 0; i < partitions && fetch.limits.records_left > 0; i++)
	{
		int32		partition = (first + i) % partitions;

		CHECK_FOR_INTERRUPTS();
		/* what the client does not know yet that it has must wait until it does */
		if (stream_pset_has(&row->member.assigned, partition) && row->member.epochs[partition] <= client_epoch)
		{
			int64		before = fetch.limits.records;

			poll_partition(&fetch, row, partition, after[partition], &ends[partition]);
			records[partition] = fetch.limits.records - before;
		}
	}
	if (fetch.limits.more)
		begin_batch(&fetch, member, partitions, records, ends, now);
	return (Datum) 0;
}

/* stream_poll: poll(stream, consumer_group, member_id, member_epoch, after, commit, max_records, max_bytes). */
Datum
stream_poll(PG_FUNCTION_ARGS)
{
	return poll(fcinfo, STREAM_VALUE_JSONB);
}

Datum
stream_poll_bytes(PG_FUNCTION_ARGS)
{
	return poll(fcinfo, STREAM_VALUE_BYTEA);
}
