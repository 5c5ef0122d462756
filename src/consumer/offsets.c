/*-------------------------------------------------------------------------
 *
 * offsets.c
 *		Committed offsets of consumer groups.
 *
 * An offset is not a row that is updated in place: while another session holds
 * an old snapshot, each update would leave a version behind that every later
 * look-up has to step over.  Commits are appended under a growing number, and
 * the newest is found at the end of the index, however many there are.  Every
 * STREAM_FOLD_ROWS commits the older rows are deleted, from where the last such
 * fold ended, so that it does not step over what earlier ones have deleted.
 *
 * Whoever commits an offset holds the partition's lock for the group to the end
 * of the transaction; so there is one writer, and the newest row that is not
 * rolled back is the one to go on from.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/tables.h"
#include "compat.h"
#include "consumer/offsets.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define OFFSETS_TABLE	"offsets"
#define OFFSETS_PKEY	"offsets_pkey"

#define Anum_offsets_group_id			1
#define Anum_offsets_partition			2
#define Anum_offsets_seq				3
#define Anum_offsets_folded_seq			4
#define Anum_offsets_committed_offset	5
#define Anum_offsets_records_skipped	6
#define Anum_offsets_committed_at		7
#define Natts_offsets					7

#define STREAM_FOLD_ROWS	128

static void
set_offset_tag(LOCKTAG *tag, int32 group_id, int32 partition)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, group_id, partition, STREAM_OFFSET_LOCK);
}

/*
 * lock_offset takes the lock for the (sub)transaction, not for the portal that
 * may be running: that could fail, and lose it, in a later subtransaction.
 */
static bool
lock_offset(int32 group_id, int32 partition, bool dont_wait)
{
	ResourceOwner save = CurrentResourceOwner;
	LockAcquireResult result;
	LOCKTAG		tag;

	set_offset_tag(&tag, group_id, partition);
	CurrentResourceOwner = CurTransactionResourceOwner;
	result = LockAcquire(&tag, ExclusiveLock, false, dont_wait);
	CurrentResourceOwner = save;
	return result != LOCKACQUIRE_NOT_AVAIL;
}

/* stream_try_lock_offset locks a group's partition to the transaction's end, unless that must wait. */
bool
stream_try_lock_offset(int32 group_id, int32 partition)
{
	return lock_offset(group_id, partition, true);
}

void
stream_lock_offset(int32 group_id, int32 partition)
{
	(void) lock_offset(group_id, partition, false);
}

/* stream_offset_lock_held says whether this session holds the lock. */
bool
stream_offset_lock_held(int32 group_id, int32 partition)
{
	LOCKTAG		tag;

	set_offset_tag(&tag, group_id, partition);
	return stream_lock_held_by_me(&tag, ExclusiveLock);
}

/* stream_unlock_offset undoes one of those two. */
void
stream_unlock_offset(int32 group_id, int32 partition)
{
	ResourceOwner save = CurrentResourceOwner;
	LOCKTAG		tag;

	set_offset_tag(&tag, group_id, partition);
	CurrentResourceOwner = CurTransactionResourceOwner;
	(void) LockRelease(&tag, ExclusiveLock, false);
	CurrentResourceOwner = save;
}

/*
 * stream_offset_is_free says whether nobody else has a group's partition.  It
 * takes no lock, not even for a moment, in which another one could miss it.
 */
bool
stream_offset_is_free(int32 group_id, int32 partition)
{
	VirtualTransactionId *holders;
	LOCKTAG		tag;
	int			n;

	set_offset_tag(&tag, group_id, partition);
	holders = GetLockConflicts(&tag, ExclusiveLock, &n);
	pfree(holders);
	return n == 0;
}

/*
 * is_own says whether this transaction wrote a row.  The first offset of a
 * group that the statement itself has created, it does not see.
 */
static bool
is_own(TupleTableSlot *slot)
{
	bool		isnull;
	Datum		xmin = slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull);

	return TransactionIdIsCurrentTransactionId(DatumGetTransactionId(xmin));
}

/* find_newest looks once: see stream_newest_offset. */
static StreamOffsetFound
find_newest(int32 group_id, int32 partition, Snapshot own, StreamOffset *result)
{
	Relation	rel = table_open(stream_internal_relation(OFFSETS_TABLE, false), AccessShareLock);
	Relation	index = index_open(stream_internal_relation(OFFSETS_PKEY, false), AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	IndexScanDesc scan = stream_index_beginscan(rel, index, SnapshotSelf, 2);
	ScanKeyData keys[2];
	StreamOffsetFound found = STREAM_OFFSET_MISSING;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(group_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(partition));
	index_rescan(scan, keys, 2, NULL, 0);
	if (index_getnext_slot(scan, BackwardScanDirection, slot))
	{
		slot_getallattrs(slot);
		result->seq = DatumGetInt64(slot->tts_values[Anum_offsets_seq - 1]);
		result->folded_seq = DatumGetInt64(slot->tts_values[Anum_offsets_folded_seq - 1]);
		result->committed_offset = DatumGetInt64(slot->tts_values[Anum_offsets_committed_offset - 1]);
		result->records_skipped = DatumGetInt64(slot->tts_values[Anum_offsets_records_skipped - 1]);
		result->committed_at = DatumGetTimestampTz(slot->tts_values[Anum_offsets_committed_at - 1]);
		found = own == NULL || table_tuple_satisfies_snapshot(rel, slot, own) ||
			(result->seq == 1 && is_own(slot)) ? STREAM_OFFSET_FOUND : STREAM_OFFSET_UNSEEN;
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * stream_newest_offset finds the newest commit that is not rolled back, our own
 * uncommitted ones included.  When own is given and does not see that row, the
 * partition has moved since the statement's snapshot was taken: its tables do
 * not show what was done then, so nothing may be built on it yet.  The row that a
 * group begins with moves nothing.
 */
StreamOffsetFound
stream_newest_offset(int32 group_id, int32 partition, Snapshot own, StreamOffset *result)
{
	StreamOffsetFound found = find_newest(group_id, partition, own, result);

	/*
	 * Without the lock, a commit may come between two looks: the newest row
	 * was not committed when we looked at it, and the ones before are folded
	 * when we come to them.  It is there when we look again.
	 */
	for (int tries = 0; found == STREAM_OFFSET_MISSING && tries < 3; tries++)
		found = find_newest(group_id, partition, own, result);
	return found;
}

/* fold deletes the rows from where the last fold ended up to the newest one. */
static void
fold(int32 group_id, int32 partition, const StreamOffset *newest)
{
	ScanKeyData keys[4];

	ScanKeyInit(&keys[0], Anum_offsets_group_id, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(group_id));
	ScanKeyInit(&keys[1], Anum_offsets_partition, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(partition));
	ScanKeyInit(&keys[2], Anum_offsets_seq, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(newest->folded_seq));
	ScanKeyInit(&keys[3], Anum_offsets_seq, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(newest->seq));
	stream_catalog_delete(OFFSETS_TABLE, OFFSETS_PKEY, 4, keys);
}

/*
 * stream_append_offset commits an offset with the transaction.  The caller
 * holds the lock; newest is the commit before, or null for the first one.
 */
void
stream_append_offset(int32 group_id, int32 partition, const StreamOffset *newest,
					 int64 committed_offset, int64 skipped)
{
	Datum		values[Natts_offsets];
	bool		nulls[Natts_offsets] = {false};
	int64		seq = newest ? newest->seq + 1 : 1;
	int64		folded_seq = newest ? newest->folded_seq : 1;

	if (newest && newest->seq - newest->folded_seq >= STREAM_FOLD_ROWS)
	{
		/* a rollback brings the rows back, and takes this one away */
		fold(group_id, partition, newest);
		folded_seq = seq;
	}
	values[Anum_offsets_group_id - 1] = Int32GetDatum(group_id);
	values[Anum_offsets_partition - 1] = Int32GetDatum(partition);
	values[Anum_offsets_seq - 1] = Int64GetDatum(seq);
	values[Anum_offsets_folded_seq - 1] = Int64GetDatum(folded_seq);
	values[Anum_offsets_committed_offset - 1] = Int64GetDatum(committed_offset);
	values[Anum_offsets_records_skipped - 1] = Int64GetDatum((newest ? newest->records_skipped : 0) + skipped);
	values[Anum_offsets_committed_at - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	stream_catalog_insert(OFFSETS_TABLE, Natts_offsets, values, nulls);
}
