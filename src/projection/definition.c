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

#include "access/xact.h"
#include "access/xlog.h"
#include "args.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "catalog/projections.h"
#include "catalog/tables.h"
#include "commands/extension.h"
#include "compat.h"
#include "consumer/target.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "projection/merge.h"
#include "projection/query.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"

/* Beside the extension itself, which has zero. */
#define STREAM_PROJECTIONS_LOCK	1

PG_FUNCTION_INFO_V1(stream_create_projection);

/* lock_projections lets one transaction at a time change projections. */
static void
lock_projections(void)
{
	stream_lock_extension();
	LockDatabaseObject(ExtensionRelationId, get_extension_oid(STREAM_EXTENSION, false),
					   STREAM_PROJECTIONS_LOCK, ExclusiveLock);
}

/*
 * effective_search_path returns the schemas that the search path comes to just
 * now: pg_catalog first, pg_temp last.
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

		if (schema != NULL && !isTempOrTempToastNamespace(lfirst_oid(cell)) && lfirst_oid(cell) != PG_CATALOG_NAMESPACE)
			appendStringInfo(&path, "%s, ", quote_identifier(schema));
	}
	appendStringInfoString(&path, "pg_temp");
	return path.data;
}

/* merge_of finds the merge of a column; a column without one is of the key. */
static StreamMerge
merge_of(Jsonb *merges, const char *column)
{
	JsonbValue	buffer;
	JsonbValue *value = getKeyJsonValueFromContainer(&merges->root, column, strlen(column), &buffer);
	StreamMerge merge = STREAM_MERGE_KEY;
	const char *by;

	if (value == NULL)
		return STREAM_MERGE_KEY;
	if (value->type != jbvString ||
		!stream_parse_merge(pnstrdup(value->val.string.val, value->val.string.len), &merge, &by))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("merge of column \"%s\" is not known", column)));
	return merge;
}

/* define_by_query fills in what follows from the query and merges. */
static void
define_by_query(StreamProjection *projection, Jsonb *merges, Query *query)
{
	int			n = 0;
	StreamMergeColumn *columns = palloc0_array(StreamMergeColumn, list_length(query->targetList));
	StringInfoData sql;
	ListCell   *cell;

	projection->replay_safe = true;
	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);
		StreamMergeColumn *column = &columns[n];

		if (entry->resjunk)
			continue;
		n++;
		column->merge = merge_of(merges, entry->resname);
		column->column = quote_identifier(entry->resname);
		column->input = psprintf("q.%s", column->column);
		column->by = -1;
		if (column->merge == STREAM_MERGE_KEY)
			projection->key = lappend(projection->key, entry->resname);
		else if (column->merge == STREAM_MERGE_MAX)
			column->aggregate = "pg_catalog.max";
		else if (column->merge == STREAM_MERGE_MIN)
			column->aggregate = "pg_catalog.min";
		else if (column->merge == STREAM_MERGE_SUM)
			column->aggregate = "pg_catalog.sum";
		else if (column->merge == STREAM_MERGE_COUNT)
			column->aggregate = "pg_catalog.count";
		else
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("merge of column \"%s\" is not supported yet", entry->resname)));
		column->operator = "OPERATOR(pg_catalog.+)";
		projection->replay_safe = projection->replay_safe && stream_merge_is_replay_safe(column->merge);
	}
	initStringInfo(&sql);
	stream_apply_statement(&sql, quote_qualified_identifier(NameStr(projection->target_schema),
															NameStr(projection->target_table)),
						   projection->query, columns, n);
	projection->apply_sql = sql.data;
}

/*
 * stream_create_projection: create_projection(projection, stream, target, query,
 * merge, statement, start, on_error, workers, batch_records).
 */
Datum
stream_create_projection(PG_FUNCTION_ARGS)
{
	StreamProjection projection = {0};
	char	   *name = stream_text_argument(fcinfo, 0, "projection");
	char	   *stream = stream_text_argument(fcinfo, 1, "stream");
	char	   *start = stream_text_argument(fcinfo, 6, "start");
	StreamOffsetTarget target;
	StreamValueType value_type;
	Query	   *query;
	Oid			table;
	int			nest_level;

	stream_require_shmem();
	PreventCommandIfReadOnly("create_projection()");
	PreventCommandDuringRecovery("create_projection()");
	stream_check_projection_name(name);
	stream_parse_start(start, "projection", &target);
	projection.on_error = stream_parse_on_error(stream_text_argument(fcinfo, 7, "on_error"));
	stream_need_argument(fcinfo, 8, "workers");
	projection.workers = PG_GETARG_INT32(8);
	projection.batch_records = PG_ARGISNULL(9) ? 0 : PG_GETARG_INT32(9);
	namestrcpy(&projection.name, name);
	namestrcpy(&projection.owner, GetUserNameFromId(GetUserId(), false));
	projection.search_path = effective_search_path();
	if (PG_ARGISNULL(3) == PG_ARGISNULL(5))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a projection has either a query or a statement")));

	lock_projections();
	table = stream_table(stream, AccessShareLock, ACL_SELECT, false);
	if (stream_projection(name, true) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("projection \"%s\" already exists", name)));
	value_type = stream_info(table)->value_type;
	projection.stream_id = stream_info(table)->stream_id;
	if (!PG_ARGISNULL(2))
	{
		Oid			relid = PG_GETARG_OID(2);

		LockRelationOid(relid, AccessShareLock);
		if (get_rel_name(relid) == NULL || !stream_relation_ownercheck(relid, GetUserId()))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("must be owner of the target")));
		projection.has_target = true;
		namestrcpy(&projection.target_schema, get_namespace_name(get_rel_namespace(relid)));
		namestrcpy(&projection.target_table, get_rel_name(relid));
	}

	nest_level = NewGUCNestLevel();
	(void) set_config_option("search_path", projection.search_path, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	if (!PG_ARGISNULL(5))
	{
		query = stream_analyze_over_batch(text_to_cstring(PG_GETARG_TEXT_PP(5)), "statement", value_type,
										  &projection.statement);
		if (query->commandType == CMD_UTILITY)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("statement must be SELECT, INSERT, UPDATE, DELETE or MERGE")));
		projection.apply_sql = projection.statement;
	}
	else
	{
		Jsonb	   *merges;

		stream_need_argument(fcinfo, 4, "merge");
		if (!projection.has_target)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("target must not be null")));
		merges = PG_GETARG_JSONB_P(4);
		projection.merge = JsonbToCString(NULL, &merges->root, VARSIZE(merges));
		query = stream_analyze_over_batch(text_to_cstring(PG_GETARG_TEXT_PP(3)), "query", value_type,
										  &projection.query);
		if (query->commandType != CMD_SELECT)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("query must be a SELECT")));
		define_by_query(&projection, merges, query);
	}
	stream_explain_over_batch(projection.apply_sql, value_type);
	AtEOXact_GUC(false, nest_level);

	stream_insert_projection(&projection);
	stream_start_offsets(table, projection.projection_id, &target);
	stream_invalidate(table);
	PG_RETURN_VOID();
}
