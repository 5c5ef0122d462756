/*-------------------------------------------------------------------------
 *
 * rank.c
 *		The functions behind the merges max, min, latest and earliest.
 *
 * All compare by the default btree ordering of a type, as ORDER BY does.
 *
 * Rows of latest and earliest are compared by a list of values: first the one
 * they go by, where latest prefers the greater and earliest the lesser; then, to
 * break ties, by the others, where both prefer the greater.  A row whose first
 * value is null does not count; among the others a null is less than anything.
 * So there is one order of all rows, and the first of them is the same whatever
 * order they come in, and however often.  The aggregates take the value that they
 * return for the last one of the list.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(stream_larger);
PG_FUNCTION_INFO_V1(stream_smaller);
PG_FUNCTION_INFO_V1(stream_latest_step);
PG_FUNCTION_INFO_V1(stream_earliest_step);
PG_FUNCTION_INFO_V1(stream_rank_final);
PG_FUNCTION_INFO_V1(stream_is_later);
PG_FUNCTION_INFO_V1(stream_is_earlier);

/* How one value is compared and copied. */
typedef struct RankType
{
	TypeCacheEntry *type;
	Oid			collation;
} RankType;

/* Kept in fn_extra. */
typedef struct RankTypes
{
	int			n;
	RankType	types[FLEXIBLE_ARRAY_MEMBER];
} RankTypes;

/* State of latest and earliest: the first row so far. */
typedef struct RankState
{
	Datum	   *values;			/* the list; the last one is the result */
	bool	   *nulls;
} RankState;

/* find_order looks up how values of a type are ordered. */
static TypeCacheEntry *
find_order(Oid type)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_CMP_PROC_FINFO);

	if (!OidIsValid(entry->cmp_proc_finfo.fn_oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("could not identify a comparison function for type %s", format_type_be(type))));
	return entry;
}

static int
compare(const RankType *by, Datum a, Datum b)
{
	return DatumGetInt32(FunctionCall2Coll(&by->type->cmp_proc_finfo, by->collation, a, b));
}

/*
 * prepare looks up the types of arguments from first on.  Each is compared by its
 * own collation: there is none that they have in common.
 */
static RankTypes *
prepare(FunctionCallInfo fcinfo, int first, List *args, int skipped)
{
	int			n = PG_NARGS() - first;
	RankTypes  *result = fcinfo->flinfo->fn_extra;

	if (result != NULL)
		return result;
	if (get_fn_expr_variadic(fcinfo->flinfo))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("VARIADIC arrays are not supported here")));
	result = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt,
									offsetof(RankTypes, types) + n * sizeof(RankType));
	result->n = n;
	for (int i = 0; i < n; i++)
	{
		int			arg = first + i;

		result->types[i].type = find_order(get_fn_expr_argtype(fcinfo->flinfo, arg));
		result->types[i].collation = PG_GET_COLLATION();
		if (arg - skipped < list_length(args))
		{
			Node	   *node = list_nth(args, arg - skipped);

			if (IsA(node, TargetEntry))
				node = (Node *) ((TargetEntry *) node)->expr;
			result->types[i].collation = exprCollation(node);
		}
	}
	fcinfo->flinfo->fn_extra = result;
	return result;
}

/*
 * comes_first says whether row a comes before row b.  Neither's first value is
 * null.
 */
static bool
comes_first(const RankType *types, int n, NullableDatum *a, const Datum *b, const bool *b_null, bool latest)
{
	int			order = compare(&types[0], a[0].value, b[0]);

	if (order != 0)
		return latest ? order > 0 : order < 0;
	for (int i = 1; i < n; i++)
	{
		if (a[i].isnull != b_null[i])
			return b_null[i];
		order = a[i].isnull ? 0 : compare(&types[i], a[i].value, b[i]);
		if (order != 0)
			return order > 0;
	}
	return false;
}

/* larger is max of two values. */
Datum
stream_larger(PG_FUNCTION_ARGS)
{
	RankTypes  *by = prepare(fcinfo, 1, NIL, 0);

	PG_RETURN_DATUM(compare(by->types, PG_GETARG_DATUM(1), PG_GETARG_DATUM(0)) > 0 ?
					PG_GETARG_DATUM(1) : PG_GETARG_DATUM(0));
}

/* smaller is min of two values. */
Datum
stream_smaller(PG_FUNCTION_ARGS)
{
	RankTypes  *by = prepare(fcinfo, 1, NIL, 0);

	PG_RETURN_DATUM(compare(by->types, PG_GETARG_DATUM(1), PG_GETARG_DATUM(0)) < 0 ?
					PG_GETARG_DATUM(1) : PG_GETARG_DATUM(0));
}

/* step takes up a row: (state, value, by, ties …). */
static Datum
step(FunctionCallInfo fcinfo, bool latest)
{
	MemoryContext context;
	MemoryContext old_context;
	RankTypes  *types = fcinfo->flinfo->fn_extra;
	RankState  *state = PG_ARGISNULL(0) ? NULL : (RankState *) PG_GETARG_POINTER(0);
	int			n = PG_NARGS() - 1;
	NullableDatum row[FUNC_MAX_ARGS];

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "aggregate function called in non-aggregate context");
	if (n < 2)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("a value to go by is missing")));
	if (types == NULL)
	{
		Aggref	   *aggref = AggGetAggref(fcinfo);
		RankType	value;

		types = prepare(fcinfo, 1, aggref ? aggref->args : NIL, 1);
		value = types->types[0];
		memmove(types->types, types->types + 1, (n - 1) * sizeof(RankType));
		types->types[n - 1] = value;
	}
	/* the arguments, the value last */
	memcpy(row, fcinfo->args + 2, (n - 1) * sizeof(NullableDatum));
	row[n - 1] = fcinfo->args[1];
	if (row[0].isnull || (state != NULL && !comes_first(types->types, n, row, state->values, state->nulls, latest)))
	{
		if (state == NULL)
			PG_RETURN_NULL();
		PG_RETURN_POINTER(state);
	}

	old_context = MemoryContextSwitchTo(context);
	if (state == NULL)
	{
		state = palloc_object(RankState);
		state->values = palloc0_array(Datum, n);
		state->nulls = palloc_array(bool, n);
		memset(state->nulls, true, n * sizeof(bool));
	}
	for (int i = 0; i < n; i++)
	{
		TypeCacheEntry *type = types->types[i].type;

		if (!state->nulls[i] && !type->typbyval)
			pfree(DatumGetPointer(state->values[i]));
		state->nulls[i] = row[i].isnull;
		if (!row[i].isnull)
			state->values[i] = datumCopy(row[i].value, type->typbyval, type->typlen);
	}
	MemoryContextSwitchTo(old_context);
	PG_RETURN_POINTER(state);
}

Datum
stream_latest_step(PG_FUNCTION_ARGS)
{
	return step(fcinfo, true);
}

Datum
stream_earliest_step(PG_FUNCTION_ARGS)
{
	return step(fcinfo, false);
}

Datum
stream_rank_final(PG_FUNCTION_ARGS)
{
	RankState  *state = PG_ARGISNULL(0) ? NULL : (RankState *) PG_GETARG_POINTER(0);
	int			last = PG_NARGS() - 2;

	if (state == NULL || state->nulls[last])
		PG_RETURN_NULL();
	PG_RETURN_DATUM(state->values[last]);
}

/* is_first compares two rows: the values of one, then those of the other. */
static bool
is_first(FunctionCallInfo fcinfo, bool latest)
{
	Node	   *call = fcinfo->flinfo->fn_expr;
	RankTypes  *types = prepare(fcinfo, 0, call && IsA(call, FuncExpr) ? ((FuncExpr *) call)->args : NIL, 0);
	int			n = PG_NARGS() / 2;
	Datum		values[FUNC_MAX_ARGS];
	bool		nulls[FUNC_MAX_ARGS];

	for (int i = 0; i < n; i++)
		if (types->types[i].type != types->types[n + i].type)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("cannot compare a row with one of other types")));
	if (n == 0 || PG_NARGS() % 2 != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("two rows to compare have as many values")));
	if (PG_ARGISNULL(0) || PG_ARGISNULL(n))
		return !PG_ARGISNULL(0);
	for (int i = 0; i < n; i++)
	{
		values[i] = PG_GETARG_DATUM(n + i);
		nulls[i] = PG_ARGISNULL(n + i);
	}
	return comes_first(types->types, n, fcinfo->args, values, nulls, latest);
}

Datum
stream_is_later(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(is_first(fcinfo, true));
}

Datum
stream_is_earlier(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(is_first(fcinfo, false));
}
