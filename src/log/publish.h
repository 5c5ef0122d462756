/*-------------------------------------------------------------------------
 *
 * publish.h
 *		Publishing of single records, for the SQL functions and the face.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_PUBLISH_H
#define STREAM_PUBLISH_H

#include "log/append.h"

extern int32 stream_choose_partition(StreamTarget *target, const StreamRecord *record);
extern void stream_publish_records(StreamTarget *target, StreamRecord *records, const int32 *partitions, int n);
extern int64 stream_publish_record(StreamTarget *target, int32 partition, StreamRecord *record);

#endif							/* STREAM_PUBLISH_H */
