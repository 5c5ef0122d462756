/*-------------------------------------------------------------------------
 *
 * commit.c
 *		Commits of a consumer group's members.
 *
 * A commit takes the partition's lock, as transactional consume does, to the
 * end of its transaction, and looks only then whether the member has the
 * partition.  If the member loses it before, or has been found late while it
 * waited, the commit is refused.  If it loses it after, the new owner, which
 * starts from the committed offset, has to wait for the lock; so the commit counts
 * as one made before the loss.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "catalog/pg_type.h"
#include "consumer/commit.h"
#include "consumer/coordinator.h"
#include "consumer/fetch.h"
#include "consumer/holds.h"
#include "consumer/offsets.h"
#include "log/position.h"
#include "log/read.h"
#include "log/reserve.h"
#include "miscadmin.h"
#include "sessions.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"

PG_FUNCTION_INFO_V1(stream_commit_offsets);

/* stream_positions_argument returns the highest position of each partition plus one. */
int64 *
stream_positions_argument(FunctionCallInfo fcinfo, int arg, const char *name, StreamInfo *info)
{
	int64	   *result = palloc_array(int64, info->partitions);
	ArrayType  *array;
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	for (int32 p = 0; p < info->partitions; p++)
		result[p] = -1;
	if (PG_ARGISNULL(arg))
		return result;
	array = PG_GETARG_ARRAYTYPE_P(arg);
	deconstruct_array(array, ARR_ELEMTYPE(array), sizeof(StreamPosition), false, TYPALIGN_DOUBLE,
					  &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		StreamPosition *position;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s must not contain a null", name)));
		position = DatumGetStreamPosition(elements[i]);
		stream_check_partition(info, position->partition);
		if (position->offset == PG_INT64_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("offset %lld is out of range", (long long) position->offset)));
		result[position->partition] = Max(result[position->partition], position->offset + 1);
	}
	return result;
}

/* check_owner refuses a commit of a partition that the member does not have, or no more. */
static void
check_owner(const StreamGroup *group, const StreamMemberRow *row, int32 partition, int32 client_epoch)
{
	const char *detail = NULL;

	switch (stream_check_commit(&row->member, partition, client_epoch))
	{
		case STREAM_FENCE_NONE:
			return;
		case STREAM_FENCE_AHEAD:
			stream_report_fenced(NameStr(group->name), NameStr(row->member_id),
								 "Its epoch is one that it was never given.");
			break;
		case STREAM_FENCE_NOT_OWNER:
			detail = "It is not assigned to this member.";
			break;
		case STREAM_FENCE_STALE:
			detail = "The member has lost it, and got it again at a higher epoch.";
			break;
	}
	ereport(ERROR,
			(errcode(ERRCODE_STREAM_LOST_PARTITION),
			 errmsg("member \"%s\" of consumer group \"%s\" cannot commit partition %d",
					NameStr(row->member_id), NameStr(group->name), partition),
			 errdetail("%s", detail),
			 errhint("Drop what was polled from this partition, and call stream.heartbeat to learn what is assigned.")));
}

/*
 * stream_check_position refuses to commit an offset, or to poll from it, that is
 * beyond the high watermark.  If the record before it was lost in a crash, the
 * client has to give up what it knows, as one that is fenced.
 */
void
stream_check_position(StreamInfo *info, const StreamGroup *group, const char *member_id, int32 partition,
					  int64 offset, bool polls)
{
	int64		watermark = stream_current_watermark(info, partition);
	StreamWatermark state;
	bool		is_lost;

	if (stream_get_watermark(info->table, partition, &state))
	{
		watermark = state.watermark;
		is_lost = offset > state.lost_base && offset <= state.gap_end;
	}
	else
		/* nothing was published since the server started */
		is_lost = offset > watermark && offset <= stream_sequence_ceiling(info->stream_id, partition);
	if (is_lost)
		stream_report_fenced(NameStr(group->name), member_id, STREAM_LOST_RECORDS);
	if (offset <= watermark)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 polls ? errmsg("cannot poll after offset %lld of partition %d: it is beyond the high watermark, %lld",
							(long long) offset - 1, partition, (long long) watermark) :
			 errmsg("cannot commit offset %lld of partition %d: it is beyond the high watermark, %lld",
					(long long) offset, partition, (long long) watermark)));
}

/*
 * has_records says whether a record lies at from <= offset < to.  When none
 * does, poll may have passed over the holes since from was committed.
 */
static bool
has_records(Oid table, int32 partition, int64 from, int64 to)
{
	StreamReader reader;
	StreamRecord record;
	bool		found;

	from = Max(from, stream_partition_info(stream_info(table), partition)->log_start_offset);
	if (from >= to)
		return false;
	stream_reader_begin(&reader, table, partition, from, NULL);
	found = stream_reader_next(&reader, &record) && record.offset < to;
	stream_reader_end(&reader);
	return found;
}

/* commit_partition commits an offset, as the one to read next. */
static void
commit_partition(Oid table, const StreamGroup *group, const char *member_id, int32 partition,
				 int32 client_epoch, int64 offset)
{
	StreamInfo *info;
	StreamMemberRow *row;
	StreamOffset newest;

	stream_lock_offset(group->group_id, partition);
	row = stream_member_calls(table, group, member_id, client_epoch, false);
	info = stream_info(table);
	check_owner(group, row, partition, client_epoch);
	if (stream_newest_offset(group->group_id, partition, NULL, &newest) != STREAM_OFFSET_FOUND)
		stream_report_missing_offset(table, NameStr(group->name), group->group_id, partition);
	/* what was committed may be committed again: the answer may have been lost */
	if (offset <= newest.committed_offset &&
		!has_records(table, partition, offset, newest.committed_offset))
	{
		stream_unlock_offset(group->group_id, partition);
		return;
	}
	if (offset < newest.committed_offset)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot commit offset %lld of partition %d: offset %lld is committed already",
						(long long) offset, partition, (long long) newest.committed_offset),
				 errhint("To go back, let all members leave and call stream.reset_offsets.")));
	stream_check_position(info, group, member_id, partition, offset, false);
	stream_hold_partition(table, group->group_id, partition, row->max_poll_interval, 0);
	stream_append_offset(group->group_id, partition, &newest, offset, 0);
}

/*
 * stream_commit_processed commits what a member has processed: an offset for
 * each partition, or -1.  All do it by partition, so two cannot deadlock.  It
 * returns whether there was something, and it may have waited.
 */
bool
stream_commit_processed(Oid table, const StreamGroup *group, const char *member_id,
						int32 client_epoch, const int64 *processed)
{
	int32		partitions = stream_info(table)->partitions;
	bool		commits = false;

	for (int32 partition = 0; partition < partitions; partition++)
	{
		CHECK_FOR_INTERRUPTS();
		if (processed[partition] < 0)
			continue;
		commit_partition(table, group, member_id, partition, client_epoch, processed[partition]);
		commits = true;
	}
	return commits;
}

/*
 * stream_commit_offsets: commit_offsets(stream, consumer_group, member_id,
 * member_epoch, processed).
 */
Datum
stream_commit_offsets(PG_FUNCTION_ARGS)
{
	char	   *group_name = stream_text_argument(fcinfo, 1, "consumer_group");
	char	   *member_id = stream_text_argument(fcinfo, 2, "member_id");
	StreamGroup group;
	StreamInfo *info;
	int64	   *processed;
	Oid			table;

	stream_need_argument(fcinfo, 0, "stream");
	stream_need_argument(fcinfo, 3, "member_epoch");
	stream_need_argument(fcinfo, 4, "processed");
	PreventCommandIfReadOnly("commit_offsets()");
	PreventCommandDuringRecovery("commit_offsets()");
	table = stream_table(text_to_cstring(PG_GETARG_TEXT_PP(0)), AccessShareLock, ACL_SELECT, false);
	AcceptInvalidationMessages();
	info = stream_info(table);
	group = *stream_group(info, group_name, false);
	processed = stream_positions_argument(fcinfo, 4, "processed", info);
	(void) stream_member_calls(table, &group, member_id, PG_GETARG_INT32(3), false);
	(void) stream_commit_processed(table, &group, member_id, PG_GETARG_INT32(3), processed);
	PG_RETURN_VOID();
}
