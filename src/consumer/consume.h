/*-------------------------------------------------------------------------
 *
 * consume.h
 *		Transactional consume.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_CONSUME_H
#define STREAM_CONSUME_H

extern void stream_consume_init(void);
/* for xact.c */
extern bool stream_consume_is_pending(void);
extern void stream_consume_commit_sub(SubTransactionId subid, SubTransactionId parent);
extern void stream_consume_abort_sub(SubTransactionId subid);
extern void stream_consume_end(void);

#endif							/* STREAM_CONSUME_H */
