/*-------------------------------------------------------------------------
 *
 * streams.c
 *		The table stream_internal.streams, and what a backend knows of a
 *		stream.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/segments.h"
#include "catalog/streams.h"
#include "catalog/tables.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "log/batch.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "shmem.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define STREAMS_TABLE	"streams"
#define STREAMS_PKEY	"streams_pkey"
#define STREAMS_BY_NAME	"streams_stream_key"

#define Anum_streams_stream_id		1
#define Anum_streams_partitions		2
#define Anum_streams_stream			3
#define Anum_streams_created_at		4
#define Anum_streams_value_type		5
#define Anum_streams_compression	6
#define Anum_streams_encoding		7
#define Anum_streams_byte_order		8
#define Anum_streams_segment_bytes	9
#define Anum_streams_segment_age	10
#define Natts_streams				10

#ifdef WORDS_BIGENDIAN
#define NATIVE_BYTE_ORDER	"big"
#else
#define NATIVE_BYTE_ORDER	"little"
#endif

uint64		stream_cache_generation = 1;

static HTAB *info_cache = NULL;

/*
 * Relations change all the time, streams hardly ever: only entries of this
 * cache count.  InvalidOid stands for all.
 */
static void
relcache_callback(Datum arg, Oid relid)
{
	StreamInfo *info;

	if (OidIsValid(relid))
	{
		info = hash_search(info_cache, &relid, HASH_FIND, NULL);
		if (info == NULL)
			return;
		info->valid = false;
		info->changes++;
	}
	else
	{
		HASH_SEQ_STATUS status;

		hash_seq_init(&status, info_cache);
		while ((info = hash_seq_search(&status)) != NULL)
		{
			info->valid = false;
			info->changes++;
		}
	}
	stream_cache_generation++;
}

/* Roles, and the privileges on the schema. */
static void
privilege_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	stream_cache_generation++;
}

/* stream_cache_init makes the cache; it runs once a process. */
void
stream_cache_init(void)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(StreamInfo);
	ctl.hcxt = TopMemoryContext;
	info_cache = hash_create("stream info", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, privilege_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, privilege_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, privilege_callback, (Datum) 0);
}

/* stream_invalidate tells all backends that a stream's rows have changed. */
void
stream_invalidate(Oid table)
{
	CacheInvalidateRelcacheByRelid(table);
}

/* stream_check_name refuses what cannot be an identifier. */
void
stream_check_name(const char *name)
{
	if (name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("stream name must not be empty")));
	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("stream name \"%s\" is too long", name),
				 errdetail("A name has at most %d bytes.", NAMEDATALEN - 1)));
}

/* Privileges are checked before a lock is taken. */
typedef struct TableAccess
{
	AclMode		mode;
	bool		owner;
} TableAccess;

/*
 * What find_table has found lately, so that a transaction that publishes one
 * record need not look up names and privileges again.  An entry holds while the
 * cache generation is the one it was made in.
 */
typedef struct KnownTable
{
	uint64		generation;		/* 0: empty */
	Oid			table;
	Oid			user;
	AclMode		mode;
	NameData	name;
} KnownTable;

#define KNOWN_TABLES	16

static KnownTable known_tables[KNOWN_TABLES];

static KnownTable *
known_table(const char *name)
{
	return &known_tables[hash_bytes((const unsigned char *) name, strlen(name)) % KNOWN_TABLES];
}

static void
check_access(const RangeVar *relation, Oid relid, Oid old_relid, void *arg)
{
	TableAccess *access = (TableAccess *) arg;

	if (!OidIsValid(relid))
		return;
	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s.%s\" is not a stream", relation->schemaname, relation->relname)));
	if (access->owner)
	{
		if (!stream_relation_ownercheck(relid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, relation->relname);
	}
	else if (access->mode != ACL_NO_RIGHTS)
	{
		AclResult	result = pg_class_aclcheck(relid, GetUserId(), access->mode);

		if (result != ACLCHECK_OK)
			aclcheck_error(result, OBJECT_FOREIGN_TABLE, relation->relname);
	}
}

static Oid
find_table(const char *name, LOCKMODE lockmode, TableAccess access, bool missing_ok)
{
	RangeVar	relation = {.type = T_RangeVar};
	KnownTable *known;
	StreamInfo *info;
	Oid			relid;

	stream_require_shmem();
	stream_check_name(name);
	relation.schemaname = STREAM_TABLE_SCHEMA;
	relation.relname = unconstify(char *, name);
	relation.inh = true;
	relation.relpersistence = RELPERSISTENCE_PERMANENT;
	relation.location = -1;
	known = known_table(name);
	if (known->generation == stream_cache_generation && known->user == GetUserId() &&
		known->mode == access.mode && !access.owner && strcmp(NameStr(known->name), name) == 0)
	{
		relid = known->table;
		LockRelationOid(relid, lockmode);
		/* having the lock, we know of all changes before it */
		if (known->generation == stream_cache_generation)
			return relid;
		UnlockRelationOid(relid, lockmode);
	}

	relid = RangeVarGetRelidExtended(&relation, lockmode, RVR_MISSING_OK, check_access, &access);
	if (!OidIsValid(relid) && !missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("stream \"%s\" does not exist", name),
				 errhint("Stream names are case-sensitive; stream.create_stream creates one.")));

	/* only a table in the cache makes the generation grow when it changes */
	info = OidIsValid(relid) ? hash_search(info_cache, &relid, HASH_FIND, NULL) : NULL;
	if (info != NULL && info->valid && !access.owner)
	{
		known->generation = stream_cache_generation;
		known->table = relid;
		known->user = GetUserId();
		known->mode = access.mode;
		namestrcpy(&known->name, name);
	}
	return relid;
}

/*
 * stream_table finds a stream's foreign table by name and locks it, after
 * checking that the user has the privileges in mode on it.
 */
Oid
stream_table(const char *name, LOCKMODE lockmode, AclMode mode, bool missing_ok)
{
	TableAccess access = {mode, false};

	return find_table(name, lockmode, access, missing_ok);
}

/* stream_table_for_owner is stream_table for what only an owner may do. */
Oid
stream_table_for_owner(const char *name, LOCKMODE lockmode)
{
	TableAccess access = {ACL_NO_RIGHTS, true};

	return find_table(name, lockmode, access, false);
}

/* parse_value_type returns false for what is no value type. */
static bool
parse_value_type(const char *text, StreamValueType *type)
{
	if (strcmp(text, "jsonb") == 0)
		*type = STREAM_VALUE_JSONB;
	else if (strcmp(text, "bytea") == 0)
		*type = STREAM_VALUE_BYTEA;
	else
		return false;
	return true;
}

static bool
parse_compression(const char *text, int32 *compression)
{
	if (strcmp(text, "lz4") == 0)
		*compression = STREAM_COMPRESSION_LZ4;
	else if (strcmp(text, "none") == 0)
		*compression = STREAM_COMPRESSION_NONE;
	else
		return false;
	return true;
}

/*
 * read_row fills in what stream_internal.streams says of the stream of that
 * name, and returns false when there is no such row.
 */
static bool
read_row(StreamInfo *info, const char *name)
{
	StreamCatalogScan scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_streams_stream, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum(name));
	stream_catalog_begin(&scan, STREAMS_TABLE, STREAMS_BY_NAME, 1, &key, false);
	tuple = stream_catalog_next(&scan, ForwardScanDirection);
	if (HeapTupleIsValid(tuple))
	{
		char	   *value_type = TextDatumGetCString(stream_catalog_get(&scan, tuple, Anum_streams_value_type, NULL));
		char	   *compression = TextDatumGetCString(stream_catalog_get(&scan, tuple, Anum_streams_compression, NULL));
		char	   *encoding = TextDatumGetCString(stream_catalog_get(&scan, tuple, Anum_streams_encoding, NULL));
		char	   *byte_order = TextDatumGetCString(stream_catalog_get(&scan, tuple, Anum_streams_byte_order, NULL));

		info->stream_id = DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_streams_stream_id, NULL));
		info->partitions = DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_streams_partitions, NULL));
		info->segment_bytes = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_streams_segment_bytes, NULL));
		info->segment_age = DatumGetInt64(stream_catalog_get(&scan, tuple, Anum_streams_segment_age, NULL));
		info->created_at = DatumGetTimestampTz(stream_catalog_get(&scan, tuple, Anum_streams_created_at, NULL));
		if (info->partitions < 1 || info->partitions > STREAM_MAX_PARTITIONS ||
			!parse_value_type(value_type, &info->value_type) ||
			!parse_compression(compression, &info->compression))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("catalog row of stream \"%s\" is not valid", name)));
		info->foreign_format = strcmp(encoding, GetDatabaseEncodingName()) != 0 ||
			strcmp(byte_order, NATIVE_BYTE_ORDER) != 0;
	}
	stream_catalog_end(&scan);
	return HeapTupleIsValid(tuple);
}

/*
 * stream_info_if_stream returns what is known of the stream behind a foreign
 * table, or null when the catalog has none: the table is forged, or a restore
 * has not come to the catalog yet.
 *
 * The result is good until invalidation messages are accepted: look up again
 * after taking a lock.
 */
StreamInfo *
stream_info_if_stream(Oid table)
{
	StreamInfo *info;
	bool		found;
	char	   *name;
	uint32		changes;
	int			tries = 0;
	MemoryContext context;

	info = hash_search(info_cache, &table, HASH_FIND, NULL);
	if (info != NULL && info->valid)
		return info;

	/* the look-ups below can accept invalidations: do them before the entry */
	if (get_rel_relkind(table) != RELKIND_FOREIGN_TABLE ||
		get_rel_namespace(table) != get_namespace_oid(STREAM_TABLE_SCHEMA, true) ||
		(name = get_rel_name(table)) == NULL)
		return NULL;

	info = hash_search(info_cache, &table, HASH_ENTER, &found);
	if (found && info->context != NULL)
		MemoryContextDelete(info->context);
	/* who remembers the count must see that there was a change */
	changes = found ? info->changes : 0;
	memset(info, 0, sizeof(StreamInfo));
	info->table = table;
	info->changes = changes;

	/*
	 * An invalidation that comes while it is being built makes it be built
	 * again.  Invalidations can come without end; then it serves this caller,
	 * who has no claim to changes made meanwhile, and is built anew for the
	 * next.  An error leaves it invalid.
	 */
	do
	{
		changes = info->changes;
		if (info->context != NULL)
			MemoryContextReset(info->context);
		if (!read_row(info, name))
			return NULL;
		if (info->context == NULL)
			info->context = AllocSetContextCreate(TopMemoryContext, "stream info", ALLOCSET_SMALL_SIZES);
		context = MemoryContextSwitchTo(info->context);
		namestrcpy(&info->name, name);
		info->partition = palloc0(info->partitions * sizeof(StreamPartitionInfo));
		MemoryContextSwitchTo(context);
		info->nsegments = stream_load_segments(info->stream_id, info->context, &info->segments);
	} while (changes != info->changes && ++tries < 3);

	info->valid = changes == info->changes;
	return info;
}

/* stream_info is stream_info_if_stream, which must find one. */
StreamInfo *
stream_info(Oid table)
{
	StreamInfo *info = stream_info_if_stream(table);
	char	   *name = info == NULL ? get_rel_name(table) : NULL;

	if (info == NULL && name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("stream was dropped by the statement that reads it")));
	if (info == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("foreign table \"%s\" is not a stream", name),
				 errhint("Streams are made by stream.create_stream. When a restore is under way, let it finish first.")));
	if (info->nsegments == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stream \"%s\" has no segment", NameStr(info->name)),
				 errhint("When a restore is under way, let it finish first.")));
	return info;
}

/* stream_partition_info returns the log start and the sealed ranges of a partition. */
StreamPartitionInfo *
stream_partition_info(StreamInfo *info, int32 partition)
{
	StreamPartitionInfo *result = &info->partition[partition];

	Assert(partition >= 0 && partition < info->partitions);
	if (!result->loaded)
	{
		result->log_start_offset = stream_load_log_start(info->stream_id, partition);
		result->nranges = stream_load_ranges(info->stream_id, partition, info->context, &result->ranges);
		result->loaded = true;
	}
	return result;
}

/*
 * stream_segment_numbers lists the segments, in memory of the caller's: opening
 * one can invalidate what is known of the stream.
 */
int32 *
stream_segment_numbers(const StreamInfo *info, bool unsealed_only, int *n)
{
	int32	   *numbers = palloc_array(int32, Max(info->nsegments, 1));

	*n = 0;
	for (int i = 0; i < info->nsegments; i++)
		if (!unsealed_only || !info->segments[i].sealed)
			numbers[(*n)++] = info->segments[i].segment_no;
	return numbers;
}

/* stream_check_format refuses to touch a log that was written elsewhere. */
void
stream_check_format(const StreamInfo *info)
{
	if (unlikely(info->foreign_format))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("stream \"%s\" was written under another encoding or byte order", NameStr(info->name)),
				 errdetail("This database has encoding %s and byte order %s.",
						   GetDatabaseEncodingName(), NATIVE_BYTE_ORDER),
				 errhint("Dumps of streams are not portable between encodings or byte orders.")));
}

void
stream_check_partition(const StreamInfo *info, int32 partition)
{
	if (partition < 0 || partition >= info->partitions)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("partition %d of stream \"%s\" does not exist", partition, NameStr(info->name)),
				 errdetail("The stream's partitions are 0 to %d.", info->partitions - 1)));
}

/* stream_new_id draws a number that no stream of this database has had. */
int32
stream_new_id(void)
{
	return (int32) nextval_internal(stream_internal_relation("stream_id_seq", false), false);
}

/* stream_id_of_name finds the number of the catalog's row of that name; 0: none. */
int32
stream_id_of_name(const char *name)
{
	StreamInfo	info = {0};

	return read_row(&info, name) ? info.stream_id : 0;
}

/* stream_insert adds the row of a new stream, after checking its options. */
void
stream_insert(int32 stream_id, const char *name, int32 partitions,
			  const char *value_type, const char *compression,
			  int64 segment_bytes, int64 segment_age)
{
	Datum		values[Natts_streams];
	bool		nulls[Natts_streams] = {false};
	NameData	stream;
	StreamValueType type;

	if (partitions < 1 || partitions > STREAM_MAX_PARTITIONS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a stream has 1 to %d partitions, not %d", STREAM_MAX_PARTITIONS, partitions)));
	if (!parse_value_type(value_type, &type))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("value type \"%s\" is not known", value_type),
				 errhint("Use jsonb or bytea.")));
	stream_check_compression(compression);

	namestrcpy(&stream, name);
	values[Anum_streams_stream_id - 1] = Int32GetDatum(stream_id);
	values[Anum_streams_partitions - 1] = Int32GetDatum(partitions);
	values[Anum_streams_stream - 1] = NameGetDatum(&stream);
	values[Anum_streams_created_at - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[Anum_streams_value_type - 1] = CStringGetTextDatum(value_type);
	values[Anum_streams_compression - 1] = CStringGetTextDatum(compression);
	values[Anum_streams_encoding - 1] = CStringGetTextDatum(GetDatabaseEncodingName());
	values[Anum_streams_byte_order - 1] = CStringGetTextDatum(NATIVE_BYTE_ORDER);
	values[Anum_streams_segment_bytes - 1] = Int64GetDatum(segment_bytes);
	values[Anum_streams_segment_age - 1] = Int64GetDatum(segment_age);
	stream_catalog_insert(STREAMS_TABLE, Natts_streams, values, nulls);
}

/* stream_check_compression refuses an unknown way of compression. */
void
stream_check_compression(const char *compression)
{
	int32		parsed;

	if (!parse_compression(compression, &parsed))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("compression \"%s\" is not known", compression),
				 errhint("Use lz4 or none.")));
}

static void
set_column(int32 stream_id, int attnum, Datum value)
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_streams_stream_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(stream_id));
	stream_catalog_update(STREAMS_TABLE, STREAMS_PKEY, 1, &key, attnum, value, false);
	CommandCounterIncrement();
}

void
stream_set_segment_bytes(int32 stream_id, int64 segment_bytes)
{
	set_column(stream_id, Anum_streams_segment_bytes, Int64GetDatum(segment_bytes));
}

void
stream_set_segment_age(int32 stream_id, int64 segment_age)
{
	set_column(stream_id, Anum_streams_segment_age, Int64GetDatum(segment_age));
}

void
stream_set_compression(int32 stream_id, const char *compression)
{
	stream_check_compression(compression);
	set_column(stream_id, Anum_streams_compression, CStringGetTextDatum(compression));
}

/* stream_rename follows the foreign table to a new name. */
void
stream_rename(int32 stream_id, const char *name)
{
	ScanKeyData key;
	NameData	stream;

	namestrcpy(&stream, name);
	ScanKeyInit(&key, Anum_streams_stream_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(stream_id));
	stream_catalog_update(STREAMS_TABLE, STREAMS_PKEY, 1, &key,
						  Anum_streams_stream, NameGetDatum(&stream), false);
}

/* stream_delete removes the row of a stream. */
void
stream_delete(int32 stream_id)
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_streams_stream_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(stream_id));
	stream_catalog_delete(STREAMS_TABLE, STREAMS_PKEY, 1, &key);
}

/* stream_table_of_id finds the foreign table of the stream of that number; InvalidOid: none. */
Oid
stream_table_of_id(int32 stream_id)
{
	StreamCatalogScan scan;
	ScanKeyData key;
	HeapTuple	tuple;
	NameData	name;

	ScanKeyInit(&key, Anum_streams_stream_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(stream_id));
	stream_catalog_begin(&scan, STREAMS_TABLE, STREAMS_PKEY, 1, &key, false);
	tuple = stream_catalog_next(&scan, ForwardScanDirection);
	if (HeapTupleIsValid(tuple))
		name = *DatumGetName(stream_catalog_get(&scan, tuple, Anum_streams_stream, NULL));
	stream_catalog_end(&scan);
	return HeapTupleIsValid(tuple) ? get_relname_relid(NameStr(name), get_namespace_oid(STREAM_TABLE_SCHEMA, false)) : InvalidOid;
}

/* stream_all_tables lists the foreign tables of all streams, by name. */
List *
stream_all_tables(void)
{
	StreamCatalogScan scan;
	HeapTuple	tuple;
	List	   *tables = NIL;
	Oid			nspid = get_namespace_oid(STREAM_TABLE_SCHEMA, false);

	stream_catalog_begin(&scan, STREAMS_TABLE, STREAMS_BY_NAME, 0, NULL, true);
	while (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
	{
		Name		name = DatumGetName(stream_catalog_get(&scan, tuple, Anum_streams_stream, NULL));
		Oid			table = get_relname_relid(NameStr(*name), nspid);

		if (OidIsValid(table))
			tables = lappend_oid(tables, table);
	}
	stream_catalog_end(&scan);
	return tables;
}

/*
 * stream_may_see says whether the views show a stream to the user: to those who
 * may read it, and to monitoring roles.
 */
bool
stream_may_see(Oid table)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_MONITOR) ||
		pg_class_aclcheck(table, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
}

/*
 * stream_visible_tables lists the foreign tables of the streams to show, when lock
 * each locked against being dropped.  It does not wait: a stream whose drop
 * waits for its publishers is left out then, and shown where no lock is needed.
 */
List *
stream_visible_tables(bool lock)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, stream_all_tables())
	{
		Oid			table = lfirst_oid(cell);

		if (!stream_may_see(table))
			continue;
		if (lock && !ConditionalLockRelationOid(table, AccessShareLock))
			continue;
		if (stream_info_if_stream(table) != NULL)
			result = lappend_oid(result, table);
		else if (lock)
			UnlockRelationOid(table, AccessShareLock);
	}
	return result;
}
