/*-------------------------------------------------------------------------
 *
 * load.c
 *		How much work a consumer group or projection has, and how much it can do.
 *
 * All is computed when asked, a few look-ups a partition: what is unread and
 * what arrives from the log itself, what a worker can do from the meters.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/streams.h"
#include "consumer/lag.h"
#include "consumer/load.h"
#include "consumer/offsets.h"
#include "log/read.h"
#include "meter.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

/* Arrivals are counted over so long, or since the stream was created. */
#define STREAM_ARRIVAL_WINDOW_SECONDS	60
/* A stream younger than this has no rate yet. */
#define STREAM_ARRIVAL_MIN_SECONDS		1

/* stream_measure_load adds up the partitions of a group; the caller has the stream's table locked. */
void
stream_measure_load(Oid table, int32 group_id, StreamLoad *load)
{
	int32		partitions = stream_info(table)->partitions;
	double		records = 0;
	double		busy_us = 0;

	memset(load, 0, sizeof(StreamLoad));
	for (int32 partition = 0; partition < partitions; partition++)
	{
		StreamPartitionEnd end = stream_partition_end(table, partition);
		StreamOffset newest;
		StreamMeter meter;
		TimestampTz oldest;

		CHECK_FOR_INTERRUPTS();
		if (stream_newest_offset(group_id, partition, NULL, &newest) != STREAM_OFFSET_FOUND)
			continue;
		load->lag += stream_records_behind(table, partition, newest.committed_offset, end.watermark);
		oldest = stream_oldest_unread(table, partition, newest.committed_offset, &end);
		if (oldest != 0 && (load->oldest_unread == 0 || oldest < load->oldest_unread))
			load->oldest_unread = oldest;
		load->committed_at = Max(load->committed_at, newest.committed_at);
		if (stream_meter_read(group_id, partition, &meter))
		{
			records += meter.full_records;
			busy_us += meter.full_busy_us;
			load->measured_at = Max(load->measured_at, meter.measured_at);
		}
	}
	if (load->measured_at != 0)
		load->worker_rate = records * USECS_PER_SEC / busy_us;
}

/*
 * stream_arrival_rate returns how many records a second were published lately,
 * counted by their offsets, to a partition, or to all of them when that is -1;
 * false: the stream is too young to tell.
 */
bool
stream_arrival_rate(Oid table, int32 which, double *rate)
{
	StreamInfo *info = stream_info(table);
	int32		partitions = info->partitions;
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz from = Max(now - STREAM_ARRIVAL_WINDOW_SECONDS * USECS_PER_SEC, info->created_at);
	int64		records = 0;

	if (now - from < STREAM_ARRIVAL_MIN_SECONDS * USECS_PER_SEC)
		return false;
	for (int32 partition = 0; partition < partitions; partition++)
	{
		int64		first;

		CHECK_FOR_INTERRUPTS();
		if (which != -1 && which != partition)
			continue;
		first = stream_first_offset_at(table, partition, from, NULL);
		records += stream_records_behind(table, partition, first, stream_partition_end(table, partition).watermark);
	}
	*rate = (double) records * USECS_PER_SEC / (now - from);
	return true;
}
