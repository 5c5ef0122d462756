/*-------------------------------------------------------------------------
 *
 * holds.h
 *		The partitions that this transaction holds for consumer groups.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_HOLDS_H
#define STREAM_HOLDS_H

extern void stream_holds_init(void);
extern void stream_hold_partition(Oid table, int32 group_id, int32 partition, int32 max_poll_interval,
								  int64 records);
extern void stream_holds_begin_batch(void);
extern void stream_holds_end_batch(bool full);
/* for xact.c */
extern bool stream_holds_partitions(void);
extern void stream_holds_commit_sub(SubTransactionId subid, SubTransactionId parent);
extern void stream_holds_abort_sub(SubTransactionId subid);
extern void stream_holds_end(bool committed);

#endif							/* STREAM_HOLDS_H */
