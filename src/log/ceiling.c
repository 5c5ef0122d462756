/*-------------------------------------------------------------------------
 *
 * ceiling.c
 *		The durable ceiling of a partition's offsets.
 *
 * An offset is never issued twice, not even after a crash, also when the
 * transaction that had it was rolled back or lost.  So each partition has a
 * ceiling ahead of what it has issued, made durable before an offset below it
 * is used; after a restart, offsets start there.  The ceiling is that of a
 * real sequence, which is WAL-logged, dumped and restored like any other: its
 * steps are STREAM_SEQUENCE_STEP wide, and a value v grants the offsets
 * v <= offset < v + step.
 *
 * One backend at a time extends a partition; others wait for it only when they
 * stand at the ceiling.  A load that uses grants up quickly gets larger ones, so
 * that it does not wait for a flush every few records, and smaller ones when it
 * ebbs; the price is a larger gap in the offsets after a restart, which costs
 * nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/tables.h"
#include "commands/sequence.h"
#include "log/reserve.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#define STREAM_MAX_GRANT		512 /* sequence steps at once */
#define STREAM_QUICK_USE_MS		1000	/* a grant used up sooner doubles the next */

/* The partition this backend is extending, or null. */
static StreamPartition *extending_partition = NULL;

/* stream_sequence_name writes a partition's sequence's name, at most NAMEDATALEN bytes. */
void
stream_sequence_name(char *buf, int32 stream_id, int32 partition)
{
	snprintf(buf, NAMEDATALEN, "s%d_p%d", stream_id, partition);
}

void
stream_sequence_create(int32 stream_id, int32 partition, Oid owner)
{
	char		name[NAMEDATALEN];
	char	   *sql;

	stream_sequence_name(name, stream_id, partition);
	sql = psprintf("CREATE SEQUENCE %s.%s MINVALUE 0 START 0 INCREMENT %d",
				   STREAM_INTERNAL_SCHEMA, name, STREAM_SEQUENCE_STEP);
	stream_execute(sql, owner);
	pfree(sql);
}

static Oid
sequence_oid(int32 stream_id, int32 partition)
{
	char		name[NAMEDATALEN];

	stream_sequence_name(name, stream_id, partition);
	return stream_internal_relation(name, false);
}

/*
 * stream_sequence_ceiling reads the ceiling that a partition's sequence has
 * granted.
 */
int64
stream_sequence_ceiling(int32 stream_id, int32 partition)
{
	Relation	rel = relation_open(sequence_oid(stream_id, partition), AccessShareLock);
	Buffer		buffer;
	Page		page;
	HeapTupleData tuple;
	Form_pg_sequence_data data;
	int64		ceiling;

	if (rel->rd_rel->relkind != RELKIND_SEQUENCE)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("\"%s.%s\" is not a sequence", STREAM_INTERNAL_SCHEMA, RelationGetRelationName(rel))));
	buffer = ReadBuffer(rel, 0);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	tuple.t_data = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, FirstOffsetNumber));
	data = (Form_pg_sequence_data) GETSTRUCT(&tuple);
	ceiling = data->is_called ? data->last_value + STREAM_SEQUENCE_STEP : data->last_value;
	UnlockReleaseBuffer(buffer);
	relation_close(rel, AccessShareLock);
	return ceiling;
}

/*
 * flush_sequence makes a sequence's value durable.  Its page's LSN
 * is that of the WAL record that covers it, whoever has written that.
 */
static void
flush_sequence(Oid sequence)
{
	Relation	rel = relation_open(sequence, AccessShareLock);
	Buffer		buffer = ReadBuffer(rel, 0);
	XLogRecPtr	lsn;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	lsn = BufferGetLSNAtomic(buffer);
	UnlockReleaseBuffer(buffer);
	if (RelationNeedsWAL(rel))
		XLogFlush(lsn);
	relation_close(rel, AccessShareLock);
}

/*
 * set_sequence moves a sequence on so that it grants all below a ceiling, and
 * returns that.  (nextval would change the session's lastval.)  The sequence is
 * its owner's, and the only one who extends it is the caller.
 */
static int64
set_sequence(Oid sequence, int64 ceiling)
{
	Oid			save_user;
	int			save_context;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(stream_extension_owner(), save_context | SECURITY_LOCAL_USERID_CHANGE);
	(void) DirectFunctionCall2(setval_oid, ObjectIdGetDatum(sequence),
							   Int64GetDatum(ceiling - STREAM_SEQUENCE_STEP));
	SetUserIdAndSecContext(save_user, save_context);
	return ceiling;
}

/*
 * stream_extend_ceiling raises the ceiling to at least wanted.  The caller has
 * set partition->extending, and holds no LWLock: moving a sequence looks
 * up catalogs, takes a heavyweight lock and assigns a transaction id.
 *
 * An error leaves extending to stream_stop_extending, which every end of a
 * (sub)transaction calls.
 */
void
stream_extend_ceiling(StreamPartition *partition, int64 wanted)
{
	Oid			sequence;
	int64		ceiling;
	int32		grant;
	TimestampTz now = GetCurrentTimestamp();

	Assert(partition->extending && extending_partition == NULL);
	extending_partition = partition;

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	ceiling = partition->ceiling;
	if (TimestampDifferenceExceeds(partition->last_extension, now, STREAM_QUICK_USE_MS))
		partition->grant = Max(partition->grant / 2, 1);
	else
		partition->grant = Min(partition->grant * 2, STREAM_MAX_GRANT);
	partition->last_extension = now;
	grant = partition->grant;
	LWLockRelease(&partition->lock);

	sequence = sequence_oid(partition->stream_id, partition->key.partition);
	ceiling = set_sequence(sequence, Max(wanted, ceiling + (int64) grant * STREAM_SEQUENCE_STEP));
	flush_sequence(sequence);

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	partition->ceiling = Max(partition->ceiling, ceiling);
	LWLockRelease(&partition->lock);
	stream_stop_extending();
}

/*
 * stream_stop_extending lets others extend.  It does not throw: it also runs in
 * transaction callbacks, after an error in the middle.  The pointer is good:
 * the lock on the stream's table is released after those.
 */
void
stream_stop_extending(void)
{
	StreamPartition *partition = extending_partition;

	if (partition == NULL)
		return;
	extending_partition = NULL;
	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	partition->extending = false;
	LWLockRelease(&partition->lock);
	ConditionVariableBroadcast(&partition->ceiling_cv);
}
