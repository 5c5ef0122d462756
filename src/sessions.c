/*-------------------------------------------------------------------------
 *
 * sessions.c
 *		When the members of consumer groups were last heard of.
 *
 * Heartbeats are kept in shared memory, so that they write nothing.  They are
 * lost with the server: after a restart each member has a whole session
 * timeout to be heard of again.  An entry is made when somebody asks for it,
 * and that counts as a heartbeat.  So an entry may be dropped at any time, unless
 * it says that a member is closed: the worst is that a dead member is noticed one
 * session timeout later.  A member for which there is no room may be looked at, and
 * removed at its own wish, but its calls fail: nobody could tell when it is late.
 *
 * Whether a member is late and that it is closed are one step here, so a sign of
 * life either comes before, and the member is not late, or learns that it is too
 * late.  Between that and the commit of its removal the member's row still looks
 * as ever; a client that was told then that all is well would go on working for a
 * session timeout, beside the next owner.  Who is closed stays it when the
 * removal is rolled back: the next one who looks removes it again.
 *
 * A group has an entry too, under an empty member id, with the time before
 * which none of its members can have timed out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "guc.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "sessions.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* How long nothing was heard of an entry that may be dropped for another one. */
#define STREAM_SESSION_UNUSED	USECS_PER_HOUR

typedef struct SessionKey
{
	Oid			database;
	Oid			table;			/* the stream's */
	int32		group_id;
	NameData	member_id;		/* padded with zeros; empty: the group's entry */
} SessionKey;

typedef struct Session
{
	SessionKey	key;			/* hash key, constant */
	pg_atomic_uint64 heartbeat; /* TimestampTz; of a group: when to check next */
	pg_atomic_uint64 poll;		/* TimestampTz */
	int32		closed_epoch;	/* member epochs up to this one have timed out; 0: none */
} Session;

/*
 * The lock protects the hash table and what is closed; times are set by whoever
 * holds it shared.  It is a leaf: nothing is locked under it.
 */
typedef struct Sessions
{
	LWLock		lock;
} Sessions;

/* An entry to drop at commit; in TopTransactionContext. */
typedef struct Forgotten
{
	struct Forgotten *next;
	SubTransactionId subid;
	SessionKey	key;
} Forgotten;

static Forgotten *forgotten = NULL;
static Sessions *sessions = NULL;
static HTAB *session_hash = NULL;

Size
stream_sessions_size(void)
{
	return add_size(MAXALIGN(sizeof(Sessions)), hash_estimate_size(stream_max_members, sizeof(Session)));
}

/* stream_sessions_startup runs under AddinShmemInitLock. */
void
stream_sessions_startup(int lock_tranche)
{
	HASHCTL		info = {0};
	bool		found;

	sessions = ShmemInitStruct("stream sessions", sizeof(Sessions), &found);
	if (!found)
		LWLockInitialize(&sessions->lock, lock_tranche);
	info.keysize = sizeof(SessionKey);
	info.entrysize = sizeof(Session);
	session_hash = ShmemInitHash("stream session table", stream_max_members, stream_max_members,
								 &info, HASH_ELEM | HASH_BLOBS);
}

int
stream_sessions_used(void)
{
	int			used;

	LWLockAcquire(&sessions->lock, LW_SHARED);
	used = (int) hash_get_num_entries(session_hash);
	LWLockRelease(&sessions->lock);
	return used;
}

static void
set_key(SessionKey *key, Oid table, int32 group_id, const char *member_id)
{
	memset(key, 0, sizeof(SessionKey));
	key->database = MyDatabaseId;
	key->table = table;
	key->group_id = group_id;
	strlcpy(NameStr(key->member_id), member_id, NAMEDATALEN);
}

/* drop_unused makes room: groups and members that are gone, or may as well be. */
static void
drop_unused(TimestampTz now)
{
	HASH_SEQ_STATUS status;
	Session    *session;

	hash_seq_init(&status, session_hash);
	while ((session = hash_seq_search(&status)) != NULL)
		if (session->closed_epoch == 0 &&
			(TimestampTz) pg_atomic_read_u64(&session->heartbeat) < now - STREAM_SESSION_UNUSED)
			hash_search(session_hash, &session->key, HASH_REMOVE, NULL);
}

/* enter_session finds an entry or makes one; null: there is no room. */
static Session *
enter_session(const SessionKey *key, bool *found)
{
	Session    *session = hash_search(session_hash, key, HASH_FIND, found);

	/* the hash table would take more from what is left of shared memory */
	if (session == NULL && hash_get_num_entries(session_hash) < stream_max_members)
		session = hash_search(session_hash, key, HASH_ENTER_NULL, found);
	return session;
}

/*
 * find_session finds an entry, or makes it, and returns with the lock held.  A
 * new one has been heard of just now.  Null, without the lock: there is no room.
 */
static Session *
find_session(Oid table, int32 group_id, const char *member_id)
{
	TimestampTz now = GetCurrentTimestamp();
	SessionKey	key;
	Session    *session;
	bool		found;

	set_key(&key, table, group_id, member_id);
	LWLockAcquire(&sessions->lock, LW_SHARED);
	session = hash_search(session_hash, &key, HASH_FIND, NULL);
	if (likely(session != NULL))
		return session;
	LWLockRelease(&sessions->lock);

	LWLockAcquire(&sessions->lock, LW_EXCLUSIVE);
	session = enter_session(&key, &found);
	if (session == NULL)
	{
		drop_unused(now);
		session = enter_session(&key, &found);
	}
	if (session == NULL)
		LWLockRelease(&sessions->lock);
	else if (!found)
	{
		pg_atomic_init_u64(&session->heartbeat, (uint64) (member_id[0] == '\0' ? 0 : now));
		pg_atomic_init_u64(&session->poll, (uint64) now);
		session->closed_epoch = 0;
	}
	return session;
}

/* lock_session does so for who cannot do without. */
static Session *
lock_session(Oid table, int32 group_id, const char *member_id)
{
	Session    *session = find_session(table, group_id, member_id);

	if (session == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("shared memory for members of consumer groups is full"),
				 errdetail("%d members, and groups with members, have been heard of.", stream_max_members),
				 errhint("Raise stream.max_members and restart the server; see the view stream.group_members.")));
	return session;
}

/* raise_time sets a time that only grows. */
static void
raise_time(pg_atomic_uint64 *time, TimestampTz now)
{
	uint64		old = pg_atomic_read_u64(time);

	while ((TimestampTz) old < now && !pg_atomic_compare_exchange_u64(time, &old, (uint64) now))
		 /* somebody else was faster */ ;
}

/*
 * stream_session_touch notes a sign of life of a member that has an epoch; polls:
 * it asks for records as well.  It returns false when that comes too late.
 */
bool
stream_session_touch(Oid table, int32 group_id, const char *member_id, int32 epoch, bool polls)
{
	Session    *session = lock_session(table, group_id, member_id);
	TimestampTz now = GetCurrentTimestamp();
	bool		in_time = session->closed_epoch < epoch;

	if (in_time)
		raise_time(&session->heartbeat, now);
	if (in_time && polls)
		raise_time(&session->poll, now);
	LWLockRelease(&sessions->lock);
	return in_time;
}

/*
 * stream_session_begin notes that a client has joined as a member, at an epoch
 * above all that were ever committed.  A change that was rolled back may have
 * closed the member up to an epoch that is given out again now.
 */
void
stream_session_begin(Oid table, int32 group_id, const char *member_id, int32 epoch)
{
	Session    *session = lock_session(table, group_id, member_id);
	bool		was_closed = session->closed_epoch >= epoch;

	LWLockRelease(&sessions->lock);
	if (was_closed)
	{
		SessionKey	key;

		set_key(&key, table, group_id, member_id);
		LWLockAcquire(&sessions->lock, LW_EXCLUSIVE);
		session = hash_search(session_hash, &key, HASH_FIND, NULL);
		if (session != NULL)
			session->closed_epoch = Min(session->closed_epoch, epoch - 1);
		LWLockRelease(&sessions->lock);
	}
	(void) stream_session_touch(table, group_id, member_id, epoch, true);
}

/*
 * stream_session_get returns what is known of a member; false: there is no room to
 * know anything.
 */
bool
stream_session_get(Oid table, int32 group_id, const char *member_id, StreamSession *result)
{
	Session    *session = find_session(table, group_id, member_id);

	if (session == NULL)
		return false;
	result->heartbeat = (TimestampTz) pg_atomic_read_u64(&session->heartbeat);
	result->poll = (TimestampTz) pg_atomic_read_u64(&session->poll);
	result->closed_epoch = session->closed_epoch;
	LWLockRelease(&sessions->lock);
	return true;
}

/*
 * stream_session_close ends what a member has up to an epoch, unless it has been
 * heard of since it was seen, or its entry was dropped to make room.  The clock
 * must be past its deadline still: after it was set back, a sign of life does not
 * show in what was noted.
 */
bool
stream_session_close(Oid table, int32 group_id, const char *member_id, int32 epoch,
					 const StreamSession *seen, TimestampTz deadline)
{
	SessionKey	key;
	Session    *session;
	bool		closes;

	set_key(&key, table, group_id, member_id);
	LWLockAcquire(&sessions->lock, LW_EXCLUSIVE);
	session = hash_search(session_hash, &key, HASH_FIND, NULL);
	closes = session != NULL && deadline <= GetCurrentTimestamp() &&
		(TimestampTz) pg_atomic_read_u64(&session->heartbeat) == seen->heartbeat &&
		(TimestampTz) pg_atomic_read_u64(&session->poll) == seen->poll;
	if (closes)
		session->closed_epoch = Max(session->closed_epoch, epoch);
	LWLockRelease(&sessions->lock);
	return closes;
}

/*
 * stream_session_forget drops a member's entry when the transaction commits.
 * If it is rolled back the member is there again, and has to be as late as
 * before: a client that hangs but sends heartbeats is fenced by an error, which
 * takes back its own removal, and the next call of another member must find it.
 */
void
stream_session_forget(Oid table, int32 group_id, const char *member_id)
{
	Forgotten  *entry = MemoryContextAlloc(TopTransactionContext, sizeof(Forgotten));

	set_key(&entry->key, table, group_id, member_id);
	entry->subid = GetCurrentSubTransactionId();
	entry->next = forgotten;
	forgotten = entry;
}

/*
 * stream_sessions_remove drops the entries of a stream, or of a whole database
 * when table is invalid.  It does not throw: it runs in transaction callbacks.
 */
void
stream_sessions_remove(Oid database, Oid table)
{
	HASH_SEQ_STATUS status;
	Session    *session;

	LWLockAcquire(&sessions->lock, LW_EXCLUSIVE);
	hash_seq_init(&status, session_hash);
	while ((session = hash_seq_search(&status)) != NULL)
		if (session->key.database == database && (!OidIsValid(table) || session->key.table == table))
			hash_search(session_hash, &session->key, HASH_REMOVE, NULL);
	LWLockRelease(&sessions->lock);
}

void
stream_sessions_commit_sub(SubTransactionId subid, SubTransactionId parent)
{
	for (Forgotten *entry = forgotten; entry != NULL; entry = entry->next)
		if (entry->subid == subid)
			entry->subid = parent;
}

void
stream_sessions_abort_sub(SubTransactionId subid)
{
	Forgotten **link = &forgotten;

	while (*link != NULL)
		if ((*link)->subid == subid)
			*link = (*link)->next;
		else
			link = &(*link)->next;
}

/* stream_sessions_end runs at the transaction's end, and does not throw. */
void
stream_sessions_end(bool commit)
{
	if (commit && forgotten != NULL)
	{
		LWLockAcquire(&sessions->lock, LW_EXCLUSIVE);
		for (Forgotten *entry = forgotten; entry != NULL; entry = entry->next)
			hash_search(session_hash, &entry->key, HASH_REMOVE, NULL);
		LWLockRelease(&sessions->lock);
	}
	forgotten = NULL;
}

/*
 * stream_session_check_is_due says whether a member of a group can have timed out,
 * as far as is known.
 */
bool
stream_session_check_is_due(Oid table, int32 group_id, TimestampTz now)
{
	Session    *session = find_session(table, group_id, "");
	bool		due = true;

	if (session == NULL)
		return due;
	due = (TimestampTz) pg_atomic_read_u64(&session->heartbeat) <= now;
	LWLockRelease(&sessions->lock);
	return due;
}

/*
 * stream_session_set_check sets the next time at which one can.  The caller
 * holds the group's members lock and has looked at all of them.
 */
void
stream_session_set_check(Oid table, int32 group_id, TimestampTz at)
{
	Session    *session = find_session(table, group_id, "");

	if (session == NULL)
		return;
	pg_atomic_write_u64(&session->heartbeat, (uint64) at);
	LWLockRelease(&sessions->lock);
}
