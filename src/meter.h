/*-------------------------------------------------------------------------
 *
 * meter.h
 *		What consumer groups and projections have done lately, in shared memory.
 *
 * It serves views and advice only: when it is full, or after a restart, nothing
 * but these is the poorer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_METER_H
#define STREAM_METER_H

#include "shmem.h"

/* Sessions that have not called for longer are not counted as workers. */
#define STREAM_CONSUMER_WINDOW_SECONDS	60

extern StreamMeter *stream_meter(Oid table, int32 group_id, int32 partition);
extern bool stream_meter_read(int32 group_id, int32 partition, StreamMeter *copy);
extern int32 stream_meters_in_use(int32 *refused);
extern void stream_remove_meters(Oid database, Oid table, int32 group_id);

extern void stream_meter_committed(StreamMeter *meter, int64 full_records, int64 full_busy_us);
extern void stream_meter_rolled_back(StreamMeter *meter);
extern void stream_meter_batch(Oid table, int32 group_id, int32 partition,
							   int64 records, int64 busy_us, bool full);

extern bool stream_meter_take_polled(int32 group_id, int32 partition, uint32 member, StreamPolled *polled);
extern void stream_meter_set_polled(Oid table, int32 group_id, int32 partition, const StreamPolled *polled);

extern bool stream_meter_call(int32 group_id);
extern void stream_meter_enter_group(Oid table, int32 group_id);
extern void stream_meter_holds(int32 group_id);
extern void stream_meter_holds_nothing(void);
extern int	stream_meter_consumers(int32 group_id);

#endif							/* STREAM_METER_H */
