/*-------------------------------------------------------------------------
 *
 * wait.h
 *		Waiting for a high watermark to move.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_WAIT_H
#define STREAM_WAIT_H

extern void stream_waiter_register(int32 stream_id);
extern void stream_waiter_add_partition(int32 partition);
extern void stream_waiter_unregister(void);
extern bool stream_waiter_sleep(long timeout_ms);
extern void stream_wake_waiters(int32 stream_id, int32 partition);

#endif							/* STREAM_WAIT_H */
