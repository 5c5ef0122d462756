/*-------------------------------------------------------------------------
 *
 * dead_letters.c
 *		The table stream_internal.dead_letters: records that a consumer group
 *		or a projection has passed without having processed them.
 *
 * A row belongs to a group or a projection, and goes with it.  It holds a copy
 * of the record, since retention may remove that from the log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/dead_letters.h"
#include "catalog/tables.h"
#include "commands/sequence.h"
#include "log/value.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

/*
 * stream_insert_dead_letter keeps a record, given as the columns of a record,
 * and returns the row's number.  sqlstate is null when it was passed by hand.
 */
int64
stream_insert_dead_letter(int32 group_id, StreamValueType value_type,
						  const Datum *record, const bool *record_nulls,
						  const char *reason, const char *sqlstate)
{
	int			value_column = value_type == STREAM_VALUE_JSONB ? Anum_dead_letters_value : Anum_dead_letters_value_bytes;
	int64		id = nextval_internal(stream_internal_relation("dead_letter_id_seq", false), false);
	Datum		values[Natts_dead_letters];
	bool		nulls[Natts_dead_letters] = {false};
	NameData	user_name;

	memset(&user_name, 0, sizeof(user_name));
	namestrcpy(&user_name, GetUserNameFromId(GetUserId(), false));
	values[Anum_dead_letters_id - 1] = Int64GetDatum(id);
	values[Anum_dead_letters_group_id - 1] = Int32GetDatum(group_id);
	values[Anum_dead_letters_partition - 1] = record[Anum_record_partition - 1];
	values[Anum_dead_letters_offset - 1] = record[Anum_record_offset - 1];
	values[Anum_dead_letters_published_at - 1] = record[Anum_record_published_at - 1];
	values[Anum_dead_letters_key - 1] = record[Anum_record_key - 1];
	nulls[Anum_dead_letters_key - 1] = record_nulls[Anum_record_key - 1];
	nulls[Anum_dead_letters_value - 1] = nulls[Anum_dead_letters_value_bytes - 1] = true;
	values[value_column - 1] = record[Anum_record_value - 1];
	nulls[value_column - 1] = record_nulls[Anum_record_value - 1];
	values[Anum_dead_letters_headers - 1] = record[Anum_record_headers - 1];
	nulls[Anum_dead_letters_headers - 1] = record_nulls[Anum_record_headers - 1];
	values[Anum_dead_letters_reason - 1] = CStringGetTextDatum(reason);
	nulls[Anum_dead_letters_sqlstate - 1] = sqlstate == NULL;
	if (sqlstate != NULL)
		values[Anum_dead_letters_sqlstate - 1] = CStringGetTextDatum(sqlstate);
	values[Anum_dead_letters_user_name - 1] = NameGetDatum(&user_name);
	values[Anum_dead_letters_created_at - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[Anum_dead_letters_retries - 1] = Int32GetDatum(0);
	stream_catalog_insert(DEAD_LETTERS_TABLE, Natts_dead_letters, values, nulls);
	return id;
}

/* stream_delete_dead_letters removes all rows of a group or projection. */
void
stream_delete_dead_letters(int32 group_id)
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_dead_letters_group_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(group_id));
	stream_catalog_delete(DEAD_LETTERS_TABLE, DEAD_LETTERS_BY_GROUP, 1, &key);
}
