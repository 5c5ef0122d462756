/*-------------------------------------------------------------------------
 *
 * limits.c
 *		How far a statement reads.
 *
 * One statement sees one state of the log, however often it scans it, in one
 * place or several.  Its snapshot alone does not say which: a record that it sees
 * may lie above the high watermark at the first scan, and below it at the next.
 * So the watermark of a partition at its first scan counts for all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "face/limits.h"
#include "utils/memutils.h"

/* Of a stream in a statement that runs; in the statement's memory. */
typedef struct StatementLimits
{
	struct StatementLimits *next;
	EState	   *estate;			/* the statement */
	Oid			table;
	MemoryContextCallback callback;
	int64		limits[FLEXIBLE_ARRAY_MEMBER];	/* by partition; 0: not scanned yet */
} StatementLimits;

static StatementLimits *statements = NULL;

/* forget is called when the statement's memory goes, also after an error. */
static void
forget(void *arg)
{
	StatementLimits **link = &statements;

	while (*link != arg)
		link = &(*link)->next;
	*link = (*link)->next;
}

/*
 * stream_statement_limits returns the watermark of each partition at its first
 * scan in a statement; 0: there was none, and who scans sets it.
 */
int64 *
stream_statement_limits(EState *estate, Oid table, int32 partitions)
{
	StatementLimits *result;

	for (result = statements; result != NULL; result = result->next)
		if (result->estate == estate && result->table == table)
			return result->limits;
	result = MemoryContextAllocZero(estate->es_query_cxt,
									offsetof(StatementLimits, limits) + partitions * sizeof(int64));
	result->estate = estate;
	result->table = table;
	result->next = statements;
	statements = result;
	result->callback.func = forget;
	result->callback.arg = result;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &result->callback);
	return result->limits;
}
