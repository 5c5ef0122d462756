/*-------------------------------------------------------------------------
 *
 * segment.c
 *		Rolling and sealing of segments.
 *
 * A roll has three steps:
 *
 *	1.	in one transaction, create the next segment's table and catalog row;
 *	2.	after its commit has ended altogether, invalidation messages included,
 *		activate the segment in shared memory: whoever is told to write to it
 *		can find it.  A commit callback would be too early;
 *	3.	in another transaction, seal the segments that are not active and have
 *		no open publisher.
 *
 * The roll lock is held from before step 1 to after step 2, so that the shared
 * state of a partition, which is made under the same lock, begins with the
 * segment that all others use.  When step 2 is not reached, the new segment
 * is in the catalog and nobody writes to it; the next roll activates it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "args.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_type.h"
#include "catalog/segments.h"
#include "catalog/tables.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "log/reserve.h"
#include "log/segment.h"
#include "log/upkeep.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "progress.h"
#include "shmem.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(stream_roll_segment);

/*
 * stream_depend_on_table makes a segment or sequence go with its stream's
 * foreign table, however that is dropped.  It depends on the table's row type,
 * which goes with the table: pg_dump would take a sequence that depends on a
 * table for the default of a column.  (An internal dependency would also forbid
 * to drop it alone, but pg_restore --clean does that.)
 */
void
stream_depend_on_table(Oid relid, Oid table)
{
	ObjectAddress object;
	ObjectAddress type;

	ObjectAddressSet(object, RelationRelationId, relid);
	ObjectAddressSet(type, TypeRelationId, get_rel_type_id(table));
	recordDependencyOn(&object, &type, DEPENDENCY_AUTO);
}

/* stream_depends_on_table says whether it does; after a restore it does not. */
bool
stream_depends_on_table(Oid relid, Oid table)
{
	Oid			type = get_rel_type_id(table);
	Relation	rel = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, DependDependerIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend depend = (Form_pg_depend) GETSTRUCT(tuple);

		if (depend->refclassid == TypeRelationId && depend->refobjid == type)
			found = true;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * stream_measure_range adds up the batches of a partition in a segment that
 * begin below an offset; false: there are none.
 */
bool
stream_measure_range(StreamSegmentTable *segment, Snapshot snapshot, int32 partition,
					 int64 limit, StreamRange *range)
{
	StreamBatchScan scan;
	StreamBatchHeader header;
	bool		found = false;

	memset(range, 0, sizeof(StreamRange));
	stream_batch_scan_begin(&scan, segment, snapshot, partition, 0, ForwardScanDirection);
	while (stream_batch_scan_next(&scan) && stream_batch_scan_last_offset(&scan) < limit)
	{
		if (!found)
		{
			stream_batch_scan_header(&scan, segment, &header);
			range->base_offset = header.base_offset;
			range->first_published_at = header.base_timestamp;
			found = true;
		}
		range->batches++;
		range->records += stream_batch_scan_records(&scan);
		range->bytes += stream_stored_size(stream_batch_scan_batch(&scan));
		range->end_offset = stream_batch_scan_last_offset(&scan) + 1;
	}
	stream_batch_scan_end(&scan);
	return found;
}

/* last_published_at reads the time of a partition's last record in a segment. */
static TimestampTz
last_published_at(StreamSegmentTable *segment, Snapshot snapshot, int32 partition)
{
	TimestampTz result = 0;

	(void) stream_last_batch(segment, snapshot, partition, NULL, &result);
	return result;
}

/*
 * reservations_have_ended says whether nothing that was reserved in a segment
 * can still be written: every partition that has shared state has moved on to
 * a later segment and its watermark has reached the offset at which it did.
 */
static bool
reservations_have_ended(Oid table, int32 partitions, int32 segment_no)
{
	for (int32 partition = 0; partition < partitions; partition++)
	{
		StreamWatermark state;

		if (stream_get_watermark(table, partition, &state) &&
			(state.segment_no <= segment_no || state.watermark < state.segment_base))
			return false;
	}
	return true;
}

/* is_sealed asks the catalog anew. */
static bool
is_sealed(Oid table, int32 segment_no)
{
	StreamInfo *info = stream_info(table);

	for (int i = 0; i < info->nsegments; i++)
		if (info->segments[i].segment_no == segment_no)
			return info->segments[i].sealed;
	return true;
}

/*
 * seal_segment records what a segment holds, and marks it sealed; false:
 * somebody else has.  The lock on its table, which conflicts with itself, keeps
 * others from sealing it to the end of the transaction.
 */
static bool
seal_segment(Oid table, int32 stream_id, int32 partitions, int32 segment_no)
{
	StreamSegmentTable segment;
	Snapshot	snapshot;
	char	   *sql;

	if (!stream_segment_open(&segment, stream_id, segment_no, ShareUpdateExclusiveLock, true))
		return false;
	if (is_sealed(table, segment_no))
	{
		stream_segment_close(&segment, false);
		return false;
	}
	/* taken after the reservations have ended: it sees all of their rows */
	snapshot = stream_fresh_snapshot(RelationGetRelid(segment.rel));
	for (int32 partition = 0; partition < partitions; partition++)
	{
		StreamRange range;

		stream_progress_update("sealing", partition, partitions);
		if (!stream_measure_range(&segment, snapshot, partition, PG_INT64_MAX, &range))
			continue;
		range.segment_no = segment_no;
		range.last_published_at = last_published_at(&segment, snapshot, partition);
		stream_insert_range(stream_id, partition, &range);
	}
	UnregisterSnapshot(snapshot);
	stream_seal_segment_row(stream_id, segment_no);

	/* now let autovacuum freeze it, once: it counts insertions only */
	sql = psprintf("ALTER TABLE %s.%s SET (autovacuum_vacuum_insert_threshold = 0,"
				   " autovacuum_vacuum_insert_scale_factor = 0,"
				   " toast.autovacuum_vacuum_insert_threshold = 0,"
				   " toast.autovacuum_vacuum_insert_scale_factor = 0)",
				   STREAM_INTERNAL_SCHEMA, RelationGetRelationName(segment.rel));
	stream_segment_close(&segment, true);
	stream_execute(sql, stream_extension_owner());
	pfree(sql);
	return true;
}

/*
 * stream_seal_segments seals what can be sealed, in the current transaction,
 * and returns how many segments that were.
 */
int
stream_seal_segments(Oid table)
{
	StreamInfo *info = stream_info(table);
	int32		stream_id = info->stream_id;
	int32		partitions = info->partitions;
	int			nsegments = info->nsegments;
	int32	   *candidates = palloc_array(int32, nsegments);
	int			ncandidates = 0;
	int			sealed = 0;

	for (int i = 0; i < nsegments - 1; i++)
		if (!info->segments[i].sealed)
			candidates[ncandidates++] = info->segments[i].segment_no;

	for (int i = 0; i < ncandidates; i++)
	{
		/* a later one waits at least as long */
		if (!reservations_have_ended(table, partitions, candidates[i]))
			break;
		if (seal_segment(table, stream_id, partitions, candidates[i]))
			sealed++;
	}
	if (sealed > 0)
	{
		CommandCounterIncrement();
		stream_invalidate(table);
	}
	return sealed;
}

/*
 * create_next_segment creates the segment after the active one, unless that
 * is empty.  It returns the number of the newest segment.
 */
static int32
create_next_segment(Oid table)
{
	StreamInfo *info = stream_info(table);
	int32		stream_id = info->stream_id;
	int32		newest = info->segments[info->nsegments - 1].segment_no;
	StreamSegmentTable segment;
	bool		empty;
	char		name[NAMEDATALEN];

	(void) stream_segment_open(&segment, stream_id, newest, AccessShareLock, false);
	empty = RelationGetNumberOfBlocks(segment.rel) == 0;
	stream_segment_close(&segment, false);
	if (empty)
		return newest;

	newest++;
	stream_segment_create(stream_id, newest, stream_extension_owner());
	stream_insert_segment(stream_id, newest);
	CommandCounterIncrement();
	stream_segment_table_name(name, stream_id, newest);
	stream_depend_on_table(stream_internal_relation(name, false), table);
	stream_invalidate(table);
	return newest;
}

/* The locks of a roll, which outlive its transactions. */
typedef struct RollLocks
{
	LOCKTAG		extension;
	LOCKTAG		table;
	LOCKTAG		roll;
} RollLocks;

static void
init_extension_lock(RollLocks *locks, Oid extension)
{
	SET_LOCKTAG_OBJECT(locks->extension, MyDatabaseId, ExtensionRelationId, extension, 0);
}

static void
init_table_locks(RollLocks *locks, Oid table)
{
	SET_LOCKTAG_RELATION(locks->table, MyDatabaseId, table);
	SET_LOCKTAG_OBJECT(locks->roll, MyDatabaseId, ForeignTableRelationId, table, 0);
}

static void
commit_and_begin(void)
{
	CommitTransactionCommand();
	StartTransactionCommand();
}

/*
 * roll makes the three steps.  Its locks are the session's, as they outlive
 * transactions; after an error, the abort releases them.  The extension is locked
 * first, as everywhere, and to the end: DROP EXTENSION holds that lock when it
 * wants the others.  The caller has them all; the roll lock is released here.
 */
static void
roll(Oid table, RollLocks *locks, void (*commit) (void))
{
	int32		newest;

	stream_progress_begin("roll_segment", table);
	newest = create_next_segment(table);

	commit();
	stream_activate_segment(table, newest);
	(void) LockRelease(&locks->roll, ExclusiveLock, true);

	stream_seal_segments(table);
	commit();
	stream_progress_end();
}

/*
 * stream_roll_if_due is the workers' way: it waits for no lock, and rolls only
 * what is due once the locks are there.  It commits the current transaction and
 * leaves a new one.  False: something was locked.
 */
bool
stream_roll_if_due(Oid table)
{
	Oid			extension = get_extension_oid(STREAM_EXTENSION, true);
	RollLocks	locks;
	TimestampTz due_at;
	bool		free = false;

	if (!OidIsValid(extension))
		return false;
	init_extension_lock(&locks, extension);
	init_table_locks(&locks, table);
	if (LockAcquire(&locks.extension, AccessShareLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	if (LockAcquire(&locks.table, AccessShareLock, true, true) != LOCKACQUIRE_NOT_AVAIL)
	{
		if (LockAcquire(&locks.roll, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL)
		{
			AcceptInvalidationMessages();
			free = true;
			if (stream_try_lock_extension() && stream_roll_is_due(table, &due_at))
				roll(table, &locks, commit_and_begin);
			else
				(void) LockRelease(&locks.roll, ExclusiveLock, true);
		}
		(void) LockRelease(&locks.table, AccessShareLock, true);
	}
	(void) LockRelease(&locks.extension, AccessShareLock, true);
	return free;
}

/* roll_by_name is the procedure's way: it waits. */
static void
roll_by_name(const char *name)
{
	RollLocks	locks;
	Oid			table;

	init_extension_lock(&locks, get_extension_oid(STREAM_EXTENSION, false));
	(void) LockAcquire(&locks.extension, AccessShareLock, true, false);
	stream_lock_extension();
	table = stream_table_for_owner(name, AccessShareLock);
	init_table_locks(&locks, table);
	(void) LockAcquire(&locks.table, AccessShareLock, true, false);
	(void) LockAcquire(&locks.roll, ExclusiveLock, true, false);
	AcceptInvalidationMessages();
	roll(table, &locks, SPI_commit);
	(void) LockRelease(&locks.table, AccessShareLock, true);
	(void) LockRelease(&locks.extension, AccessShareLock, true);
}

/*
 * stream_roll_segment: CALL stream.roll_segment(stream).
 */
Datum
stream_roll_segment(PG_FUNCTION_ARGS)
{
	stream_need_argument(fcinfo, 0, "stream");
	stream_require_shmem();
	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("roll_segment cannot run inside a transaction block"),
				 errhint("CALL it outside of a transaction block, or from a procedure that may commit.")));
	PreventCommandIfReadOnly("roll_segment()");
	PreventCommandDuringRecovery("roll_segment()");

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	/* in the procedure's memory, which outlives the transactions */
	roll_by_name(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	SPI_finish();
	return (Datum) 0;
}
