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

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dead_letters.h"
#include "catalog/indexing.h"
#include "catalog/tables.h"
#include "commands/sequence.h"
#include "log/value.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
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

/* copy_column copies a column of a row to one of a record. */
static void
copy_column(StreamCatalogScan *scan, HeapTuple tuple, int from, StreamDeadLetter *letter, int to)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(scan->rel), from - 1);
	Datum		value = stream_catalog_get(scan, tuple, from, &letter->nulls[to - 1]);

	if (!letter->nulls[to - 1])
		letter->values[to - 1] = attribute->attlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(value)) :
			datumCopy(value, attribute->attbyval, attribute->attlen);
}

static int
compare_letters(const ListCell *a, const ListCell *b)
{
	const StreamDeadLetter *left = lfirst(a);
	const StreamDeadLetter *right = lfirst(b);

	if (left->partition != right->partition)
		return left->partition < right->partition ? -1 : 1;
	if (left->record_offset != right->record_offset)
		return left->record_offset < right->record_offset ? -1 : 1;
	return left->id < right->id ? -1 : left->id > right->id;
}

/* stream_dead_letters lists those of a group or projection, in the order of the log. */
List *
stream_dead_letters(int32 group_id, StreamValueType value_type)
{
	int			value_column = value_type == STREAM_VALUE_JSONB ? Anum_dead_letters_value : Anum_dead_letters_value_bytes;
	List	   *result = NIL;
	StreamCatalogScan scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_dead_letters_group_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(group_id));
	stream_catalog_begin(&scan, DEAD_LETTERS_TABLE, DEAD_LETTERS_BY_GROUP, 1, &key, false);
	while (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
	{
		StreamDeadLetter *letter = palloc0_object(StreamDeadLetter);

		CHECK_FOR_INTERRUPTS();
		letter->id = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_dead_letters_id, NULL));
		copy_column(&scan, tuple, Anum_dead_letters_partition, letter, Anum_record_partition);
		copy_column(&scan, tuple, Anum_dead_letters_offset, letter, Anum_record_offset);
		copy_column(&scan, tuple, Anum_dead_letters_published_at, letter, Anum_record_published_at);
		copy_column(&scan, tuple, Anum_dead_letters_key, letter, Anum_record_key);
		copy_column(&scan, tuple, value_column, letter, Anum_record_value);
		copy_column(&scan, tuple, Anum_dead_letters_headers, letter, Anum_record_headers);
		letter->partition = DatumGetInt32(letter->values[Anum_record_partition - 1]);
		letter->record_offset = DatumGetInt64(letter->values[Anum_record_offset - 1]);
		result = lappend(result, letter);
	}
	stream_catalog_end(&scan);
	list_sort(result, compare_letters);
	return result;
}

/* stream_count_dead_letters counts those of a group or projection. */
int64
stream_count_dead_letters(int32 group_id)
{
	StreamCatalogScan scan;
	ScanKeyData key;
	int64		result = 0;

	ScanKeyInit(&key, Anum_dead_letters_group_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(group_id));
	stream_catalog_begin(&scan, DEAD_LETTERS_TABLE, DEAD_LETTERS_BY_GROUP, 1, &key, false);
	while (HeapTupleIsValid(stream_catalog_next(&scan, ForwardScanDirection)))
	{
		CHECK_FOR_INTERRUPTS();
		result++;
	}
	stream_catalog_end(&scan);
	return result;
}

/* stream_dead_letter_failed notes that one could not be applied this time either, and why, unless somebody has given a reason. */
void
stream_dead_letter_failed(int64 id, const char *reason, const char *sqlstate)
{
	Relation	rel = table_open(stream_internal_relation(DEAD_LETTERS_TABLE, false), RowExclusiveLock);
	Datum		values[Natts_dead_letters] = {0};
	bool		nulls[Natts_dead_letters] = {false};
	bool		replace[Natts_dead_letters] = {false};
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_dead_letters_id, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	scan = systable_beginscan(rel, stream_internal_relation(DEAD_LETTERS_PKEY, false), true, NULL, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		HeapTuple	changed;
		bool		isnull;
		bool		by_hand = heap_attisnull(tuple, Anum_dead_letters_sqlstate, RelationGetDescr(rel));

		values[Anum_dead_letters_reason - 1] = CStringGetTextDatum(reason);
		values[Anum_dead_letters_sqlstate - 1] = CStringGetTextDatum(sqlstate);
		values[Anum_dead_letters_retries - 1] =
			Int32GetDatum(DatumGetInt32(heap_getattr(tuple, Anum_dead_letters_retries, RelationGetDescr(rel), &isnull)) + 1);
		replace[Anum_dead_letters_reason - 1] = !by_hand;
		replace[Anum_dead_letters_sqlstate - 1] = !by_hand;
		replace[Anum_dead_letters_retries - 1] = true;
		changed = heap_modify_tuple(tuple, RelationGetDescr(rel), values, nulls, replace);
		CatalogTupleUpdate(rel, &changed->t_self, changed);
		heap_freetuple(changed);
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
}

void
stream_delete_dead_letter(int64 id)
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_dead_letters_id, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	stream_catalog_delete(DEAD_LETTERS_TABLE, DEAD_LETTERS_PKEY, 1, &key);
}

/* stream_delete_dead_letters removes all rows of a group or projection. */
void
stream_delete_dead_letters(int32 group_id)
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_dead_letters_group_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(group_id));
	stream_catalog_delete(DEAD_LETTERS_TABLE, DEAD_LETTERS_BY_GROUP, 1, &key);
}
