/*-------------------------------------------------------------------------
 *
 * ddl.c
 *		Streams as objects: create_stream, alter_stream, drop_stream.
 *
 * A stream is its foreign table: whoever may do something to that may do it to
 * the stream.  Segments and sequences depend on the foreign table and go with
 * it, however it is dropped; hooks.c sees to the rest.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "args.h"
#include "catalog/namespace.h"
#include "catalog/projections.h"
#include "catalog/segments.h"
#include "catalog/streams.h"
#include "catalog/tables.h"
#include "commands/extension.h"
#include "common/hashfn.h"
#include "compat.h"
#include "log/forget.h"
#include "log/reserve.h"
#include "log/segment.h"
#include "log/segtable.h"
#include "log/value.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "workers.h"

PG_FUNCTION_INFO_V1(stream_create_stream);
PG_FUNCTION_INFO_V1(stream_alter_stream);
PG_FUNCTION_INFO_V1(stream_drop_stream);

/*
 * check_create refuses a user without the right to create streams, and a name in
 * use, also by somebody who creates a stream of that name at the same time.
 */
static void
check_create(const char *name)
{
	Oid			nspid = get_namespace_oid(STREAM_TABLE_SCHEMA, false);
	AclResult	result = stream_namespace_aclcheck(nspid, GetUserId(), ACL_CREATE);
	uint16		hash = (uint16) hash_bytes((const unsigned char *) name, strlen(name));

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_SCHEMA, STREAM_TABLE_SCHEMA);
	/* zero would be the schema itself */
	LockDatabaseObject(NamespaceRelationId, nspid, Max(hash, 1), ExclusiveLock);
	if (OidIsValid(get_relname_relid(name, nspid)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("stream \"%s\" already exists", name)));
}

/*
 * new_id draws a number for a stream.  After a restore without data the sequence
 * begins anew while tables of old streams are there: those are passed over.
 */
static int32
new_id(void)
{
	for (;;)
	{
		int32		stream_id = stream_new_id();
		char		name[NAMEDATALEN];

		stream_segment_table_name(name, stream_id, 1);
		if (!OidIsValid(stream_internal_relation(name, true)))
			return stream_id;
	}
}

/*
 * forget_orphan removes what the catalog says of a stream whose foreign table
 * is gone: it was dropped while the library was not loaded.
 */
static void
forget_orphan(const char *name)
{
	int32		stream_id = stream_id_of_name(name);

	if (stream_id == 0)
		return;
	stream_delete_log(stream_id);
	stream_delete(stream_id);
	CommandCounterIncrement();
}

/* create_foreign_table makes the stream's face, as the calling user. */
static Oid
create_foreign_table(const char *name, const char *value_type)
{
	char	   *sql;
	Oid			table;

	sql = psprintf("CREATE FOREIGN TABLE %s (\"partition\" int4, record_offset int8,"
				   " published_at timestamptz, key text, value %s, headers jsonb) SERVER %s",
				   quote_qualified_identifier(STREAM_TABLE_SCHEMA, name), value_type,
				   quote_identifier(STREAM_SERVER));
	stream_execute(sql, InvalidOid);
	pfree(sql);
	table = get_relname_relid(name, get_namespace_oid(STREAM_TABLE_SCHEMA, false));
	if (!OidIsValid(table))
		elog(ERROR, "foreign table \"%s\" was not created", name);
	return table;
}

/* segment_bytes_argument reads the size at which segments are rolled; zero: at none. */
static int64
segment_bytes_argument(FunctionCallInfo fcinfo, int arg)
{
	int64		segment_bytes;

	stream_need_argument(fcinfo, arg, "segment_bytes");
	segment_bytes = PG_GETARG_INT64(arg);
	if (segment_bytes < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("segment_bytes must not be negative")));
	return segment_bytes;
}

/*
 * stream_create_stream: create_stream(stream, partitions, value_type,
 * compression, segment_bytes, segment_age).
 */
Datum
stream_create_stream(PG_FUNCTION_ARGS)
{
	char	   *name;
	char	   *value_type;
	char	   *compression;
	char		relation[NAMEDATALEN];
	int32		partitions;
	int32		stream_id;
	int64		segment_bytes;
	int64		segment_age;
	Oid			owner;
	Oid			table;

	stream_require_shmem();
	PreventCommandIfReadOnly("create_stream()");
	PreventCommandDuringRecovery("create_stream()");
	name = stream_text_argument(fcinfo, 0, "stream");
	stream_need_argument(fcinfo, 1, "partitions");
	partitions = PG_GETARG_INT32(1);
	value_type = stream_text_argument(fcinfo, 2, "value_type");
	compression = stream_text_argument(fcinfo, 3, "compression");
	segment_bytes = segment_bytes_argument(fcinfo, 4);
	segment_age = stream_age_argument(fcinfo, 5, "segment_age");
	stream_check_name(name);
	if (creating_extension)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot create a stream in an extension's script"),
				 errdetail("Its log would become part of the extension, and dumps would not contain it.")));

	stream_lock_extension();
	check_create(name);
	owner = stream_extension_owner();
	forget_orphan(name);
	stream_id = new_id();
	/* the row first: it checks the options */
	stream_insert(stream_id, name, partitions, value_type, compression, segment_bytes, segment_age);
	table = create_foreign_table(name, value_type);
	stream_forget_if_aborted(table);
	stream_insert_partitions(stream_id, partitions);
	stream_insert_segment(stream_id, 1);
	stream_segment_create(stream_id, 1, owner);
	for (int32 partition = 0; partition < partitions; partition++)
	{
		CHECK_FOR_INTERRUPTS();
		stream_sequence_create(stream_id, partition, owner);
	}
	CommandCounterIncrement();

	stream_segment_table_name(relation, stream_id, 1);
	stream_depend_on_table(stream_internal_relation(relation, false), table);
	for (int32 partition = 0; partition < partitions; partition++)
	{
		stream_sequence_name(relation, stream_id, partition);
		stream_depend_on_table(stream_internal_relation(relation, false), table);
	}
	stream_invalidate(table);
	PG_RETURN_VOID();
}

/* stream_alter_stream: alter_stream(stream, partitions, compression, segment_bytes, segment_age). */
Datum
stream_alter_stream(PG_FUNCTION_ARGS)
{
	char	   *name;
	Oid			table;
	StreamInfo *info;
	int32		stream_id;

	stream_require_shmem();
	PreventCommandIfReadOnly("alter_stream()");
	PreventCommandDuringRecovery("alter_stream()");
	name = stream_text_argument(fcinfo, 0, "stream");
	stream_lock_extension();
	table = stream_table_for_owner(name, ShareUpdateExclusiveLock);
	info = stream_info(table);
	if (!PG_ARGISNULL(1) && PG_GETARG_INT32(1) != info->partitions)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change the number of partitions of stream \"%s\" from %d to %d",
						NameStr(info->name), info->partitions, PG_GETARG_INT32(1)),
				 errdetail("Keys would move to other partitions, and the order of their records would be lost."),
				 errhint("Create a stream with that many partitions, and publish the records to it anew.")));
	stream_id = info->stream_id;
	if (!PG_ARGISNULL(2))
		stream_set_compression(stream_id, text_to_cstring(PG_GETARG_TEXT_PP(2)));
	if (!PG_ARGISNULL(3))
		stream_set_segment_bytes(stream_id, segment_bytes_argument(fcinfo, 3));
	if (!PG_ARGISNULL(4))
		stream_set_segment_age(stream_id, stream_age_argument(fcinfo, 4, "segment_age"));
	stream_invalidate(table);
	stream_wake_workers();
	PG_RETURN_VOID();
}

/* stream_drop_stream: drop_stream(stream). */
Datum
stream_drop_stream(PG_FUNCTION_ARGS)
{
	char	   *name;
	char	   *sql;
	Oid			table;

	stream_require_shmem();
	PreventCommandIfReadOnly("drop_stream()");
	PreventCommandDuringRecovery("drop_stream()");
	name = stream_text_argument(fcinfo, 0, "stream");
	stream_lock_extension();
	/* waits for publishers and readers; nothing else of the stream is locked yet */
	table = stream_table_for_owner(name, AccessExclusiveLock);
	stream_notice_projections(stream_info(table));
	/* as a command, so that event triggers see it */
	sql = psprintf("DROP FOREIGN TABLE %s", quote_qualified_identifier(STREAM_TABLE_SCHEMA, name));
	stream_execute(sql, InvalidOid);
	pfree(sql);
	PG_RETURN_VOID();
}
