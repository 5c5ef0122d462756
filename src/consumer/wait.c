/*-------------------------------------------------------------------------
 *
 * wait.c
 *		wait_for_records: waiting until a consumer group has something to read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "catalog/groups.h"
#include "consumer/offsets.h"
#include "guc.h"
#include "log/read.h"
#include "log/wait.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(stream_wait_for_records);

/* is_ready says whether a group has something to read in a partition that nobody is processing. */
static bool
is_ready(Oid table, int32 group_id, int32 partition)
{
	StreamOffset newest;

	return stream_offset_is_free(group_id, partition) &&
		stream_newest_offset(group_id, partition, NULL, &newest) == STREAM_OFFSET_FOUND &&
		newest.committed_offset < stream_current_watermark(stream_info(table), partition);
}

/*
 * has_records says whether a partition has something to read from the log start
 * on, as a group would that consume is going to create.
 */
static bool
has_records(Oid table, int32 partition)
{
	StreamInfo *info = stream_info(table);
	int64		log_start = stream_partition_info(info, partition)->log_start_offset;

	return log_start < stream_current_watermark(info, partition);
}

/*
 * find_group copies the group; false: consume is going to create it.  A waiter
 * does not, since others would wait for its transaction.
 */
static bool
find_group(Oid table, const char *group_name, StreamGroup *group)
{
	StreamGroup *found = stream_group(stream_info(table), group_name, stream_auto_create_groups);

	if (found == NULL)
	{
		stream_check_group_name(group_name);
		return false;
	}
	*group = *found;
	return true;
}

/* stream_wait_for_records: wait_for_records(stream, consumer_group, timeout). */
Datum
stream_wait_for_records(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamInfo *info;
	TimestampTz until;
	char	   *group_name;
	int32		partitions;
	bool		ready = false;

	stream_need_argument(fcinfo, 0, "stream");
	stream_need_argument(fcinfo, 1, "consumer_group");
	stream_need_argument(fcinfo, 2, "timeout");
	PreventCommandDuringRecovery("wait_for_records()");
	table = stream_table(text_to_cstring(PG_GETARG_TEXT_PP(0)), AccessShareLock, ACL_SELECT, false);
	until = stream_wait_until(PG_GETARG_INTERVAL_P(2));
	info = stream_info(table);
	group_name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	partitions = info->partitions;

	/* register first, look afterwards */
	stream_waiter_register(table);
	for (int32 partition = 0; partition < partitions; partition++)
		stream_waiter_add_partition(partition);
	for (;;)
	{
		StreamGroup group = {0};
		bool		exists;
		long		left;

		/* it may be paused, resumed or dropped meanwhile */
		AcceptInvalidationMessages();
		exists = find_group(table, group_name, &group);
		for (int32 partition = 0; partition < partitions && !ready && !group.paused; partition++)
			ready = exists ? is_ready(table, group.group_id, partition) : has_records(table, partition);
		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		if (ready || left <= 0)
			break;
		stream_waiter_sleep(left);
	}
	stream_waiter_unregister();
	UnlockRelationOid(table, AccessShareLock);
	PG_RETURN_BOOL(ready);
}
