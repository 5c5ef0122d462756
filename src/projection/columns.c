/*-------------------------------------------------------------------------
 *
 * columns.c
 *		What the columns of a query and their merges come to in a target.
 *
 * A value is cast to the type of its column first, as an assignment would, and
 * then merged in that type, so that the order of values and the rounding of a
 * type do not depend on which records share a batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "parser/parse_func.h"
#include "parser/parse_oper.h"
#include "projection/target.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* A column of the query and the target. */
typedef struct Column
{
	const char *name;
	const char *merge_text;		/* null: of the key */
	const char *by;				/* raw name; null: none */
	Expr	   *expression;		/* of the query */
	Oid			query_type;
	Form_pg_attribute attribute;	/* of the target */
	Oid			base_type;		/* of the target's, which may be a domain */
} Column;

/* merge_text returns the merge of a column as given, or null. */
static char *
merge_text(Jsonb *merges, const char *column)
{
	JsonbValue	buffer;
	JsonbValue *value = getKeyJsonValueFromContainer(&merges->root, column, strlen(column), &buffer);

	if (value == NULL)
		return NULL;
	if (value->type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("merge of column \"%s\" is not a string", column)));
	return pnstrdup(value->val.string.val, value->val.string.len);
}

/* check_merges refuses merges of columns that the query does not produce. */
static void
check_merges(Jsonb *merges, Column *columns, int n)
{
	JsonbIterator *iterator;
	JsonbValue	value;
	JsonbIteratorToken token;

	if (!JB_ROOT_IS_OBJECT(merges))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("merge must be an object"),
				 errhint("For example: {\"last_seq\": \"max\"}.")));
	iterator = JsonbIteratorInit(&merges->root);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		bool		found = false;
		char	   *name;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(value.val.string.val, value.val.string.len);
		for (int i = 0; i < n && !found; i++)
			found = strcmp(columns[i].name, name) == 0;
		if (!found)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("query does not produce column \"%s\", which has a merge", name)));
	}
}

/* find_attribute finds a column of the target that may be written. */
static Form_pg_attribute
find_attribute(Relation target, const char *name)
{
	TupleDesc	desc = RelationGetDescr(target);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (attribute->attisdropped || strcmp(NameStr(attribute->attname), name) != 0)
			continue;
		if (attribute->attgenerated != '\0' || attribute->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
			ereport(ERROR,
					(errcode(ERRCODE_GENERATED_ALWAYS),
					 errmsg("column \"%s\" of target \"%s\" is generated", name, RelationGetRelationName(target))));
		return attribute;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("column \"%s\" of the query does not exist in target \"%s\"", name, RelationGetRelationName(target)),
			 errhint("Name the query's columns as the target's, by AS.")));
	return NULL;				/* keep compiler quiet */
}

/* type_sql writes a type, with the length or precision that a cast may apply. */
static char *
type_sql(Oid type, int32 typmod)
{
	Oid			element = get_base_element_type(type);

	/* a cast would cut off what an assignment refuses */
	switch (OidIsValid(element) ? element : type)
	{
		case VARCHAROID:
		case BPCHAROID:
		case BITOID:
		case VARBITOID:
			typmod = -1;
	}
	return format_type_extended(type, typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

static char *
collation_sql(Oid collation)
{
	HeapTuple	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	Form_pg_collation form;
	char	   *result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	form = (Form_pg_collation) GETSTRUCT(tuple);
	result = quote_qualified_identifier(get_namespace_name(form->collnamespace), NameStr(form->collname));
	ReleaseSysCache(tuple);
	return result;
}

static char *
operator_sql(Oid operator)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(operator));
	Form_pg_operator form;
	char	   *result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", operator);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	result = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)), NameStr(form->oprname));
	ReleaseSysCache(tuple);
	return result;
}

static char *
function_sql(Oid function)
{
	return quote_qualified_identifier(get_namespace_name(get_func_namespace(function)), get_func_name(function));
}

static bool
is_assignable(Oid from, Oid to)
{
	return can_coerce_type(1, &from, &to, COERCION_ASSIGNMENT);
}

/*
 * input_sql writes the query's value, or an expression over it of another type,
 * as the target's column takes it.
 */
static char *
input_sql(const Column *column, const char *expression, Oid type)
{
	Form_pg_attribute attribute = column->attribute;
	Oid			collation = exprCollation((Node *) column->expression);
	char	   *result = pstrdup(expression);

	if (!is_assignable(type, attribute->atttypid))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s, but the query's is of type %s", column->name,
						format_type_be(attribute->atttypid), format_type_be(type)),
				 errhint("Cast it in the query.")));
	if (type != attribute->atttypid || attribute->atttypmod != -1)
	{
		const char *cast = type_sql(attribute->atttypid, attribute->atttypmod);

		if (type != attribute->atttypid || strcmp(cast, type_sql(attribute->atttypid, -1)) != 0)
			result = psprintf("%s::%s", result, cast);
	}
	if (OidIsValid(attribute->attcollation) && collation != attribute->attcollation)
		result = psprintf("(%s COLLATE %s)", result, collation_sql(attribute->attcollation));
	return result;
}

static void
refuse(const Column *column, const char *needed)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_FUNCTION),
			 errmsg("merge \"%s\" needs %s, and column \"%s\" is of type %s", column->merge_text, needed,
					column->name, format_type_be(column->attribute->atttypid))));
}

/* aggregate_sql finds an aggregate of exactly the column's type; null: none. */
static const char *
aggregate_sql(const Column *column, List *name)
{
	Oid			function = LookupFuncName(name, 1, &column->base_type, true);

	if (!OidIsValid(function) || get_func_prokind(function) != PROKIND_AGGREGATE ||
		!is_assignable(get_func_rettype(function), column->attribute->atttypid))
		return NULL;
	return function_sql(function);
}

/* binary_operator_sql finds an operator on two values of the column's type; null: none. */
static const char *
binary_operator_sql(const Column *column, List *name)
{
	Oid			operator = compatible_oper_opid(name, column->base_type, column->base_type, true);

	if (!OidIsValid(operator) || !is_assignable(get_op_rettype(operator), column->attribute->atttypid))
		return NULL;
	return operator_sql(operator);
}

static List *
pg_catalog_name(const char *name)
{
	return list_make2(makeString("pg_catalog"), makeString(pstrdup(name)));
}

static bool
has_ordering(Oid type)
{
	return OidIsValid(lookup_type_cache(type, TYPECACHE_CMP_PROC)->cmp_proc);
}

/* set_ordered fills in max and min. */
static void
set_ordered(StreamMergeColumn *result, const Column *column)
{
	bool		max = result->merge == STREAM_MERGE_MAX;

	if (!has_ordering(column->base_type))
		refuse(column, "a type with an ordering");
	result->aggregate = aggregate_sql(column, pg_catalog_name(max ? "max" : "min"));
	if (result->aggregate == NULL)
		result->aggregate = max ? "stream.max_of" : "stream.min_of";
}

/* set_bits fills in bit_and and bit_or. */
static void
set_bits(StreamMergeColumn *result, const Column *column)
{
	bool		and = result->merge == STREAM_MERGE_BIT_AND;

	result->aggregate = aggregate_sql(column, pg_catalog_name(and ? "bit_and" : "bit_or"));
	result->operator = binary_operator_sql(column, pg_catalog_name(and ? "&" : "|"));
	if (result->aggregate == NULL || result->operator == NULL)
		refuse(column, "an integer or bit type");
}

/* set_sum fills in sum. */
static void
set_sum(StreamMergeColumn *result, const Column *column)
{
	result->aggregate = aggregate_sql(column, list_make1(makeString("sum")));
	result->operator = binary_operator_sql(column, list_make1(makeString("+")));
	if (result->aggregate == NULL || result->operator == NULL)
		refuse(column, "a type with an aggregate sum and an operator +");
}

/* aggregate_of returns the aggregate whose result, but for casts, is a column; null: it is none. */
static Aggref *
aggregate_of(Node *node)
{
	for (;;)
	{
		if (IsA(node, RelabelType))
			node = (Node *) ((RelabelType *) node)->arg;
		else if (IsA(node, CoerceViaIO))
			node = (Node *) ((CoerceViaIO *) node)->arg;
		else if (IsA(node, FuncExpr) && ((FuncExpr *) node)->args != NIL &&
				 (((FuncExpr *) node)->funcformat == COERCE_EXPLICIT_CAST ||
				  ((FuncExpr *) node)->funcformat == COERCE_IMPLICIT_CAST))
			node = linitial(((FuncExpr *) node)->args);
		else
			return IsA(node, Aggref) ? (Aggref *) node : NULL;
	}
}

/*
 * check_aggregate refuses what depends on how many records of a key happen to
 * share a batch: a count or sum of the query that is not added up, and a count of
 * the query's groups.
 */
static void
check_aggregate(StreamMerge merge, const Column *column)
{
	Aggref	   *aggregate = aggregate_of((Node *) column->expression);
	const char *name;

	if (aggregate == NULL || merge == STREAM_MERGE_KEY)
		return;
	if (merge == STREAM_MERGE_COUNT)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("merge \"count\" counts rows of the query, and column \"%s\" is an aggregate already", column->name),
				 errhint("Use merge \"sum\" to add up counts, or leave out the aggregate.")));
	if (get_func_namespace(aggregate->aggfnoid) != PG_CATALOG_NAMESPACE)
		return;
	name = get_func_name(aggregate->aggfnoid);
	if (merge != STREAM_MERGE_SUM && (strcmp(name, "count") == 0 || strcmp(name, "sum") == 0))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("merge \"%s\" has no meaning for column \"%s\", which is a %s over one batch",
						column->merge_text, column->name, name),
				 errhint("Use merge \"sum\".")));
	if (strcmp(name, "avg") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("merge \"%s\" has no meaning for column \"%s\", which is an average over one batch",
						column->merge_text, column->name),
				 errhint("Keep the sum and the count, each with merge \"sum\".")));
}

/* set_count fills in count, which takes values of any type. */
static void
set_count(StreamMergeColumn *result, const Column *column)
{
	result->operator = binary_operator_sql(column, pg_catalog_name("+"));
	if (result->operator == NULL || !is_assignable(INT8OID, column->attribute->atttypid))
		refuse(column, "a numeric type");
	result->aggregate = "pg_catalog.count";
	result->input = psprintf("q.%s", result->column);
}

/* set_union fills in union of multiranges, and of arrays. */
static void
set_union(StreamMergeColumn *result, const Column *column)
{
	Oid			query_base = getBaseType(column->query_type);
	Oid			element = get_base_element_type(column->base_type);
	char	   *value = psprintf("q.%s", result->column);

	if (type_is_multirange(column->base_type))
	{
		result->input = value;
		if (query_base != get_multirange_range(column->base_type))
			result->input = input_sql(column, value, column->query_type);
		result->aggregate = "pg_catalog.range_agg";
		/* polymorphic */
		result->operator = "OPERATOR(pg_catalog.+)";
		return;
	}
	if (!OidIsValid(element))
		refuse(column, "an array or multirange");
	if (!has_ordering(element))
		refuse(column, "elements with an ordering");
	result->aggregate = "stream.array_union_agg";
	/* the query may give single elements */
	if (!OidIsValid(get_base_element_type(query_base)) && is_assignable(column->query_type, element))
	{
		/* IS NOT NULL is false for a row with a null in it */
		value = psprintf("CASE WHEN %s IS DISTINCT FROM NULL THEN ARRAY[%s::%s] END", value, value, type_sql(element, -1));
		result->input = input_sql(column, psprintf("(%s)", value), get_array_type(element));
	}
	else
		result->input = input_sql(column, value, column->query_type);
}

/* set_by finds the column that latest or earliest goes by. */
static void
set_by(StreamMergeColumn *result, const Column *column, const Column *columns, int n)
{
	const char *wanted = result->merge == STREAM_MERGE_LATEST ? "max" : "min";

	if (!has_ordering(column->base_type))
		refuse(column, "a type with an ordering");
	for (int i = 0; i < n; i++)
	{
		if (strcmp(columns[i].name, column->by) != 0)
			continue;
		if (columns[i].merge_text == NULL || strcmp(columns[i].merge_text, wanted) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("column \"%s\" needs the merge \"%s\", since column \"%s\" goes by it",
							column->by, wanted, column->name),
					 errdetail("A row must tell how late its values are, so that an older record does not change them.")));
		result->by = i;
		return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("query does not produce column \"%s\", which column \"%s\" goes by", column->by, column->name),
			 errhint("The query and the target have it as a column, with the merge \"%s\".", wanted)));
}

/* set_merge fills in what a column's merge and types come to. */
static void
set_merge(StreamMergeColumn *result, const Column *column, const Column *columns, int n)
{
	TypeCacheEntry *type = lookup_type_cache(column->base_type, TYPECACHE_EQ_OPR);
	HeapTuple	operator;

	result->column = quote_identifier(column->name);
	check_aggregate(result->merge, column);
	if (result->merge != STREAM_MERGE_UNION && result->merge != STREAM_MERGE_COUNT)
		result->input = input_sql(column, psprintf("q.%s", result->column), column->query_type);
	switch (result->merge)
	{
		case STREAM_MERGE_KEY:
			return;
		case STREAM_MERGE_MAX:
		case STREAM_MERGE_MIN:
			set_ordered(result, column);
			break;
		case STREAM_MERGE_AND:
		case STREAM_MERGE_OR:
			if (column->base_type != BOOLOID)
				refuse(column, "type boolean");
			result->operator = result->merge == STREAM_MERGE_AND ? "AND" : "OR";
			result->aggregate = result->merge == STREAM_MERGE_AND ? "pg_catalog.bool_and" : "pg_catalog.bool_or";
			break;
		case STREAM_MERGE_BIT_AND:
		case STREAM_MERGE_BIT_OR:
			set_bits(result, column);
			break;
		case STREAM_MERGE_UNION:
			set_union(result, column);
			break;
		case STREAM_MERGE_LATEST:
		case STREAM_MERGE_EARLIEST:
			set_by(result, column, columns, n);
			break;
		case STREAM_MERGE_SUM:
			set_sum(result, column);
			break;
		case STREAM_MERGE_COUNT:
			set_count(result, column);
			break;
	}
	if (!OidIsValid(type->eq_opr))
		refuse(column, "a type with an operator =");

	/* IS DISTINCT FROM would look along the search path */
	operator = SearchSysCache1(OPEROID, ObjectIdGetDatum(type->eq_opr));
	if (!HeapTupleIsValid(operator))
		elog(ERROR, "cache lookup failed for operator %u", type->eq_opr);
	if (((Form_pg_operator) GETSTRUCT(operator))->oprnamespace != PG_CATALOG_NAMESPACE)
		result->equality = operator_sql(type->eq_opr);
	ReleaseSysCache(operator);
}

/* read_columns lists the columns that the query produces. */
static Column *
read_columns(Query *query, int *n)
{
	Column	   *columns = palloc0_array(Column, Max(list_length(query->targetList), 1));
	ListCell   *cell;

	*n = 0;
	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);
		Column	   *column = &columns[*n];

		if (entry->resjunk)
			continue;
		column->name = entry->resname;
		column->expression = entry->expr;
		column->query_type = exprType((Node *) entry->expr);
		for (int i = 0; i < *n; i++)
			if (strcmp(columns[i].name, column->name) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_COLUMN),
						 errmsg("query produces column \"%s\" more than once", column->name)));
		(*n)++;
	}
	return columns;
}

/*
 * stream_merge_columns finds out what a query's columns come to in the target,
 * and the names of those that are its key.
 */
StreamMergeColumn *
stream_merge_columns(Relation target, Query *query, Jsonb *merges, int *n, List **key)
{
	Column	   *columns = read_columns(query, n);
	StreamMergeColumn *result = palloc0_array(StreamMergeColumn, Max(*n, 1));
	Bitmapset  *key_columns = NULL;
	Bitmapset  *produced = NULL;

	check_merges(merges, columns, *n);
	*key = NIL;
	for (int i = 0; i < *n; i++)
	{
		Column	   *column = &columns[i];

		column->attribute = find_attribute(target, column->name);
		column->base_type = getBaseType(column->attribute->atttypid);
		column->merge_text = merge_text(merges, column->name);
		produced = bms_add_member(produced, column->attribute->attnum);
		result[i].by = -1;
		if (column->merge_text == NULL)
		{
			key_columns = bms_add_member(key_columns, column->attribute->attnum);
			*key = lappend(*key, pstrdup(column->name));
		}
		else if (!stream_parse_merge(column->merge_text, &result[i].merge, &column->by))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("merge \"%s\" of column \"%s\" is not known", column->merge_text, column->name),
					 errhint("Use max, min, and, or, bit_and, bit_or, union, latest by <column>, earliest by <column>, sum or count.")));
	}
	for (int i = 0; i < *n; i++)
		set_merge(&result[i], &columns[i], columns, *n);
	if (*key == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("query does not produce a key"),
				 errdetail("The key of a projection is the columns that its query produces without a merge.")));
	stream_check_key(target, key_columns);
	stream_check_other_columns(target, produced);
	return result;
}
