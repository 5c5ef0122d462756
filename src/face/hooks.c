/*-------------------------------------------------------------------------
 *
 * hooks.c
 *		DDL on the foreign table of a stream.
 *
 * What is done to the foreign table is carried through to the stream, or
 * refused:
 *
 *	DROP, also by DROP OWNED or DROP … CASCADE: the stream goes with it.  Its
 *		segments and sequences depend on the table; here go the catalog rows,
 *		and at commit the shared state.  A restore from a dump loses the
 *		dependencies, so what is left by name is dropped here as well.
 *	RENAME: the stream has the new name.
 *	SET SCHEMA, a new name for the schema, and any change of the columns' names and types: refused.
 *	OWNER, GRANT, defaults, triggers, statistics: the table's own affair.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/groups.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/projections.h"
#include "catalog/segments.h"
#include "catalog/streams.h"
#include "catalog/tables.h"
#include "commands/extension.h"
#include "compat.h"
#include "face/hooks.h"
#include "log/append.h"
#include "log/forget.h"
#include "log/reserve.h"
#include "log/segment.h"
#include "log/segtable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

static object_access_hook_type previous_object_access_hook = NULL;

/* catalog_is_whole says whether the internal tables are there: an extension that is dropped takes them along. */
static bool
catalog_is_whole(void)
{
	static const char *const tables[] = {"streams", "partitions", "offset_gaps", "segments", "segment_ranges",
	"consumer_groups", "offsets", "projections", "projection_errors",
	"projection_targets"};

	if (!OidIsValid(get_namespace_oid(STREAM_INTERNAL_SCHEMA, true)))
		return false;
	for (size_t i = 0; i < lengthof(tables); i++)
		if (!OidIsValid(stream_internal_relation(tables[i], true)))
			return false;
	return true;
}

/* stream_of_table returns the stream behind a relation, or null. */
static StreamInfo *
stream_of_table(Oid table)
{
	if (get_rel_relkind(table) != RELKIND_FOREIGN_TABLE || !catalog_is_whole())
		return NULL;
	return stream_info_if_stream(table);
}

/* extension_goes says whether this transaction is dropping the extension. */
static bool
extension_goes(void)
{
	LOCKTAG		tag;
	Oid			extension = get_extension_oid(STREAM_EXTENSION, true);

	if (!OidIsValid(extension))
		return true;
	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, extension, 0);
	return stream_lock_held_by_me(&tag, AccessExclusiveLock);
}

/* add_independent adds a segment or sequence unless it goes by dependency. */
static void
add_independent(ObjectAddresses *objects, const char *name, Oid table)
{
	Oid			relid = stream_internal_relation(name, true);
	ObjectAddress address;

	if (!OidIsValid(relid) || stream_depends_on_table(relid, table))
		return;
	ObjectAddressSet(address, RelationRelationId, relid);
	add_exact_object_address(&address, objects);
}

/* drop_independent drops what a restored stream does not take along by itself. */
static void
drop_independent(StreamInfo *info)
{
	ObjectAddresses *objects = new_object_addresses();
	char		name[NAMEDATALEN];

	for (int i = 0; i < info->nsegments; i++)
	{
		stream_segment_table_name(name, info->stream_id, info->segments[i].segment_no);
		add_independent(objects, name, info->table);
	}
	for (int32 partition = 0; partition < info->partitions; partition++)
	{
		stream_sequence_name(name, info->stream_id, partition);
		add_independent(objects, name, info->table);
	}
	performMultipleDeletions(objects, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	free_object_addresses(objects);
}

static void
table_dropped(Oid table)
{
	StreamInfo *info;
	int32		stream_id;

	if (get_rel_relkind(table) != RELKIND_FOREIGN_TABLE ||
		get_rel_namespace(table) != get_namespace_oid(STREAM_TABLE_SCHEMA, true))
		return;
	/* also when the catalog has gone before: the extension is being dropped */
	stream_publish_dropped(table);
	stream_forget_if_committed(MyDatabaseId, table);
	info = stream_of_table(table);
	if (info == NULL)
		return;
	stream_id = info->stream_id;
	if (!extension_goes())
	{
		stream_notice_projections(info);
		drop_independent(info);
	}
	stream_delete_groups(info);
	stream_delete_projections(stream_id);
	stream_delete_log(stream_id);
	stream_delete(stream_id);
}

/*
 * table_altered compares a stream's row in pg_class before the command, as the
 * caches have it, with the one that the command has just written.
 */
static void
table_altered(Oid table)
{
	StreamInfo *info = stream_of_table(table);
	Relation	rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (info == NULL)
		return;
	rel = table_open(RelationRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(table));
	scan = systable_beginscan(rel, ClassOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class after = (Form_pg_class) GETSTRUCT(tuple);

		if (after->relnamespace != get_namespace_oid(STREAM_TABLE_SCHEMA, false))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot move stream \"%s\" to another schema", NameStr(info->name)),
					 errhint("Streams are in schema \"%s\"; a view can show one elsewhere.", STREAM_TABLE_SCHEMA)));
		if (strcmp(NameStr(after->relname), NameStr(info->name)) != 0)
		{
			stream_rename(info->stream_id, NameStr(after->relname));
			stream_invalidate(table);
		}
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

static void
refuse_column_change(StreamInfo *info)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot change the columns of stream \"%s\"", NameStr(info->name)),
			 errhint("A stream has the columns of a record; a view can show others.")));
}

/* column_altered refuses changes of a column's name or type, and lets others pass. */
static void
column_altered(Oid table, AttrNumber attnum)
{
	StreamInfo *info = stream_of_table(table);
	Relation	rel;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	before;
	HeapTuple	after;
	bool		changed = false;

	if (info == NULL)
		return;
	before = SearchSysCache2(ATTNUM, ObjectIdGetDatum(table), Int16GetDatum(attnum));
	rel = table_open(AttributeRelationId, AccessShareLock);
	ScanKeyInit(&keys[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(table));
	ScanKeyInit(&keys[1], Anum_pg_attribute_attnum, BTEqualStrategyNumber, F_INT2EQ, Int16GetDatum(attnum));
	scan = systable_beginscan(rel, AttributeRelidNumIndexId, true, SnapshotSelf, 2, keys);
	after = systable_getnext(scan);
	if (HeapTupleIsValid(before) && HeapTupleIsValid(after))
	{
		Form_pg_attribute old = (Form_pg_attribute) GETSTRUCT(before);
		Form_pg_attribute new = (Form_pg_attribute) GETSTRUCT(after);

		changed = old->atttypid != new->atttypid || old->atttypmod != new->atttypmod ||
			strcmp(NameStr(old->attname), NameStr(new->attname)) != 0;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (HeapTupleIsValid(before))
		ReleaseSysCache(before);
	if (changed)
		refuse_column_change(info);
}

/* schema_altered refuses to rename the extension's schemas: they are found by name. */
static void
schema_altered(Oid schema)
{
	const char *before = get_namespace_name(schema);
	Relation	rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (before == NULL || !OidIsValid(get_extension_oid(STREAM_EXTENSION, true)) ||
		(strcmp(before, STREAM_SCHEMA) != 0 && strcmp(before, STREAM_TABLE_SCHEMA) != 0 &&
		 strcmp(before, STREAM_INTERNAL_SCHEMA) != 0))
		return;
	rel = table_open(NamespaceRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_namespace_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(schema));
	scan = systable_beginscan(rel, NamespaceOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) &&
		strcmp(NameStr(((Form_pg_namespace) GETSTRUCT(tuple))->nspname), before) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot rename schema \"%s\"", before),
				 errdetail("The extension \"%s\" finds its objects by this name.", STREAM_EXTENSION)));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	StreamInfo *info;

	if (previous_object_access_hook)
		previous_object_access_hook(access, class_id, object_id, sub_id, arg);

	if (class_id == RelationRelationId)
	{
		if (access == OAT_DROP && sub_id == 0)
			table_dropped(object_id);
		else if (access == OAT_POST_ALTER && sub_id == 0)
			table_altered(object_id);
		else if (access == OAT_POST_ALTER)
			column_altered(object_id, sub_id);
		else if ((access == OAT_DROP || access == OAT_POST_CREATE) && sub_id != 0 &&
				 (info = stream_of_table(object_id)) != NULL)
			refuse_column_change(info);
	}
	else if (access == OAT_POST_ALTER && class_id == NamespaceRelationId)
		schema_altered(object_id);
	else if (access == OAT_DROP && class_id == DatabaseRelationId)
		stream_forget_if_committed(object_id, InvalidOid);
}

void
stream_hooks_init(void)
{
	previous_object_access_hook = object_access_hook;
	object_access_hook = object_access;
}
