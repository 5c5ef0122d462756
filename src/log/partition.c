/*-------------------------------------------------------------------------
 *
 * partition.c
 *		Shared state of partitions: made, found, removed.
 *
 * The state of a partition is made by its first reservation after server
 * start, and by nothing else: a reader that finds none knows that nothing is
 * in flight.  It is made under the stream's roll lock, which a roll holds from
 * creating a segment to activating it; so the segment that the maker reads
 * from the catalog is the one in which everybody publishes.
 *
 * It is removed when the stream or its database is dropped, at that
 * transaction's commit, and when the (sub)transaction that created the stream
 * aborts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/xlog.h"
#include "catalog/pg_foreign_table.h"
#include "compat.h"
#include "guc.h"
#include "log/reserve.h"
#include "log/segtable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"

static StreamPartitionKey
partition_key(Oid table, int32 partition)
{
	StreamPartitionKey key = {MyDatabaseId, table, partition};

	return key;
}

/* The caller holds stream_control->lock. */
static StreamPartition *
find_partition(Oid table, int32 partition)
{
	StreamPartitionKey key = partition_key(table, partition);

	Assert(LWLockHeldByMe(&stream_control->lock));
	return hash_search(stream_partition_hash, &key, HASH_FIND, NULL);
}

/*
 * stream_lock_rolls takes the stream's roll lock.  Nobody else locks objects of
 * the class of foreign tables.
 */
void
stream_lock_rolls(Oid table)
{
	LockDatabaseObject(ForeignTableRelationId, table, 0, ExclusiveLock);
}

void
stream_unlock_rolls(Oid table)
{
	UnlockDatabaseObject(ForeignTableRelationId, table, 0, ExclusiveLock);
}

/*
 * enter_partition makes a partition's state.  The caller holds the roll lock,
 * so nobody else makes it meanwhile.
 */
static StreamPartition *
enter_partition(StreamInfo *info, int32 partition)
{
	StreamPartitionKey key = partition_key(info->table, partition);
	int32		segment_no = info->segments[info->nsegments - 1].segment_no;
	StreamSegmentTable segment;
	StreamPartition *state = NULL;
	TimestampTz last_timestamp;
	int64		ceiling;
	int64		log_end;

	/* a restore creates the index last: publish only to a segment that has it */
	(void) stream_segment_open(&segment, info->stream_id, segment_no, AccessShareLock, false);
	stream_segment_close(&segment, false);

	ceiling = stream_sequence_ceiling(info->stream_id, partition);
	log_end = stream_log_end(info, partition, &last_timestamp);

	LWLockAcquire(&stream_control->lock, LW_EXCLUSIVE);
	if (stream_control->npartitions < stream_max_partitions)
		state = hash_search(stream_partition_hash, &key, HASH_ENTER_NULL, NULL);
	if (state != NULL)
	{
		stream_control->npartitions++;
		state->stream_id = info->stream_id;
		stream_init_partition_lock(state);
		/* the ceiling is behind all that was ever issued, rolled back or not */
		state->next_offset = Max(ceiling, log_end);
		state->ceiling = ceiling;
		state->segment_base = state->next_offset;
		state->segment_no = segment_no;
		state->grant = 1;
		state->last_extension = 0;
		state->last_timestamp = last_timestamp;
		state->extending = false;
		state->recording_gap = false;
		state->gap_base = log_end;
		state->gap_end = state->next_offset;
		state->lost_base = log_end;
		dlist_init(&state->publishers);
		ConditionVariableInit(&state->ceiling_cv);
	}
	LWLockRelease(&stream_control->lock);

	if (state == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("shared memory for stream partitions is full"),
				 errdetail("%d partitions have been published to since the server's start.", stream_max_partitions),
				 errhint("Raise stream.max_partitions and restart the server; see the view stream.memory_status.")));
	return state;
}

/*
 * stream_attach_partition finds or makes a partition's state for a publisher.
 * The caller holds RowExclusiveLock on the foreign table and keeps it to the
 * transaction's end, which keeps the state in place as long.
 */
StreamPartition *
stream_attach_partition(Oid table, int32 partition)
{
	StreamPartition *state;
	StreamInfo *info;

	LWLockAcquire(&stream_control->lock, LW_SHARED);
	state = find_partition(table, partition);
	LWLockRelease(&stream_control->lock);
	if (likely(state != NULL))
		return state;

	stream_lock_rolls(table);
	LWLockAcquire(&stream_control->lock, LW_SHARED);
	state = find_partition(table, partition);
	LWLockRelease(&stream_control->lock);
	if (state == NULL)
	{
		info = stream_info(table);
		stream_check_partition(info, partition);
		state = enter_partition(info, partition);
	}
	stream_unlock_rolls(table);
	return state;
}

/*
 * stream_remove_partitions forgets the partitions of a stream, or of a whole
 * database when table is invalid.  It does not throw: it runs in transaction
 * callbacks.  Nobody has a pointer to them: see shmem.h.
 */
void
stream_remove_partitions(Oid database, Oid table)
{
	HASH_SEQ_STATUS status;
	StreamPartition *state;

	LWLockAcquire(&stream_control->lock, LW_EXCLUSIVE);
	hash_seq_init(&status, stream_partition_hash);
	while ((state = hash_seq_search(&status)) != NULL)
	{
		if (state->key.database == database && (!OidIsValid(table) || state->key.table == table))
		{
			Assert(dlist_is_empty(&state->publishers));
			(void) hash_search(stream_partition_hash, &state->key, HASH_REMOVE, NULL);
			stream_control->npartitions--;
		}
	}
	LWLockRelease(&stream_control->lock);
}

/*
 * stream_get_watermark reads a partition's state; false: there is none, and
 * nothing is in flight.
 *
 * An open publisher leaves the list only after its transaction has become
 * visible to new snapshots, or can never become so.  Hence a snapshot taken
 * after this call sees everything below the watermark that it will ever see.
 */
bool
stream_get_watermark(Oid table, int32 partition, StreamWatermark *result)
{
	StreamPartition *state;

	LWLockAcquire(&stream_control->lock, LW_SHARED);
	state = find_partition(table, partition);
	if (state != NULL)
	{
		LWLockAcquire(&state->lock, LW_SHARED);
		result->next_offset = state->next_offset;
		result->ceiling = state->ceiling;
		result->segment_base = state->segment_base;
		result->segment_no = state->segment_no;
		result->gap_base = state->gap_base;
		result->gap_end = state->gap_end;
		result->lost_base = state->lost_base;
		if (dlist_is_empty(&state->publishers))
		{
			result->watermark = state->next_offset;
			result->since = 0;
		}
		else
		{
			StreamPublisher *head = dlist_head_element(StreamPublisher, node, &state->publishers);

			result->watermark = head->first_offset;
			result->since = head->since;
		}
		LWLockRelease(&state->lock);
	}
	LWLockRelease(&stream_control->lock);
	return state != NULL;
}

/*
 * stream_activate_segment sends new reservations of a stream to a segment.
 * The caller holds the roll lock, and the segment's catalog row is committed
 * and announced: whoever is told to write to it can find it.
 */
void
stream_activate_segment(Oid table, int32 segment_no)
{
	HASH_SEQ_STATUS status;
	StreamPartition *state;

	LWLockAcquire(&stream_control->lock, LW_SHARED);
	hash_seq_init(&status, stream_partition_hash);
	while ((state = hash_seq_search(&status)) != NULL)
	{
		if (state->key.database != MyDatabaseId || state->key.table != table)
			continue;
		LWLockAcquire(&state->lock, LW_EXCLUSIVE);
		if (state->segment_no < segment_no)
		{
			state->segment_no = segment_no;
			state->segment_base = state->next_offset;
		}
		LWLockRelease(&state->lock);
	}
	LWLockRelease(&stream_control->lock);
}

/* stream_list_publishers returns all open publishers of this database. */
StreamOpenPublisher *
stream_list_publishers(int *n)
{
	StreamOpenPublisher *result = palloc_array(StreamOpenPublisher, stream_max_publishers);
	HASH_SEQ_STATUS status;
	StreamPartition *state;

	*n = 0;
	LWLockAcquire(&stream_control->lock, LW_SHARED);
	hash_seq_init(&status, stream_partition_hash);
	while ((state = hash_seq_search(&status)) != NULL)
	{
		dlist_iter	iter;

		if (state->key.database != MyDatabaseId)
			continue;
		LWLockAcquire(&state->lock, LW_SHARED);
		dlist_foreach(iter, &state->publishers)
		{
			StreamPublisher *publisher = dlist_container(StreamPublisher, node, iter.cur);

			/* an entry that ends elsewhere meanwhile may come back here */
			if (*n == stream_max_publishers)
				break;
			result[*n].key = state->key;
			result[*n].first_offset = publisher->first_offset;
			result[*n].since = publisher->since;
			result[*n].pid = publisher->pid;
			(*n)++;
		}
		LWLockRelease(&state->lock);
	}
	LWLockRelease(&stream_control->lock);
	return result;
}
