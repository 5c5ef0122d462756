/*-------------------------------------------------------------------------
 *
 * views.c
 *		The functions behind the views.
 *
 * Each shows the streams that the caller may read, and all of them to a member
 * of pg_monitor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "catalog/streams.h"
#include "catalog/tables.h"
#include "compat.h"
#include "funcapi.h"
#include "guc.h"
#include "log/reserve.h"
#include "log/segment.h"
#include "meter.h"
#include "miscadmin.h"
#include "sessions.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rangetypes.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "workers.h"

PG_FUNCTION_INFO_V1(stream_stream_status);
PG_FUNCTION_INFO_V1(stream_partition_status);
PG_FUNCTION_INFO_V1(stream_segment_status);
PG_FUNCTION_INFO_V1(stream_open_publishers);
PG_FUNCTION_INFO_V1(stream_memory_status);
PG_FUNCTION_INFO_V1(stream_progress_status);
PG_FUNCTION_INFO_V1(stream_visible_streams);

/* What the committed records of a partition, or a stream, add up to. */
typedef struct Totals
{
	int64		records;
	int64		bytes;
	int64		batches;
} Totals;

static void
put_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
begin_rows(FunctionCallInfo fcinfo)
{
	stream_require_shmem();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
}

/* add_unsealed adds what the segments that are not sealed hold of a partition. */
static void
add_unsealed(Oid table, int32 partition, int64 limit, Totals *totals)
{
	StreamInfo *info = stream_info(table);
	int32		stream_id = info->stream_id;
	int			n;
	int32	   *segments = stream_segment_numbers(info, true, &n);

	for (int i = 0; i < n; i++)
	{
		StreamSegmentTable segment;
		StreamRange range;
		Snapshot	snapshot;

		if (!stream_segment_open(&segment, stream_id, segments[i], AccessShareLock, true))
			continue;
		snapshot = stream_fresh_snapshot(RelationGetRelid(segment.rel));
		if (stream_measure_range(&segment, snapshot, partition, limit, &range))
		{
			totals->records += range.records;
			totals->bytes += range.bytes;
			totals->batches += range.batches;
		}
		UnregisterSnapshot(snapshot);
		stream_segment_close(&segment, false);
	}
	pfree(segments);
}

/* partition_totals adds up a partition's committed records below an offset. */
static void
partition_totals(Oid table, int32 partition, int64 limit, Totals *totals)
{
	StreamPartitionInfo *known = stream_partition_info(stream_info(table), partition);

	for (int i = 0; i < known->nranges; i++)
	{
		totals->records += known->ranges[i].records;
		totals->bytes += known->ranges[i].bytes;
		totals->batches += known->ranges[i].batches;
	}
	add_unsealed(table, partition, limit, totals);
}

static int64
relation_size(Oid relid)
{
	/* null when it has gone meanwhile */
	LOCAL_FCINFO(fcinfo, 1);
	Datum		size;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = ObjectIdGetDatum(relid);
	fcinfo->args[0].isnull = false;
	size = pg_total_relation_size(fcinfo);
	return fcinfo->isnull ? 0 : DatumGetInt64(size);
}

static int64
segment_size(int32 stream_id, int32 segment_no)
{
	char		name[NAMEDATALEN];
	Oid			relid;

	stream_segment_table_name(name, stream_id, segment_no);
	relid = stream_internal_relation(name, true);
	return OidIsValid(relid) ? relation_size(relid) : 0;
}

static Interval *
ms_interval(int64 ms)
{
	Interval   *result = palloc0(sizeof(Interval));

	result->day = (int32) (ms / (SECS_PER_DAY * INT64CONST(1000)));
	result->time = ms % (SECS_PER_DAY * INT64CONST(1000)) * 1000;
	return result;
}

Datum
stream_stream_status(PG_FUNCTION_ARGS)
{
	ListCell   *cell;

	begin_rows(fcinfo);
	foreach(cell, stream_visible_tables(true))
	{
		Oid			table = lfirst_oid(cell);
		StreamInfo *info = stream_info(table);
		int32		partitions = info->partitions;
		Totals		totals = {0};
		int64		total_bytes = 0;
		Datum		values[11];
		bool		nulls[11] = {false};

		for (int32 partition = 0; partition < partitions; partition++)
			partition_totals(table, partition, PG_INT64_MAX, &totals);
		info = stream_info(table);
		for (int i = 0; i < info->nsegments; i++)
			total_bytes += segment_size(info->stream_id, info->segments[i].segment_no);
		values[0] = NameGetDatum(&info->name);
		values[1] = Int32GetDatum(info->partitions);
		values[2] = CStringGetTextDatum(info->value_type == STREAM_VALUE_JSONB ? "jsonb" : "bytea");
		values[3] = CStringGetTextDatum(info->compression == STREAM_COMPRESSION_LZ4 ? "lz4" : "none");
		nulls[4] = info->segment_bytes == 0;
		values[4] = Int64GetDatum(info->segment_bytes);
		nulls[5] = info->segment_age == 0;
		values[5] = IntervalPGetDatum(ms_interval(info->segment_age));
		values[6] = Int32GetDatum(info->nsegments);
		values[7] = Int64GetDatum(totals.records);
		values[8] = Int64GetDatum(totals.bytes);
		values[9] = Int64GetDatum(total_bytes);
		values[10] = TimestampTzGetDatum(info->created_at);
		put_row(fcinfo, values, nulls);
		UnlockRelationOid(table, AccessShareLock);
	}
	return (Datum) 0;
}

Datum
stream_partition_status(PG_FUNCTION_ARGS)
{
	ListCell   *cell;
	bool		recovery = RecoveryInProgress();

	begin_rows(fcinfo);
	foreach(cell, stream_visible_tables(true))
	{
		Oid			table = lfirst_oid(cell);
		StreamInfo *info = stream_info(table);
		int32		partitions = info->partitions;

		for (int32 partition = 0; partition < partitions; partition++)
		{
			StreamWatermark state;
			Totals		totals = {0};
			Datum		values[9];
			bool		nulls[9] = {false};
			bool		has_state;

			info = stream_info(table);
			has_state = stream_get_watermark(info->table, partition, &state);
			if (!has_state)
			{
				state.watermark = state.next_offset = stream_log_end(info, partition, NULL);
				state.since = 0;
			}
			partition_totals(table, partition, recovery ? PG_INT64_MAX : state.watermark, &totals);
			info = stream_info(table);
			values[0] = NameGetDatum(&info->name);
			values[1] = Int32GetDatum(partition);
			values[2] = Int64GetDatum(stream_partition_info(info, partition)->log_start_offset);
			/* on a standby nothing says what is in flight */
			nulls[3] = nulls[4] = nulls[7] = nulls[8] = recovery;
			values[3] = Int64GetDatum(state.watermark);
			values[4] = Int64GetDatum(state.next_offset);
			values[5] = Int64GetDatum(totals.records);
			values[6] = Int64GetDatum(totals.bytes);
			values[7] = Int64GetDatum(state.next_offset - state.watermark);
			values[8] = Float8GetDatum(state.since == 0 ? 0.0 :
									   (double) Max(GetCurrentTimestamp() - state.since, 0) / USECS_PER_SEC);
			put_row(fcinfo, values, nulls);
		}
		UnlockRelationOid(table, AccessShareLock);
	}
	return (Datum) 0;
}

/* relation_xid_age is the age of the oldest transaction id that a relation may contain. */
static int32
relation_xid_age(StreamSegmentTable *segment)
{
	TransactionId next = ReadNextTransactionId();
	TransactionId frozen = segment->rel->rd_rel->relfrozenxid;
	int32		age = TransactionIdIsNormal(frozen) ? (int32) (next - frozen) : 0;

	return Max(age, 0);
}

/* segment_row shows one segment; false: it has just gone. */
static bool
segment_row(FunctionCallInfo fcinfo, Oid table, int32 segment_no)
{
	StreamInfo *info = stream_info(table);
	int32		partitions = info->partitions;
	StreamSegment found = {0};
	bool		active = false;
	StreamSegmentTable segment;
	Snapshot	snapshot;
	Totals		totals = {0};
	TimestampTz first = 0;
	TimestampTz last = 0;
	Datum	   *ranges = palloc0_array(Datum, partitions);
	bool	   *empty = palloc0_array(bool, partitions);
	int			dims[1] = {partitions};
	int			lbound[1] = {1};
	TypeCacheEntry *range_type = lookup_type_cache(INT8RANGEOID, TYPECACHE_RANGE_INFO);
	Datum		values[14];
	bool		nulls[14] = {false};

	for (int i = 0; i < info->nsegments; i++)
		if (info->segments[i].segment_no == segment_no)
		{
			found = info->segments[i];
			active = i == info->nsegments - 1;
		}
	if (found.segment_no == 0 ||
		!stream_segment_open(&segment, info->stream_id, segment_no, AccessShareLock, true))
		return false;
	snapshot = stream_fresh_snapshot(RelationGetRelid(segment.rel));
	info = stream_info(table);
	for (int32 partition = 0; partition < partitions; partition++)
	{
		StreamPartitionInfo *known = stream_partition_info(info, partition);
		StreamRange range = {0};
		RangeBound	lower = {0};
		RangeBound	upper = {0};

		CHECK_FOR_INTERRUPTS();
		if (found.sealed)
		{
			for (int i = 0; i < known->nranges; i++)
				if (known->ranges[i].segment_no == segment_no)
					range = known->ranges[i];
		}
		else if (stream_measure_range(&segment, snapshot, partition, PG_INT64_MAX, &range))
			(void) stream_last_batch(&segment, snapshot, partition, NULL, &range.last_published_at);
		empty[partition] = range.batches == 0;
		if (range.batches == 0)
			continue;
		totals.batches += range.batches;
		totals.records += range.records;
		totals.bytes += range.bytes;
		first = first == 0 ? range.first_published_at : Min(first, range.first_published_at);
		last = Max(last, range.last_published_at);
		lower.val = Int64GetDatum(range.base_offset);
		lower.inclusive = lower.lower = true;
		upper.val = Int64GetDatum(range.end_offset);
		ranges[partition] = RangeTypePGetDatum(stream_make_range(range_type, &lower, &upper));
	}
	UnregisterSnapshot(snapshot);

	values[0] = NameGetDatum(&info->name);
	values[1] = Int32GetDatum(segment_no);
	values[2] = CStringGetTextDatum(found.sealed ? "sealed" : active ? "active" : "closing");
	values[3] = CStringGetTextDatum(quote_qualified_identifier(STREAM_INTERNAL_SCHEMA,
															   RelationGetRelationName(segment.rel)));
	values[4] = TimestampTzGetDatum(found.created_at);
	values[5] = TimestampTzGetDatum(found.sealed_at);
	nulls[5] = !found.sealed;
	values[6] = Int64GetDatum(totals.records);
	values[7] = Int64GetDatum(totals.batches);
	values[8] = Int64GetDatum(totals.bytes);
	values[9] = Int64GetDatum(relation_size(RelationGetRelid(segment.rel)));
	values[10] = Int32GetDatum(relation_xid_age(&segment));
	values[11] = TimestampTzGetDatum(first);
	values[12] = TimestampTzGetDatum(last);
	nulls[11] = nulls[12] = totals.batches == 0;
	values[13] = PointerGetDatum(construct_md_array(ranges, empty, 1, dims, lbound, INT8RANGEOID,
													range_type->typlen, range_type->typbyval,
													range_type->typalign));
	put_row(fcinfo, values, nulls);
	stream_segment_close(&segment, false);
	return true;
}

Datum
stream_segment_status(PG_FUNCTION_ARGS)
{
	ListCell   *cell;

	begin_rows(fcinfo);
	foreach(cell, stream_visible_tables(true))
	{
		Oid			table = lfirst_oid(cell);
		StreamInfo *info = stream_info(table);
		int			n;
		int32	   *segments = stream_segment_numbers(info, false, &n);

		for (int i = 0; i < n; i++)
			(void) segment_row(fcinfo, table, segments[i]);
		UnlockRelationOid(table, AccessShareLock);
	}
	return (Datum) 0;
}

/* name_of finds the name of a stream to show, or null. */
static Name
name_of(List *tables, Oid table)
{
	StreamInfo *info = list_member_oid(tables, table) ? stream_info_if_stream(table) : NULL;

	return info != NULL ? &info->name : NULL;
}

Datum
stream_open_publishers(PG_FUNCTION_ARGS)
{
	List	   *tables;
	StreamOpenPublisher *publishers;
	TimestampTz now = GetCurrentTimestamp();
	int			n;

	begin_rows(fcinfo);
	tables = stream_visible_tables(false);
	publishers = stream_list_publishers(&n);
	for (int i = 0; i < n; i++)
	{
		Name		name = name_of(tables, publishers[i].key.table);
		Datum		values[5];
		bool		nulls[5] = {false};

		if (name == NULL)
			continue;
		values[0] = Int32GetDatum(publishers[i].pid);
		values[1] = NameGetDatum(name);
		values[2] = Int32GetDatum(publishers[i].key.partition);
		values[3] = Int64GetDatum(publishers[i].first_offset);
		values[4] = DirectFunctionCall2(timestamp_mi, TimestampTzGetDatum(now),
										TimestampTzGetDatum(publishers[i].since));
		put_row(fcinfo, values, nulls);
	}
	return (Datum) 0;
}

Datum
stream_progress_status(PG_FUNCTION_ARGS)
{
	List	   *tables;

	begin_rows(fcinfo);
	tables = stream_visible_tables(false);
	for (int i = 0; i < STREAM_MAX_PROCS; i++)
	{
		StreamProgress copy;
		Name		name;
		Datum		values[6];
		bool		nulls[6] = {false};

		SpinLockAcquire(&stream_progress[i].mutex);
		copy = stream_progress[i];
		SpinLockRelease(&stream_progress[i].mutex);
		if (copy.pid == 0 || copy.database != MyDatabaseId ||
			(name = name_of(tables, copy.table)) == NULL)
			continue;
		values[0] = Int32GetDatum(copy.pid);
		values[1] = CStringGetTextDatum(copy.command);
		values[2] = NameGetDatum(name);
		values[3] = CStringGetTextDatum(copy.phase);
		values[4] = Int64GetDatum(copy.done);
		values[5] = Int64GetDatum(copy.total);
		nulls[5] = copy.total == 0;
		put_row(fcinfo, values, nulls);
	}
	return (Datum) 0;
}

static void
memory_row(FunctionCallInfo fcinfo, const char *area, int32 used, int32 capacity, Size bytes, const char *setting)
{
	Datum		values[5];
	bool		nulls[5] = {false};

	values[0] = CStringGetTextDatum(area);
	values[1] = Int32GetDatum(used);
	values[2] = Int32GetDatum(capacity);
	values[3] = Int64GetDatum((int64) bytes);
	values[4] = CStringGetTextDatum(setting);
	put_row(fcinfo, values, nulls);
}

Datum
stream_memory_status(PG_FUNCTION_ARGS)
{
	int32		partitions;
	int32		publishers;
	int32		tasks;

	begin_rows(fcinfo);
	LWLockAcquire(&stream_control->lock, LW_SHARED);
	partitions = stream_control->npartitions;
	LWLockRelease(&stream_control->lock);
	SpinLockAcquire(&stream_control->publisher_mutex);
	publishers = stream_control->npublishers;
	SpinLockRelease(&stream_control->publisher_mutex);
	LWLockAcquire(&stream_control->task_lock, LW_SHARED);
	tasks = stream_control->ntasks;
	LWLockRelease(&stream_control->task_lock);

	memory_row(fcinfo, "partitions", partitions, stream_max_partitions,
			   stream_shmem_partition_size(), "stream.max_partitions");
	memory_row(fcinfo, "publishers", publishers, stream_max_publishers,
			   stream_shmem_publisher_size(), "stream.max_publishers");
	memory_row(fcinfo, "projections", tasks, stream_max_projection_partitions,
			   stream_shmem_task_size(), "stream.max_projection_partitions");
	memory_row(fcinfo, "databases", stream_count_managers(), stream_max_databases,
			   stream_workers_size(), "stream.max_databases");
	memory_row(fcinfo, "members", stream_sessions_used(), stream_max_members,
			   stream_sessions_size(), "stream.max_members");
	memory_row(fcinfo, "group partitions", stream_meters_in_use(NULL), stream_max_group_partitions,
			   stream_shmem_meter_size(), "stream.max_group_partitions");
	memory_row(fcinfo, "waiters", pg_atomic_read_u32(&stream_control->nwaiters), STREAM_MAX_PROCS,
			   stream_shmem_process_size(), "max_connections");
	return (Datum) 0;
}

/* stream_visible_streams lists the streams to show, for views on internal tables. */
Datum
stream_visible_streams(PG_FUNCTION_ARGS)
{
	ListCell   *cell;

	begin_rows(fcinfo);
	foreach(cell, stream_visible_tables(false))
	{
		StreamInfo *info = stream_info_if_stream(lfirst_oid(cell));
		Datum		values[2];
		bool		nulls[2] = {false};

		if (info == NULL)
			continue;
		values[0] = Int32GetDatum(info->stream_id);
		values[1] = NameGetDatum(&info->name);
		put_row(fcinfo, values, nulls);
	}
	return (Datum) 0;
}
