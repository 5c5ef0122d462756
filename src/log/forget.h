/*-------------------------------------------------------------------------
 *
 * forget.h
 *		Shared state that goes when the running transaction ends.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_FORGET_H
#define STREAM_FORGET_H

extern void stream_forget_if_aborted(Oid table);
extern void stream_forget_if_committed(Oid database, Oid table);
extern void stream_forget_group(int32 group_id, bool at_commit);

/* for xact.c */
extern bool stream_forget_is_pending(void);
extern void stream_forget_end(bool committed);
extern void stream_forget_commit_sub(SubTransactionId subid, SubTransactionId parent);
extern void stream_forget_abort_sub(SubTransactionId subid);

#endif							/* STREAM_FORGET_H */
