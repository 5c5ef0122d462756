/*-------------------------------------------------------------------------
 *
 * query.c
 *		SQL over the relation "batch", before it is first run.
 *
 * batch holds records, with their columns, as a transition table holds rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/analyze.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "parser/scansup.h"
#include "projection/query.h"
#include "projection/statement.h"
#include "tcop/tcopprot.h"
#include "utils/queryenvironment.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

static EphemeralNamedRelation
batch_relation(StreamValueType value_type)
{
	EphemeralNamedRelation batch = palloc0_object(EphemeralNamedRelationData);

	batch->md.name = STREAM_BATCH_RELATION;
	batch->md.tupdesc = stream_batch_desc(value_type);
	batch->md.enrtype = ENR_NAMED_TUPLESTORE;
	return batch;
}

/*
 * A position in an error within the given SQL is one in that text, not in the
 * command that brought it.
 */
static void
transpose_error(void *arg)
{
	const char *sql = (const char *) arg;
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery(sql);
	}
}

static void
begin_errors_of(ErrorContextCallback *callback, const char *sql)
{
	callback->callback = transpose_error;
	callback->arg = unconstify(char *, sql);
	callback->previous = error_context_stack;
	error_context_stack = callback;
}

static void
end_errors_of(ErrorContextCallback *callback)
{
	error_context_stack = callback->previous;
}

/*
 * stream_analyze_over_batch parses and analyses one statement, under the current
 * search path.  *text is set to it, without what follows it.  what names the
 * argument that it came in.
 */
Query *
stream_analyze_over_batch(const char *sql, const char *what, StreamValueType value_type, char **text)
{
	List	   *statements;
	RawStmt    *statement;
	QueryEnvironment *environment = create_queryEnv();
	Query	   *query;
	ErrorContextCallback callback;
	const char *start;
	const char *end;

	begin_errors_of(&callback, sql);
	statements = raw_parser(sql, RAW_PARSE_DEFAULT);
	if (list_length(statements) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("%s must be one SQL statement, not %d", what, list_length(statements))));
	statement = linitial_node(RawStmt, statements);
	register_ENR(environment, batch_relation(value_type));
	query = parse_analyze_fixedparams(statement, sql, NULL, 0, environment);
	end_errors_of(&callback);
	if (isQueryUsingTempRelation(query))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s uses a temporary table", what),
				 errdetail("Background workers do not see it.")));

	/* before 18, the statement begins with the space in front of it */
	start = sql + statement->stmt_location;
	end = statement->stmt_len > 0 ? start + statement->stmt_len : start + strlen(start);
	while (start < end && scanner_isspace(*start))
		start++;
	*text = pnstrdup(start, end - start);
	return query;
}

/*
 * stream_check_over_batch plans a statement and makes it ready to run over an
 * empty batch, which checks what else there is to check, such as privileges.
 */
void
stream_check_over_batch(const char *sql, StreamValueType value_type)
{
	QueryEnvironment *environment = create_queryEnv();
	EphemeralNamedRelation batch = batch_relation(value_type);
	RawStmt    *statement = linitial_node(RawStmt, raw_parser(sql, RAW_PARSE_DEFAULT));
	ErrorContextCallback callback;
	ListCell   *cell;
	List	   *queries;

	begin_errors_of(&callback, sql);
	batch->reldata = tuplestore_begin_heap(false, false, work_mem);
	register_ENR(environment, batch);
	queries = pg_analyze_and_rewrite_fixedparams(statement, sql, NULL, 0, environment);
	foreach(cell, queries)
	{
		Query	   *query = lfirst_node(Query, cell);
		PlannedStmt *plan;
		QueryDesc  *execution;

		/* a rule can bring a NOTIFY */
		if (query->commandType == CMD_UTILITY)
			continue;
		PushActiveSnapshot(GetTransactionSnapshot());
		plan = pg_plan_query(query, sql, CURSOR_OPT_PARALLEL_OK, NULL);
		execution = CreateQueryDesc(plan, sql, GetActiveSnapshot(), InvalidSnapshot, None_Receiver, NULL, environment, 0);
		ExecutorStart(execution, EXEC_FLAG_EXPLAIN_ONLY);
		ExecutorEnd(execution);
		FreeQueryDesc(execution);
		PopActiveSnapshot();
	}
	end_errors_of(&callback);
	tuplestore_end(batch->reldata);
}

/* reads_batch_walker finds a reference to batch. */
static bool
reads_batch_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_NAMEDTUPLESTORE;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_batch_walker, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_batch_walker, context);
}

/* stream_reads_batch says whether a query refers to batch. */
bool
stream_reads_batch(Query *query)
{
	return reads_batch_walker((Node *) query, NULL);
}
