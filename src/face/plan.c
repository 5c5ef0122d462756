/*-------------------------------------------------------------------------
 *
 * plan.c
 *		Planning of queries on the foreign table of a stream.
 *
 * A scan reads the partitions one after the other, each by offset, so its order
 * is (partition, record_offset).  Conditions on partition, record_offset and
 * published_at bound it.  count(*) can be answered from what a batch's row says
 * of it, without opening the batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "face/bounds.h"
#include "face/fdw.h"
#include "log/segtable.h"
#include "log/value.h"
#include "nodes/makefuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "shmem.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"
#include "utils/typcache.h"

/* Records on a page, until ANALYZE has counted them. */
#define DEFAULT_RECORDS_PER_PAGE	100

/* Reading a record, beyond the processing of its row, in cpu_operator_cost. */
#define DECODE_COST					2.0

/* What get_rel_size leaves for the functions after it, in fdw_private. */
typedef struct FacePlan
{
	List	   *conditions;		/* of StreamFaceCondition */
	bool		exact;			/* they say all that the clauses say */
	double		pages;
	Selectivity selectivity;	/* of the conditions */
	bool		one_partition;	/* a condition fixes the partition */
} FacePlan;

/* stream_count_pages adds up the sizes of a stream's segments. */
double
stream_count_pages(Oid table)
{
	StreamInfo *info = stream_info(table);
	int			n;
	int32	   *numbers = stream_segment_numbers(info, false, &n);
	double		pages = 0;

	for (int i = 0; i < n; i++)
	{
		StreamSegmentTable segment;

		if (!stream_segment_open(&segment, stream_info(table)->stream_id, numbers[i], AccessShareLock, true))
			continue;
		pages += RelationGetNumberOfBlocks(segment.rel);
		stream_segment_close(&segment, false);
	}
	pfree(numbers);
	return pages;
}

/*
 * match_conditions collects the conditions among some clauses.  They are exact
 * when a record within the bounds matches all clauses; of an array, the bounds
 * keep single partitions, and else the smallest and the largest element.
 */
static List *
match_conditions(PlannerInfo *root, RelOptInfo *rel, List *clauses, bool *exact)
{
	List	   *result = NIL;
	ListCell   *cell;

	*exact = true;
	foreach(cell, clauses)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, cell);
		StreamFaceCondition *condition = palloc0(sizeof(StreamFaceCondition));

		if (!clause->pseudoconstant && stream_match_condition(root, rel, clause->clause, condition))
		{
			result = lappend(result, condition);
			if (condition->is_array && condition->attnum != Anum_record_partition)
				*exact = false;
		}
		else
			*exact = false;
	}
	return result;
}

static bool
fixes_partition(List *conditions)
{
	ListCell   *cell;

	foreach(cell, conditions)
	{
		StreamFaceCondition *condition = lfirst(cell);

		if (condition->attnum == Anum_record_partition && !condition->is_array &&
			condition->strategy == BTEqualStrategyNumber)
			return true;
	}
	return false;
}

/* condition_selectivity estimates the part of the log that a scan reads. */
static Selectivity
condition_selectivity(PlannerInfo *root, RelOptInfo *rel, List *clauses)
{
	List	   *matched = NIL;
	ListCell   *cell;

	foreach(cell, clauses)
	{
		StreamFaceCondition condition;

		if (stream_match_condition(root, rel, lfirst_node(RestrictInfo, cell)->clause, &condition))
			matched = lappend(matched, lfirst(cell));
	}
	return clauselist_selectivity(root, matched, rel->relid, JOIN_INNER, NULL);
}

void
stream_face_rel_size(PlannerInfo *root, RelOptInfo *rel, Oid table)
{
	FacePlan   *plan = palloc0(sizeof(FacePlan));
	double		density = DEFAULT_RECORDS_PER_PAGE;

	stream_require_shmem();
	plan->pages = stream_count_pages(table);
	/* as for a plain table: the density is ANALYZE's, the size is that of now */
	if (rel->pages > 0 && rel->tuples > 0)
		density = rel->tuples / rel->pages;
	rel->tuples = Max(1.0, rint(plan->pages * density));
	plan->conditions = match_conditions(root, rel, rel->baserestrictinfo, &plan->exact);
	plan->one_partition = fixes_partition(plan->conditions);
	plan->selectivity = condition_selectivity(root, rel, rel->baserestrictinfo);
	rel->fdw_private = plan;
	set_baserel_size_estimates(root, rel);
}

/* scan_cost is the cost of reading a part of the log. */
static void
scan_cost(RelOptInfo *rel, FacePlan *plan, Selectivity selectivity, QualCost *quals, double *startup, double *total)
{
	double		records = clamp_row_est(rel->tuples * selectivity);
	double		pages = Max(1.0, ceil(plan->pages * selectivity));
	double		random_page_cost_here;
	double		seq_page_cost_here;

	get_tablespace_page_costs(InvalidOid, &random_page_cost_here, &seq_page_cost_here);
	/* one descent of the index, then neighbours */
	*startup = quals->startup + rel->reltarget->cost.startup;
	*total = *startup + random_page_cost_here + pages * seq_page_cost_here +
		records * (cpu_tuple_cost + DECODE_COST * cpu_operator_cost + quals->per_tuple) +
		clamp_row_est(rel->rows) * rel->reltarget->cost.per_tuple;
}

/*
 * order_matches says whether the order in which a scan reads is the one the
 * query wants: (partition, record_offset) or a part of it from the left; the
 * partition may be left out when only one is read.
 */
static bool
order_matches(PlannerInfo *root, RelOptInfo *rel, FacePlan *plan)
{
	int			expected = Anum_record_partition;
	Oid			opfamily = lookup_type_cache(INT8OID, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	ListCell   *cell;

	if (root->query_pathkeys == NIL)
		return false;
	foreach(cell, root->query_pathkeys)
	{
		PathKey    *pathkey = lfirst_node(PathKey, cell);
		ListCell   *member_cell;
		bool		found = false;

		if (!stream_pathkey_ascends(pathkey) || pathkey->pk_opfamily != opfamily)
			return false;
		foreach(member_cell, pathkey->pk_eclass->ec_members)
		{
			EquivalenceMember *member = lfirst_node(EquivalenceMember, member_cell);
			Var		   *var = (Var *) member->em_expr;

			if (!IsA(var, Var) || var->varno != (int) rel->relid || var->varlevelsup != 0)
				continue;
			if (var->varattno == expected ||
				(plan->one_partition && expected == Anum_record_partition &&
				 var->varattno == Anum_record_offset))
			{
				found = true;
				/* behind the offset within a partition nothing is left to order */
				expected = var->varattno == Anum_record_partition ? Anum_record_offset : InvalidAttrNumber;
				break;
			}
		}
		if (!found)
			return false;
	}
	return true;
}

/* For generate_implied_equalities_for_column. */
static bool
is_column(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *ec, EquivalenceMember *member, void *arg)
{
	Var		   *var = (Var *) member->em_expr;

	return IsA(var, Var) && var->varno == (int) rel->relid && var->varlevelsup == 0 &&
		var->varattno == *(int *) arg;
}

/* add_relids adds a set to a list of sets, unless it is there. */
static List *
add_relids(List *sets, Relids set)
{
	ListCell   *cell;

	foreach(cell, sets)
		if (bms_equal((Relids) lfirst(cell), set))
			return sets;
	return lappend(sets, set);
}

/*
 * add_parameterized_paths adds a path for each set of outer relations whose
 * join clauses bound the scan, as the inner side of a nested loop.
 */
static void
add_parameterized_paths(PlannerInfo *root, RelOptInfo *rel, FacePlan *plan)
{
	List	   *clauses = NIL;
	List	   *outers = NIL;
	ListCell   *cell;
	StreamFaceCondition condition;

	foreach(cell, rel->joininfo)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, cell);

		if (join_clause_is_movable_to(clause, rel) &&
			stream_match_condition(root, rel, clause->clause, &condition))
			clauses = lappend(clauses, clause);
	}
	for (int attnum = Anum_record_partition; attnum <= Anum_record_published_at; attnum++)
		clauses = list_concat(clauses, generate_implied_equalities_for_column(root, rel, is_column, &attnum,
																			  rel->lateral_referencers));

	/* the outer relations of each clause, and of all together */
	foreach(cell, clauses)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, cell);
		Relids		outer = bms_del_member(bms_copy(clause->clause_relids), rel->relid);

		outer = bms_union(outer, rel->lateral_relids);
		if (bms_is_empty(outer) || !stream_match_condition(root, rel, clause->clause, &condition))
			continue;
		outers = add_relids(outers, outer);
	}
	if (list_length(outers) > 1)
	{
		Relids		all = NULL;

		foreach(cell, outers)
			all = bms_add_members(all, (Relids) lfirst(cell));
		outers = add_relids(outers, all);
	}

	foreach(cell, outers)
	{
		ParamPathInfo *info = get_baserel_parampathinfo(root, rel, (Relids) lfirst(cell));
		List	   *all = list_concat(list_copy(info->ppi_clauses), rel->baserestrictinfo);
		QualCost	quals;
		Cost		startup;
		Cost		total;

		cost_qual_eval(&quals, all, root);
		scan_cost(rel, plan, condition_selectivity(root, rel, all), &quals, &startup, &total);
		add_path(rel, (Path *) stream_create_foreignscan_path(root, rel, info->ppi_rows, startup, total,
															  NIL, info->ppi_req_outer));
	}
}

void
stream_face_paths(PlannerInfo *root, RelOptInfo *rel, Oid table)
{
	FacePlan   *plan = rel->fdw_private;
	Cost		startup;
	Cost		total;

	scan_cost(rel, plan, plan->selectivity, &rel->baserestrictcost, &startup, &total);
	add_path(rel, (Path *) stream_create_foreignscan_path(root, rel, rel->rows, startup, total, NIL,
														  rel->lateral_relids));
	/* the order costs nothing; so the planner drops the path above for this one */
	if (order_matches(root, rel, plan))
		add_path(rel, (Path *) stream_create_foreignscan_path(root, rel, rel->rows, startup, total,
															  root->query_pathkeys, rel->lateral_relids));
	add_parameterized_paths(root, rel, plan);
}

/*
 * wanted_columns collects the columns that a scan has to deliver, as in value.h.
 * The plan's target list says nothing: it may be that of the whole table.
 */
static int
wanted_columns(RelOptInfo *rel, List *clauses)
{
	Bitmapset  *attrs = NULL;
	int			wanted = 0;
	int			member = -1;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &attrs);
	pull_varattnos((Node *) clauses, rel->relid, &attrs);
	while ((member = bms_next_member(attrs, member)) >= 0)
	{
		int			attnum = member + FirstLowInvalidHeapAttributeNumber;

		if (attnum == 0)
			return STREAM_WANT_ALL; /* the whole row */
		if (attnum > 0)
			wanted |= STREAM_WANT(attnum);
	}
	return wanted;
}

/*
 * stream_face_plan makes the plan of a scan, or of a count above it.  Its
 * fdw_private is described in fdw.h.
 */
ForeignScan *
stream_face_plan(PlannerInfo *root, RelOptInfo *rel, Oid table, ForeignPath *path,
				 List *tlist, List *scan_clauses, Plan *outer_plan)
{
	List	   *clauses;
	List	   *conditions = NIL;
	List	   *private;
	ListCell   *cell;

	if (IS_UPPER_REL(rel))
	{
		RelOptInfo *input = linitial(path->fdw_private);
		FacePlan   *plan = input->fdw_private;

		private = list_make4(stream_conditions_to_list(plan->conditions), makeInteger(0),
							 makeInteger(root->simple_rte_array[input->relid]->relid), makeInteger(input->relid));
		return make_foreignscan(tlist, NIL, 0, stream_condition_values(plan->conditions), private,
								copyObject(tlist), NIL, outer_plan);
	}

	clauses = extract_actual_clauses(scan_clauses, false);
	foreach(cell, scan_clauses)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, cell);
		StreamFaceCondition *condition = palloc0(sizeof(StreamFaceCondition));

		if (!clause->pseudoconstant && stream_match_condition(root, rel, clause->clause, condition))
			conditions = lappend(conditions, condition);
	}
	private = list_make4(stream_conditions_to_list(conditions),
						 makeInteger(wanted_columns(rel, clauses)),
						 makeInteger(0), makeInteger(0));
	return make_foreignscan(tlist, clauses, rel->relid, stream_condition_values(conditions), private,
							NIL, NIL, outer_plan);
}

/* is_plain_count says whether an expression is count(*) and nothing else. */
static bool
is_plain_count(Node *node)
{
	Aggref	   *aggref = (Aggref *) node;

	return IsA(node, Aggref) && aggref->aggfnoid == F_COUNT_ && aggref->aggstar &&
		aggref->aggfilter == NULL && aggref->aggdistinct == NIL && aggref->aggorder == NIL &&
		aggref->agglevelsup == 0;
}

/*
 * stream_face_upper_paths adds a path for SELECT count(*) over the whole stream,
 * or over what conditions on partition, offset and time leave of it.
 */
void
stream_face_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
						RelOptInfo *output, void *extra)
{
	Query	   *parse = root->parse;
	FacePlan   *plan = input->fdw_private;
	ListCell   *cell;
	double		batches;
	Cost		total;

	if (stage != UPPERREL_GROUP_AGG || input->reloptkind != RELOPT_BASEREL || plan == NULL ||
		!plan->exact || !bms_is_empty(input->lateral_relids) ||
		parse->groupClause != NIL || parse->groupingSets != NIL || root->hasHavingQual ||
		parse->hasTargetSRFs || output->reltarget->exprs == NIL)
		return;
	foreach(cell, output->reltarget->exprs)
		if (!is_plain_count(lfirst(cell)))
			return;

	/* a batch fills about a page */
	batches = Max(1.0, plan->pages * plan->selectivity);
	total = batches * (seq_page_cost + cpu_tuple_cost);
	add_path(output, (Path *) stream_create_foreign_upper_path(root, output, output->reltarget, 1, total, total,
															   NIL, list_make1(input)));
}
