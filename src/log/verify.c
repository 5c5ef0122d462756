/*-------------------------------------------------------------------------
 *
 * verify.c
 *		verify_log: reads a whole log and reports what is wrong with it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "args.h"
#include "funcapi.h"
#include "log/reserve.h"
#include "log/segtable.h"
#include "miscadmin.h"
#include "progress.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(stream_verify_log);

/* The state of a walk over one partition's batches, over all segments. */
typedef struct VerifyWalk
{
	ReturnSetInfo *rsinfo;
	int32		segment_no;
	int32		partition;
	int64		previous_end;	/* behind the last batch; 0: none yet */
	TimestampTz previous_timestamp;
} VerifyWalk;

static void report(VerifyWalk *walk, int64 offset, const char *fmt,...) pg_attribute_printf(3, 4);

static void
report(VerifyWalk *walk, int64 offset, const char *fmt,...)
{
	Datum		values[4];
	bool		nulls[4] = {false};
	StringInfoData finding;

	initStringInfo(&finding);
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, fmt);
		needed = appendStringInfoVA(&finding, fmt, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&finding, needed);
	}
	values[0] = Int32GetDatum(walk->segment_no);
	values[1] = Int32GetDatum(walk->partition);
	values[2] = Int64GetDatum(offset);
	values[3] = CStringGetTextDatum(finding.data);
	tuplestore_putvalues(walk->rsinfo->setResult, walk->rsinfo->setDesc, values, nulls);
	pfree(finding.data);
}

/* verify_batch checks one batch against its row and the batch before it. */
static void
verify_batch(VerifyWalk *walk, StreamBatchScan *scan, StreamBatchReader *reader)
{
	int64		last_offset = stream_batch_scan_last_offset(scan);
	struct varlena *stored = (struct varlena *) DatumGetPointer(stream_batch_scan_batch(scan));
	struct varlena *batch = pg_detoast_datum_packed(stored);
	StreamBatchStatus status;
	StreamRecord record;

	status = stream_batch_open(reader, VARDATA_ANY(batch), VARSIZE_ANY_EXHDR(batch));
	if (status != STREAM_BATCH_OK)
		report(walk, last_offset, "batch is damaged: %s", stream_batch_status_text(status));
	else
	{
		StreamBatchHeader *header = &reader->header;

		if (header->last_offset != last_offset)
			report(walk, last_offset, "batch ends at offset %lld, its row says %lld",
				   (long long) header->last_offset, (long long) last_offset);
		if (header->record_count != (uint32) stream_batch_scan_records(scan))
			report(walk, last_offset, "batch has %u records, its row says %d",
				   header->record_count, stream_batch_scan_records(scan));
		if (header->base_offset < walk->previous_end)
			report(walk, header->base_offset, "batch begins at offset %lld, the one before ends at %lld",
				   (long long) header->base_offset, (long long) (walk->previous_end - 1));
		if (header->base_timestamp < walk->previous_timestamp)
			report(walk, header->base_offset, "record is older than the one before");
		while ((status = stream_batch_next(reader, &record)) == STREAM_BATCH_OK)
			walk->previous_timestamp = record.timestamp;
		if (status != STREAM_BATCH_END)
			report(walk, last_offset, "batch is damaged: %s", stream_batch_status_text(status));
	}
	walk->previous_end = last_offset + 1;
	if (batch != stored)
		pfree(batch);
}

/* verify_range checks a sealed segment's rows against what was recorded of it. */
static void
verify_range(VerifyWalk *walk, StreamPartitionInfo *known, int64 batches, int64 records, int64 end)
{
	StreamRange *range = NULL;

	for (int i = 0; i < known->nranges; i++)
		if (known->ranges[i].segment_no == walk->segment_no)
			range = &known->ranges[i];
	if (range == NULL)
	{
		if (batches > 0)
			report(walk, end - 1, "sealed segment has %lld batches of which the catalog knows nothing",
				   (long long) batches);
	}
	else if (batches == 0)
		report(walk, range->base_offset, "sealed segment has no batches, the catalog says %d with %lld records",
			   range->batches, (long long) range->records);
	else if (range->batches != batches || range->records != records || range->end_offset != end)
		report(walk, end - 1, "sealed segment has %lld batches with %lld records up to offset %lld, the catalog says %d, %lld and %lld",
			   (long long) batches, (long long) records, (long long) end - 1,
			   range->batches, (long long) range->records, (long long) range->end_offset - 1);
}

Datum
stream_verify_log(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamInfo *info;
	VerifyWalk	walk = {0};
	StreamBatchReader reader = {0};
	int32		stream_id;
	int32		partitions;
	int64		done = 0;

	stream_need_argument(fcinfo, 0, "stream");
	table = stream_table(text_to_cstring(PG_GETARG_TEXT_PP(0)), AccessShareLock, ACL_SELECT, false);
	info = stream_info(table);
	stream_check_format(info);
	stream_id = info->stream_id;
	partitions = info->partitions;
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	walk.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	stream_progress_begin("verify_log", table);
	for (walk.partition = 0; walk.partition < partitions; walk.partition++)
	{
		walk.segment_no = 0;
		walk.previous_end = 0;
		walk.previous_timestamp = PG_INT64_MIN;

		/* segment by segment, by position: one may be added or go meanwhile */
		for (;;)
		{
			StreamSegmentTable segment;
			StreamBatchScan scan;
			Snapshot	snapshot;
			bool		sealed = false;
			int32		next = 0;
			int64		batches = 0;
			int64		records = 0;

			info = stream_info(table);
			for (int i = 0; i < info->nsegments && next == 0; i++)
				if (info->segments[i].segment_no > walk.segment_no)
				{
					next = info->segments[i].segment_no;
					sealed = info->segments[i].sealed;
				}
			if (next == 0)
				break;
			walk.segment_no = next;
			if (!stream_segment_open(&segment, stream_id, next, AccessShareLock, true))
			{
				report(&walk, 0, "table of segment %d is missing", next);
				continue;
			}
			snapshot = stream_fresh_snapshot(RelationGetRelid(segment.rel));
			stream_batch_scan_begin(&scan, &segment, snapshot, walk.partition, 0, ForwardScanDirection);
			while (stream_batch_scan_next(&scan))
			{
				verify_batch(&walk, &scan, &reader);
				batches++;
				records += stream_batch_scan_records(&scan);
				if (++done % 64 == 0)
					stream_progress_update("reading batches", done, 0);
			}
			stream_batch_scan_end(&scan);
			UnregisterSnapshot(snapshot);
			stream_segment_close(&segment, false);
			if (sealed)
				verify_range(&walk, stream_partition_info(stream_info(table), walk.partition),
							 batches, records, walk.previous_end);
		}

		/* nothing may be stored from the ceiling on */
		if (!RecoveryInProgress())
		{
			int64		ceiling = stream_sequence_ceiling(stream_id, walk.partition);

			if (walk.previous_end > ceiling)
				report(&walk, walk.previous_end - 1, "record lies beyond offset %lld, up to which offsets were issued",
					   (long long) ceiling - 1);
		}
	}
	stream_batch_reader_free(&reader);
	stream_progress_end();
	UnlockRelationOid(table, AccessShareLock);
	return (Datum) 0;
}
