/*-------------------------------------------------------------------------
 *
 * freeze.c
 *		Freezing sealed segments that autovacuum has not frozen.
 *
 * A sealed segment never changes, so it needs to be frozen once.  Autovacuum
 * comes by for it; but it counts insertions, and does not come again when an old
 * snapshot kept rows from being frozen, or when it is off.  The manager remembers
 * which sealed segments are not frozen, waits until no snapshot is old enough to
 * be in the way, and vacuums them itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/tables.h"
#include "commands/vacuum.h"
#include "compat.h"
#include "log/segtable.h"
#include "log/upkeep.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_node.h"
#include "postmaster/autovacuum.h"
#include "storage/procarray.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "worker/upkeep.h"
#include "worker/worker.h"

/* Autovacuum has so many rounds to come by first. */
#define STREAM_AUTOVACUUM_ROUNDS	3

/* Time between two attempts when one was not enough, in ms; doubled by each. */
#define STREAM_FREEZE_RETRY			30000

typedef struct SealedSegment
{
	struct
	{
		int32		stream_id;
		int32		segment_no;
	}			key;			/* hash key */
	bool		frozen;			/* there is nothing to do any more */
	TransactionId horizon;		/* every transaction id in it is older */
	TimestampTz next_try;
	int			tries;
} SealedSegment;

static HTAB *sealed_segments = NULL;

static SealedSegment *
sealed_segment(int32 stream_id, int32 segment_no)
{
	SealedSegment key;
	SealedSegment *entry;
	bool		found;

	if (sealed_segments == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(key.key);
		ctl.entrysize = sizeof(SealedSegment);
		sealed_segments = hash_create("stream sealed segments", 256, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	key.key.stream_id = stream_id;
	key.key.segment_no = segment_no;
	entry = hash_search(sealed_segments, &key.key, HASH_ENTER, &found);
	if (!found)
	{
		entry->frozen = false;
		entry->horizon = InvalidTransactionId;
		entry->next_try = 0;
		entry->tries = 0;
	}
	return entry;
}

/*
 * stream_find_unfrozen adds the segments of a stream that should be vacuumed now
 * to a list of VacuumRelation.  The caller has a lock on the stream's foreign table.
 */
List *
stream_find_unfrozen(Oid table, List *result)
{
	StreamInfo *info = stream_info(table);
	int32		stream_id = info->stream_id;
	int			nsegments = info->nsegments;
	StreamSegment *segments = palloc_array(StreamSegment, nsegments);
	TimestampTz now = GetCurrentTimestamp();

	memcpy(segments, info->segments, nsegments * sizeof(StreamSegment));
	for (int i = 0; i < nsegments; i++)
	{
		SealedSegment *entry;
		StreamSegmentTable segment;

		if (!segments[i].sealed)
			continue;
		entry = sealed_segment(stream_id, segments[i].segment_no);
		if (entry->frozen || entry->next_try > now ||
			!stream_segment_open(&segment, stream_id, segments[i].segment_no, AccessShareLock, true))
			continue;
		entry->frozen = stream_is_frozen(segment.rel);
		if (!entry->frozen && !TransactionIdIsValid(entry->horizon))
		{
			/* it is sealed: whoever has written to it has ended */
			entry->horizon = ReadNextTransactionId();
			if (AutoVacuumingActive())
				entry->next_try = TimestampTzPlusMilliseconds(segments[i].sealed_at,
															  STREAM_AUTOVACUUM_ROUNDS * 1000 * (int64) autovacuum_naptime);
		}
		if (!entry->frozen && entry->next_try <= now &&
			TransactionIdFollowsOrEquals(GetOldestNonRemovableTransactionId(segment.rel), entry->horizon))
		{
			RangeVar   *name = makeRangeVar(STREAM_INTERNAL_SCHEMA,
											pstrdup(RelationGetRelationName(segment.rel)), -1);

			/* by OID: it may go at any time */
			result = lappend(result, makeVacuumRelation(name, RelationGetRelid(segment.rel), NIL));
			entry->next_try = TimestampTzPlusMilliseconds(now, (int64) STREAM_FREEZE_RETRY << Min(entry->tries, 10));
			entry->tries++;
			entry->horizon = ReadNextTransactionId();
		}
		stream_segment_close(&segment, false);
	}
	pfree(segments);
	return result;
}

/*
 * stream_freeze vacuums a segment as VACUUM (FREEZE, SKIP_LOCKED) does, outside of
 * any transaction, for it uses its own.
 */
void
stream_freeze(VacuumRelation *relation)
{
	VacuumStmt *statement = makeNode(VacuumStmt);
	ParseState *state = make_parsestate(NULL);
	MemoryContext save = PortalContext;

	stream_worker_report(STREAM_WORKER_BUSY, "freezing %s.%s",
						 relation->relation->schemaname, relation->relation->relname);
	statement->options = list_make2(makeDefElem("freeze", NULL, -1), makeDefElem("skip_locked", NULL, -1));
	statement->rels = list_make1(relation);
	statement->is_vacuumcmd = true;
	/* what has to outlive the transactions */
	PortalContext = CurrentMemoryContext;
	StartTransactionCommand();
	ExecVacuum(state, statement, true);
	CommitTransactionCommand();
	PortalContext = save;
}
