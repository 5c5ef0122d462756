/*-------------------------------------------------------------------------
 *
 * lag.c
 *		How far behind a reader is, and the function behind the view consumer_lag.
 *
 * Lag is computed when asked, so it is right for a consumer that has stopped.
 * It costs a few index look-ups a partition.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/groups.h"
#include "catalog/segments.h"
#include "consumer/lag.h"
#include "consumer/members.h"
#include "consumer/offsets.h"
#include "funcapi.h"
#include "log/read.h"
#include "log/reserve.h"
#include "meter.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(stream_consumer_lag);

/* stream_partition_end looks where a partition ends just now. */
StreamPartitionEnd
stream_partition_end(Oid table, int32 partition)
{
	StreamWatermark state;
	StreamPartitionEnd end;

	if (stream_get_watermark(table, partition, &state))
	{
		end.watermark = state.watermark;
		end.next_offset = state.next_offset;
		end.since = state.since;
	}
	else
	{
		end.watermark = end.next_offset = stream_current_watermark(stream_info(table), partition);
		end.since = 0;
	}
	return end;
}

/*
 * stream_oldest_unread returns when the oldest record at or behind an offset was
 * published, one that is held back included; 0: there is none.
 */
TimestampTz
stream_oldest_unread(Oid table, int32 partition, int64 offset, const StreamPartitionEnd *end)
{
	StreamReader reader;
	StreamRecord record;
	TimestampTz result = 0;

	if (offset < end->watermark)
	{
		stream_reader_begin(&reader, table, partition, offset, NULL);
		if (stream_reader_next(&reader, &record))
			result = record.timestamp;
		stream_reader_end(&reader);
	}
	/* one that is held back may be older still than none */
	if (result == 0 && end->next_offset > offset)
		result = end->since;
	return result;
}

/* stream_records_behind counts the offsets from <= offset < to that records can have. */
int64
stream_records_behind(Oid table, int32 partition, int64 from, int64 to)
{
	if (to <= from)
		return 0;
	return Max(0, to - from - stream_offsets_in_gaps(table, stream_info(table)->stream_id, partition, from, to));
}

/* owner_of returns the member that has a partition, or null. */
static StreamMemberRow *
owner_of(const StreamMembers *members, int32 partition)
{
	for (int i = 0; i < members->n; i++)
		if (stream_pset_has(&members->rows[i]->member.assigned, partition) ||
			stream_pset_has(&members->rows[i]->member.revoking, partition))
			return members->rows[i];
	return NULL;
}

static void
lag_row(FunctionCallInfo fcinfo, Oid table, Name group_name, const StreamMembers *members, int32 partition)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StreamPartitionEnd end = stream_partition_end(table, partition);
	StreamMemberRow *owner = owner_of(members, partition);
	int32		group_id = members->group_id;
	StreamInfo *info;
	StreamOffset offset;
	TimestampTz oldest;
	int64		lag;
	StreamMeter meter;
	Datum		values[13];
	bool		nulls[13] = {false};

	if (stream_newest_offset(group_id, partition, NULL, &offset) != STREAM_OFFSET_FOUND)
		return;
	oldest = stream_oldest_unread(table, partition, offset.committed_offset, &end);
	lag = stream_records_behind(table, partition, offset.committed_offset, end.watermark);
	info = stream_info(table);

	values[0] = NameGetDatum(group_name);
	values[1] = NameGetDatum(&info->name);
	values[2] = Int32GetDatum(partition);
	values[3] = Int64GetDatum(offset.committed_offset);
	values[4] = Int64GetDatum(end.watermark);
	values[5] = Int64GetDatum(lag);
	values[6] = TimestampTzGetDatum(oldest);
	nulls[6] = oldest == 0;
	values[7] = Float8GetDatum(oldest == 0 ? 0.0 :
							   (double) Max(GetCurrentTimestamp() - oldest, 0) / USECS_PER_SEC);
	values[8] = TimestampTzGetDatum(offset.committed_at);
	values[9] = Int64GetDatum(offset.records_skipped);
	values[10] = Int64GetDatum(stream_meter_read(group_id, partition, &meter) ? meter.rollbacks : 0);
	nulls[11] = owner == NULL;
	values[11] = owner ? NameGetDatum(&owner->member_id) : (Datum) 0;
	values[12] = Int32GetDatum(group_id);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
stream_consumer_lag(PG_FUNCTION_ARGS)
{
	ListCell   *cell;

	stream_require_shmem();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (RecoveryInProgress())
		return (Datum) 0;
	foreach(cell, stream_visible_tables(true))
	{
		Oid			table = lfirst_oid(cell);
		StreamInfo *info = stream_info(table);
		StreamGroup *groups;
		int			n = stream_copy_groups(info, &groups);
		int32		partitions = info->partitions;

		for (int i = 0; i < n; i++)
		{
			StreamMembers *members = stream_load_members(table, groups[i].group_id, partitions);

			for (int32 partition = 0; partition < partitions; partition++)
			{
				CHECK_FOR_INTERRUPTS();
				lag_row(fcinfo, table, &groups[i].name, members, partition);
			}
		}
		UnlockRelationOid(table, AccessShareLock);
	}
	return (Datum) 0;
}
