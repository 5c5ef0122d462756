/*-------------------------------------------------------------------------
 *
 * dead_letters.h
 *		The table stream_internal.dead_letters.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_DEAD_LETTERS_H
#define STREAM_DEAD_LETTERS_H

#include "catalog/streams.h"

#define DEAD_LETTERS_TABLE		"dead_letters"
#define DEAD_LETTERS_PKEY		"dead_letters_pkey"
#define DEAD_LETTERS_BY_GROUP	"dead_letters_group_key"

#define Anum_dead_letters_id			1
#define Anum_dead_letters_group_id		2
#define Anum_dead_letters_partition		3
#define Anum_dead_letters_offset		4
#define Anum_dead_letters_published_at	5
#define Anum_dead_letters_key			6
#define Anum_dead_letters_value			7
#define Anum_dead_letters_value_bytes	8
#define Anum_dead_letters_headers		9
#define Anum_dead_letters_reason		10
#define Anum_dead_letters_sqlstate		11
#define Anum_dead_letters_user_name		12
#define Anum_dead_letters_created_at	13
#define Anum_dead_letters_retries		14
#define Natts_dead_letters				14

/* A record that was kept, as the columns of a record: log/value.h. */
typedef struct StreamDeadLetter
{
	int64		id;
	int32		partition;
	int64		record_offset;
	Datum		values[6];
	bool		nulls[6];
} StreamDeadLetter;

extern int64 stream_insert_dead_letter(int32 group_id, StreamValueType value_type,
									   const Datum *record, const bool *record_nulls,
									   const char *reason, const char *sqlstate);
extern List *stream_dead_letters(int32 group_id, StreamValueType value_type);
extern int64 stream_count_dead_letters(int32 group_id);
extern void stream_dead_letter_failed(int64 id, const char *reason, const char *sqlstate);
extern void stream_delete_dead_letter(int64 id);
extern void stream_delete_dead_letters(int32 group_id);

#endif							/* STREAM_DEAD_LETTERS_H */
