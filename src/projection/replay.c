/*-------------------------------------------------------------------------
 *
 * replay.c
 *		Whether a projection's records could be applied again.
 *
 * They could when the merges allow it, and the query makes the same rows of a
 * record whenever it is run, and whichever other records are in the batch.  The
 * first rules out what reads other tables or the clock; the second whatever
 * brings two records of a batch together, but for aggregates that go on as the
 * column's merge does.  This goes by the form of the query: what is not known to
 * be safe is not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog/tables.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "projection/replay.h"
#include "rewrite/rewriteManip.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* Aggregates that, applied to their own results, give that of all values. */
static const struct
{
	StreamMerge merge;
	const char *built_in;
	const char *ours;			/* null: none */
}			merging_aggregates[] = {
	{STREAM_MERGE_MAX, "max", "max_of"},
	{STREAM_MERGE_MIN, "min", "min_of"},
	{STREAM_MERGE_AND, "bool_and", NULL},
	{STREAM_MERGE_AND, "every", NULL},
	{STREAM_MERGE_OR, "bool_or", NULL},
	{STREAM_MERGE_BIT_AND, "bit_and", NULL},
	{STREAM_MERGE_BIT_OR, "bit_or", NULL},
	{STREAM_MERGE_UNION, "range_agg", "array_union_agg"}
};

/* is_aggregate says whether a node is the aggregate of a merge; by its name, which is ours or built in. */
static bool
is_aggregate(Node *node, const char *built_in, const char *ours)
{
	Oid			function = IsA(node, Aggref) ? ((Aggref *) node)->aggfnoid : InvalidOid;
	Oid			schema;

	if (!OidIsValid(function))
		return false;
	schema = get_func_namespace(function);
	if (schema == PG_CATALOG_NAMESPACE)
		return built_in != NULL && strcmp(get_func_name(function), built_in) == 0;
	return ours != NULL && strcmp(get_namespace_name(schema), STREAM_SCHEMA) == 0 &&
		strcmp(get_func_name(function), ours) == 0;
}

static bool
is_aggregate_of(Node *node, StreamMerge merge)
{
	for (size_t i = 0; i < lengthof(merging_aggregates); i++)
		if (merging_aggregates[i].merge == merge &&
			is_aggregate(node, merging_aggregates[i].built_in, merging_aggregates[i].ours))
			return true;
	return false;
}

/*
 * keeps_order says whether a value, put into a column of the target, is compared
 * there as in the query.
 */
static bool
keeps_order(Node *value, Oid target, const char *column, bool exactly)
{
	Oid			type = getBaseType(exprType(value));
	Oid			column_type;
	int32		typmod;
	Oid			collation;

	get_atttypetypmodcoll(target, get_attnum(target, column), &column_type, &typmod, &collation);
	if (collation != exprCollation(value))
		return false;
	if (type == getBaseType(column_type))
		return !exactly || typmod == exprTypmod(value);
	return !exactly && TypeCategory(type) == TYPCATEGORY_NUMERIC && TypeCategory(column_type) == TYPCATEGORY_NUMERIC;
}

/*
 * goes_on_as_first says whether an aggregate goes on as latest or earliest: it must
 * break ties as the merge does, and go by what the deciding column has.
 */
static bool
goes_on_as_first(Aggref *aggregate, Query *query, Oid target, const StreamMergeColumn *columns, int of)
{
	bool		latest = columns[of].merge == STREAM_MERGE_LATEST;
	TargetEntry *by = NULL;
	ListCell   *cell;
	int			i = 0;

	if (!is_aggregate((Node *) aggregate, NULL, latest ? "latest" : "earliest") || list_length(aggregate->args) != 2)
		return false;
	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (entry->resjunk)
			continue;
		if (i == columns[of].by)
			by = entry;
		else if (i != of && columns[i].by == columns[of].by)
			return false;
		i++;
	}
	return by != NULL && is_aggregate_of((Node *) by->expr, latest ? STREAM_MERGE_MAX : STREAM_MERGE_MIN) &&
		equal(linitial_node(TargetEntry, ((Aggref *) by->expr)->args)->expr, lsecond_node(TargetEntry, aggregate->args)->expr) &&
		equal(((Aggref *) by->expr)->aggfilter, aggregate->aggfilter) &&
		keeps_order((Node *) by->expr, target, by->resname, true);
}

/* aggregates_go_on says whether each aggregate is the whole of a column, and goes on as its merge does. */
static bool
aggregates_go_on(Query *query, Oid target, const StreamMergeColumn *columns)
{
	ListCell   *cell;
	int			i = 0;

	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);
		Node	   *value = (Node *) entry->expr;
		int			of;

		if (entry->resjunk)
			continue;
		of = i++;
		if (!contain_aggs_of_level(value, 0))
			continue;
		if (!IsA(value, Aggref) || !keeps_order(value, target, entry->resname, false) ||
			!(columns[of].by >= 0 ? goes_on_as_first((Aggref *) value, query, target, columns, of) :
			  is_aggregate_of(value, columns[of].merge)))
			return false;
	}
	return true;
}

/* is_changing says whether a function may return something else at another time; settings aside. */
static bool
is_changing(Oid function, void *context)
{
	char		volatility = func_volatile(function);

	switch (function)
	{
		case F_NOW:
		case F_TRANSACTION_TIMESTAMP:
		case F_STATEMENT_TIMESTAMP:
		case F_AGE_TIMESTAMPTZ:
		case F_AGE_TIMESTAMP:
			return true;
	}
	/* what is not built in may read tables */
	return volatility == PROVOLATILE_VOLATILE ||
		(volatility == PROVOLATILE_STABLE && get_func_namespace(function) != PG_CATALOG_NAMESPACE);
}

/*
 * reads_batch_walker finds what may read the batch; a CTE may, so that one that
 * does is not joined with itself.
 */
static bool
reads_batch_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_NAMEDTUPLESTORE || ((RangeTblEntry *) node)->rtekind == RTE_CTE;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_batch_walker, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_batch_walker, context);
}

static bool
reads_batch(RangeTblEntry *entry)
{
	return reads_batch_walker((Node *) entry, NULL) ||
		(entry->rtekind == RTE_SUBQUERY && reads_batch_walker((Node *) entry->subquery, NULL));
}

/* reads_batch_below says whether something in a part of a join tree reads the batch. */
static bool
reads_batch_below(Node *node, List *rtable)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblRef))
		return reads_batch(rt_fetch(((RangeTblRef *) node)->rtindex, rtable));
	if (IsA(node, JoinExpr))
		return reads_batch_below(((JoinExpr *) node)->larg, rtable) || reads_batch_below(((JoinExpr *) node)->rarg, rtable);
	return false;
}

/*
 * joins_records_walker finds what, in one level of a query, makes a row of one
 * record depend on others; the context is the Query.
 */
static bool
joins_records_walker(Node *node, void *context)
{
	List	   *rtable = ((Query *) context)->rtable;

	if (node == NULL || IsA(node, Query))
		return false;
	if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		/* the side that gets a row of nulls when there is no match */
		if ((join->jointype != JOIN_INNER && join->jointype != JOIN_RIGHT && reads_batch_below(join->rarg, rtable)) ||
			(join->jointype != JOIN_INNER && join->jointype != JOIN_LEFT && reads_batch_below(join->larg, rtable)))
			return true;
	}
	if (IsA(node, SubLink) && reads_batch_walker(((SubLink *) node)->subselect, NULL))
		return true;
	return expression_tree_walker(node, joins_records_walker, context);
}

/* brings_records_together says whether one level of a query makes rows of several records, aggregates aside. */
static bool
brings_records_together(Query *query)
{
	ListCell   *cell;
	int			readers = 0;

	if (query->hasWindowFuncs || query->limitCount != NULL || query->limitOffset != NULL ||
		query->havingQual != NULL || query->hasDistinctOn || query->hasRecursive)
		return true;
	if (query->setOperations != NULL)
		return false;			/* each part has its own rows; see unsafe_walker */
	foreach(cell, query->rtable)
		readers += reads_batch(lfirst_node(RangeTblEntry, cell));
	return readers > 1 || query_tree_walker(query, joins_records_walker, query, QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES);
}

/* unsafe_walker finds what makes a query's rows depend on more than one record; the context is the query itself. */
static bool
unsafe_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SQLValueFunction) || check_functions_in_node(node, is_changing, NULL))
		return true;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_RELATION;
	if (IsA(node, SetOperationStmt) && ((SetOperationStmt *) node)->op != SETOP_UNION)
		return true;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		/* what does not read the batch has one record before it at most */
		return (reads_batch_walker(node, NULL) && ((query->hasAggs && query != context) || brings_records_together(query))) ||
			query_tree_walker(query, unsafe_walker, context, QTW_EXAMINE_RTES_BEFORE);
	}
	return expression_tree_walker(node, unsafe_walker, context);
}

/*
 * stream_is_replay_safe says whether a query and the merges of its columns could
 * be applied again, to the same records in other batches.
 */
bool
stream_is_replay_safe(Query *query, Oid target, const StreamMergeColumn *columns)
{
	ListCell   *cell;
	int			i = 0;

	foreach(cell, query->targetList)
		if (!lfirst_node(TargetEntry, cell)->resjunk && !stream_merge_is_replay_safe(columns[i++].merge))
			return false;
	return !unsafe_walker((Node *) query, query) && aggregates_go_on(query, target, columns);
}
