/*-------------------------------------------------------------------------
 *
 * fetch.c
 *		Reading a consumer group's records into the result of a function.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "consumer/fetch.h"
#include "consumer/groups.h"
#include "log/read.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"

/*
 * stream_fetch_begin finds the group for a function that returns records and
 * whose first argument is the stream.  It returns the number of partitions.
 */
int32
stream_fetch_begin(StreamFetch *fetch, FunctionCallInfo fcinfo, const char *group_name,
				   StreamValueType value_type)
{
	StreamInfo *info;
	int32		partitions;

	fetch->table = stream_table(text_to_cstring(PG_GETARG_TEXT_PP(0)), AccessShareLock, ACL_SELECT, false);
	/* a pause or drop counts from the next call on, also within a transaction */
	AcceptInvalidationMessages();
	info = stream_info(fetch->table);
	partitions = info->partitions;
	stream_check_value_type(NameStr(info->name), info->value_type, value_type);
	/* what comes while the group is looked up counts as a change after it */
	fetch->changes = info->changes;
	fetch->group = *stream_group_or_create(fetch->table, group_name);
	stream_note_call(fetch->table, &fetch->group);
	fetch->own = GetActiveSnapshot();
	fetch->rows = stream_rows_begin(fcinfo, fetch->table, fetch->own);
	return partitions;
}

static void
report_created_again(const char *group_name)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("consumer group \"%s\" was dropped and created again", group_name),
			 errhint("Try again.")));
}

/*
 * stream_fetch_refresh accepts what has changed about the group meanwhile.  It
 * stays the same group: the caller holds locks of it.
 */
void
stream_fetch_refresh(StreamFetch *fetch)
{
	int32		group_id = fetch->group.group_id;
	StreamInfo *info;

	AcceptInvalidationMessages();
	info = stream_info(fetch->table);
	if (likely(info->changes == fetch->changes))
		return;
	fetch->changes = info->changes;
	fetch->group = *stream_group(info, pstrdup(NameStr(fetch->group.name)), false);
	if (fetch->group.group_id != group_id)
		report_created_again(NameStr(fetch->group.name));
}

/*
 * stream_fetch_start decides where to go on: at the committed offset, or, when
 * retention has passed that, where the group's policy says.
 */
int64
stream_fetch_start(StreamFetch *fetch, int32 partition, int64 committed, int64 *skipped)
{
	StreamInfo *info = stream_info(fetch->table);
	int64		log_start = stream_partition_info(info, partition)->log_start_offset;
	int64		position = log_start;

	*skipped = 0;
	if (committed >= log_start)
		return committed;
	if (fetch->group.out_of_range == STREAM_OUT_OF_RANGE_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("committed offset %lld of stream \"%s\", partition %d, is below the log start",
						(long long) committed, NameStr(info->name), partition),
				 errdetail("The log starts at offset %lld: records were removed before the group had read them.",
						   (long long) log_start),
				 errhint("Call stream.reset_offsets, or set the group's on_offset_out_of_range.")));
	if (fetch->group.out_of_range == STREAM_OUT_OF_RANGE_LATEST)
		position = stream_current_watermark(info, partition);
	*skipped = position - committed;
	return position;
}

/*
 * stream_fetch_partition returns the records of a partition from a position on,
 * as far as the call's limits allow, and the position to go on at: behind the
 * last record, or the high watermark when it was reached over holes, so that
 * lag returns to zero.
 */
int64
stream_fetch_partition(StreamFetch *fetch, int32 partition, int64 position)
{
	StreamReader reader;

	stream_reader_begin(&reader, fetch->table, partition, position, fetch->own);
	position = stream_rows_take(fetch->rows, &reader, &fetch->limits);
	/* without a watermark, nothing says what was issued */
	if (reader.finished && !reader.unseen && reader.limit != PG_INT64_MAX)
		position = Max(position, reader.limit);
	stream_reader_end(&reader);
	return position;
}

/*
 * stream_check_group accepts what has changed, and fails unless a group is still the
 * one of that name: somebody may have dropped it while the caller waited for its locks.
 */
void
stream_check_group(Oid table, const char *group_name, int32 group_id)
{
	AcceptInvalidationMessages();
	if (stream_group(stream_info(table), group_name, false)->group_id != group_id)
		report_created_again(group_name);
}

/*
 * stream_report_missing_offset: the group was dropped a moment ago, by somebody
 * who may have created it again, or is damaged.
 */
void
stream_report_missing_offset(Oid table, const char *group_name, int32 group_id, int32 partition)
{
	stream_check_group(table, group_name, group_id);
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("consumer group \"%s\" has no offset for partition %d", group_name, partition),
			 errhint("When a restore is under way, let it finish first.")));
	pg_unreachable();
}
