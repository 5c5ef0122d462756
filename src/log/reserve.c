/*-------------------------------------------------------------------------
 *
 * reserve.c
 *		Reservation of offsets, and the list of open publishers.
 *
 * A transaction's first reservation in a partition appends it to that
 * partition's list, under the same lock that issues the offset; so the list is
 * ordered by first offset, and its head is the watermark.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/segments.h"
#include "compat.h"
#include "guc.h"
#include "log/reserve.h"
#include "log/wait.h"
#include "miscadmin.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

static uint32 ceiling_wait_event = 0;

/* take_publisher takes an entry off the free list; null: there is none. */
static StreamPublisher *
take_publisher(void)
{
	StreamPublisher *publisher = NULL;

	SpinLockAcquire(&stream_control->publisher_mutex);
	if (!dlist_is_empty(&stream_control->free_publishers))
	{
		publisher = dlist_container(StreamPublisher, node,
									dlist_pop_head_node(&stream_control->free_publishers));
		stream_control->npublishers++;
	}
	SpinLockRelease(&stream_control->publisher_mutex);
	return publisher;
}

/*
 * wait_or_extend is called at the ceiling, with partition->lock held, which it
 * releases: it raises the ceiling, or waits for the backend that does.
 */
static void
wait_or_extend(StreamPartition *partition, int32 count)
{
	if (!partition->extending)
	{
		int64		wanted = partition->next_offset + count;

		partition->extending = true;
		LWLockRelease(&partition->lock);
		stream_extend_ceiling(partition, wanted);
		return;
	}
	LWLockRelease(&partition->lock);

	ConditionVariablePrepareToSleep(&partition->ceiling_cv);
	for (;;)
	{
		bool		extending;

		/* registered first, looked afterwards: no signal is missed */
		LWLockAcquire(&partition->lock, LW_SHARED);
		extending = partition->extending;
		LWLockRelease(&partition->lock);
		if (!extending)
			break;
		ConditionVariableSleep(&partition->ceiling_cv,
							   STREAM_WAIT_EVENT(ceiling_wait_event, "StreamCeiling"));
	}
	ConditionVariableCancelSleep();
}

/*
 * stream_reserve issues count consecutive offsets, and says which segment they
 * go to.  *publisher is null at the transaction's first reservation here, and
 * set then; the caller hands it to stream_end_publisher, whatever happens.
 */
void
stream_reserve(StreamPartition *partition, StreamPublisher **publisher, int32 count,
			   StreamReservation *result)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		extend = false;
	int64		low;

	for (;;)
	{
		LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
		if (likely(partition->next_offset + count <= partition->ceiling))
			break;
		wait_or_extend(partition, count);
	}

	if (*publisher == NULL)
	{
		StreamPublisher *entry = take_publisher();

		if (entry == NULL)
		{
			LWLockRelease(&partition->lock);
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("shared memory for stream publishers is full"),
					 errdetail("Open transactions have published to %d partitions.", stream_max_publishers),
					 errhint("Raise stream.max_publishers and restart the server; see the view stream.open_publishers.")));
		}
		entry->first_offset = partition->next_offset;
		entry->since = now;
		entry->pid = MyProcPid;
		dlist_push_tail(&partition->publishers, &entry->node);
		*publisher = entry;
	}

	result->first_offset = partition->next_offset;
	result->segment_no = partition->segment_no;
	/* the clock may step back */
	if (likely(now > partition->last_timestamp))
		partition->last_timestamp = now;
	result->timestamp = partition->last_timestamp;
	partition->next_offset += count;

	/* extend early, when half the last grant is used, so that nobody waits */
	low = (int64) partition->grant * STREAM_SEQUENCE_STEP / 2;
	if (unlikely(partition->ceiling - partition->next_offset < low) && !partition->extending)
		partition->extending = extend = true;
	LWLockRelease(&partition->lock);

	if (unlikely(extend))
		stream_extend_ceiling(partition, result->first_offset + count + low);
}

/*
 * stream_end_publisher takes a transaction off a partition's list, after it
 * has become visible or can never become so, and wakes those who wait for the
 * watermark to move.  It does not throw.
 */
void
stream_end_publisher(StreamPartition *partition, StreamPublisher *publisher)
{
	bool		moved;

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	moved = dlist_head_node(&partition->publishers) == &publisher->node;
	dlist_delete(&publisher->node);
	LWLockRelease(&partition->lock);

	SpinLockAcquire(&stream_control->publisher_mutex);
	dlist_push_head(&stream_control->free_publishers, &publisher->node);
	stream_control->npublishers--;
	SpinLockRelease(&stream_control->publisher_mutex);

	if (moved)
		stream_wake_waiters(partition->key.table, partition->key.partition);
}

/*
 * stream_claim_gap asks whether the offsets that were skipped at the first
 * reservation since server start have yet to be recorded; if so it is up to
 * the caller.  The first publisher to commit does it, so that they do not count
 * as lag.
 */
bool
stream_claim_gap(StreamPartition *partition, int64 *base, int64 *end)
{
	bool		claimed;

	/* once recorded, it stays so: the usual case needs no lock */
	if (likely(partition->gap_base == partition->gap_end))
		return false;
	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	claimed = partition->gap_base != partition->gap_end && !partition->recording_gap;
	if (claimed)
		partition->recording_gap = true;
	*base = partition->gap_base;
	*end = partition->gap_end;
	LWLockRelease(&partition->lock);
	return claimed;
}

/* stream_release_gap ends that, at the transaction's end; it does not throw. */
void
stream_release_gap(StreamPartition *partition, bool recorded)
{
	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	partition->recording_gap = false;
	if (recorded)
		partition->gap_base = partition->gap_end;
	LWLockRelease(&partition->lock);
}

/*
 * stream_offsets_in_gaps counts the offsets from <= offset < to that restarts
 * have skipped, recorded or not: no record ever has them.
 */
int64
stream_offsets_in_gaps(Oid table, int32 stream_id, int32 partition, int64 from, int64 to)
{
	int64		count = stream_count_gaps(stream_id, partition, from, to);
	StreamWatermark state;

	if (stream_get_watermark(table, partition, &state))
		count += Max(0, Min(state.gap_end, to) - Max(state.gap_base, from));
	return count;
}
