/*-------------------------------------------------------------------------
 *
 * applier.h
 *		The work of an applier process: all projections of a database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_APPLIER_H
#define STREAM_APPLIER_H

extern bool stream_applier_step(void);
extern void stream_applier_wait(void);

#endif							/* STREAM_APPLIER_H */
