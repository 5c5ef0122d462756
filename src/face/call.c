/*-------------------------------------------------------------------------
 *
 * call.c
 *		Scans of what a function returns.
 *
 * A function in FROM fills a tuplestore with whole rows, which is then read and
 * taken apart again; for a million small records that is half of the time.  So
 * for the functions that return records, the planner gets a scan that calls the
 * function itself and says which columns are wanted: rows.h.  It does what a
 * function scan does otherwise: one call to its end at the first row, and again
 * only when the arguments change.
 *
 * Left to the function scan are ROWS FROM, WITH ORDINALITY, and queries that want
 * a row as a whole.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_language.h"
#include "catalog/tables.h"
#include "compat.h"
#include "executor/executor.h"
#include "face/call.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/ilist.h"
#include "log/rows.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

typedef struct CallScan
{
	CustomScanState css;
	FuncExpr   *call;
	List	   *arguments;		/* of ExprState */
	FmgrInfo	function;
	Bitmapset  *parameters;		/* that the arguments use */
	StreamRows *rows;
	bool		called;
	MemoryContext argument_context;
	struct CallScan *original;	/* when a row is checked again: the scan of the
								 * query itself that has called, or will; or null */
	dlist_node	node;			/* in scans */
	MemoryContextCallback forget;
} CallScan;

/* All scans of queries that have begun, so that their copies find them. */
static dlist_head scans = DLIST_STATIC_INIT(scans);

static set_rel_pathlist_hook_type previous_set_rel_pathlist = NULL;

static Plan *plan_call(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans);
static Node *create_call(CustomScan *plan);
static void begin_call(CustomScanState *css, EState *estate, int eflags);
static TupleTableSlot *exec_call(CustomScanState *css);
static void end_call(CustomScanState *css);
static void rescan_call(CustomScanState *css);
static void explain_call(CustomScanState *css, List *ancestors, ExplainState *es);

static const CustomPathMethods path_methods = {
	.CustomName = "stream",
	.PlanCustomPath = plan_call
};

static const CustomScanMethods scan_methods = {
	.CustomName = "stream",
	.CreateCustomScanState = create_call
};

static const CustomExecMethods exec_methods = {
	.CustomName = "stream",
	.BeginCustomScan = begin_call,
	.ExecCustomScan = exec_call,
	.EndCustomScan = end_call,
	.ReScanCustomScan = rescan_call,
	.ExplainCustomScan = explain_call
};

/* returns_records says whether a function is one of those that put their result into rows.h. */
static bool
returns_records(Oid function)
{
	static const char *const names[] = {
		"stream_read", "stream_read_bytes", "stream_consume", "stream_consume_bytes", "stream_poll", "stream_poll_bytes"
	};
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc proc;
	bool		result = false;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	if (proc->prolang == ClanguageId && proc->proretset &&
		proc->pronamespace == get_namespace_oid(STREAM_SCHEMA, true))
	{
		bool		isnull;
		char	   *symbol = TextDatumGetCString(SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull));

		for (size_t i = 0; i < lengthof(names); i++)
			result |= strcmp(symbol, names[i]) == 0;
	}
	ReleaseSysCache(tuple);
	return result;
}

/* columns_of returns the columns that a query uses of a relation, as pull_varattnos does. */
static Bitmapset *
columns_of(RelOptInfo *rel, List *clauses)
{
	Bitmapset  *columns = NULL;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &columns);
	pull_varattnos((Node *) extract_actual_clauses(clauses, false), rel->relid, &columns);
	pull_varattnos((Node *) extract_actual_clauses(clauses, true), rel->relid, &columns);
	return columns;
}

/* call_of returns the call of a function scan that can be ours, or null. */
static FuncExpr *
call_of(RelOptInfo *rel, RangeTblEntry *rte)
{
	RangeTblFunction *function;
	FuncExpr   *call;

	if (rte->rtekind != RTE_FUNCTION || rte->funcordinality || list_length(rte->functions) != 1)
		return NULL;
	function = linitial_node(RangeTblFunction, rte->functions);
	if (!IsA(function->funcexpr, FuncExpr))
		return NULL;
	call = (FuncExpr *) function->funcexpr;
	if (!returns_records(call->funcid) || function->funccolcount != Natts_record ||
		/* what a subplan depends on is not known here, see rescan_call */
		contain_subplans((Node *) call->args) ||
		bms_is_member(InvalidAttrNumber - FirstLowInvalidHeapAttributeNumber,
					  columns_of(rel, rel->baserestrictinfo)))
		return NULL;
	return call;
}

/* call_pathlist puts our scan in the place of a function scan.  It costs less, whatever that is. */
static void
call_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	FuncExpr   *call;
	CustomPath *path;

	if (previous_set_rel_pathlist)
		previous_set_rel_pathlist(root, rel, rti, rte);
	if (list_length(rel->pathlist) != 1 || linitial_node(Path, rel->pathlist)->pathtype != T_FunctionScan)
		return;
	call = call_of(rel, rte);
	if (call == NULL)
		return;
	path = makeNode(CustomPath);
	path->path = *linitial_node(Path, rel->pathlist);
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = list_make1(call);
	path->methods = &path_methods;
	rel->pathlist = list_make1(path);
}

/*
 * plan_call makes the plan node.  It scans no relation, as far as the executor
 * knows; so its rows are described by a list of variables.
 */
static Plan *
plan_call(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *plan = makeNode(CustomScan);
	TupleDesc	desc = get_expr_result_tupdesc(linitial(path->custom_private), false);
	Bitmapset  *columns = columns_of(rel, clauses);
	List	   *row = NIL;
	int			wanted = 0;

	for (AttrNumber attnum = 1; attnum <= desc->natts; attnum++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, attnum - 1);
		Var		   *variable = makeVar(rel->relid, attnum, column->atttypid, column->atttypmod, column->attcollation, 0);

		row = lappend(row, makeTargetEntry((Expr *) variable, attnum, NULL, false));
		if (bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber, columns))
			wanted |= STREAM_WANT(attnum);
	}
	plan->scan.plan.targetlist = tlist;
	plan->scan.plan.qual = extract_actual_clauses(clauses, false);
	plan->flags = path->flags;
	plan->custom_exprs = list_copy(path->custom_private);
	plan->custom_private = list_make1(makeInteger(wanted));
	plan->custom_scan_tlist = row;
	plan->methods = &scan_methods;
	return &plan->scan.plan;
}

static Node *
create_call(CustomScan *plan)
{
	CallScan   *scan = (CallScan *) newNode(sizeof(CallScan), T_CustomScanState);

	scan->css.methods = &exec_methods;
	scan->call = linitial_node(FuncExpr, plan->custom_exprs);
	return (Node *) scan;
}

/* add_parameters collects the parameters of the executor that an expression uses. */
static bool
add_parameters(Node *node, Bitmapset **parameters)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		*parameters = bms_add_member(*parameters, ((Param *) node)->paramid);
	return expression_tree_walker(node, add_parameters, parameters);
}

static void
forget_scan(void *arg)
{
	dlist_delete(&((CallScan *) arg)->node);
}

/*
 * find_original finds the scan of which this is the copy that a query makes to
 * check rows again.  Where arguments depend on other rows, there is no single call
 * to share: null.
 */
static CallScan *
find_original(CallScan *scan, EState *estate)
{
	dlist_iter	iter;

	if (estate->es_epq_active == NULL || scan->parameters != NULL)
		return NULL;
	dlist_foreach(iter, &scans)
	{
		CallScan   *other = dlist_container(CallScan, node, iter.cur);

		if (other->css.ss.ps.state == estate->es_epq_active->parentestate &&
			other->css.ss.ps.plan == scan->css.ss.ps.plan)
			return other;
	}
	return NULL;
}

static void
begin_call(CustomScanState *css, EState *estate, int eflags)
{
	CallScan   *scan = (CallScan *) css;
	CustomScan *plan = castNode(CustomScan, css->ss.ps.plan);
	AclResult	result = stream_function_aclcheck(scan->call->funcid, GetUserId(), ACL_EXECUTE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(scan->call->funcid));
	InvokeFunctionExecuteHook(scan->call->funcid);
	fmgr_info(scan->call->funcid, &scan->function);
	fmgr_info_set_expr((Node *) scan->call, &scan->function);
	scan->arguments = ExecInitExprList(scan->call->args, &css->ss.ps);
	(void) add_parameters((Node *) scan->call->args, &scan->parameters);
	scan->rows = stream_rows_for_scan(intVal(linitial(plan->custom_private)));
	scan->argument_context = AllocSetContextCreate(CurrentMemoryContext, "stream call", ALLOCSET_SMALL_SIZES);
	scan->original = find_original(scan, estate);
	scan->forget.func = forget_scan;
	scan->forget.arg = scan;
	dlist_push_head(&scans, &scan->node);
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &scan->forget);
}

/*
 * call_function calls it, with the rows to be filled as its context.  A copy of the
 * scan takes the rows of that call: another one would have effects of its own, and
 * what a consumer group has taken it does not get again.
 */
static void
call_function(CallScan *scan)
{
	LOCAL_FCINFO(fcinfo, FUNC_MAX_ARGS);
	ExprContext *econtext = scan->css.ss.ps.ps_ExprContext;
	PgStat_FunctionCallUsage usage;
	MemoryContext save;
	ListCell   *cell;
	int			i = 0;

	if (scan->original != NULL)
	{
		if (!scan->original->called)
			call_function(scan->original);
		stream_rows_share(scan->rows, scan->original->rows);
		scan->called = true;
		return;
	}
	MemoryContextReset(scan->argument_context);
	save = MemoryContextSwitchTo(scan->argument_context);
	InitFunctionCallInfoData(*fcinfo, &scan->function, list_length(scan->arguments), scan->call->inputcollid,
							 (Node *) scan->rows, NULL);
	foreach(cell, scan->arguments)
	{
		fcinfo->args[i].value = ExecEvalExpr((ExprState *) lfirst(cell), econtext, &fcinfo->args[i].isnull);
		i++;
	}
	MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	ResetExprContext(econtext);
	pgstat_init_function_usage(fcinfo, &usage);
	(void) FunctionCallInvoke(fcinfo);
	pgstat_end_function_usage(&usage, true);
	MemoryContextSwitchTo(save);
	stream_rows_rewind(scan->rows);
	scan->called = true;
}

static TupleTableSlot *
next_row(ScanState *ss)
{
	CallScan   *scan = (CallScan *) ss;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;

	if (unlikely(!scan->called))
		call_function(scan);
	ExecClearTuple(slot);
	if (stream_rows_next(scan->rows, slot->tts_values, slot->tts_isnull))
		ExecStoreVirtualTuple(slot);
	return slot;
}

/*
 * recheck_row takes the place of next_row when a query is checked again for a row
 * that was updated meanwhile.  We come to that only below a UNION ALL, of which no
 * row is kept for it: as a function scan does, read all again.
 */
static bool
recheck_row(ScanState *ss, TupleTableSlot *slot)
{
	(void) next_row(ss);		/* it fills this slot */
	return !TupIsNull(slot);
}

static TupleTableSlot *
exec_call(CustomScanState *css)
{
	return ExecScan(&css->ss, next_row, recheck_row);
}

static void
end_call(CustomScanState *css)
{
	stream_rows_clear(((CallScan *) css)->rows);
}

/* rescan_call calls again only when an argument may have changed: a call may have effects. */
static void
rescan_call(CustomScanState *css)
{
	CallScan   *scan = (CallScan *) css;

	ExecScanReScan(&css->ss);
	if (bms_overlap(css->ss.ps.chgParam, scan->parameters))
	{
		stream_rows_clear(scan->rows);
		scan->called = false;
	}
	else
		stream_rows_rewind(scan->rows);
}

static void
explain_call(CustomScanState *css, List *ancestors, ExplainState *es)
{
	CallScan   *scan = (CallScan *) css;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, css->ss.ps.plan, ancestors);

	ExplainPropertyText("Function Call",
						deparse_expression((Node *) scan->call, context, list_length(es->rtable) > 1 || es->verbose, false), es);
}

void
stream_call_init(void)
{
	RegisterCustomScanMethods(&scan_methods);
	previous_set_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = call_pathlist;
}
