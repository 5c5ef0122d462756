/*
 * drop.pml: the life of a stream's shared state: publishers, a drop and a roll; one stream of one partition.
 *
 * A publisher looks the stream up by name, takes RowExclusiveLock on its relation, looks again, creates the
 * state if there is none (under the roll lock), reserves, and at its end takes its entry out of the state
 * before its locks go. It may publish first in a child that rolls back, which releases what the child had
 * locked, and then in the parent.
 *
 * A drop takes AccessExclusiveLock first, deletes the catalog rows, and removes the state when the commit is
 * visible and before its locks go; or it rolls back. The dropping session may have published to the stream
 * itself, and may drop in a child that rolls back. A drop of the whole extension takes the extension's lock
 * before the relation's.
 *
 * A roll takes the extension's lock and the relation's, in modes that conflict with drops only, then the roll
 * lock; it creates the segment, commits, activates, releases the roll lock, and seals. Extension and relation
 * it keeps to its end, or lets go at the commit and asks for no more.
 *
 * Whoever asks for the relation's lock waits behind a waiting AccessExclusiveLock.
 *
 * Checked: nobody uses state that is not there; a dropped stream leaves no state and no segment; what is
 * published by a transaction that commits is written, unless it has dropped the stream; no process waits for
 * ever.
 *
 * Switches are listed in README.md.
 */
#ifndef P
#define P 2                     /* publishers */
#endif

bool dropped;                   /* visible in the catalog */
byte segments = 1;              /* committed segments of the stream */
bool state_exists;              /* in shared memory */
byte entries;                   /* in the state's in-flight list */

byte sharers;                   /* holders of a lock on the relation that conflicts with AccessExclusiveLock only */
bool exclusive, exclusive_waits;
bool extension_exclusive;       /* the extension's lock */
byte extension_sharers;
bool roll_lock;

/* check runs when all others have ended. */
active proctype check()
{
    _nr_pr == 1 -> assert(!dropped || (!state_exists && segments == 0))
}

/* may_share says whether the relation's lock is granted to one more. */
#define may_share (!exclusive && !exclusive_waits)

/* reserve is the first reservation of a transaction: state if there is none, and an entry. */
inline reserve(created)
{
    if
    :: state_exists
    :: else ->
        atomic { !roll_lock -> roll_lock = true };
        atomic {
            created = !state_exists;
            state_exists = true;
            roll_lock = false
        }
    fi;
    atomic { assert(state_exists); entries++ }
}

/* leave takes the entry out. */
inline leave()
{
    assert(state_exists);
    entries--
}

active [P] proctype publisher()
{
    bool created, in_child, locked;

    if
    :: in_child = true              /* publishes in a child that rolls back, then in the parent */
    :: in_child = false
    fi;
    if
    :: dropped -> goto done
    :: else
    fi;
again:
#ifndef PUBLISHER_WITHOUT_LOCK
    atomic { may_share -> sharers++; locked = true };
#endif
#ifndef NO_LOOK_UNDER_LOCK
    if
    :: dropped -> goto unlock
    :: else
    fi;
#endif
more:
    reserve(created);
    atomic {
        /* A commit or a rollback: the entry leaves in the callback, before the locks. */
        leave();
#ifdef STATE_DIES_WITH_ITS_CREATOR
        if
        :: created -> state_exists = false
        :: skip                     /* the creator commits */
        fi;
#endif
        created = false
    };
unlock:
    atomic {
        if
        :: locked -> sharers--; locked = false
        :: else
        fi
    };
    if
    :: in_child ->
        in_child = false;
#ifdef LOCK_REMEMBERED_OVER_CHILD
        goto more
#else
        goto again
#endif
    :: else
    fi;
done:
    skip
}

/* lock_exclusive waits for all holders but the session itself, and lets nobody in before it. */
inline lock_exclusive(mine)
{
    exclusive_waits = true;
    atomic { sharers == mine && !exclusive -> exclusive = true; exclusive_waits = false }
}

active proctype dropper()
{
    bool created, publishes, drops;
    byte written, seen;

    if
    :: atomic { !extension_sharers -> extension_exclusive = true }  /* drops the extension */
    :: skip
    fi;
    if
    :: skip ->                      /* publishes first */
        atomic { may_share -> sharers++ };
        reserve(created);
        publishes = true;
        created = false
    :: skip
    fi;
#ifndef DROP_WITHOUT_LOCK
    lock_exclusive(publishes);
#endif
    drops = true;
    seen = segments;                /* the catalog rows it deletes */
    written = publishes;
#ifdef BUFFER_DROPPED_AT_THE_CALL
    written = 0;
#endif
#ifdef STATE_REMOVED_AT_THE_CALL
    state_exists = false;
#endif
    if
    :: drops = false                /* in a child that rolls back; its lock goes with it */
#ifndef DROP_WITHOUT_LOCK
        ; exclusive = false
#endif
    :: skip
    fi;
    if
    :: skip ->                      /* commits */
        if
        :: atomic { drops -> dropped = true; segments = segments - seen }
        :: else -> assert(written == publishes)
        fi
    :: drops = false
    fi;
    atomic {
        if
        :: publishes -> leave()
        :: else
        fi;
        if
        :: drops -> state_exists = false; entries = 0
        :: else
        fi
    };
    atomic {
        sharers = sharers - publishes;
        exclusive = false;
        extension_exclusive = false
    }
}

inline share_relation()
{
    atomic { may_share -> sharers++; shares = true }
}

inline share_extension()
{
    atomic { !extension_exclusive -> extension_sharers++; shares_extension = true }
}

inline release_all()
{
    atomic {
        sharers = sharers - shares;
        extension_sharers = extension_sharers - shares_extension;
        shares = false;
        shares_extension = false
    }
}

active proctype roller()
{
    bool had, shares, shares_extension;

    if
    :: dropped -> goto done
    :: else
    fi;
#ifndef ROLL_WITHOUT_LOCK
#ifdef ROLL_LOCKS_EXTENSION_LAST
    share_relation();
    share_extension();
#else
    share_extension();
    share_relation();
#endif
    if
    :: dropped -> goto release
    :: else
    fi;
#endif
    atomic { !roll_lock -> roll_lock = true };
    had = state_exists;
    segments++;                     /* the commit */
    if
    :: release_all();
#ifdef ROLL_LOCKS_RELATION_AGAIN
        share_relation()
#endif
    :: skip                         /* keeps them, as a session */
    fi;
    /* activates in the state, if there still is one */
#ifdef ROLL_KEEPS_A_POINTER
    assert(state_exists || !had);
#endif
    roll_lock = false;
#ifdef ROLL_LOCKS_EXTENSION_AGAIN
    if
    :: shares ->
        atomic { extension_sharers = extension_sharers - shares_extension; shares_extension = false };
        share_extension()
    :: else
    fi;
#endif
    /* seals here */
release:
    release_all();
done:
    skip
}
