/*-------------------------------------------------------------------------
 *
 * reference.h
 *		A second, plain implementation of the batch format.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "batch.h"
#include "records.h"

/* The places of the header's fields, in bytes. */
#define AT_VERSION				0
#define AT_ATTRIBUTES			1
#define AT_RESERVED				2
#define AT_CRC					4
#define AT_LEADER_EPOCH			8
#define AT_RECORD_COUNT			12
#define AT_BASE_OFFSET			16
#define AT_BASE_TIMESTAMP		24
#define AT_LAST_OFFSET_DELTA	32
#define AT_RAW_LENGTH			36

extern uint32 reference_crc(const char *data, Size len);
extern void reference_fix_crc(char *data, Size len);
extern Size reference_encode(const RecordList *list, int first, int count,
							 uint32 leader_epoch, char *dst);

#endif							/* REFERENCE_H */
