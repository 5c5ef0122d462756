/*-------------------------------------------------------------------------
 *
 * guard.h
 *		DDL on the target of a projection.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_PROJECTION_GUARD_H
#define STREAM_PROJECTION_GUARD_H

extern void stream_target_guard_init(void);

#endif							/* STREAM_PROJECTION_GUARD_H */
