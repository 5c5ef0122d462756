/*-------------------------------------------------------------------------
 *
 * guard.c
 *		DDL on the target of a projection.
 *
 * Most changes of a target show when the next batch is applied: see target.c.
 * Not so SET UNLOGGED, a crash, and SET LOGGED, when nothing was applied in
 * between: the table is as permanent as before, and empty.  So the first of them
 * is refused, as it is for a table of a publication.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/projection_targets.h"
#include "catalog/projections.h"
#include "catalog/tables.h"
#include "projection/guard.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

static object_access_hook_type previous_object_access_hook = NULL;

/*
 * becomes_unlogged compares a table's row in pg_class before the command, as the
 * caches have it, with the one that the command has just written.
 */
static bool
becomes_unlogged(Oid relid)
{
	Relation	rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		result;

	if (get_rel_relkind(relid) != RELKIND_RELATION || get_rel_persistence(relid) != RELPERSISTENCE_PERMANENT)
		return false;
	rel = table_open(RelationRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, ClassOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	result = HeapTupleIsValid(tuple) &&
		((Form_pg_class) GETSTRUCT(tuple))->relpersistence == RELPERSISTENCE_UNLOGGED;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

/* target_of returns the table that a projection is applied to, or would be; invalid: none. */
static Oid
target_of(const StreamProjection *projection)
{
	Oid			target = stream_projection_target(projection->projection_id);
	Oid			schema;

	if (OidIsValid(target) || !projection->has_target)
		return target;
	schema = get_namespace_oid(NameStr(projection->target_schema), true);
	return OidIsValid(schema) ? get_relname_relid(NameStr(projection->target_table), schema) : InvalidOid;
}

/* check_unlogged refuses to make a target unlogged, or a partition of one. */
static void
check_unlogged(Oid relid)
{
	List	   *tables;
	ListCell   *cell;

	if (!OidIsValid(get_namespace_oid(STREAM_INTERNAL_SCHEMA, true)) ||
		!OidIsValid(stream_internal_relation("projections", true)) ||
		!OidIsValid(stream_internal_relation("projection_targets", true)))
		return;
	tables = get_rel_relispartition(relid) ? get_partition_ancestors(relid) : NIL;
	tables = lappend_oid(tables, relid);
	foreach(cell, stream_projections())
	{
		StreamProjection *projection = lfirst(cell);

		if (list_member_oid(tables, target_of(projection)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
					 errmsg("cannot change table \"%s\" to unlogged because it is the target of projection \"%s\", or a partition of it",
							get_rel_name(relid), NameStr(projection->name)),
					 errdetail("A crash would empty it, and the projection would go on from where it was.")));
	}
}

static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (previous_object_access_hook)
		previous_object_access_hook(access, class_id, object_id, sub_id, arg);

	if (access == OAT_POST_ALTER && class_id == RelationRelationId && sub_id == 0 && becomes_unlogged(object_id))
		check_unlogged(object_id);
}

void
stream_target_guard_init(void)
{
	previous_object_access_hook = object_access_hook;
	object_access_hook = object_access;
}
