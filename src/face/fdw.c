/*-------------------------------------------------------------------------
 *
 * fdw.c
 *		Entry of the foreign-data wrapper behind streams.<stream>.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/pg_type.h"
#include "face/fdw.h"
#include "log/value.h"
#include "shmem.h"
#include "utils/builtins.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(stream_fdw_handler);
PG_FUNCTION_INFO_V1(stream_fdw_validator);

Datum
stream_fdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	stream_fdw_scan_routines(routine);
	stream_fdw_insert_routines(routine);
	PG_RETURN_POINTER(routine);
}

/* Neither the wrapper nor the server nor a table or column has options. */
Datum
stream_fdw_validator(PG_FUNCTION_ARGS)
{
	List	   *options = untransformRelOptions(PG_GETARG_DATUM(0));

	if (options != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
				 errmsg("invalid option \"%s\"", linitial_node(DefElem, options)->defname),
				 errhint("Options of a stream are set by stream.alter_stream.")));
	PG_RETURN_VOID();
}

/*
 * stream_face_info returns the stream behind a foreign table, and refuses a
 * table that is not in the catalog or has other columns than a record.
 */
StreamInfo *
stream_face_info(Relation rel)
{
	StreamInfo *info;
	TupleDesc	desc = RelationGetDescr(rel);
	Oid			types[Natts_record] = {INT4OID, INT8OID, TIMESTAMPTZOID, TEXTOID, InvalidOid, JSONBOID};
	bool		fits;

	stream_require_shmem();
	info = stream_info(RelationGetRelid(rel));
	types[Anum_record_value - 1] = stream_value_type_oid(info->value_type);
	fits = desc->natts == Natts_record;
	for (int i = 0; fits && i < Natts_record; i++)
		fits = !TupleDescAttr(desc, i)->attisdropped && TupleDescAttr(desc, i)->atttypid == types[i];
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
				 errmsg("foreign table \"%s\" does not have the columns of a record", RelationGetRelationName(rel)),
				 errhint("Columns of a stream cannot be added, dropped or changed.")));
	return info;
}
