/*-------------------------------------------------------------------------
 *
 * projections.c
 *		The table stream_internal.projections.
 *
 * Whatever changes a row wakes the workers of the database when it commits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/groups.h"
#include "catalog/pg_type.h"
#include "catalog/projection_errors.h"
#include "catalog/projection_targets.h"
#include "catalog/projections.h"
#include "catalog/tables.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "workers.h"

#define PROJECTIONS_TABLE		"projections"
#define PROJECTIONS_PKEY		"projections_pkey"
#define PROJECTIONS_BY_NAME		"projections_projection_key"
#define PROJECTIONS_BY_STREAM	"projections_stream_id_idx"

#define Anum_projections_projection_id	1
#define Anum_projections_stream_id		2
#define Anum_projections_projection		3
#define Anum_projections_owner			4
#define Anum_projections_owner_identity	5
#define Anum_projections_search_path	6
#define Anum_projections_target_schema	7
#define Anum_projections_target_table	8
#define Anum_projections_key			9
#define Anum_projections_query			10
#define Anum_projections_merge			11
#define Anum_projections_statement		12
#define Anum_projections_apply_sql		13
#define Anum_projections_replay_safe	14
#define Anum_projections_on_error		15
#define Anum_projections_workers		16
#define Anum_projections_batch_records	17
#define Anum_projections_paused			18
#define Anum_projections_created_at		19
#define Natts_projections				19

StreamOnError
stream_parse_on_error(const char *text)
{
	if (strcmp(text, "stop") == 0)
		return STREAM_ON_ERROR_STOP;
	if (strcmp(text, "dead_letter") == 0)
		return STREAM_ON_ERROR_DEAD_LETTER;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("on_error \"%s\" is not known", text),
			 errhint("Use stop or dead_letter.")));
	return STREAM_ON_ERROR_STOP;	/* keep compiler quiet */
}

const char *
stream_on_error_name(StreamOnError on_error)
{
	return on_error == STREAM_ON_ERROR_STOP ? "stop" : "dead_letter";
}

/* stream_check_projection_name refuses what is too long or empty. */
void
stream_check_projection_name(const char *name)
{
	if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("projection \"%s\" has no valid name", name),
				 errdetail("A name has 1 to %d bytes.", NAMEDATALEN - 1)));
}

static Datum
get(StreamCatalogScan *scan, HeapTuple tuple, int attnum)
{
	return stream_catalog_get(scan, tuple, attnum, NULL);
}

/* get_text returns a copy of a text, or null. */
static char *
get_text(StreamCatalogScan *scan, HeapTuple tuple, int attnum)
{
	bool		isnull;
	Datum		value = stream_catalog_get(scan, tuple, attnum, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* get_name copies a name, and returns false for a null. */
static bool
get_name(StreamCatalogScan *scan, HeapTuple tuple, int attnum, NameData *name)
{
	bool		isnull;
	Datum		value = stream_catalog_get(scan, tuple, attnum, &isnull);

	if (!isnull)
		*name = *DatumGetName(value);
	return !isnull;
}

/* get_key reads an array of column names; null is none. */
static List *
get_key(StreamCatalogScan *scan, HeapTuple tuple)
{
	List	   *key = NIL;
	Datum	   *names;
	int			n;
	bool		isnull;
	Datum		value = stream_catalog_get(scan, tuple, Anum_projections_key, &isnull);

	if (isnull)
		return NIL;
	deconstruct_array(DatumGetArrayTypeP(value), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &names, NULL, &n);
	for (int i = 0; i < n; i++)
		key = lappend(key, pstrdup(NameStr(*DatumGetName(names[i]))));
	return key;
}

static StreamProjection *
read_projection(StreamCatalogScan *scan, HeapTuple tuple)
{
	StreamProjection *result = palloc0_object(StreamProjection);
	bool		isnull;
	Datum		merge;

	result->projection_id = DatumGetInt32(get(scan, tuple, Anum_projections_projection_id));
	result->stream_id = DatumGetInt32(get(scan, tuple, Anum_projections_stream_id));
	result->name = *DatumGetName(get(scan, tuple, Anum_projections_projection));
	result->owner = *DatumGetName(get(scan, tuple, Anum_projections_owner));
	result->owner_identity = get_text(scan, tuple, Anum_projections_owner_identity);
	result->search_path = get_text(scan, tuple, Anum_projections_search_path);
	result->has_target = get_name(scan, tuple, Anum_projections_target_schema, &result->target_schema) &&
		get_name(scan, tuple, Anum_projections_target_table, &result->target_table);
	result->key = get_key(scan, tuple);
	result->query = get_text(scan, tuple, Anum_projections_query);
	merge = stream_catalog_get(scan, tuple, Anum_projections_merge, &isnull);
	if (!isnull)
	{
		Jsonb	   *jsonb = DatumGetJsonbP(merge);

		result->merge = JsonbToCString(NULL, &jsonb->root, VARSIZE(jsonb));
	}
	result->statement = get_text(scan, tuple, Anum_projections_statement);
	result->apply_sql = get_text(scan, tuple, Anum_projections_apply_sql);
	result->replay_safe = DatumGetBool(get(scan, tuple, Anum_projections_replay_safe));
	result->on_error = stream_parse_on_error(get_text(scan, tuple, Anum_projections_on_error));
	result->workers = DatumGetInt32(get(scan, tuple, Anum_projections_workers));
	result->batch_records = DatumGetInt32(get(scan, tuple, Anum_projections_batch_records));
	result->paused = DatumGetBool(get(scan, tuple, Anum_projections_paused));
	result->created_at = DatumGetTimestampTz(get(scan, tuple, Anum_projections_created_at));
	return result;
}

/* find_projection returns the row that a key finds, or null. */
static StreamProjection *
find_projection(const char *index, ScanKey key)
{
	StreamCatalogScan scan;
	HeapTuple	tuple;
	StreamProjection *result = NULL;

	stream_catalog_begin(&scan, PROJECTIONS_TABLE, index, 1, key, false);
	tuple = stream_catalog_next(&scan, ForwardScanDirection);
	if (HeapTupleIsValid(tuple))
		result = read_projection(&scan, tuple);
	stream_catalog_end(&scan);
	return result;
}

/* stream_projection finds a projection by name. */
StreamProjection *
stream_projection(const char *name, bool missing_ok)
{
	ScanKeyData key;
	StreamProjection *result;

	ScanKeyInit(&key, Anum_projections_projection, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum(name));
	/* what is longer than a name has none */
	result = strlen(name) < NAMEDATALEN ? find_projection(PROJECTIONS_BY_NAME, &key) : NULL;
	if (result == NULL && !missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("projection \"%s\" does not exist", name),
				 errhint("Projection names are case-sensitive; stream.create_projection creates one.")));
	return result;
}

/* stream_projection_by_id finds a projection by its number. */
StreamProjection *
stream_projection_by_id(int32 projection_id, bool missing_ok)
{
	ScanKeyData key;
	StreamProjection *result;

	ScanKeyInit(&key, Anum_projections_projection_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(projection_id));
	result = find_projection(PROJECTIONS_PKEY, &key);
	if (result == NULL && !missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("projection with number %d does not exist", projection_id)));
	return result;
}

/* role_identity returns what no other role ever has: system identifier and number. */
static char *
role_identity(Oid role)
{
	return psprintf(UINT64_FORMAT "/%u", GetSystemIdentifier(), role);
}

/*
 * stream_projection_role returns the role that a projection runs as; invalid: it
 * has gone.  A role that was created later under the same name is another one,
 * and must not run what the owner wrote.  In another server, restored from a
 * dump, only the name can tell.
 */
Oid
stream_projection_role(const StreamProjection *projection)
{
	Oid			role = get_role_oid(NameStr(projection->owner), true);
	char	   *identity = role_identity(role);
	size_t		server_len = strchr(identity, '/') + 1 - identity;

	if (strncmp(projection->owner_identity, identity, server_len) == 0 &&
		strcmp(projection->owner_identity, identity) != 0)
		return InvalidOid;
	return role;
}

/* stream_projections lists all projections of the database, by name. */
List *
stream_projections(void)
{
	StreamCatalogScan scan;
	HeapTuple	tuple;
	List	   *result = NIL;

	stream_catalog_begin(&scan, PROJECTIONS_TABLE, PROJECTIONS_BY_NAME, 0, NULL, true);
	while (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
	{
		CHECK_FOR_INTERRUPTS();
		result = lappend(result, read_projection(&scan, tuple));
	}
	stream_catalog_end(&scan);
	return result;
}

/* stream_any_projection says whether there is one that is not paused. */
bool
stream_any_projection(void)
{
	StreamCatalogScan scan;
	HeapTuple	tuple;
	bool		result = false;

	stream_catalog_begin(&scan, PROJECTIONS_TABLE, PROJECTIONS_PKEY, 0, NULL, true);
	while (!result && HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
		result = !DatumGetBool(get(&scan, tuple, Anum_projections_paused));
	stream_catalog_end(&scan);
	return result;
}

static void
put_text(Datum *values, bool *nulls, int attnum, const char *text)
{
	nulls[attnum - 1] = text == NULL;
	values[attnum - 1] = text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

static void
put_name(Datum *values, bool *nulls, int attnum, NameData *name, bool isnull)
{
	nulls[attnum - 1] = isnull;
	values[attnum - 1] = NameGetDatum(name);
}

static void
put_key(Datum *values, bool *nulls, List *key)
{
	Datum	   *names = palloc_array(Datum, Max(list_length(key), 1));
	int			n = 0;
	ListCell   *cell;

	foreach(cell, key)
	{
		NameData   *name = palloc_object(NameData);

		namestrcpy(name, lfirst(cell));
		names[n++] = NameGetDatum(name);
	}
	nulls[Anum_projections_key - 1] = n == 0;
	if (n > 0)
		values[Anum_projections_key - 1] =
			PointerGetDatum(construct_array(names, n, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR));
}

/* stream_insert_projection adds a projection, and sets its number and time. */
void
stream_insert_projection(StreamProjection *projection)
{
	Datum		values[Natts_projections] = {0};
	bool		nulls[Natts_projections] = {false};

	projection->projection_id = (int32) nextval_internal(stream_internal_relation("group_id_seq", false), false);
	projection->created_at = GetCurrentTimestamp();
	values[Anum_projections_projection_id - 1] = Int32GetDatum(projection->projection_id);
	values[Anum_projections_stream_id - 1] = Int32GetDatum(projection->stream_id);
	put_name(values, nulls, Anum_projections_projection, &projection->name, false);
	put_name(values, nulls, Anum_projections_owner, &projection->owner, false);
	put_text(values, nulls, Anum_projections_owner_identity,
			 role_identity(get_role_oid(NameStr(projection->owner), false)));
	put_text(values, nulls, Anum_projections_search_path, projection->search_path);
	put_name(values, nulls, Anum_projections_target_schema, &projection->target_schema, !projection->has_target);
	put_name(values, nulls, Anum_projections_target_table, &projection->target_table, !projection->has_target);
	put_key(values, nulls, projection->key);
	put_text(values, nulls, Anum_projections_query, projection->query);
	if (projection->merge != NULL)
		values[Anum_projections_merge - 1] = DirectFunctionCall1(jsonb_in, CStringGetDatum(projection->merge));
	else
		nulls[Anum_projections_merge - 1] = true;
	put_text(values, nulls, Anum_projections_statement, projection->statement);
	put_text(values, nulls, Anum_projections_apply_sql, projection->apply_sql);
	values[Anum_projections_replay_safe - 1] = BoolGetDatum(projection->replay_safe);
	put_text(values, nulls, Anum_projections_on_error, stream_on_error_name(projection->on_error));
	values[Anum_projections_workers - 1] = Int32GetDatum(projection->workers);
	values[Anum_projections_batch_records - 1] = Int32GetDatum(projection->batch_records);
	values[Anum_projections_paused - 1] = BoolGetDatum(projection->paused);
	values[Anum_projections_created_at - 1] = TimestampTzGetDatum(projection->created_at);
	stream_catalog_insert(PROJECTIONS_TABLE, Natts_projections, values, nulls);
	stream_wake_workers();
}

/* set_column changes one column of a projection, for this transaction to see. */
static void
set_column(int32 projection_id, int attnum, Datum value)
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_projections_projection_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(projection_id));
	stream_catalog_update(PROJECTIONS_TABLE, PROJECTIONS_PKEY, 1, &key, attnum, value, false);
	CommandCounterIncrement();
	stream_wake_workers();
}

void
stream_set_projection_on_error(int32 projection_id, StreamOnError on_error)
{
	set_column(projection_id, Anum_projections_on_error, CStringGetTextDatum(stream_on_error_name(on_error)));
}

void
stream_set_projection_workers(int32 projection_id, int32 workers)
{
	set_column(projection_id, Anum_projections_workers, Int32GetDatum(workers));
}

void
stream_set_projection_batch_records(int32 projection_id, int32 batch_records)
{
	set_column(projection_id, Anum_projections_batch_records, Int32GetDatum(batch_records));
}

void
stream_set_projection_owner(int32 projection_id, const char *owner)
{
	NameData	name;

	namestrcpy(&name, owner);
	set_column(projection_id, Anum_projections_owner, NameGetDatum(&name));
	set_column(projection_id, Anum_projections_owner_identity,
			   CStringGetTextDatum(role_identity(get_role_oid(owner, false))));
}

/* stream_set_projection_table sets the target's name and what follows from its columns. */
void
stream_set_projection_table(const StreamProjection *projection)
{
	Datum		values[Natts_projections];
	bool		nulls[Natts_projections];

	put_key(values, nulls, projection->key);
	set_column(projection->projection_id, Anum_projections_target_schema, NameGetDatum(&projection->target_schema));
	set_column(projection->projection_id, Anum_projections_target_table, NameGetDatum(&projection->target_table));
	if (projection->key != NIL)
		set_column(projection->projection_id, Anum_projections_key, values[Anum_projections_key - 1]);
	set_column(projection->projection_id, Anum_projections_apply_sql, CStringGetTextDatum(projection->apply_sql));
	set_column(projection->projection_id, Anum_projections_replay_safe, BoolGetDatum(projection->replay_safe));
}

void
stream_set_projection_paused(int32 projection_id, bool paused)
{
	set_column(projection_id, Anum_projections_paused, BoolGetDatum(paused));
}

/*
 * stream_prevent_in_statement refuses a command that would take its projection, or
 * that one's offset, away under a statement that is applying it.
 */
void
stream_prevent_in_statement(const char *command)
{
	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot execute %s within security-restricted operation", command),
				 errdetail("A projection's statement is one.")));
}

/* stream_delete_projection removes a projection with its offsets and dead letters. */
void
stream_delete_projection(int32 projection_id)
{
	ScanKeyData key;

	stream_prevent_in_statement("drop_projection()");
	ScanKeyInit(&key, Anum_projections_projection_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(projection_id));
	stream_catalog_delete(PROJECTIONS_TABLE, PROJECTIONS_PKEY, 1, &key);
	stream_delete_offsets(projection_id);
	stream_delete_projection_errors(projection_id);
	stream_delete_projection_target(projection_id);
	stream_wake_workers();
}

/* projections_of lists the projections of a stream. */
static List *
projections_of(int32 stream_id)
{
	StreamCatalogScan scan;
	ScanKeyData key;
	HeapTuple	tuple;
	List	   *result = NIL;

	ScanKeyInit(&key, Anum_projections_stream_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(stream_id));
	stream_catalog_begin(&scan, PROJECTIONS_TABLE, PROJECTIONS_BY_STREAM, 1, &key, false);
	while (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
		result = lappend(result, read_projection(&scan, tuple));
	stream_catalog_end(&scan);
	return result;
}

/* stream_notice_projections tells which projections go with a stream. */
void
stream_notice_projections(const StreamInfo *info)
{
	ListCell   *cell;

	foreach(cell, projections_of(info->stream_id))
		ereport(NOTICE,
				(errmsg("drop of stream \"%s\" cascades to projection \"%s\"",
						NameStr(info->name), NameStr(((StreamProjection *) lfirst(cell))->name))));
}

/* stream_delete_projections removes all projections of a stream. */
void
stream_delete_projections(int32 stream_id)
{
	ListCell   *cell;

	foreach(cell, projections_of(stream_id))
		stream_delete_projection(((StreamProjection *) lfirst(cell))->projection_id);
}
