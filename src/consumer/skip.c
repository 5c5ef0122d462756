/*-------------------------------------------------------------------------
 *
 * skip.c
 *		skip_record: passes a record that nobody can process.
 *
 * It must be the very record that the group would read next, so that nothing is
 * passed unseen.  It is kept, with the reason, in the table of dead letters.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "catalog/dead_letters.h"
#include "catalog/groups.h"
#include "consumer/fetch.h"
#include "consumer/holds.h"
#include "consumer/offsets.h"
#include "log/position.h"
#include "log/read.h"
#include "miscadmin.h"
#include "shmem.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(stream_skip_record);

/* check_is_next refuses what is not the group's next record; next -1: there is none. */
static void
check_is_next(const StreamInfo *info, const char *group_name, const StreamPosition *position, int64 next)
{
	if (next == position->offset)
		return;
	if (next != -1 && next < position->offset)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("record %d:%lld is not the next one of consumer group \"%s\"",
						position->partition, (long long) position->offset, group_name),
				 errdetail("The next one is %d:%lld.", position->partition, (long long) next),
				 errhint("Only the next record can be skipped; stream.reset_offsets passes many.")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("stream \"%s\" has no record %d:%lld",
					NameStr(info->name), position->partition, (long long) position->offset),
			 next == -1 ? errdetail("The consumer group has read the partition to its end.") :
			 errdetail("The next one of consumer group \"%s\" is %d:%lld.",
					   group_name, position->partition, (long long) next)));
}

/* stream_skip_record: skip_record(stream, consumer_group, pos, reason). */
Datum
stream_skip_record(PG_FUNCTION_ARGS)
{
	char	   *stream = stream_text_argument(fcinfo, 0, "stream");
	char	   *group_name = stream_text_argument(fcinfo, 1, "consumer_group");
	StreamPosition *position;
	char	   *reason;
	StreamInfo *info;
	StreamFetch fetch = {0};
	StreamOffset newest;
	StreamReader reader;
	StreamRecord record;
	StreamRecordDatums copies = {0};
	Datum		values[Natts_record];
	bool		nulls[Natts_record];
	StreamValueType value_type;
	int64		from;
	int64		skipped;
	bool		found;

	stream_need_argument(fcinfo, 2, "position");
	position = PG_GETARG_STREAM_POSITION(2);
	reason = stream_text_argument(fcinfo, 3, "reason");
	stream_require_shmem();
	PreventCommandIfReadOnly("skip_record()");
	PreventCommandDuringRecovery("skip_record()");
	fetch.table = stream_table(stream, AccessShareLock, ACL_SELECT, false);
	info = stream_info(fetch.table);
	fetch.group = *stream_group(info, group_name, false);
	stream_check_partition(info, position->partition);
	value_type = info->value_type;

	if (!stream_try_lock_offset(fetch.group.group_id, position->partition))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("consumer group \"%s\" is processing partition %d", group_name, position->partition),
				 errhint("Let its consumer roll back or commit first; the view stream.consumer_lag names it.")));
	if (stream_newest_offset(fetch.group.group_id, position->partition, NULL, &newest) == STREAM_OFFSET_MISSING)
		stream_report_missing_offset(fetch.table, group_name, fetch.group.group_id, position->partition);
	if (position->offset < newest.committed_offset)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("consumer group \"%s\" has already passed record %d:%lld",
						group_name, position->partition, (long long) position->offset),
				 errdetail("Its committed offset is %lld.", (long long) newest.committed_offset)));

	from = stream_fetch_start(&fetch, position->partition, newest.committed_offset, &skipped);
	stream_reader_begin(&reader, fetch.table, position->partition, from, NULL);
	found = stream_reader_next(&reader, &record);
	check_is_next(stream_info(fetch.table), group_name, position, found ? record.offset : -1);
	stream_record_datums(&copies, position->partition, &record, STREAM_WANT_ALL, values, nulls);
	stream_reader_end(&reader);

	stream_hold_partition(fetch.table, fetch.group.group_id, position->partition, fetch.group.max_poll_interval, 0);
	stream_append_offset(fetch.group.group_id, position->partition, &newest, position->offset + 1, skipped);
	(void) stream_insert_dead_letter(fetch.group.group_id, value_type, values, nulls, reason, NULL);
	PG_RETURN_VOID();
}
