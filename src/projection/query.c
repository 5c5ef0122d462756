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

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "log/value.h"
#include "miscadmin.h"
#include "parser/analyze.h"
#include "parser/parser.h"
#include "projection/query.h"
#include "utils/queryenvironment.h"
#include "utils/tuplestore.h"

/* stream_batch_tupdesc describes batch: the columns of a record. */
TupleDesc
stream_batch_tupdesc(StreamValueType value_type)
{
	TupleDesc	desc = CreateTemplateTupleDesc(Natts_record);

	TupleDescInitEntry(desc, Anum_record_partition, "partition", INT4OID, -1, 0);
	TupleDescInitEntry(desc, Anum_record_offset, "record_offset", INT8OID, -1, 0);
	TupleDescInitEntry(desc, Anum_record_published_at, "published_at", TIMESTAMPTZOID, -1, 0);
	TupleDescInitEntry(desc, Anum_record_key, "key", TEXTOID, -1, 0);
	TupleDescInitEntry(desc, Anum_record_value, "value", stream_value_type_oid(value_type), -1, 0);
	TupleDescInitEntry(desc, Anum_record_headers, "headers", JSONBOID, -1, 0);
	return desc;
}

static EphemeralNamedRelation
batch_relation(StreamValueType value_type)
{
	EphemeralNamedRelation batch = palloc0_object(EphemeralNamedRelationData);

	batch->md.name = STREAM_BATCH_RELATION;
	batch->md.tupdesc = stream_batch_tupdesc(value_type);
	batch->md.enrtype = ENR_NAMED_TUPLESTORE;
	return batch;
}

/*
 * stream_analyze_over_batch parses and analyses one statement, under the current
 * search path.  *text is set to it, without what follows it.  what names the
 * argument that it came in.
 */
Query *
stream_analyze_over_batch(const char *sql, const char *what, StreamValueType value_type, char **text)
{
	List	   *statements = raw_parser(sql, RAW_PARSE_DEFAULT);
	RawStmt    *statement;
	QueryEnvironment *environment = create_queryEnv();

	if (list_length(statements) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("%s must be one SQL statement, not %d", what, list_length(statements))));
	statement = linitial_node(RawStmt, statements);
	register_ENR(environment, batch_relation(value_type));
	*text = statement->stmt_len > 0 ?
		pnstrdup(sql + statement->stmt_location, statement->stmt_len) :
		pstrdup(sql + statement->stmt_location);
	return parse_analyze_fixedparams(statement, sql, NULL, 0, environment);
}

/*
 * stream_explain_over_batch plans a statement and makes it ready to run over an
 * empty batch, which checks privileges, too.
 */
void
stream_explain_over_batch(const char *sql, StreamValueType value_type)
{
	EphemeralNamedRelation batch;
	char	   *explain = psprintf("EXPLAIN %s", sql);
	int			rc;

	SPI_connect();
	batch = batch_relation(value_type);
	batch->reldata = tuplestore_begin_heap(false, false, work_mem);
	rc = SPI_register_relation(batch);
	if (rc != SPI_OK_REL_REGISTER)
		elog(ERROR, "SPI_register_relation failed: %s", SPI_result_code_string(rc));
	rc = SPI_execute(explain, false, 0);
	if (rc < 0)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(rc));
	SPI_finish();
}
