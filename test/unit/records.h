/*-------------------------------------------------------------------------
 *
 * records.h
 *		Random records, and what a batch of them should hold.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RECORDS_H
#define RECORDS_H

#include "batch.h"
#include "random.h"

/*
 * A record, and the timestamp it is appended with: lower than its own where the
 * clock was set back.
 */
typedef struct TestRecord
{
	StreamRecord record;
	int64		given_timestamp;
} TestRecord;

/* Zero the struct before its first use. */
typedef struct RecordList
{
	TestRecord *items;
	int			count;
	int			allocated;
} RecordList;

extern void records_add(RecordList *list, const StreamRecord *record);
extern void records_generate(Random *random, int count, RecordList *list);
extern int	records_random_count(Random *random);
extern bool records_append(StreamBatchBuilder *builder, const RecordList *list,
						   int first, int count);
extern bool records_match(StreamBatchReader *reader, const RecordList *list,
						  int first, int count);
extern bool records_equal(const StreamRecord *a, const StreamRecord *b);
extern void records_free(RecordList *list);

#endif							/* RECORDS_H */
