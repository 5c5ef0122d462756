/*-------------------------------------------------------------------------
 *
 * meter.c
 *		What consumer groups and projections have done lately, in shared memory.
 *
 * There is a meter for each pair of a group (or projection) and a partition that
 * has been consumed since the server's start, and one for the group itself,
 * under partition STREAM_WHOLE_GROUP, that tells when it was used last.  When no
 * meter is free, statistics are not kept.
 *
 * Capacity is measured on full batches only, those that ended at their limit
 * with more left to read: an idle worker's rate says nothing about what it
 * could do.  The sums of records and busy time decay, so that a batch counts half
 * after STREAM_METER_HALF_LIFE later ones.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "compat.h"
#include "guc.h"
#include "meter.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

#define STREAM_METER_HALF_LIFE	10	/* full batches */

static StreamMeterKey
meter_key(int32 group_id, int32 partition)
{
	StreamMeterKey key = {MyDatabaseId, group_id, partition};

	return key;
}

static StreamMeter *
find_meter(int32 group_id, int32 partition)
{
	StreamMeterKey key = meter_key(group_id, partition);

	Assert(LWLockHeldByMe(&stream_control->meter_lock));
	return hash_search(stream_meter_hash, &key, HASH_FIND, NULL);
}

static StreamMeter *
enter_meter(Oid table, int32 group_id, int32 partition, TimestampTz last_call)
{
	StreamMeterKey key = meter_key(group_id, partition);
	StreamMeter *meter = NULL;
	bool		found = false;

	LWLockAcquire(&stream_control->meter_lock, LW_EXCLUSIVE);
	if (stream_control->nmeters < stream_max_group_partitions)
		meter = hash_search(stream_meter_hash, &key, HASH_ENTER_NULL, &found);
	else
		meter = hash_search(stream_meter_hash, &key, HASH_FIND, &found);
	if (meter == NULL)
		stream_control->meters_refused++;
	else if (!found)
	{
		stream_control->nmeters++;
		meter->table = table;
		SpinLockInit(&meter->mutex);
		meter->rollbacks = 0;
		meter->last_call = last_call;
		meter->full_records = 0;
		meter->full_busy_us = 0;
		meter->measured_at = 0;
		meter->polled.records = 0;
	}
	LWLockRelease(&stream_control->meter_lock);
	return meter;
}

/*
 * stream_meter finds or makes a meter; null: no statistics are kept.
 *
 * Who holds the group's lock on the partition may keep the pointer as long:
 * whoever drops the group, or the stream, waits for it first.
 */
StreamMeter *
stream_meter(Oid table, int32 group_id, int32 partition)
{
	StreamMeter *meter;

	LWLockAcquire(&stream_control->meter_lock, LW_SHARED);
	meter = find_meter(group_id, partition);
	LWLockRelease(&stream_control->meter_lock);
	return likely(meter != NULL) ? meter : enter_meter(table, group_id, partition, 0);
}

/* stream_meter_read copies a meter, if there is one. */
bool
stream_meter_read(int32 group_id, int32 partition, StreamMeter *copy)
{
	StreamMeter *meter;

	LWLockAcquire(&stream_control->meter_lock, LW_SHARED);
	meter = find_meter(group_id, partition);
	if (meter != NULL)
	{
		SpinLockAcquire(&meter->mutex);
		*copy = *meter;
		SpinLockRelease(&meter->mutex);
	}
	LWLockRelease(&stream_control->meter_lock);
	return meter != NULL;
}

/*
 * stream_meters_in_use also says how often there was none left since the server's
 * start: then a group without a meter may have been used all the same.
 */
int32
stream_meters_in_use(int32 *refused)
{
	int32		result;

	LWLockAcquire(&stream_control->meter_lock, LW_SHARED);
	result = stream_control->nmeters;
	if (refused)
		*refused = stream_control->meters_refused;
	LWLockRelease(&stream_control->meter_lock);
	return result;
}

/*
 * stream_remove_meters forgets a group's meters, or when that is zero a stream's,
 * or when that is invalid a database's.  It does not throw: it runs in
 * transaction callbacks.
 */
void
stream_remove_meters(Oid database, Oid table, int32 group_id)
{
	HASH_SEQ_STATUS status;
	StreamMeter *meter;

	LWLockAcquire(&stream_control->meter_lock, LW_EXCLUSIVE);
	hash_seq_init(&status, stream_meter_hash);
	while ((meter = hash_seq_search(&status)) != NULL)
	{
		if (meter->key.database == database &&
			(group_id != 0 ? meter->key.group_id == group_id : !OidIsValid(table) || meter->table == table))
		{
			(void) hash_search(stream_meter_hash, &meter->key, HASH_REMOVE, NULL);
			stream_control->nmeters--;
		}
	}
	LWLockRelease(&stream_control->meter_lock);
}

/*
 * stream_meter_committed counts a transaction that has advanced the offset: with
 * the records of full batches and the time that they took, if there were any.
 * It does not throw.
 */
void
stream_meter_committed(StreamMeter *meter, int64 full_records, int64 full_busy_us)
{
	TimestampTz now = full_records > 0 ? GetCurrentTimestamp() : 0;
	double		decay = full_records > 0 ? exp2(-1.0 / STREAM_METER_HALF_LIFE) : 0;

	SpinLockAcquire(&meter->mutex);
	meter->rollbacks = 0;
	if (full_records > 0)
	{
		meter->full_records = meter->full_records * decay + full_records;
		meter->full_busy_us = meter->full_busy_us * decay + Max(full_busy_us, 1);
		meter->measured_at = now;
	}
	SpinLockRelease(&meter->mutex);
}

/* stream_meter_rolled_back counts one that was undone; it does not throw. */
void
stream_meter_rolled_back(StreamMeter *meter)
{
	SpinLockAcquire(&meter->mutex);
	meter->rollbacks++;
	SpinLockRelease(&meter->mutex);
}

/*
 * stream_meter_batch counts a batch whose work is done and whose offset is
 * committed.  Full: it ended at its limit, with more left.
 */
void
stream_meter_batch(Oid table, int32 group_id, int32 partition,
				   int64 records, int64 busy_us, bool full)
{
	StreamMeter *meter;

	(void) stream_meter(table, group_id, partition);
	LWLockAcquire(&stream_control->meter_lock, LW_SHARED);
	meter = find_meter(group_id, partition);
	if (meter != NULL)
		stream_meter_committed(meter, full ? records : 0, busy_us);
	LWLockRelease(&stream_control->meter_lock);
}

/*
 * stream_meter_take_polled returns the full batch that a member has polled of a
 * partition before, and ends it, whoever has; false: there was none of its own.
 */
bool
stream_meter_take_polled(int32 group_id, int32 partition, uint32 member, StreamPolled *polled)
{
	StreamMeter *meter;
	bool		found = false;

	LWLockAcquire(&stream_control->meter_lock, LW_SHARED);
	meter = find_meter(group_id, partition);
	if (meter != NULL)
	{
		SpinLockAcquire(&meter->mutex);
		*polled = meter->polled;
		meter->polled.records = 0;
		SpinLockRelease(&meter->mutex);
		found = polled->records > 0 && polled->member == member;
	}
	LWLockRelease(&stream_control->meter_lock);
	return found;
}

void
stream_meter_set_polled(Oid table, int32 group_id, int32 partition, const StreamPolled *polled)
{
	StreamMeter *meter;

	(void) stream_meter(table, group_id, partition);
	LWLockAcquire(&stream_control->meter_lock, LW_SHARED);
	meter = find_meter(group_id, partition);
	if (meter != NULL)
	{
		SpinLockAcquire(&meter->mutex);
		meter->polled = *polled;
		SpinLockRelease(&meter->mutex);
	}
	LWLockRelease(&stream_control->meter_lock);
}

static void
forget_consumer(int code, Datum arg)
{
	StreamConsumerSlot *slot = &stream_consumer_slots[STREAM_MY_PROC_NUMBER];

	SpinLockAcquire(&slot->mutex);
	memset(slot->groups, 0, sizeof(slot->groups));
	SpinLockRelease(&slot->mutex);
}

/* note_consumer notes that this session works for a group, in place of the one it left longest ago. */
static void
note_consumer(int32 group_id, TimestampTz now)
{
	static bool registered = false;
	StreamConsumerSlot *slot = &stream_consumer_slots[STREAM_MY_PROC_NUMBER];
	StreamConsumerGroup *oldest = &slot->groups[0];

	if (!registered)
	{
		before_shmem_exit(forget_consumer, (Datum) 0);
		registered = true;
	}
	SpinLockAcquire(&slot->mutex);
	for (int i = 0; i < STREAM_CONSUMER_GROUPS; i++)
	{
		StreamConsumerGroup *group = &slot->groups[i];

		if (group->database == MyDatabaseId && group->group_id == group_id)
		{
			oldest = group;
			break;
		}
		if (group->last_call < oldest->last_call)
			oldest = group;
	}
	if (oldest->group_id != group_id)
		oldest->holds = false;
	oldest->database = MyDatabaseId;
	oldest->group_id = group_id;
	oldest->last_call = now;
	SpinLockRelease(&slot->mutex);
}

/*
 * stream_meter_call notes that this session consumes, or waits, for a group;
 * false: the group has no meter yet, though it could have: stream_meter_enter_group.
 */
bool
stream_meter_call(int32 group_id)
{
	TimestampTz now = GetCurrentTimestamp();
	StreamMeter *meter;
	bool		full;

	note_consumer(group_id, now);
	LWLockAcquire(&stream_control->meter_lock, LW_SHARED);
	meter = find_meter(group_id, STREAM_WHOLE_GROUP);
	if (likely(meter != NULL))
	{
		SpinLockAcquire(&meter->mutex);
		meter->last_call = now;
		SpinLockRelease(&meter->mutex);
	}
	full = stream_control->nmeters >= stream_max_group_partitions;
	LWLockRelease(&stream_control->meter_lock);
	if (unlikely(meter == NULL && full))
	{
		/* counts the refusal */
		(void) enter_meter(InvalidOid, group_id, STREAM_WHOLE_GROUP, now);
		return true;
	}
	return meter != NULL;
}

/* The caller keeps the group from being dropped meanwhile. */
void
stream_meter_enter_group(Oid table, int32 group_id)
{
	(void) enter_meter(table, group_id, STREAM_WHOLE_GROUP, GetCurrentTimestamp());
}

/* stream_meter_holds notes that it has a transaction open on the group's records. */
void
stream_meter_holds(int32 group_id)
{
	StreamConsumerSlot *slot = &stream_consumer_slots[STREAM_MY_PROC_NUMBER];

	SpinLockAcquire(&slot->mutex);
	for (int i = 0; i < STREAM_CONSUMER_GROUPS; i++)
		if (slot->groups[i].database == MyDatabaseId && slot->groups[i].group_id == group_id)
			slot->groups[i].holds = true;
	SpinLockRelease(&slot->mutex);
}

/* stream_meter_holds_nothing ends that; it does not throw. */
void
stream_meter_holds_nothing(void)
{
	StreamConsumerSlot *slot = &stream_consumer_slots[STREAM_MY_PROC_NUMBER];

	SpinLockAcquire(&slot->mutex);
	for (int i = 0; i < STREAM_CONSUMER_GROUPS; i++)
		slot->groups[i].holds = false;
	SpinLockRelease(&slot->mutex);
}

/*
 * stream_meter_consumers counts the sessions that have consumed or waited for a
 * group within STREAM_CONSUMER_WINDOW_SECONDS, or are processing its records now.
 */
int
stream_meter_consumers(int32 group_id)
{
	TimestampTz since = GetCurrentTimestamp() - STREAM_CONSUMER_WINDOW_SECONDS * USECS_PER_SEC;
	int			result = 0;

	for (int i = 0; i < STREAM_MAX_PROCS; i++)
	{
		StreamConsumerSlot *slot = &stream_consumer_slots[i];

		SpinLockAcquire(&slot->mutex);
		for (int j = 0; j < STREAM_CONSUMER_GROUPS; j++)
			if (slot->groups[j].database == MyDatabaseId && slot->groups[j].group_id == group_id &&
				(slot->groups[j].holds || slot->groups[j].last_call >= since))
				result++;
		SpinLockRelease(&slot->mutex);
	}
	return result;
}
