/*-------------------------------------------------------------------------
 *
 * union.c
 *		Arrays as sets: the functions behind the merge union.
 *
 * A set is a one-dimensional array of its elements in their btree order, each
 * once.  Any array is understood as a set; null elements do not count.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(stream_array_union);
PG_FUNCTION_INFO_V1(stream_array_union_step);
PG_FUNCTION_INFO_V1(stream_array_union_final);

/* What the elements are; kept in fn_extra. */
typedef struct ElementType
{
	TypeCacheEntry *type;
	Oid			collation;
} ElementType;

typedef struct Elements
{
	Datum	   *values;
	int			n;
	int			nset;			/* so many of them are a set, the others as they came */
	int			allocated;
} Elements;

static ElementType *
element_type(FunctionCallInfo fcinfo, int arg)
{
	ElementType *result = fcinfo->flinfo->fn_extra;
	Oid			array_type;
	Oid			type;

	if (result != NULL)
		return result;
	array_type = get_fn_expr_argtype(fcinfo->flinfo, arg);
	type = get_base_element_type(array_type);
	if (!OidIsValid(type))
		elog(ERROR, "type %s is not an array type", format_type_be(array_type));
	result = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(ElementType));
	result->type = lookup_type_cache(type, TYPECACHE_CMP_PROC_FINFO);
	result->collation = PG_GET_COLLATION();
	if (!OidIsValid(result->type->cmp_proc_finfo.fn_oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("could not identify a comparison function for type %s", format_type_be(type))));
	fcinfo->flinfo->fn_extra = result;
	return result;
}

static int
compare(Datum a, Datum b, const ElementType *element)
{
	return DatumGetInt32(FunctionCall2Coll(&element->type->cmp_proc_finfo, element->collation, a, b));
}

static int
compare_pointers(const void *a, const void *b, void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return compare(*(const Datum *) a, *(const Datum *) b, arg);
}

/*
 * make_set sorts the elements and removes those that are there twice, and from
 * memory when they are copies.
 */
static void
make_set(Elements *elements, const ElementType *element, bool copies)
{
	int			n = 0;
	bool		is_set = true;

	/* what the merge has written is a set already */
	for (int i = 1; is_set && i < elements->n; i++)
		is_set = compare(elements->values[i - 1], elements->values[i], element) < 0;
	if (!is_set)
	{
		qsort_arg(elements->values, elements->n, sizeof(Datum), compare_pointers, unconstify(ElementType *, element));
		for (int i = 0; i < elements->n; i++)
		{
			if (n == 0 || compare(elements->values[n - 1], elements->values[i], element) != 0)
				elements->values[n++] = elements->values[i];
			else if (copies && !element->type->typbyval)
				pfree(DatumGetPointer(elements->values[i]));
		}
		elements->n = n;
	}
	elements->nset = elements->n;
}

/*
 * add_array appends an array's elements: as they are, or as copies in a context
 * where a set is being gathered.
 */
static void
add_array(Elements *elements, ArrayType *array, const ElementType *element, MemoryContext context)
{
	Datum	   *values;
	bool	   *nulls;
	int			n;

	deconstruct_array(array, element->type->type_id, element->type->typlen, element->type->typbyval,
					  element->type->typalign, &values, &nulls, &n);
	/* before it grows: as many may be there twice */
	if (elements->n + n > elements->allocated && elements->n > 2 * elements->nset)
		make_set(elements, element, context != NULL);
	if (elements->n + n > elements->allocated)
	{
		Size		size;

		elements->allocated = Max(elements->n + n, 2 * elements->allocated);
		size = elements->allocated * sizeof(Datum);
		elements->values = elements->values != NULL ? repalloc_huge(elements->values, size) :
			MemoryContextAllocHuge(context ? context : CurrentMemoryContext, size);
	}
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			continue;
		if (context != NULL)
		{
			MemoryContext old_context = MemoryContextSwitchTo(context);

			values[i] = datumCopy(values[i], element->type->typbyval, element->type->typlen);
			MemoryContextSwitchTo(old_context);
		}
		elements->values[elements->n++] = values[i];
	}
	pfree(values);
	pfree(nulls);
}

static Datum
set_datum(const Elements *elements, const ElementType *element)
{
	return PointerGetDatum(construct_array(elements->values, elements->n, element->type->type_id,
										   element->type->typlen, element->type->typbyval,
										   element->type->typalign));
}

/* array_union(a, b): the set of the elements of both; a null array does not count. */
Datum
stream_array_union(PG_FUNCTION_ARGS)
{
	ElementType *element = element_type(fcinfo, 0);
	Elements	a = {0};
	Elements	b = {0};
	Elements	both = {0};
	int			i = 0;
	int			j = 0;

	if (PG_ARGISNULL(0) && PG_ARGISNULL(1))
		PG_RETURN_NULL();
	if (!PG_ARGISNULL(0))
		add_array(&a, PG_GETARG_ARRAYTYPE_P(0), element, NULL);
	if (!PG_ARGISNULL(1))
		add_array(&b, PG_GETARG_ARRAYTYPE_P(1), element, NULL);
	make_set(&a, element, false);
	make_set(&b, element, false);
	both.values = palloc_array(Datum, Max(a.n + b.n, 1));
	while (i < a.n || j < b.n)
	{
		int			order = i == a.n ? 1 : j == b.n ? -1 : compare(a.values[i], b.values[j], element);

		CHECK_FOR_INTERRUPTS();
		both.values[both.n++] = order <= 0 ? a.values[i] : b.values[j];
		i += order <= 0;
		j += order >= 0;
	}
	return set_datum(&both, element);
}

/* array_union_agg gathers: (state, array). */
Datum
stream_array_union_step(PG_FUNCTION_ARGS)
{
	MemoryContext context;
	Elements   *state = PG_ARGISNULL(0) ? NULL : (Elements *) PG_GETARG_POINTER(0);

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "aggregate function called in non-aggregate context");
	if (!PG_ARGISNULL(1))
	{
		if (state == NULL)
			state = MemoryContextAllocZero(context, sizeof(Elements));
		add_array(state, PG_GETARG_ARRAYTYPE_P(1), element_type(fcinfo, 1), context);
	}
	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(state);
}

Datum
stream_array_union_final(PG_FUNCTION_ARGS)
{
	Elements   *state = PG_ARGISNULL(0) ? NULL : (Elements *) PG_GETARG_POINTER(0);
	ElementType *element;

	if (state == NULL)
		PG_RETURN_NULL();
	/* this leaves the same set: the state may be taken up again, in a window */
	element = element_type(fcinfo, 1);
	make_set(state, element, true);
	return set_datum(state, element);
}
