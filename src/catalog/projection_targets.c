/*-------------------------------------------------------------------------
 *
 * projection_targets.c
 *		The table stream_internal.projection_targets.
 *
 * A projection has its target by name, which is what a dump can restore.  Which
 * table that was is kept here, so that one that is created anew under its name,
 * without what was applied before, is told apart.
 *
 * It is not dumped: a restore gives all tables other numbers.  There the table
 * that has the name when the first batch is applied becomes the target.
 * pg_upgrade and CREATE DATABASE keep both.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/projection_targets.h"
#include "catalog/tables.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"

#define TARGETS_TABLE	"projection_targets"
#define TARGETS_PKEY	"projection_targets_pkey"

#define Anum_targets_projection_id	1
#define Anum_targets_target			2
#define Natts_targets				2

static void
init_key(ScanKey key, int32 projection_id)
{
	ScanKeyInit(key, Anum_targets_projection_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(projection_id));
}

/* stream_projection_target returns the table that a projection was applied to; invalid: not known. */
Oid
stream_projection_target(int32 projection_id)
{
	Oid			result = InvalidOid;
	StreamCatalogScan scan;
	ScanKeyData key;
	HeapTuple	tuple;

	init_key(&key, projection_id);
	stream_catalog_begin(&scan, TARGETS_TABLE, TARGETS_PKEY, 1, &key, false);
	tuple = stream_catalog_next(&scan, ForwardScanDirection);
	if (HeapTupleIsValid(tuple))
		result = DatumGetObjectId(stream_catalog_get(&scan, tuple, Anum_targets_target, NULL));
	stream_catalog_end(&scan);
	return result;
}

/* stream_set_projection_target makes a table the one. */
void
stream_set_projection_target(int32 projection_id, Oid target)
{
	Datum		values[Natts_targets];
	bool		nulls[Natts_targets] = {false};

	stream_delete_projection_target(projection_id);
	CommandCounterIncrement();
	values[Anum_targets_projection_id - 1] = Int32GetDatum(projection_id);
	values[Anum_targets_target - 1] = ObjectIdGetDatum(target);
	stream_catalog_insert(TARGETS_TABLE, Natts_targets, values, nulls);
}

/*
 * stream_adopt_projection_target does so where none is known yet, unless another
 * applier is just at it, for which it does not wait.  The lock keeps out none but
 * these: whoever else sets a target holds the locks of the projection's partitions,
 * or has just created it.
 */
void
stream_adopt_projection_target(int32 projection_id, Oid target)
{
	if (ConditionalLockRelationOid(stream_internal_relation(TARGETS_TABLE, false), ShareUpdateExclusiveLock) &&
		!OidIsValid(stream_projection_target(projection_id)))
		stream_set_projection_target(projection_id, target);
}

void
stream_delete_projection_target(int32 projection_id)
{
	ScanKeyData key;

	init_key(&key, projection_id);
	stream_catalog_delete(TARGETS_TABLE, TARGETS_PKEY, 1, &key);
}
