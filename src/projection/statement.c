/*-------------------------------------------------------------------------
 *
 * statement.c
 *		Running a projection's statement over records.
 *
 * The records are a tuplestore that the statement sees as the relation "batch",
 * as a trigger sees a transition table.  The plan is kept in the process, and
 * made anew when the projection's definition, or anything the plan depends on,
 * has changed.
 *
 * The statement runs as the projection's owner, whose functions, triggers and
 * views it may call, in a session of somebody with more rights.  So that none
 * of them gets hold of these, it is a security-restricted operation, as REFRESH
 * MATERIALIZED VIEW is; and constraints are checked at once: a deferred trigger
 * would run at commit, when we are no longer the owner.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "log/value.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "projection/statement.h"
#include "tcop/dest.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/queryenvironment.h"
#include "utils/snapmgr.h"

/*
 * A plan is made for a size of batch: what is best for ten records can be bad
 * for a hundred thousand.
 */
static const int64 plan_records[] = {10, 1000, 50000};

#define PLANS	((int) lengthof(plan_records))

/* A projection's plans, and what they were made of. */
typedef struct Statement
{
	int32		projection_id;	/* hash key */
	StreamValueType value_type;
	Oid			owner;
	char	   *search_path;
	char	   *sql;
	SPIPlanPtr	plans[PLANS];	/* null: not yet */
} Statement;

static HTAB *statements = NULL;
static TupleDesc descs[2];		/* by value type; null: not yet */

/* stream_batch_desc returns the columns of "batch"; it lives as long as the process. */
TupleDesc
stream_batch_desc(StreamValueType value_type)
{
	TupleDesc	desc = descs[value_type];

	if (desc == NULL)
	{
		MemoryContext save = MemoryContextSwitchTo(TopMemoryContext);

		desc = CreateTemplateTupleDesc(Natts_record);
		TupleDescInitEntry(desc, Anum_record_partition, "partition", INT4OID, -1, 0);
		TupleDescInitEntry(desc, Anum_record_offset, "record_offset", INT8OID, -1, 0);
		TupleDescInitEntry(desc, Anum_record_published_at, "published_at", TIMESTAMPTZOID, -1, 0);
		TupleDescInitEntry(desc, Anum_record_key, "key", TEXTOID, -1, 0);
		TupleDescInitEntry(desc, Anum_record_value, "value", stream_value_type_oid(value_type), -1, 0);
		TupleDescInitEntry(desc, Anum_record_headers, "headers", JSONBOID, -1, 0);
		descs[value_type] = desc;
		MemoryContextSwitchTo(save);
	}
	return desc;
}

/* stream_projection_owner returns the role that a projection runs as. */
Oid
stream_projection_owner(const StreamProjection *projection)
{
	Oid			owner = stream_projection_role(projection);

	if (!OidIsValid(owner))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("owner \"%s\" of projection \"%s\" does not exist",
						NameStr(projection->owner), NameStr(projection->name)),
				 errhint("Give it another owner with stream.alter_projection.")));
	return owner;
}

static void
forget(Statement *statement)
{
	for (int i = 0; i < PLANS; i++)
	{
		SPIPlanPtr	plan = statement->plans[i];

		statement->plans[i] = NULL;
		if (plan != NULL)
			(void) SPI_freeplan(plan);
	}
	if (statement->sql != NULL)
		pfree(statement->sql);
	statement->sql = NULL;
	if (statement->search_path != NULL)
		pfree(statement->search_path);
	statement->search_path = NULL;
}

/* known_statement returns what is kept of a projection's statement, if it is still the same. */
static Statement *
known_statement(const StreamProjection *projection, StreamValueType value_type, Oid owner)
{
	Statement  *statement;
	bool		found;

	if (statements == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(int32);
		ctl.entrysize = sizeof(Statement);
		ctl.hcxt = TopMemoryContext;
		statements = hash_create("stream statements", 16, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	statement = hash_search(statements, &projection->projection_id, HASH_ENTER, &found);
	if (!found)
	{
		memset(statement, 0, sizeof(Statement));
		statement->projection_id = projection->projection_id;
	}
	if (statement->sql == NULL || statement->search_path == NULL ||
		statement->value_type != value_type || statement->owner != owner ||
		strcmp(statement->sql, projection->apply_sql) != 0 ||
		strcmp(statement->search_path, projection->search_path) != 0)
	{
		forget(statement);
		statement->value_type = value_type;
		statement->owner = owner;
		statement->sql = MemoryContextStrdup(TopMemoryContext, projection->apply_sql);
		statement->search_path = MemoryContextStrdup(TopMemoryContext, projection->search_path);
	}
	return statement;
}

/* stream_keep_statements forgets the statements of all other projections. */
void
stream_keep_statements(const int32 *projection_ids, int n)
{
	HASH_SEQ_STATUS status;
	Statement  *statement;

	if (statements == NULL)
		return;
	hash_seq_init(&status, statements);
	while ((statement = hash_seq_search(&status)) != NULL)
	{
		bool		keep = false;

		for (int i = 0; i < n && !keep; i++)
			keep = projection_ids[i] == statement->projection_id;
		if (!keep)
		{
			forget(statement);
			(void) hash_search(statements, &statement->projection_id, HASH_REMOVE, NULL);
		}
	}
}

/* set_option sets a setting to the end of the current nesting level. */
static void
set_option(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* execute runs the statement over the batch, as the current user. */
static void
execute(Statement *statement, Tuplestorestate *batch, int64 records)
{
	EphemeralNamedRelation relation = palloc0(sizeof(EphemeralNamedRelationData));
	SPIExecuteOptions options;
	int			size = 0;
	int			rc;

	while (size < PLANS - 1 && records > plan_records[size] * 10)
		size++;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	relation->md.name = pstrdup("batch");
	relation->md.reliddesc = InvalidOid;
	relation->md.tupdesc = stream_batch_desc(statement->value_type);
	relation->md.enrtype = ENR_NAMED_TUPLESTORE;
	relation->md.enrtuples = (double) plan_records[size];
	relation->reldata = batch;
	rc = SPI_register_relation(relation);
	if (rc != SPI_OK_REL_REGISTER)
		elog(ERROR, "SPI_register_relation failed: %s", SPI_result_code_string(rc));

	if (statement->plans[size] == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare(statement->sql, 0, NULL);

		if (plan == NULL)
			elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
		(void) SPI_keepplan(plan);
		statement->plans[size] = plan;
	}

	/* rows that the statement returns concern nobody */
	memset(&options, 0, sizeof(options));
	options.dest = CreateDestReceiver(DestNone);
	rc = SPI_execute_plan_extended(statement->plans[size], &options);
	if (rc < 0)
		elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(rc));
	(void) SPI_finish();
}

/*
 * stream_run_statement applies records, in the running transaction.  The caller
 * has no effects of its own that the statement's owner should not see or undo.
 */
void
stream_run_statement(const StreamProjection *projection, StreamValueType value_type,
					 Tuplestorestate *batch, int64 records)
{
	Oid			owner = stream_projection_owner(projection);
	Statement  *statement = known_statement(projection, value_type, owner);
	ConstraintsSetStmt *immediate = makeNode(ConstraintsSetStmt);
	int			nest_level = NewGUCNestLevel();
	Oid			save_user;
	int			save_context;

	GetUserIdAndSecContext(&save_user, &save_context);
	set_option("search_path", projection->search_path);
	/* it would compile anew for each batch */
	set_option("jit", "off");
	/* fires what the caller has deferred, as the caller */
	AfterTriggerSetState(immediate);
	SetUserIdAndSecContext(owner, save_context | SECURITY_RESTRICTED_OPERATION);

	PushActiveSnapshot(GetTransactionSnapshot());
	execute(statement, batch, records);
	PopActiveSnapshot();

	SetUserIdAndSecContext(save_user, save_context);
	AtEOXact_GUC(false, nest_level);
}
