/*-------------------------------------------------------------------------
 *
 * progress.h
 *		What a long operation of this backend is doing, for the view progress.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_PROGRESS_H
#define STREAM_PROGRESS_H

/* Strings are literals: others keep pointers to them. */
extern void stream_progress_begin(const char *command, Oid table);
extern void stream_progress_update(const char *phase, int64 done, int64 total);
extern void stream_progress_end(void);

#endif							/* STREAM_PROGRESS_H */
