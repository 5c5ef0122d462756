/*-------------------------------------------------------------------------
 *
 * upkeep.c
 *		What a stream's log needs from time to time: when its active segment is
 *		due to be rolled, and whether a sealed one has been frozen.
 *
 * The background workers ask, and do it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/visibilitymap.h"
#include "log/segment.h"
#include "log/segtable.h"
#include "log/upkeep.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/*
 * When the first record of an active segment was published, once a look was
 * worth it: it takes a look at each partition.
 */
typedef struct FirstPublished
{
	int32		stream_id;		/* hash key */
	int32		segment_no;		/* of the segment that was looked at */
	TimestampTz at;
} FirstPublished;

static HTAB *first_published = NULL;

/* stream_segment_bytes is the size of a segment without its indexes, large values included. */
int64
stream_segment_bytes(Relation rel)
{
	int64		blocks = RelationGetNumberOfBlocks(rel);
	Oid			toast = rel->rd_rel->reltoastrelid;

	if (OidIsValid(toast))
	{
		Relation	toast_rel = table_open(toast, AccessShareLock);

		blocks += RelationGetNumberOfBlocks(toast_rel);
		table_close(toast_rel, AccessShareLock);
	}
	return blocks * BLCKSZ;
}

/* look_for_first reads the earliest time in a segment; false: it holds no committed record. */
static bool
look_for_first(StreamSegmentTable *segment, int32 partitions, TimestampTz *first)
{
	Snapshot	snapshot = stream_fresh_snapshot(RelationGetRelid(segment->rel));
	bool		found = false;

	for (int32 partition = 0; partition < partitions; partition++)
	{
		StreamBatchScan scan;
		StreamBatchHeader header;

		CHECK_FOR_INTERRUPTS();
		stream_batch_scan_begin(&scan, segment, snapshot, partition, 0, ForwardScanDirection);
		if (stream_batch_scan_next(&scan))
		{
			stream_batch_scan_header(&scan, segment, &header);
			*first = found ? Min(*first, header.base_timestamp) : header.base_timestamp;
			found = true;
		}
		stream_batch_scan_end(&scan);
	}
	UnregisterSnapshot(snapshot);
	return found;
}

/* age_is_over says whether the first record of an open segment is older than segment_age ms. */
static bool
age_is_over(StreamSegmentTable *segment, int32 stream_id, int32 segment_no, int32 partitions,
			int64 segment_age, TimestampTz *due_at)
{
	FirstPublished *entry;
	TimestampTz first;
	bool		found;

	if (first_published == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(int32);
		ctl.entrysize = sizeof(FirstPublished);
		first_published = hash_create("stream first records", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(first_published, &stream_id, HASH_FIND, NULL);
	if (entry != NULL && entry->segment_no == segment_no)
		first = entry->at;
	else
	{
		if (!look_for_first(segment, partitions, &first))
			return false;
		entry = hash_search(first_published, &stream_id, HASH_ENTER, &found);
		entry->segment_no = segment_no;
		entry->at = first;
	}
	*due_at = TimestampTzPlusMilliseconds(first, segment_age);
	return *due_at <= GetCurrentTimestamp();
}

/*
 * stream_roll_is_due says whether a stream's active segment has reached its size
 * or age.  When it has not, due_at is when its age may do so, or DT_NOEND.  The
 * caller has a lock on the stream's foreign table.
 */
bool
stream_roll_is_due(Oid table, TimestampTz *due_at)
{
	StreamInfo *info = stream_info_if_stream(table);
	int32		stream_id;
	int32		partitions;
	int64		segment_bytes;
	int64		segment_age;
	StreamSegment active;
	StreamSegmentTable segment;
	bool		due;

	*due_at = DT_NOEND;
	if (info == NULL || info->nsegments == 0 || info->foreign_format ||
		(info->segment_bytes == 0 && info->segment_age == 0))
		return false;
	stream_id = info->stream_id;
	partitions = info->partitions;
	segment_bytes = info->segment_bytes;
	segment_age = info->segment_age;
	active = info->segments[info->nsegments - 1];
	if (!stream_segment_open(&segment, stream_id, active.segment_no, AccessShareLock, true))
		return false;

	if (RelationGetNumberOfBlocks(segment.rel) == 0)
		due = false;
	else if (segment_bytes > 0 && stream_segment_bytes(segment.rel) >= segment_bytes)
		due = true;
	else if (segment_age == 0)
		due = false;
	else
	{
		/* no record is older than its segment */
		*due_at = TimestampTzPlusMilliseconds(active.created_at, segment_age);
		due = *due_at <= GetCurrentTimestamp() &&
			age_is_over(&segment, stream_id, active.segment_no, partitions, segment_age, due_at);
	}
	stream_segment_close(&segment, false);
	return due;
}

/* stream_has_closing says whether segments wait to be sealed. */
bool
stream_has_closing(const StreamInfo *info)
{
	for (int i = 0; i < info->nsegments - 1; i++)
		if (!info->segments[i].sealed)
			return true;
	return false;
}

static bool
all_frozen(Relation rel)
{
	BlockNumber visible;
	BlockNumber frozen;

	visibilitymap_count(rel, &visible, &frozen);
	return frozen == RelationGetNumberOfBlocks(rel);
}

/* stream_is_frozen says whether nothing in a segment has to be frozen any more. */
bool
stream_is_frozen(Relation rel)
{
	Oid			toast = rel->rd_rel->reltoastrelid;
	bool		result = all_frozen(rel);

	if (result && OidIsValid(toast))
	{
		Relation	toast_rel = table_open(toast, AccessShareLock);

		result = all_frozen(toast_rel);
		table_close(toast_rel, AccessShareLock);
	}
	return result;
}
