/*-------------------------------------------------------------------------
 *
 * bounds.c
 *		Which partitions, offsets and times a scan has to read.
 *
 * Conditions are taken out of the query's clauses at planning, and their values
 * computed when a scan starts, so that they may be parameters, of a prepared
 * statement or of a nested loop.  The executor checks all clauses again, so a
 * bound may be wider than its condition, and never narrower.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "face/bounds.h"
#include "log/value.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pg_list.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

/* is_bounding_column says whether an expression is a column that can bound a scan. */
static bool
is_bounding_column(RelOptInfo *rel, Node *node, int *attnum)
{
	Var		   *var;

	if (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	if (node == NULL || !IsA(node, Var))
		return false;
	var = (Var *) node;
	if (var->varno != (int) rel->relid || var->varlevelsup != 0 ||
		(var->varattno != Anum_record_partition &&
		 var->varattno != Anum_record_offset &&
		 var->varattno != Anum_record_published_at))
		return false;
	*attnum = var->varattno;
	return true;
}

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/*
 * stream_match_condition says whether a clause bounds a scan of rel.  The other
 * side may have columns of other relations, for a parameterized path.
 */
bool
stream_match_condition(PlannerInfo *root, RelOptInfo *rel, Expr *clause, StreamFaceCondition *condition)
{
	Node	   *left;
	Node	   *right;
	Oid			operator;
	Oid			family;
	Oid			type;

	condition->is_array = false;
	if (IsA(clause, OpExpr) && list_length(((OpExpr *) clause)->args) == 2)
	{
		operator = ((OpExpr *) clause)->opno;
		left = (Node *) linitial(((OpExpr *) clause)->args);
		right = (Node *) lsecond(((OpExpr *) clause)->args);
		if (!is_bounding_column(rel, left, &condition->attnum))
		{
			Node	   *swap = left;

			left = right;
			right = swap;
			operator = get_commutator(operator);
			if (!OidIsValid(operator) || !is_bounding_column(rel, left, &condition->attnum))
				return false;
		}
	}
	else if (IsA(clause, ScalarArrayOpExpr) && ((ScalarArrayOpExpr *) clause)->useOr)
	{
		operator = ((ScalarArrayOpExpr *) clause)->opno;
		left = (Node *) linitial(((ScalarArrayOpExpr *) clause)->args);
		right = (Node *) lsecond(((ScalarArrayOpExpr *) clause)->args);
		condition->is_array = true;
		if (!is_bounding_column(rel, left, &condition->attnum))
			return false;
	}
	else
		return false;

	type = exprType(right);
	if (condition->is_array)
		type = get_element_type(type);
	if (condition->attnum == Anum_record_published_at)
	{
		if (type != TIMESTAMPTZOID && type != TIMESTAMPOID && type != DATEOID)
			return false;
		family = lookup_type_cache(TIMESTAMPTZOID, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	}
	else
	{
		if (!is_integer(type))
			return false;
		family = lookup_type_cache(INT8OID, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	}
	condition->strategy = get_op_opfamily_strategy(operator, family);
	if (condition->strategy == 0 ||
		(condition->is_array && condition->strategy != BTEqualStrategyNumber))
		return false;
	if (bms_is_member(rel->relid, pull_varnos(root, right)) || contain_volatile_functions(right) ||
		contain_subplans(right))
		return false;
	condition->value = (Expr *) right;
	return true;
}

/* stream_conditions_to_list describes conditions for a plan, without the values. */
List *
stream_conditions_to_list(List *conditions)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, conditions)
	{
		StreamFaceCondition *condition = lfirst(cell);
		Oid			type = exprType((Node *) condition->value);

		result = lappend(result, list_make4_int(condition->attnum, condition->strategy,
												condition->is_array, (int) type));
	}
	return result;
}

/* stream_condition_values returns the values, in the same order. */
List *
stream_condition_values(List *conditions)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, conditions)
		result = lappend(result, ((StreamFaceCondition *) lfirst(cell))->value);
	return result;
}

/*
 * bound_value turns a value into a number: a time in the session's time zone, as
 * the comparison operators do.  What no timestamp can be becomes infinite.
 */
static int64
bound_value(Datum value, Oid type)
{
	int			overflow;

	switch (type)
	{
		case TIMESTAMPTZOID:
			return DatumGetTimestampTz(value);
		case TIMESTAMPOID:
			return timestamp2timestamptz_opt_overflow(DatumGetTimestamp(value), &overflow);
		case DATEOID:
			return date2timestamptz_opt_overflow(DatumGetDateADT(value), &overflow);
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

/*
 * narrow_range applies "x <strategy> value" to first <= x <= last.  Nothing is
 * left when last < first.
 */
static void
narrow_range(int64 *first, int64 *last, int strategy, int64 value)
{
	switch (strategy)
	{
		case BTLessStrategyNumber:
			if (value == PG_INT64_MIN)
				*last = PG_INT64_MIN;
			else
				*last = Min(*last, value - 1);
			break;
		case BTLessEqualStrategyNumber:
			*last = Min(*last, value);
			break;
		case BTEqualStrategyNumber:
			*first = Max(*first, value);
			*last = Min(*last, value);
			break;
		case BTGreaterEqualStrategyNumber:
			*first = Max(*first, value);
			break;
		case BTGreaterStrategyNumber:
			if (value == PG_INT64_MAX)
				*last = PG_INT64_MIN;
			else
				*first = Max(*first, value + 1);
			break;
		default:
			elog(ERROR, "unexpected strategy %d", strategy);
	}
}

/* narrow_by_array applies "x = ANY (array)": to partitions one by one, else to the range. */
static void
narrow_by_array(StreamFaceBounds *bounds, int attnum, Oid array_type, Datum value,
				int64 *first, int64 *last, int32 partitions)
{
	Oid			type = get_element_type(array_type);
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	bool	   *listed = palloc0(partitions * sizeof(bool));
	int64		smallest = PG_INT64_MAX;
	int64		largest = PG_INT64_MIN;

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	deconstruct_array(DatumGetArrayTypeP(value), type, typlen, typbyval, typalign, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		int64		element;

		if (nulls[i])
			continue;
		element = bound_value(elements[i], type);
		smallest = Min(smallest, element);
		largest = Max(largest, element);
		if (element >= 0 && element < partitions)
			listed[element] = true;
	}
	*first = Max(*first, smallest);
	*last = Min(*last, largest);
	if (attnum != Anum_record_partition)
	{
		pfree(listed);
		return;
	}
	if (bounds->partitions != NULL)
		for (int32 p = 0; p < partitions; p++)
			listed[p] = listed[p] && bounds->partitions[p];
	bounds->partitions = listed;
}

/*
 * stream_compute_bounds evaluates the conditions, as stream_conditions_to_list
 * described them.  What it allocates is in the caller's context.
 */
void
stream_compute_bounds(StreamFaceBounds *bounds, List *described, List *value_states,
					  ExprContext *econtext, int32 partitions)
{
	int64		first_partition = 0;
	int64		last_partition = partitions - 1;
	ListCell   *description;
	ListCell   *state;

	memset(bounds, 0, sizeof(StreamFaceBounds));
	bounds->last_offset = PG_INT64_MAX;
	bounds->first_time = PG_INT64_MIN;
	bounds->last_time = PG_INT64_MAX;

	forboth(description, described, state, value_states)
	{
		List	   *condition = lfirst(description);
		int			attnum = linitial_int(condition);
		int			strategy = lsecond_int(condition);
		bool		is_array = lthird_int(condition) != 0;
		Oid			type = (Oid) lfourth_int(condition);
		int64	   *first;
		int64	   *last;
		Datum		value;
		bool		isnull;

		value = ExecEvalExpr((ExprState *) lfirst(state), econtext, &isnull);
		if (isnull)
		{
			/* comparison with null is not true of any row */
			bounds->empty = true;
			return;
		}
		switch (attnum)
		{
			case Anum_record_partition:
				first = &first_partition;
				last = &last_partition;
				break;
			case Anum_record_offset:
				first = &bounds->first_offset;
				last = &bounds->last_offset;
				break;
			default:
				first = &bounds->first_time;
				last = &bounds->last_time;
				break;
		}
		if (is_array)
			narrow_by_array(bounds, attnum, type, value, first, last, partitions);
		else
			narrow_range(first, last, strategy, bound_value(value, type));
	}
	/* all times are finite: behind -infinity and before infinity is no bound */
	if (bounds->first_time == PG_INT64_MIN + 1)
		bounds->first_time = PG_INT64_MIN;
	if (bounds->last_time == PG_INT64_MAX - 1)
		bounds->last_time = PG_INT64_MAX;
	bounds->empty = first_partition > last_partition ||
		bounds->first_offset > bounds->last_offset ||
		bounds->first_time > bounds->last_time ||
		bounds->last_time == PG_INT64_MIN || bounds->first_time == PG_INT64_MAX;
	if (!bounds->empty)
	{
		bounds->first_partition = (int) first_partition;
		bounds->last_partition = (int) last_partition;
	}
}

/* stream_in_partitions says whether a scan within the bounds reads a partition. */
bool
stream_in_partitions(const StreamFaceBounds *bounds, int32 partition)
{
	return !bounds->empty &&
		partition >= bounds->first_partition && partition <= bounds->last_partition &&
		(bounds->partitions == NULL || bounds->partitions[partition]);
}
