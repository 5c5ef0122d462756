/*-------------------------------------------------------------------------
 *
 * freshness.h
 *		How far a projection has come.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_FRESHNESS_H
#define STREAM_FRESHNESS_H

extern int64 stream_applied_offset(int32 projection_id, int32 partition);

#endif							/* STREAM_FRESHNESS_H */
