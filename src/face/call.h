/*-------------------------------------------------------------------------
 *
 * call.h
 *		Scans of what a function returns.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_CALL_H
#define STREAM_CALL_H

extern void stream_call_init(void);

#endif							/* STREAM_CALL_H */
