/*-------------------------------------------------------------------------
 *
 * pack.c
 *		Records on their way into batches, and to the segment tables.
 *
 * See append.c for runs and levels.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "log/pending.h"
#include "log/segtable.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/*
 * Smaller batches are not compressed: it would save little and cost more than
 * all the rest of a transaction that publishes one record.
 */
#define STREAM_COMPRESS_FROM	512

/* An empty buffer of more bytes is given back. */
#define STREAM_LARGE_BUFFER		(512 * 1024)

/* add_image appends a batch of size bytes, at data, to a run. */
static void
add_image(StreamPublishing *publishing, StreamTargetPartition *partition, StreamRun *run, StreamLevel *level,
		  struct varlena *data, const StreamBatchPrefix *taken)
{
	StreamImage *image = MemoryContextAlloc(publishing->context, sizeof(StreamImage));

	image->next = NULL;
	image->data = data;
	image->last_offset = taken->last_offset;
	image->records = taken->count;
	image->segment_no = run->segment_no;
	image->partition = partition->number;
	*run->images_tail = image;
	run->images_tail = &image->next;
	level->image_bytes += VARSIZE(data);
	if (VARSIZE(data) - VARHDRSZ > STREAM_INLINE_BATCH_SIZE)
		publishing->out_of_line = true;
}

/*
 * stream_compress_run turns a run's open records into batches: all of them when
 * whole, else as long as they fill one.  How many records fill a batch is
 * known only after compression; experience with the last batch tells how many
 * to try, a little fewer than fit.
 */
void
stream_compress_run(StreamPublishing *publishing, StreamTargetPartition *partition,
					StreamRun *run, StreamLevel *level, bool whole)
{
	StreamBatchBuilder *open = &run->open;
	static char scratch[STREAM_INLINE_BATCH_SIZE];
	uint32		epoch = GetWALInsertionTimeLine();
	Size		room = STREAM_INLINE_BATCH_SIZE;

	while (open->count > 0 && (whole || open->len >= partition->raw_target))
	{
		StreamBatchPrefix taken;
		struct varlena *data;
		Size		size;
		Size		before = open->len;
		int32		compression = before < STREAM_COMPRESS_FROM ? STREAM_COMPRESSION_NONE :
			partition->target->compression;

		CHECK_FOR_INTERRUPTS();
		size = stream_batch_encode(open, partition->raw_target, compression, epoch,
								   scratch, room, &taken);
		if (size == 0 && taken.count > 1)
		{
			/* too many */
			partition->raw_target = taken.raw_len - taken.raw_len / 8;
			continue;
		}
		if (size > 0)
		{
			data = MemoryContextAlloc(publishing->context, VARHDRSZ + size);
			memcpy(VARDATA(data), scratch, size);
			/* aim at 97 % of the room; a remainder says little */
			if (taken.count < open->count || open->len >= partition->raw_target)
				partition->raw_target = Max((Size) ((double) taken.raw_len * 0.97 * room / size), room / 2);
		}
		else
		{
			/* a record that fills more than a page goes out of line */
			Size		bound = stream_batch_bound(taken.raw_len);

			if (bound > MaxAllocHugeSize - VARHDRSZ)
				elog(ERROR, "record is too large");
			data = MemoryContextAllocHuge(publishing->context, VARHDRSZ + bound);
			size = stream_batch_encode(open, taken.raw_len, compression, epoch,
									   VARDATA(data), bound, &taken);
			Assert(size > 0);
			if (size > MaxAllocSize - VARHDRSZ - BLCKSZ)
				ereport(ERROR,
						(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						 errmsg("record of %zu bytes is too large for stream \"%s\"",
								taken.raw_len, NameStr(partition->target->name))));
		}
		SET_VARSIZE(data, VARHDRSZ + size);
		add_image(publishing, partition, run, level, data, &taken);
		stream_batch_discard(open, &taken);
		publishing->open_bytes -= Min(publishing->open_bytes, before - open->len);
	}
	/* a large record leaves a large buffer */
	if (whole || (open->count == 0 && open->capacity > STREAM_LARGE_BUFFER))
		stream_batch_builder_free(open);
}

/* join_runs makes one run of neighbours that no other transaction separates. */
static void
join_runs(StreamPublishing *publishing, StreamBuffer *buffer, StreamLevel *level)
{
	StreamRun  *run = buffer->runs;

	while (run != NULL && run->next != NULL)
	{
		StreamRun  *next = run->next;

		if (run->end != next->first || run->segment_no != next->segment_no)
		{
			run = next;
			continue;
		}
		if (next->images == NULL)
		{
			if (!stream_batch_concat(&run->open, &next->open))
			{
				stream_compress_run(publishing, buffer->partition, run, level, true);
				if (!stream_batch_concat(&run->open, &next->open))
					elog(ERROR, "could not join records");
			}
			stream_batch_builder_free(&next->open);
		}
		else
		{
			stream_compress_run(publishing, buffer->partition, run, level, true);
			*run->images_tail = next->images;
			run->images_tail = next->images_tail;
			run->open = next->open;
		}
		run->end = next->end;
		run->next = next->next;
		if (run->next == NULL)
			buffer->last_run = run;
		pfree(next);
		if (run->open.len >= buffer->partition->raw_target)
			stream_compress_run(publishing, buffer->partition, run, level, false);
	}
}

/* stream_compress_levels bounds the memory that many small runs take. */
void
stream_compress_levels(StreamPublishing *publishing)
{
	MemoryContext save = MemoryContextSwitchTo(publishing->context);

	for (StreamLevel *level = publishing->innermost; level != NULL; level = level->outer)
		for (StreamBuffer *buffer = level->buffers; buffer != NULL; buffer = buffer->next)
		{
			join_runs(publishing, buffer, level);
			for (StreamRun *run = buffer->runs; run != NULL; run = run->next)
				stream_compress_run(publishing, buffer->partition, run, level, true);
		}
	publishing->open_bytes = 0;
	MemoryContextSwitchTo(save);
}

/*
 * stream_flush_level writes what a level has published.  The level must be the
 * current one: the tuples carry its transaction id.  What was published to a
 * stream that has been dropped since is kept: the drop may be rolled back.
 */
void
stream_flush_level(StreamPublishing *publishing, StreamLevel *level)
{
	MemoryContext save = MemoryContextSwitchTo(publishing->context);
	StreamTarget *target;

	Assert(level->subid == GetCurrentSubTransactionId());
	for (target = publishing->targets; target != NULL; target = target->next)
	{
		StreamImage *images = NULL;
		StreamImage **tail = &images;

		if (target->dropped_subid != InvalidSubTransactionId)
			continue;
		for (StreamBuffer *buffer = level->buffers; buffer != NULL; buffer = buffer->next)
		{
			StreamRun  *run;

			if (buffer->partition->target != target)
				continue;
			join_runs(publishing, buffer, level);
			while ((run = buffer->runs) != NULL)
			{
				stream_compress_run(publishing, buffer->partition, run, level, true);
				if (run->images != NULL)
				{
					*tail = run->images;
					tail = run->images_tail;
				}
				buffer->runs = run->next;
				pfree(run);
			}
			buffer->last_run = NULL;
		}
		if (images != NULL)
		{
			stream_write_images(target->stream_id, target->segment_bytes, images);
			while (images != NULL)
			{
				StreamImage *next = images->next;

				level->image_bytes -= VARSIZE(images->data);
				pfree(images->data);
				pfree(images);
				images = next;
			}
		}
	}
	MemoryContextSwitchTo(save);
}
