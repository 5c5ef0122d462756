/*-------------------------------------------------------------------------
 *
 * append.c
 *		What a transaction has published and not yet written.
 *
 * Records wait in this backend's memory until a level has gathered enough, or
 * the transaction is about to commit; see README for the states.  Everything
 * is in one context below TopTransactionContext, and goes with it.
 *
 * A tuple is visible when the (sub)transaction that wrote it commits.  So the
 * records of each nesting level are kept apart and written by that level: a
 * level's records go to its parent when it commits, by pointer only, since
 * nothing may fail there; they are dropped when it aborts.
 *
 * Within a level and partition, records stand in runs.  A run is a contiguous
 * range of reserved offsets in one segment; no other transaction has an offset
 * in between, so any part of it may become a batch.  A reservation that does
 * not begin where the last run ends begins a new one.  A level that has been
 * written leaves no run, so a later reservation, of an outer level too, never
 * joins offsets across it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/segments.h"
#include "compat.h"
#include "guc.h"
#include "log/deadline.h"
#include "log/pending.h"
#include "log/segtable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

/* Batches of a level, in bytes, that are written when they have come together. */
#define STREAM_FLUSH_BYTES		(64 * BLCKSZ)

/* Bytes of records, not yet compressed, at which all levels are compressed. */
#define STREAM_COMPRESS_BYTES	(8 * 1024 * 1024)

static StreamPublishing *publishing = NULL;
static StreamTarget *last_target = NULL;

/* check_transaction refuses to publish where nothing can be written. */
static void
check_transaction(void)
{
	PreventCommandIfReadOnly("publish()");
	PreventCommandIfParallelMode("publish()");
	PreventCommandDuringRecovery("publish()");
	if (publishing != NULL && publishing->closed)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot publish while the transaction is being committed")));
}

static void
begin_publishing(void)
{
	MemoryContext context = AllocSetContextCreate(TopTransactionContext, "stream publish",
												  ALLOCSET_DEFAULT_SIZES);

	publishing = MemoryContextAllocZero(context, sizeof(StreamPublishing));
	publishing->context = context;
}

/*
 * stream_target_of_table returns the target for a stream's foreign table, on
 * which the caller has the lock and the privilege to publish.
 */
StreamTarget *
stream_target_of_table(Oid table)
{
	StreamInfo *info;
	StreamTarget *target;

	check_transaction();
	info = stream_info(table);
	stream_check_format(info);
	if (publishing == NULL)
		begin_publishing();

	for (target = publishing->targets; target != NULL; target = target->next)
		if (target->table == table)
			break;
	if (target == NULL)
	{
		target = MemoryContextAllocZero(publishing->context, sizeof(StreamTarget));
		target->partition = MemoryContextAllocZero(publishing->context,
												   info->partitions * sizeof(StreamTargetPartition *));
		target->table = table;
		target->stream_id = info->stream_id;
		target->partitions = info->partitions;
		target->value_type = info->value_type;
		target->next = publishing->targets;
		publishing->targets = target;
	}
	/* these can change within the transaction */
	target->compression = info->compression;
	target->segment_bytes = info->segment_bytes;
	target->name = info->name;
	target->name_len = strlen(NameStr(info->name));
	if (target->lock_subid == InvalidSubTransactionId)
	{
		/*
		 * The caller's lock may be a portal's, and go with it when it fails
		 * in a later subtransaction.  This one is the (sub)transaction's.
		 */
		ResourceOwner save = CurrentResourceOwner;

		CurrentResourceOwner = CurTransactionResourceOwner;
		LockRelationOid(table, RowExclusiveLock);
		CurrentResourceOwner = save;
		target->lock_subid = GetCurrentSubTransactionId();
	}
	return target;
}

/*
 * stream_target finds the stream of that name to publish to.  The name need
 * not end with a zero byte.  A call that repeats the last one's name, as in a
 * loop, costs a comparison.
 */
StreamTarget *
stream_target(const char *name, Size len)
{
	StreamTarget *target = last_target;
	char	   *copy;
	Oid			table;

	if (likely(target != NULL && target->name_len == len &&
			   memcmp(NameStr(target->name), name, len) == 0 &&
			   target->generation == stream_cache_generation &&
			   target->user == GetUserId() &&
			   target->lock_subid != InvalidSubTransactionId &&
			   !publishing->closed && !XactReadOnly && !IsInParallelMode()))
		return target;

	stream_require_shmem();
	check_transaction();
	copy = pnstrdup(name, len);
	table = stream_table(copy, RowExclusiveLock, ACL_INSERT, false);
	pfree(copy);
	target = stream_target_of_table(table);
	target->user = GetUserId();
	target->generation = stream_cache_generation;
	last_target = target;
	return target;
}

/* current_level returns this (sub)transaction's level, made at first use. */
static StreamLevel *
current_level(void)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	StreamLevel *level = publishing->innermost;

	if (unlikely(level == NULL || level->subid != subid))
	{
		level = MemoryContextAllocZero(publishing->context, sizeof(StreamLevel));
		level->subid = subid;
		level->outer = publishing->innermost;
		publishing->innermost = level;
	}
	return level;
}

static StreamBuffer *
current_buffer(StreamTargetPartition *partition)
{
	StreamBuffer *buffer = partition->innermost;
	StreamLevel *level = current_level();

	if (unlikely(buffer == NULL || buffer->subid != level->subid))
	{
		buffer = MemoryContextAllocZero(publishing->context, sizeof(StreamBuffer));
		buffer->partition = partition;
		buffer->subid = level->subid;
		buffer->outer = partition->innermost;
		buffer->next = level->buffers;
		partition->innermost = buffer;
		level->buffers = buffer;
	}
	return buffer;
}

/* attach makes a partition of a target ready for reservations. */
static StreamTargetPartition *
attach(StreamTarget *target, int32 number)
{
	StreamTargetPartition *partition = target->partition[number];

	Assert(number >= 0 && number < target->partitions);
	if (partition == NULL)
	{
		partition = MemoryContextAllocZero(publishing->context, sizeof(StreamTargetPartition));
		partition->target = target;
		partition->number = number;
		partition->raw_target = 2 * STREAM_INLINE_BATCH_SIZE;
		target->partition[number] = partition;
	}
	if (partition->state == NULL)
		partition->state = stream_attach_partition(target->table, number);
	return partition;
}

/*
 * stream_block_reserve reserves count offsets in a partition for records that
 * the caller appends at once.
 */
void
stream_block_reserve(StreamBlock *block, StreamTarget *target, int32 number, int32 count)
{
	StreamTargetPartition *partition = target->partition[number];
	StreamBuffer *buffer;
	StreamReservation reservation;
	StreamRun  *run;
	bool		first;

	Assert(count > 0);
	if (unlikely(partition == NULL || partition->state == NULL))
		partition = attach(target, number);

	/* first what can fail, then the reservation */
	buffer = current_buffer(partition);
	first = partition->publisher == NULL;
	if (unlikely(first))
	{
		stream_start_deadline(STREAM_DEADLINE_PUBLISH, stream_publish_timeout);
		partition->publisher_subid = buffer->subid;
		partition->next_publisher = publishing->publishers;
		publishing->publishers = partition;
	}
	stream_reserve(partition->state, &partition->publisher, count, &reservation);

	run = buffer->last_run;
	if (likely(run != NULL && run->end == reservation.first_offset &&
			   run->segment_no == reservation.segment_no))
		run->end += count;
	else
	{
		run = MemoryContextAllocZero(publishing->context, sizeof(StreamRun));
		run->first = reservation.first_offset;
		run->end = run->first + count;
		run->segment_no = reservation.segment_no;
		run->images_tail = &run->images;
		if (buffer->last_run == NULL)
			buffer->runs = run;
		else
			buffer->last_run->next = run;
		buffer->last_run = run;
	}
	block->partition = partition;
	block->next_offset = reservation.first_offset;
	block->timestamp = reservation.timestamp;
}

/* stream_block_append adds the next record of a reserved block. */
void
stream_block_append(StreamBlock *block, StreamRecord *record)
{
	StreamTargetPartition *partition = block->partition;
	StreamRun  *run = partition->innermost->last_run;
	MemoryContext save = CurrentMemoryContext;
	Size		before = run->open.len;

	record->offset = block->next_offset++;
	record->timestamp = block->timestamp;
	Assert(record->offset < run->end);

	CurrentMemoryContext = publishing->context;
	if (unlikely(!stream_batch_append(&run->open, record)))
	{
		stream_compress_run(publishing, partition, run, publishing->innermost, true);
		before = 0;
		if (!stream_batch_append(&run->open, record))
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("record is too large for stream \"%s\"", NameStr(partition->target->name))));
	}
	publishing->open_bytes += run->open.len - before;

	if (unlikely(run->open.len >= partition->raw_target))
		stream_compress_run(publishing, partition, run, publishing->innermost, false);
	CurrentMemoryContext = save;
}

/*
 * stream_publish_call_done writes or compresses what has come together.  Every
 * call that publishes ends with it: within a call, runs must stay in place.
 */
void
stream_publish_call_done(void)
{
	if (unlikely(publishing->innermost->image_bytes >= STREAM_FLUSH_BYTES))
		stream_flush_level(publishing, publishing->innermost);
	if (unlikely(publishing->open_bytes >= STREAM_COMPRESS_BYTES))
		stream_compress_levels(publishing);
}

/* stream_has_publishers says whether the transaction holds back a watermark. */
bool
stream_has_publishers(void)
{
	return publishing != NULL && publishing->publishers != NULL;
}

/* stream_holds_back says whether it keeps a partition's watermark at or below an offset. */
bool
stream_holds_back(Oid table, int32 number, int64 offset)
{
	if (publishing == NULL)
		return false;
	for (StreamTargetPartition *partition = publishing->publishers; partition != NULL;
		 partition = partition->next_publisher)
		if (partition->target->table == table && partition->number == number &&
			partition->publisher != NULL && partition->publisher->first_offset <= offset)
			return true;
	return false;
}

/*
 * stream_flush_all writes all that is left, just before the commit.  After it
 * the transaction is closed to publishing.
 */
void
stream_flush_all(void)
{
	bool		wants_snapshot;

	if (publishing == NULL)
		return;
	/* a record that does not fit a page is either a batch by now, or open still */
	wants_snapshot = publishing->out_of_line || publishing->open_bytes > STREAM_INLINE_BATCH_SIZE / 2;
	Assert(publishing->innermost == NULL || publishing->innermost->outer == NULL);

	/*
	 * The commit has dropped all snapshots, and TOAST wants one.  Most
	 * transactions store nothing out of line, and do without; but the heap
	 * asserts one for any table that has a TOAST table.
	 */
#ifdef USE_ASSERT_CHECKING
	wants_snapshot = true;
#endif
	if (wants_snapshot)
		PushActiveSnapshot(GetTransactionSnapshot());
	if (publishing->innermost != NULL)
		stream_flush_level(publishing, publishing->innermost);
	for (StreamTargetPartition *partition = publishing->publishers; partition != NULL;
		 partition = partition->next_publisher)
	{
		int64		base;
		int64		end;

		if (partition->target->dropped_subid != InvalidSubTransactionId ||
			!stream_claim_gap(partition->state, &base, &end))
			continue;
		partition->records_gap = true;
		stream_insert_gap(partition->target->stream_id, partition->number, base, end);
	}
	if (wants_snapshot)
		PopActiveSnapshot();
	publishing->closed = true;
	stream_stop_deadline(STREAM_DEADLINE_PUBLISH);
}

/* stream_end_publishers ends the transaction's publishing; it does not throw. */
void
stream_end_publishers(bool committed)
{
	if (publishing == NULL)
		return;
	for (StreamTargetPartition *partition = publishing->publishers; partition != NULL;
		 partition = partition->next_publisher)
	{
		if (partition->records_gap)
			stream_release_gap(partition->state, committed);
		if (partition->publisher != NULL)
			stream_end_publisher(partition->state, partition->publisher);
	}
	stream_stop_deadline(STREAM_DEADLINE_PUBLISH);
	publishing = NULL;
	last_target = NULL;
}

/*
 * stream_publish_commit_sub hands to its parent what a subtransaction has
 * published.  Nothing here can fail.
 */
void
stream_publish_commit_sub(SubTransactionId subid, SubTransactionId parent)
{
	StreamLevel *level;
	StreamLevel *outer;
	StreamBuffer *next;

	if (publishing == NULL)
		return;
	for (StreamTarget *target = publishing->targets; target != NULL; target = target->next)
	{
		if (target->lock_subid == subid)
			target->lock_subid = parent;
		if (target->dropped_subid == subid)
			target->dropped_subid = parent;
	}
	for (StreamTargetPartition *partition = publishing->publishers; partition != NULL;
		 partition = partition->next_publisher)
		if (partition->publisher_subid == subid)
			partition->publisher_subid = parent;

	level = publishing->innermost;
	if (level == NULL || level->subid != subid)
		return;
	outer = level->outer;
	if (outer == NULL || outer->subid != parent)
	{
		/* the parent has nothing of its own: it takes over the level */
		level->subid = parent;
		for (StreamBuffer *buffer = level->buffers; buffer != NULL; buffer = buffer->next)
			buffer->subid = parent;
		return;
	}

	for (StreamBuffer *buffer = level->buffers; buffer != NULL; buffer = next)
	{
		StreamBuffer *into = buffer->outer;

		next = buffer->next;
		if (into == NULL || into->subid != parent)
		{
			buffer->subid = parent;
			buffer->next = outer->buffers;
			outer->buffers = buffer;
			continue;
		}
		if (buffer->runs != NULL)
		{
			if (into->last_run == NULL)
				into->runs = buffer->runs;
			else
				into->last_run->next = buffer->runs;
			into->last_run = buffer->last_run;
		}
		buffer->partition->innermost = into;
		pfree(buffer);
	}
	outer->image_bytes += level->image_bytes;
	publishing->innermost = outer;
	pfree(level);
}

/* drop_buffer forgets what an aborted level had published to a partition. */
static void
drop_buffer(StreamBuffer *buffer)
{
	StreamBuffer *outer = buffer->outer;
	StreamRun  *run;

	while ((run = buffer->runs) != NULL)
	{
		StreamRun  *before = outer != NULL ? outer->last_run : NULL;
		StreamImage *image;

		/* nobody else has these offsets: the outer level's run may go on behind them */
		if (before != NULL && before->end == run->first && before->segment_no == run->segment_no)
			before->end = run->end;
		while ((image = run->images) != NULL)
		{
			run->images = image->next;
			pfree(image->data);
			pfree(image);
		}
		stream_batch_builder_free(&run->open);
		buffer->runs = run->next;
		pfree(run);
	}
	buffer->partition->innermost = outer;
	pfree(buffer);
}

/*
 * stream_publish_abort_sub drops what a subtransaction has published.  A
 * partition where only it had published is held back no longer.
 */
void
stream_publish_abort_sub(SubTransactionId subid)
{
	StreamLevel *level;
	StreamTargetPartition **link;

	if (publishing == NULL)
		return;
	level = publishing->innermost;
	if (level != NULL && level->subid == subid)
	{
		StreamBuffer *next;

		for (StreamBuffer *buffer = level->buffers; buffer != NULL; buffer = next)
		{
			next = buffer->next;
			drop_buffer(buffer);
		}
		publishing->innermost = level->outer;
		pfree(level);
	}

	link = &publishing->publishers;
	while (*link != NULL)
	{
		StreamTargetPartition *partition = *link;

		if (partition->publisher_subid == subid)
		{
			if (partition->publisher != NULL)
				stream_end_publisher(partition->state, partition->publisher);
			partition->publisher = NULL;
			partition->publisher_subid = InvalidSubTransactionId;
			*link = partition->next_publisher;
		}
		else
			link = &partition->next_publisher;
	}
	if (publishing->publishers == NULL)
		stream_stop_deadline(STREAM_DEADLINE_PUBLISH);
	else
		stream_resume_deadline(STREAM_DEADLINE_PUBLISH);

	for (StreamTarget *target = publishing->targets; target != NULL; target = target->next)
	{
		if (target->dropped_subid == subid)
			target->dropped_subid = InvalidSubTransactionId;
		if (target->lock_subid == subid)
		{
			/* the lock goes, and with it what keeps the shared state in place */
			target->lock_subid = InvalidSubTransactionId;
			for (int32 i = 0; i < target->partitions; i++)
				if (target->partition[i] != NULL)
					target->partition[i]->state = NULL;
		}
	}
}

/* stream_publish_dropped notes that this transaction has dropped a stream. */
void
stream_publish_dropped(Oid table)
{
	if (publishing == NULL)
		return;
	for (StreamTarget *target = publishing->targets; target != NULL; target = target->next)
		if (target->table == table && target->dropped_subid == InvalidSubTransactionId)
			target->dropped_subid = GetCurrentSubTransactionId();
	last_target = NULL;
}
