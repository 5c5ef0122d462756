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

#endif							/* STREAM_CONSUME_H */
