/*-------------------------------------------------------------------------
 *
 * publish_timeout.h
 *		The end of transactions that hold back a high watermark for too long.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_PUBLISH_TIMEOUT_H
#define STREAM_PUBLISH_TIMEOUT_H

extern void stream_start_publish_timeout(void);
extern void stream_stop_publish_timeout(void);

#endif							/* STREAM_PUBLISH_TIMEOUT_H */
