/*-------------------------------------------------------------------------
 *
 * forget.c
 *		Shared state that goes when the running transaction ends.
 *
 * A stream that is dropped takes the state of its partitions, and the meters of
 * its groups, with it when that commits; one that is created, when that aborts.
 * Likewise a group or projection with its meters.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "log/forget.h"
#include "log/reserve.h"
#include "meter.h"
#include "miscadmin.h"
#include "sessions.h"
#include "task.h"
#include "utils/memutils.h"

/* State of a stream, or of a database, that goes when the transaction ends. */
typedef struct PendingForget
{
	struct PendingForget *next;
	SubTransactionId subid;		/* who asked for it */
	bool		at_commit;		/* else at abort */
	Oid			database;
	Oid			table;			/* invalid: all of the database's */
	int32		group_id;		/* zero: not only a group's or projection's */
} PendingForget;

/* In TopTransactionContext. */
static PendingForget *pending_forgets = NULL;

static void
add_pending(Oid database, Oid table, int32 group_id, bool at_commit)
{
	PendingForget *pending = MemoryContextAlloc(TopTransactionContext, sizeof(PendingForget));

	pending->subid = GetCurrentSubTransactionId();
	pending->at_commit = at_commit;
	pending->database = database;
	pending->table = table;
	pending->group_id = group_id;
	pending->next = pending_forgets;
	pending_forgets = pending;
}

/* stream_forget_if_aborted is for a stream that this transaction creates. */
void
stream_forget_if_aborted(Oid table)
{
	add_pending(MyDatabaseId, table, 0, false);
}

/* stream_forget_if_committed is for what this transaction drops. */
void
stream_forget_if_committed(Oid database, Oid table)
{
	add_pending(database, table, 0, true);
}

/* stream_forget_group is for a group or projection that this transaction creates or drops. */
void
stream_forget_group(int32 group_id, bool at_commit)
{
	add_pending(MyDatabaseId, InvalidOid, group_id, at_commit);
}

/* stream_forget_is_pending says whether a stream, or database, is created or dropped. */
bool
stream_forget_is_pending(void)
{
	for (PendingForget *pending = pending_forgets; pending != NULL; pending = pending->next)
		if (pending->group_id == 0)
			return true;
	return false;
}

static void
forget(const PendingForget *pending)
{
	stream_remove_meters(pending->database, pending->table, pending->group_id);
	stream_remove_tasks(pending->database, pending->table, pending->group_id);
	if (pending->group_id != 0)
		return;
	stream_remove_partitions(pending->database, pending->table);
	stream_sessions_remove(pending->database, pending->table);
}

/* stream_forget_end runs at the transaction's end, and does not throw. */
void
stream_forget_end(bool committed)
{
	for (PendingForget *pending = pending_forgets; pending != NULL; pending = pending->next)
		if (pending->at_commit == committed)
			forget(pending);
	pending_forgets = NULL;
}

void
stream_forget_commit_sub(SubTransactionId subid, SubTransactionId parent)
{
	for (PendingForget *pending = pending_forgets; pending != NULL; pending = pending->next)
		if (pending->subid == subid)
			pending->subid = parent;
}

void
stream_forget_abort_sub(SubTransactionId subid)
{
	PendingForget **link = &pending_forgets;

	while (*link != NULL)
	{
		PendingForget *pending = *link;

		if (pending->subid == subid)
		{
			if (!pending->at_commit)
				forget(pending);
			*link = pending->next;
		}
		else
			link = &pending->next;
	}
}
