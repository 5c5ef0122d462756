/*-------------------------------------------------------------------------
 *
 * definition.c
 *		Projections as objects: created, altered, dropped, paused.
 *
 * A projection is applied as the role that created it, its owner, and its SQL is
 * parsed under the search path that it was created under.
 *
 * Locks, in order: the extension, the projections of the database (one
 * transaction at a time changes them), the stream's foreign table, the target,
 * the projection's partitions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "args.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "catalog/projection_targets.h"
#include "catalog/projections.h"
#include "catalog/tables.h"
#include "commands/extension.h"
#include "compat.h"
#include "consumer/offsets.h"
#include "consumer/target.h"
#include "fmgr.h"
#include "funcapi.h"
#include "log/forget.h"
#include "miscadmin.h"
#include "projection/query.h"
#include "projection/replay.h"
#include "projection/target.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "task.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "workers.h"

/* Beside the extension itself, which has zero. */
#define STREAM_PROJECTIONS_LOCK	1

PG_FUNCTION_INFO_V1(stream_create_projection);
PG_FUNCTION_INFO_V1(stream_alter_projection);
PG_FUNCTION_INFO_V1(stream_drop_projection);
PG_FUNCTION_INFO_V1(stream_pause_projection);
PG_FUNCTION_INFO_V1(stream_resume_projection);
PG_FUNCTION_INFO_V1(stream_projection_definition);

/* begin_change lets one transaction at a time change projections. */
static void
begin_change(const char *command)
{
	stream_require_shmem();
	PreventCommandIfReadOnly(command);
	PreventCommandDuringRecovery(command);
	stream_lock_extension();
	LockDatabaseObject(ExtensionRelationId, get_extension_oid(STREAM_EXTENSION, false),
					   STREAM_PROJECTIONS_LOCK, ExclusiveLock);
}

/*
 * effective_search_path returns the schemas that the search path comes to just
 * now: pg_catalog is before them, temporary objects are behind.
 */
static char *
effective_search_path(void)
{
	StringInfoData path;
	ListCell   *cell;

	initStringInfo(&path);
	foreach(cell, fetch_search_path(false))
	{
		char	   *schema = get_namespace_name(lfirst_oid(cell));

		if (schema != NULL && lfirst_oid(cell) != PG_CATALOG_NAMESPACE && !isAnyTempNamespace(lfirst_oid(cell)))
			appendStringInfo(&path, "%s, ", quote_identifier(schema));
	}
	appendStringInfoString(&path, "pg_temp");
	return path.data;
}

static int32
check_workers(int32 workers)
{
	if (workers < 1 || workers > STREAM_MAX_PROJECTION_WORKERS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("workers must be between 1 and %d", STREAM_MAX_PROJECTION_WORKERS)));
	return workers;
}

/* Zero asks for what null does at creation. */
static int32
check_batch_records(int32 records)
{
	if (records < 0 || records > STREAM_MAX_BATCH_RECORDS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("batch_records must be between 1 and %d, or 0 to let it grow by itself", STREAM_MAX_BATCH_RECORDS)));
	return records;
}

/* define_by_query fills in what follows from the query and the merges. */
static void
define_by_query(StreamProjection *projection, const char *sql, Jsonb *merges, Relation target, StreamValueType value_type)
{
	Query	   *query = stream_analyze_over_batch(sql, "query", value_type, &projection->query);
	StreamMergeColumn *columns;
	StringInfoData statement;
	int			n;

	if (query->commandType != CMD_SELECT || query->hasModifyingCTE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("query must be a SELECT that changes nothing"),
				 errhint("A projection can be a statement instead.")));
	if (!stream_reads_batch(query))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("query does not read \"%s\"", STREAM_BATCH_RELATION),
				 errhint("The records are the rows of \"%s\".", STREAM_BATCH_RELATION)));
	projection->merge = JsonbToCString(NULL, &merges->root, VARSIZE(merges));
	columns = stream_merge_columns(target, query, merges, &n, &projection->key);

	projection->replay_safe = stream_is_replay_safe(query, RelationGetRelid(target), columns);
	initStringInfo(&statement);
	stream_apply_statement(&statement, quote_qualified_identifier(NameStr(projection->target_schema),
																  NameStr(projection->target_table)),
						   projection->query, columns, n);
	projection->apply_sql = statement.data;
}

/* define_by_statement takes the statement as it is. */
static void
define_by_statement(StreamProjection *projection, const char *sql, StreamValueType value_type)
{
	Query	   *query = stream_analyze_over_batch(sql, "statement", value_type, &projection->statement);

	if (query->commandType == CMD_UTILITY)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("statement must be SELECT, INSERT, UPDATE, DELETE or MERGE")));
	projection->apply_sql = projection->statement;
	projection->replay_safe = false;
}

/*
 * define fills in what follows from a query with its merges or, when that is null,
 * from a statement, as the current user, under the projection's search path.
 */
static void
define(StreamProjection *projection, const char *query, Jsonb *merges, const char *statement,
	   Relation target, StreamValueType value_type)
{
	int			nest_level = NewGUCNestLevel();

	(void) set_config_option("search_path", projection->search_path, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	if (query != NULL)
		define_by_query(projection, query, merges, target, value_type);
	else
		define_by_statement(projection, statement, value_type);
	stream_check_over_batch(projection->apply_sql, value_type);
	AtEOXact_GUC(false, nest_level);
}

/* set_target_name has a projection name a table. */
static void
set_target_name(StreamProjection *projection, Relation target)
{
	projection->has_target = true;
	namestrcpy(&projection->target_schema, get_namespace_name(RelationGetNamespace(target)));
	namestrcpy(&projection->target_table, RelationGetRelationName(target));
}

/*
 * stream_create_projection: create_projection(projection, stream, target, query,
 * merge, statement, start, on_error, workers, batch_records).
 */
Datum
stream_create_projection(PG_FUNCTION_ARGS)
{
	char	   *name = stream_text_argument(fcinfo, 0, "projection");
	char	   *stream = stream_text_argument(fcinfo, 1, "stream");
	char	   *start = stream_text_argument(fcinfo, 6, "start");
	bool		has_query = !PG_ARGISNULL(3);
	StreamProjection projection = {0};
	StreamOffsetTarget target;
	StreamValueType value_type;
	Relation	rel = NULL;
	Oid			table;

	stream_require_shmem();
	stream_need_argument(fcinfo, 8, "workers");
	stream_check_projection_name(name);
	stream_parse_start(start, "projection", &target);
	projection.on_error = stream_parse_on_error(stream_text_argument(fcinfo, 7, "on_error"));
	projection.workers = check_workers(PG_GETARG_INT32(8));
	projection.batch_records = PG_ARGISNULL(9) ? 0 : check_batch_records(PG_GETARG_INT32(9));
	if (has_query != PG_ARGISNULL(5) || has_query == PG_ARGISNULL(4))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a projection has either a query and a merge, or a statement")));
	if (has_query)
		stream_need_argument(fcinfo, 2, "target");

	begin_change("create_projection()");
	table = stream_table(stream, AccessShareLock, ACL_SELECT, false);
	if (stream_projection(name, true) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("projection \"%s\" already exists", name)));
	value_type = stream_info(table)->value_type;
	projection.stream_id = stream_info(table)->stream_id;
	namestrcpy(&projection.name, name);
	namestrcpy(&projection.owner, GetUserNameFromId(GetUserId(), false));
	projection.search_path = effective_search_path();
	if (!PG_ARGISNULL(2))
	{
		rel = stream_open_target(PG_GETARG_OID(2));
		set_target_name(&projection, rel);
	}
	define(&projection, has_query ? text_to_cstring(PG_GETARG_TEXT_PP(3)) : NULL, has_query ? PG_GETARG_JSONB_P(4) : NULL,
		   has_query ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(5)), rel, value_type);

	stream_insert_projection(&projection);
	if (rel != NULL)
	{
		stream_set_projection_target(projection.projection_id, RelationGetRelid(rel));
		table_close(rel, NoLock);
	}
	stream_start_offsets(table, projection.projection_id, &target);
	stream_invalidate(table);
	PG_RETURN_VOID();
}

/* check_owner lets the owner of a projection, and who has the owner's privileges, change it. */
static void
check_owner(const StreamProjection *projection)
{
	Oid			owner = stream_projection_role(projection);

	if (OidIsValid(owner) ? !has_privs_of_role(GetUserId(), owner) : !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of projection \"%s\"", NameStr(projection->name))));
}

/* open_projection finds the projection that the first argument names, for a command on it. */
static StreamProjection *
open_projection(FunctionCallInfo fcinfo, const char *command, Oid *table)
{
	char	   *name = stream_text_argument(fcinfo, 0, "projection");
	StreamProjection *projection;

	begin_change(command);
	projection = stream_projection(name, false);
	check_owner(projection);
	*table = stream_table_of_id(projection->stream_id);
	if (!OidIsValid(*table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the stream of projection \"%s\" does not exist", name),
				 errhint("When a restore is under way, let it finish first.")));
	LockRelationOid(*table, AccessShareLock);

	/* it may have gone with its stream while we waited */
	return stream_projection(name, false);
}

/*
 * wait_for_batches waits for batches being applied, and keeps further ones from
 * beginning to the end of the transaction.
 */
static void
wait_for_batches(const StreamProjection *projection, Oid table)
{
	int32		partitions = stream_info(table)->partitions;

	for (int32 partition = 0; partition < partitions; partition++)
		stream_lock_offset(projection->projection_id, partition);
}

/* change_owner gives a projection to a role that may do what it does. */
static void
change_owner(const StreamProjection *projection, Oid table, const char *name)
{
	Oid			owner = get_role_oid(name, false);
	AclResult	result;

	stream_check_can_set_role(GetUserId(), owner);
	result = pg_class_aclcheck(table, owner, ACL_SELECT);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FOREIGN_TABLE, get_rel_name(table));
	if (projection->has_target)
	{
		Oid			schema = get_namespace_oid(NameStr(projection->target_schema), true);
		Oid			target = OidIsValid(schema) ? get_relname_relid(NameStr(projection->target_table), schema) : InvalidOid;

		/* where it is gone, nothing can be done in it either */
		if (OidIsValid(target) && !stream_relation_ownercheck(target, owner))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, NameStr(projection->target_table));
	}
	stream_set_projection_owner(projection->projection_id, name);
}

/*
 * change_target has a projection go on in a table of the caller's, and the future
 * owner's, as that table is.  The owner's SQL is analysed for its columns, and so
 * as the owner.
 */
static void
change_target(StreamProjection *projection, Oid table, Oid relid, Oid owner)
{
	StreamValueType value_type = stream_info(table)->value_type;
	Relation	rel = stream_open_target(relid);
	Jsonb	   *merges = NULL;
	Oid			save_user;
	int			save_context;

	if (!OidIsValid(owner))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("owner \"%s\" of projection \"%s\" does not exist",
						NameStr(projection->owner), NameStr(projection->name)),
				 errhint("Give it another owner in the same call.")));
	if (!stream_relation_ownercheck(relid, owner))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(rel));
	/* none is half in the one, half in the other */
	wait_for_batches(projection, table);

	if (projection->merge != NULL)
		merges = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(projection->merge)));
	set_target_name(projection, rel);
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(owner, save_context | SECURITY_RESTRICTED_OPERATION);
	define(projection, projection->query, merges, projection->statement, rel, value_type);
	SetUserIdAndSecContext(save_user, save_context);
	table_close(rel, NoLock);
	stream_set_projection_table(projection);
	stream_set_projection_target(projection->projection_id, relid);
}

/*
 * stream_alter_projection: alter_projection(projection, on_error, workers,
 * batch_records, owner, target); null keeps a value.
 */
Datum
stream_alter_projection(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamProjection *projection = open_projection(fcinfo, "alter_projection()", &table);
	int32		projection_id = projection->projection_id;
	char	   *owner = PG_ARGISNULL(4) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(4));

	if (!PG_ARGISNULL(1))
		stream_set_projection_on_error(projection_id, stream_parse_on_error(text_to_cstring(PG_GETARG_TEXT_PP(1))));
	if (!PG_ARGISNULL(2))
		stream_set_projection_workers(projection_id, check_workers(PG_GETARG_INT32(2)));
	if (!PG_ARGISNULL(3))
		stream_set_projection_batch_records(projection_id, check_batch_records(PG_GETARG_INT32(3)));
	if (!PG_ARGISNULL(5))
		change_target(projection, table, PG_GETARG_OID(5),
					  owner != NULL ? get_role_oid(owner, false) : stream_projection_role(projection));
	if (owner != NULL)
		change_owner(projection, table, owner);
	/* what has failed is tried at once, at worst once more as it was */
	stream_tasks_reset(projection_id, -1);
	stream_wake_workers();
	stream_invalidate(table);
	PG_RETURN_VOID();
}

/* stream_drop_projection: drop_projection(projection).  The target stays. */
Datum
stream_drop_projection(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamProjection *projection = open_projection(fcinfo, "drop_projection()", &table);

	wait_for_batches(projection, table);
	stream_delete_projection(projection->projection_id);
	stream_invalidate(table);
	PG_RETURN_VOID();
}

/* stream_pause_projection: pause_projection(projection). */
Datum
stream_pause_projection(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamProjection *projection = open_projection(fcinfo, "pause_projection()", &table);

	wait_for_batches(projection, table);
	stream_set_projection_paused(projection->projection_id, true);
	stream_invalidate(table);
	PG_RETURN_VOID();
}

/* stream_resume_projection: resume_projection(projection). */
Datum
stream_resume_projection(PG_FUNCTION_ARGS)
{
	Oid			table;
	StreamProjection *projection = open_projection(fcinfo, "resume_projection()", &table);

	stream_set_projection_paused(projection->projection_id, false);
	stream_invalidate(table);
	PG_RETURN_VOID();
}

static Datum
key_datum(List *key)
{
	Datum	   *names = palloc_array(Datum, list_length(key));
	int			n = 0;
	ListCell   *cell;

	foreach(cell, key)
		names[n++] = CStringGetTextDatum(lfirst(cell));
	return PointerGetDatum(construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/* stream_projection_definition is behind the view projection_definition. */
Datum
stream_projection_definition(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *cell;

	stream_require_shmem();
	InitMaterializedSRF(fcinfo, 0);
	foreach(cell, stream_projections())
	{
		StreamProjection *projection = lfirst(cell);
		Oid			table = stream_table_of_id(projection->stream_id);
		const char *texts[6] = {projection->query, projection->merge, projection->statement, projection->apply_sql,
		stream_on_error_name(projection->on_error), projection->search_path};
		const int	text_columns[6] = {4, 5, 6, 7, 9, 14};
		Datum		values[16];
		bool		nulls[16] = {false};
		NameData	stream;

		CHECK_FOR_INTERRUPTS();
		if (!OidIsValid(table) || !stream_may_see(table))
			continue;
		for (int i = 0; i < 6; i++)
		{
			nulls[text_columns[i]] = texts[i] == NULL;
			if (texts[i] != NULL)
				values[text_columns[i]] = text_columns[i] == 5 ?
					DirectFunctionCall1(jsonb_in, CStringGetDatum(texts[i])) : CStringGetTextDatum(texts[i]);
		}
		values[0] = NameGetDatum(&projection->name);
		namestrcpy(&stream, get_rel_name(table));
		values[1] = NameGetDatum(&stream);
		nulls[2] = !projection->has_target;
		if (projection->has_target)
			values[2] = CStringGetTextDatum(quote_qualified_identifier(NameStr(projection->target_schema),
																	  NameStr(projection->target_table)));
		nulls[3] = projection->key == NIL;
		if (projection->key != NIL)
			values[3] = key_datum(projection->key);
		values[8] = BoolGetDatum(projection->replay_safe);
		values[10] = Int32GetDatum(projection->workers);
		nulls[11] = projection->batch_records == 0;
		values[11] = Int32GetDatum(projection->batch_records);
		values[12] = BoolGetDatum(projection->paused);
		values[13] = NameGetDatum(&projection->owner);
		values[15] = TimestampTzGetDatum(projection->created_at);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
