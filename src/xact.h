/*-------------------------------------------------------------------------
 *
 * xact.h
 *		Ends of transactions and subtransactions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_XACT_H
#define STREAM_XACT_H

extern void stream_xact_init(void);

#endif							/* STREAM_XACT_H */
