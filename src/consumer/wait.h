/*-------------------------------------------------------------------------
 *
 * wait.h
 *		Waiting until a consumer group has something to read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_CONSUMER_WAIT_H
#define STREAM_CONSUMER_WAIT_H

extern void stream_consumer_wait_init(void);
extern void stream_wake_members_at_end(Oid table);
extern bool stream_members_are_changed(void);

#endif							/* STREAM_CONSUMER_WAIT_H */
