/*-------------------------------------------------------------------------
 *
 * projection_targets.h
 *		The table stream_internal.projection_targets.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_PROJECTION_TARGETS_H
#define STREAM_PROJECTION_TARGETS_H

extern Oid	stream_projection_target(int32 projection_id);
extern void stream_set_projection_target(int32 projection_id, Oid target);
extern void stream_adopt_projection_target(int32 projection_id, Oid target);
extern void stream_delete_projection_target(int32 projection_id);

#endif							/* STREAM_PROJECTION_TARGETS_H */
