/*-------------------------------------------------------------------------
 *
 * target.c
 *		The table that a projection keeps: what it must be, and its key.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/projection_targets.h"
#include "catalog/tables.h"
#include "compat.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "projection/target.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* check_relation refuses what is no table of the caller's. */
static void
check_relation(Oid relid)
{
	char		relkind = get_rel_relkind(relid);

	if (relkind == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("target with OID %u does not exist", relid)));
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("target \"%s\" is not a table", get_rel_name(relid))));
	if (!stream_relation_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
}

/* is_permanent says whether a table outlives a crash; so does one that has just been dropped. */
static bool
is_permanent(Oid relid)
{
	return get_rel_relkind(relid) == '\0' || get_rel_persistence(relid) == RELPERSISTENCE_PERMANENT;
}

/* unlogged_part returns the table, or the first partition of it, that a crash would empty; invalid: there is none. */
static Oid
unlogged_part(Oid relid)
{
	ListCell   *cell;

	if (!is_permanent(relid))
		return relid;
	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		foreach(cell, find_all_inheritors(relid, NoLock, NULL))
			if (!is_permanent(lfirst_oid(cell)))
				return lfirst_oid(cell);
	return InvalidOid;
}

/* stream_open_target opens and locks a table of the caller's that a worker may write to. */
Relation
stream_open_target(Oid relid)
{
	Relation	rel;
	Oid			unlogged;

	/* nobody waits for a lock on what is not theirs; what was waited for may have changed */
	check_relation(relid);
	LockRelationOid(relid, RowExclusiveLock);
	check_relation(relid);
	rel = table_open(relid, NoLock);
	if (IsCatalogRelation(rel) || RelationGetNamespace(rel) == stream_internal_schema())
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("target \"%s\" is a system table", RelationGetRelationName(rel))));
	if (RelationUsesLocalBuffers(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("target \"%s\" is a temporary table", RelationGetRelationName(rel)),
				 errdetail("Background workers do not see it.")));
	unlogged = unlogged_part(relid);
	if (OidIsValid(unlogged))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 unlogged == relid ?
				 errmsg("target \"%s\" is an unlogged table", RelationGetRelationName(rel)) :
				 errmsg("partition \"%s\" of target \"%s\" is an unlogged table", get_rel_name(unlogged), RelationGetRelationName(rel)),
				 errdetail("A crash would empty it, and the projection would go on from where it was."),
				 errhint("Use ALTER TABLE … SET LOGGED.")));
	return rel;
}

/* state_of says what a table is to a projection. */
static StreamTargetState
state_of(const StreamProjection *projection, Oid relid)
{
	Oid			known;

	if (!OidIsValid(relid))
		return STREAM_TARGET_MISSING;
	known = stream_projection_target(projection->projection_id);
	if (OidIsValid(known) && known != relid)
		return STREAM_TARGET_REPLACED;
	return OidIsValid(unlogged_part(relid)) ? STREAM_TARGET_UNLOGGED : STREAM_TARGET_READY;
}

/* stream_target_state says what has become of a projection's target, as it is just now. */
StreamTargetState
stream_target_state(const StreamProjection *projection)
{
	Oid			schema;

	if (!projection->has_target)
		return STREAM_TARGET_READY;
	schema = get_namespace_oid(NameStr(projection->target_schema), true);
	return state_of(projection, OidIsValid(schema) ? get_relname_relid(NameStr(projection->target_table), schema) : InvalidOid);
}

/*
 * check_nulls refuses a key that has come to allow nulls that are not equal: each
 * batch with such a key would add a row.  Everything else that a key must be, the
 * statement itself finds missing.
 */
static void
check_nulls(const StreamProjection *projection, Oid relid)
{
	Relation	target = table_open(relid, NoLock);
	Bitmapset  *key = NULL;
	bool		nullable = false;
	ListCell   *cell;

	foreach(cell, projection->key)
	{
		AttrNumber	attnum = get_attnum(relid, lfirst(cell));

		if (attnum <= 0)
			break;
		key = bms_add_member(key, attnum);
		nullable |= !TupleDescAttr(RelationGetDescr(target), attnum - 1)->attnotnull;
	}
	if (cell == NULL && nullable)
		stream_check_key(target, key);
	table_close(target, NoLock);
}

/*
 * stream_check_target locks a projection's target, as one who writes to it, to the
 * transaction's end, and refuses to apply anything to what it is not: the name of
 * the owner, that of the table, and the table itself may have changed hands.
 */
void
stream_check_target(const StreamProjection *projection, Oid owner)
{
	char	   *name;
	Oid			relid;

	if (!projection->has_target)
		return;
	relid = RangeVarGetRelid(makeRangeVar(pstrdup(NameStr(projection->target_schema)),
										  pstrdup(NameStr(projection->target_table)), -1),
							 RowExclusiveLock, true);
	name = quote_qualified_identifier(NameStr(projection->target_schema), NameStr(projection->target_table));
	switch (state_of(projection, relid))
	{
		case STREAM_TARGET_READY:
			break;
		case STREAM_TARGET_MISSING:
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("target %s of projection \"%s\" does not exist", name, NameStr(projection->name)),
					 errhint("If it was renamed, name it with stream.alter_projection; else drop the projection, and create both anew.")));
			break;
		case STREAM_TARGET_REPLACED:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("target %s of projection \"%s\" is another table than before", name, NameStr(projection->name)),
					 errdetail("It was created anew under that name, without what has been applied."),
					 errhint("To fill it from the log, drop the projection and create it anew; to go on with it as it is, name it with stream.alter_projection.")));
			break;
		case STREAM_TARGET_UNLOGGED:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("target %s of projection \"%s\" is unlogged, or a partition of it is", name, NameStr(projection->name)),
					 errdetail("A crash would empty it, and the projection would go on from where it was."),
					 errhint("Use ALTER TABLE … SET LOGGED. If there has been a crash, drop the projection and create it anew.")));
			break;
	}
	if (!stream_relation_ownercheck(relid, owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("owner \"%s\" of projection \"%s\" does not own its target \"%s\"",
						NameStr(projection->owner), NameStr(projection->name), NameStr(projection->target_table)),
				 errhint("Give it another owner with stream.alter_projection.")));
	check_nulls(projection, relid);
	if (!OidIsValid(stream_projection_target(projection->projection_id)))
		stream_adopt_projection_target(projection->projection_id, relid);
}

/* usual_equality says whether an index column compares as GROUP BY does. */
static bool
usual_equality(Relation target, Relation index, int i)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(target), index->rd_index->indkey.values[i] - 1);
	Oid			equality = get_opfamily_member(index->rd_opfamily[i], index->rd_opcintype[i],
											   index->rd_opcintype[i], BTEqualStrategyNumber);
	Oid			collation = index->rd_indcollation[i];

	if (equality != lookup_type_cache(attribute->atttypid, TYPECACHE_EQ_OPR)->eq_opr)
		return false;
	return collation == attribute->attcollation ||
		(get_collation_isdeterministic(collation) && get_collation_isdeterministic(attribute->attcollation));
}

/*
 * is_key says whether an index makes rows unique by exactly these columns, by
 * number, in a way that ON CONFLICT can use.
 */
static bool
is_key(Relation target, Relation index, const Bitmapset *key)
{
	Form_pg_index form = index->rd_index;

	if (!form->indisunique || !form->indimmediate || !form->indisvalid || !form->indisready ||
		index->rd_rel->relam != BTREE_AM_OID ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL) ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indexprs, NULL) ||
		form->indnkeyatts != bms_num_members(key))
		return false;
	for (int i = 0; i < form->indnkeyatts; i++)
		if (!bms_is_member(form->indkey.values[i], key) || !usual_equality(target, index, i))
			return false;
	return true;
}

/* nullable_column returns the name of a column of the key that may be null, or null. */
static const char *
nullable_column(Relation target, Bitmapset *key)
{
	int			attnum = -1;

	while ((attnum = bms_next_member(key, attnum)) >= 0)
	{
		Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(target), attnum - 1);

		if (!attribute->attnotnull)
			return NameStr(attribute->attname);
	}
	return NULL;
}

static char *
column_names(Relation target, Bitmapset *columns)
{
	StringInfoData names;
	int			attnum = -1;

	initStringInfo(&names);
	while ((attnum = bms_next_member(columns, attnum)) >= 0)
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "",
						 NameStr(TupleDescAttr(RelationGetDescr(target), attnum - 1)->attname));
	return names.data;
}

/*
 * stream_check_key refuses a key, columns by number, that no primary key or
 * unique index has, or whose columns may be null and nulls are distinct: a
 * record applied again would then add another row.
 */
void
stream_check_key(Relation target, Bitmapset *key)
{
	List	   *indexes = RelationGetIndexList(target);
	ListCell   *cell;
	bool		found = false;
	const char *nullable = nullable_column(target, key);

	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		if (is_key(target, index, key))
		{
			found = true;
			if (index->rd_index->indnullsnotdistinct)
				nullable = NULL;
		}
		index_close(index, AccessShareLock);
	}
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("target \"%s\" has no primary key or unique index on exactly (%s)",
						RelationGetRelationName(target), column_names(target, key)),
				 errdetail("The key of a projection is the columns that its query produces without a merge."),
				 errhint("Give the other columns a merge, or create a unique index that is neither partial, deferrable nor on expressions.")));
	if (nullable != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("column \"%s\" of the key may be null", nullable),
				 errdetail("Rows with a null there are not unique, so that a record applied again would add a row."),
				 errhint("Make it NOT NULL, or the index NULLS NOT DISTINCT.")));
}

/* stream_check_other_columns refuses a target with columns that nothing fills. */
void
stream_check_other_columns(Relation target, Bitmapset *produced)
{
	TupleDesc	desc = RelationGetDescr(target);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (attribute->attisdropped || !attribute->attnotnull || attribute->atthasdef || attribute->attidentity != '\0' ||
			bms_is_member(attribute->attnum, produced))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("query does not produce column \"%s\" of the target, which is NOT NULL and has no default",
						NameStr(attribute->attname))));
	}
}
