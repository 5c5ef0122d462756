/*-------------------------------------------------------------------------
 *
 * expire.c
 *		Consumer groups that nobody uses any more: they are dropped after
 *		stream.offset_retention.
 *
 * A group is used when it is created, when it commits, and when somebody
 * consumes, polls or waits for it, even in vain: a worker of an idle stream
 * keeps its group.  The last such call is in the group's meter only, so after a
 * restart the time counts from there on.  When it may have been called without
 * our knowing, since no meter was left, it does not expire.
 *
 * Nothing here waits for a lock: a group that somebody is at is not unused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "consumer/coordinator.h"
#include "consumer/expire.h"
#include "consumer/groups.h"
#include "consumer/offsets.h"
#include "fmgr.h"
#include "guc.h"
#include "log/forget.h"
#include "meter.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/timestamp.h"

/* How often groups are looked through, at most, in seconds. */
#define STREAM_EXPIRY_INTERVAL	60

PG_FUNCTION_INFO_V1(stream_expire_groups_now);

/*
 * stream_group_expires_at tells when a group without members expires, by its last
 * commit; false: never.
 */
bool
stream_group_expires_at(const StreamGroup *group, TimestampTz committed_at, TimestampTz *expires_at)
{
	TimestampTz last_used = Max(committed_at, Max(group->created_at, stream_control->started_at));
	StreamMeter meter;
	int32		refused;

	if (stream_offset_retention == 0)
		return false;
	if (stream_meter_read(group->group_id, STREAM_WHOLE_GROUP, &meter))
		last_used = Max(last_used, meter.last_call);
	else
	{
		(void) stream_meters_in_use(&refused);
		if (refused > 0)
			return false;
	}
	*expires_at = last_used + stream_offset_retention * USECS_PER_SEC;
	return true;
}

static TimestampTz
last_commit(int32 group_id, int32 partitions)
{
	TimestampTz result = 0;

	for (int32 partition = 0; partition < partitions; partition++)
	{
		StreamOffset newest;

		CHECK_FOR_INTERRUPTS();
		if (stream_newest_offset(group_id, partition, NULL, &newest) == STREAM_OFFSET_FOUND)
			result = Max(result, newest.committed_at);
	}
	return result;
}

static bool
has_expired(const StreamGroup *group, TimestampTz committed_at)
{
	TimestampTz expires_at;

	return stream_group_expires_at(group, committed_at, &expires_at) && expires_at <= GetCurrentTimestamp();
}

/* lock_all locks all partitions of a group, or none, when somebody has one. */
static bool
lock_all(int32 group_id, int32 partitions)
{
	for (int32 partition = 0; partition < partitions; partition++)
		if (!stream_try_lock_offset(group_id, partition))
		{
			while (--partition >= 0)
				stream_unlock_offset(group_id, partition);
			return false;
		}
	return true;
}

static void
unlock_all(int32 group_id, int32 partitions)
{
	for (int32 partition = 0; partition < partitions; partition++)
		stream_unlock_offset(group_id, partition);
}

/* expire_group drops a group if it has expired; true: it was. */
static bool
expire_group(Oid table, const StreamGroup *group)
{
	int32		partitions = stream_info(table)->partitions;
	NameData	stream = stream_info(table)->name;

	/* cheap looks first, which mostly suffice */
	if (!has_expired(group, 0) || !has_expired(group, last_commit(group->group_id, partitions)) ||
		!lock_all(group->group_id, partitions))
		return false;
	/* nobody can commit now, or become a member: look again */
	if (!stream_try_lock_members(group->group_id) || stream_has_live_members(table, group) ||
		!has_expired(group, last_commit(group->group_id, partitions)))
	{
		unlock_all(group->group_id, partitions);
		return false;
	}
	stream_delete_group(group->group_id);
	stream_forget_group(group->group_id, true);
	stream_invalidate(table);
	ereport(LOG,
			(errmsg("consumer group \"%s\" of stream \"%s\" has expired", NameStr(group->name), NameStr(stream)),
			 errdetail("It was not used for longer than stream.offset_retention.")));
	return true;
}

/*
 * stream_expiry_is_due says whether it is time to look, in this process, for
 * groups that have expired.
 */
bool
stream_expiry_is_due(void)
{
	static TimestampTz last = 0;
	TimestampTz now = GetCurrentTimestamp();

	if (stream_offset_retention == 0 ||
		now < last + Min(stream_offset_retention, STREAM_EXPIRY_INTERVAL) * USECS_PER_SEC)
		return false;
	last = now;
	return true;
}

/* stream_expire_groups drops the groups of the database that have expired, and counts them. */
int
stream_expire_groups(void)
{
	int			expired = 0;
	ListCell   *cell;

	if (stream_offset_retention == 0)
		return 0;
	foreach(cell, stream_all_tables())
	{
		Oid			table = lfirst_oid(cell);
		StreamInfo *info;
		StreamGroup *groups;
		int			n;
		int			before = expired;

		if (!ConditionalLockRelationOid(table, AccessShareLock))
			continue;
		info = stream_info_if_stream(table);
		if (info != NULL && info->nsegments > 0 && stream_try_lock_groups(table))
		{
			n = stream_copy_groups(stream_info(table), &groups);
			for (int i = 0; i < n; i++)
				if (expire_group(table, &groups[i]))
					expired++;
		}
		if (expired == before)
			UnlockRelationOid(table, AccessShareLock);
	}
	return expired;
}

/* stream_expire_groups_now: expire_groups(), for tests and impatient people. */
Datum
stream_expire_groups_now(PG_FUNCTION_ARGS)
{
	stream_require_shmem();
	PreventCommandIfReadOnly("expire_groups()");
	PreventCommandDuringRecovery("expire_groups()");
	PG_RETURN_INT32(stream_expire_groups());
}
