/*-------------------------------------------------------------------------
 *
 * murmur2.h
 *		The hash that maps a record's key to a partition.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_MURMUR2_H
#define STREAM_MURMUR2_H

extern uint32 stream_murmur2(const unsigned char *data, Size len);
extern int32 stream_key_partition(const char *key, Size len, int32 partitions);

#endif							/* STREAM_MURMUR2_H */
