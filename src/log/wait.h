/*-------------------------------------------------------------------------
 *
 * wait.h
 *		Waiting for a high watermark, or a projection's applied offset, to move.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_WAIT_H
#define STREAM_WAIT_H

#include "utils/timestamp.h"

extern void stream_prevent_wait_under_snapshot(const char *command);
extern TimestampTz stream_wait_until(const Interval *timeout);
extern void stream_waiter_register(Oid table);
extern void stream_waiter_register_many(void);
extern void stream_waiter_register_projection(int32 projection_id);
extern void stream_waiter_add_partition(int32 partition);
extern void stream_waiter_add_of_many(Oid table, int32 partition);
extern void stream_waiter_unregister(void);
extern bool stream_waiter_sleep(long timeout_ms);
extern void stream_wake_waiters(Oid table, int32 partition);
extern void stream_wake_projection_waiters(int32 projection_id, int32 partition);

#endif							/* STREAM_WAIT_H */
