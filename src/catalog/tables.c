/*-------------------------------------------------------------------------
 *
 * tables.c
 *		The extension itself and the way to its internal tables.
 *
 * Rows are read and written by the functions that serve system catalogs; they
 * need no planner and no privileges, and check unique indexes.
 *
 * Whoever creates or drops things locks the extension first, its tables
 * afterwards, so that DROP EXTENSION cannot deadlock with it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "catalog/tables.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

static HeapTuple extension_tuple(Relation rel, SysScanDesc *scan);

/* stream_internal_schema returns the OID of the schema of internal tables. */
Oid
stream_internal_schema(void)
{
	Oid			nspid = get_namespace_oid(STREAM_INTERNAL_SCHEMA, true);

	if (!OidIsValid(nspid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"%s\" is not installed in this database", STREAM_EXTENSION),
				 errhint("Run CREATE EXTENSION %s.", STREAM_EXTENSION)));
	return nspid;
}

/* stream_internal_relation finds an internal table, index or sequence by name. */
Oid
stream_internal_relation(const char *name, bool missing_ok)
{
	Oid			relid = get_relname_relid(name, stream_internal_schema());

	if (!OidIsValid(relid) && !missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"%s.%s\" does not exist", STREAM_INTERNAL_SCHEMA, name),
				 errhint("When a restore is under way, let it finish first.")));
	return relid;
}

/*
 * extension_tuple finds the extension's row and checks that the library fits
 * the version that is installed in the database.
 */
static HeapTuple
extension_tuple(Relation rel, SysScanDesc *scan)
{
	ScanKeyData key;
	HeapTuple	tuple;
	Datum		version;
	bool		isnull;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(STREAM_EXTENSION));
	*scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(*scan);
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"%s\" is not installed in this database", STREAM_EXTENSION),
				 errhint("Run CREATE EXTENSION %s.", STREAM_EXTENSION)));
	version = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(rel), &isnull);
	if (isnull || strcmp(TextDatumGetCString(version), STREAM_VERSION) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"%s\" is installed in version %s, but the library is of version %s",
						STREAM_EXTENSION, isnull ? "?" : TextDatumGetCString(version), STREAM_VERSION),
				 errhint("Run ALTER EXTENSION %s UPDATE.", STREAM_EXTENSION)));
	return tuple;
}

/*
 * stream_lock_extension keeps DROP EXTENSION away to the end of the
 * transaction.
 */
void
stream_lock_extension(void)
{
	Oid			extension = get_extension_oid(STREAM_EXTENSION, true);

	if (OidIsValid(extension))
		LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
	/* it may have gone while we waited */
	(void) stream_extension_owner();
}

/*
 * stream_try_lock_extension does so without waiting; false: a command on the
 * extension is under way, or there is none.
 */
bool
stream_try_lock_extension(void)
{
	Oid			extension = get_extension_oid(STREAM_EXTENSION, true);

	return OidIsValid(extension) &&
		ConditionalLockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock) &&
		get_extension_oid(STREAM_EXTENSION, true) == extension;
}

/* stream_extension_owner returns the role that owns all internal objects. */
Oid
stream_extension_owner(void)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple = extension_tuple(rel, &scan);
	Oid			owner = ((Form_pg_extension) GETSTRUCT(tuple))->extowner;

	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return owner;
}

/*
 * stream_catalog_begin starts a scan of an internal table over an index of it.
 * The keys' attribute numbers are the table's.  An ordered scan returns rows in
 * the index's order.
 */
void
stream_catalog_begin(StreamCatalogScan *scan, const char *table, const char *index,
					 int nkeys, ScanKey keys, bool ordered)
{
	Oid			index_oid = stream_internal_relation(index, false);

	scan->rel = table_open(stream_internal_relation(table, false), AccessShareLock);
	scan->ordered = ordered;
	if (ordered)
	{
		scan->index = index_open(index_oid, AccessShareLock);
		scan->scan = systable_beginscan_ordered(scan->rel, scan->index, NULL, nkeys, keys);
	}
	else
	{
		scan->index = NULL;
		scan->scan = systable_beginscan(scan->rel, index_oid, true, NULL, nkeys, keys);
	}
}

/* The tuple is valid until the next call. */
HeapTuple
stream_catalog_next(StreamCatalogScan *scan, ScanDirection direction)
{
	return scan->ordered ?
		systable_getnext_ordered(scan->scan, direction) :
		systable_getnext(scan->scan);
}

Datum
stream_catalog_get(StreamCatalogScan *scan, HeapTuple tuple, int attnum, bool *isnull)
{
	bool		null;
	Datum		value = heap_getattr(tuple, attnum, RelationGetDescr(scan->rel), &null);

	if (isnull)
		*isnull = null;
	else if (null)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("unexpected null in column %d of table \"%s.%s\"",
						attnum, STREAM_INTERNAL_SCHEMA, RelationGetRelationName(scan->rel))));
	return value;
}

void
stream_catalog_end(StreamCatalogScan *scan)
{
	if (scan->ordered)
	{
		systable_endscan_ordered(scan->scan);
		index_close(scan->index, AccessShareLock);
	}
	else
		systable_endscan(scan->scan);
	table_close(scan->rel, AccessShareLock);
}

/* stream_catalog_insert adds a row; the caller makes it visible to itself. */
void
stream_catalog_insert(const char *table, int natts, Datum *values, bool *nulls)
{
	Relation	rel = table_open(stream_internal_relation(table, false), RowExclusiveLock);
	HeapTuple	tuple;

	Assert(natts == RelationGetDescr(rel)->natts);
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	CatalogTupleInsert(rel, tuple);
	heap_freetuple(tuple);
	table_close(rel, NoLock);
}

/* stream_catalog_delete removes all rows that match the keys. */
void
stream_catalog_delete(const char *table, const char *index, int nkeys, ScanKey keys)
{
	Relation	rel = table_open(stream_internal_relation(table, false), RowExclusiveLock);
	SysScanDesc scan;
	HeapTuple	tuple;

	scan = systable_beginscan(rel, stream_internal_relation(index, false), true, NULL, nkeys, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		CHECK_FOR_INTERRUPTS();
		CatalogTupleDelete(rel, &tuple->t_self);
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
}

/* stream_catalog_update sets one column in all rows that match the keys. */
void
stream_catalog_update(const char *table, const char *index, int nkeys, ScanKey keys,
					  int attnum, Datum value, bool isnull)
{
	Relation	rel = table_open(stream_internal_relation(table, false), RowExclusiveLock);
	int			natts = RelationGetDescr(rel)->natts;
	Datum	   *values = palloc0(natts * sizeof(Datum));
	bool	   *nulls = palloc0(natts * sizeof(bool));
	bool	   *replace = palloc0(natts * sizeof(bool));
	SysScanDesc scan;
	HeapTuple	tuple;

	values[attnum - 1] = value;
	nulls[attnum - 1] = isnull;
	replace[attnum - 1] = true;

	scan = systable_beginscan(rel, stream_internal_relation(index, false), true, NULL, nkeys, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		HeapTuple	changed = heap_modify_tuple(tuple, RelationGetDescr(rel), values, nulls, replace);

		CatalogTupleUpdate(rel, &changed->t_self, changed);
		heap_freetuple(changed);
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
}

/* stream_catalog_replace gives the row that matches the keys, if there is one, new values. */
void
stream_catalog_replace(const char *table, const char *index, int nkeys, ScanKey keys,
					   int natts, Datum *values, bool *nulls)
{
	Relation	rel = table_open(stream_internal_relation(table, false), RowExclusiveLock);
	SysScanDesc scan;
	HeapTuple	tuple;

	Assert(natts == RelationGetDescr(rel)->natts);
	scan = systable_beginscan(rel, stream_internal_relation(index, false), true, NULL, nkeys, keys);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		HeapTuple	changed = heap_form_tuple(RelationGetDescr(rel), values, nulls);

		CatalogTupleUpdate(rel, &tuple->t_self, changed);
		heap_freetuple(changed);
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
}

/*
 * stream_execute runs one utility statement as the given role (InvalidOid: as
 * the caller), with only pg_catalog and pg_temp on the search path.
 */
void
stream_execute(const char *sql, Oid as_user)
{
	Oid			save_user;
	int			save_context;
	int			nest_level = NewGUCNestLevel();
	bool		push_snapshot = ActivePortal == NULL && !ActiveSnapshotSet();
	int			rc;

	GetUserIdAndSecContext(&save_user, &save_context);
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	/* "relation will be created with …" and the like concern nobody */
	if (client_min_messages < WARNING)
		(void) set_config_option("client_min_messages", "warning", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	if (OidIsValid(as_user))
	{
		/* nor shall the caller's settings choose where its objects lie */
		(void) set_config_option("default_tablespace", "", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
		SetUserIdAndSecContext(as_user, save_context | SECURITY_LOCAL_USERID_CHANGE);
	}

	/* a background worker has no portal that would have one */
	if (push_snapshot)
		PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	rc = SPI_execute(sql, false, 0);
	if (rc < 0)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(rc));
	SPI_finish();
	if (push_snapshot)
		PopActiveSnapshot();

	SetUserIdAndSecContext(save_user, save_context);
	AtEOXact_GUC(false, nest_level);
}
