/*-------------------------------------------------------------------------
 *
 * hooks.h
 *		DDL on the foreign table of a stream.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_HOOKS_H
#define STREAM_HOOKS_H

extern void stream_hooks_init(void);

#endif							/* STREAM_HOOKS_H */
