/*
 * segments.pml: the life of segments (roll, seal, first reservation) against publishers and a reader; one
 * partition.
 *
 * A roll takes the stream's roll lock, creates the next segment and its catalog row, commits, and activates
 * the segment only after the commit has ended. The row passes through CREATED (seen by nobody else), VISIBLE
 * (to new snapshots) and ENDED (invalidations sent, so that every backend finds the table). The roll may fail
 * before the commit, and its backend may end between commit and activation.
 *
 * The first reservation creates the partition's state: it takes the roll lock and reads the catalog inside.
 * Every reservation returns offset and segment in one step.
 *
 * The sealer seals segment k when the row of k + 1 is visible and either the partition has no state, or it
 * has moved on and its watermark has reached the offset at which it did. Then it takes a snapshot and records
 * the end of what that snapshot sees.
 *
 * The reader picks the first segment that is not sealed or ends above its position, reads the watermark,
 * takes a fresh snapshot, reads, and goes on to the next such segment under the same watermark and snapshot.
 *
 * Publishers are alike, so publisher i is by definition the one that gets offset i; this loses no behaviour.
 * Sets of offsets are bit masks.
 *
 * Checked: no loss below the reader's position; nothing delivered twice, out of order or rolled back, or
 * beside tables that do not show it; a reservation names a segment that every backend can find, and never one
 * below an earlier reservation's; at the end everything committed is delivered; no process waits for ever.
 *
 * Switches are listed in README.md.
 */
#ifndef P
#define P 3                     /* publishers, one record each */
#endif
#ifndef ROLLERS
#define ROLLERS 1               /* rolls */
#endif
#ifndef STATEMENTS
#define STATEMENTS 2            /* statements of the reader before it may finish */
#endif

#define SEGMENTS (ROLLERS + 1)
#define BIT(o) (1 << (o))
#define BELOW(o) (BIT(o) - 1)

mtype = { NONE, CREATED, VISIBLE, ENDED };

/* catalog, by segment */
mtype row[SEGMENTS] = NONE;
bool sealed[SEGMENTS];
byte end_of[SEGMENTS];          /* one past the last record; set when sealed */
bool roll_lock;
byte rolls;                     /* rolls begun; rollers are alike, so roller i is by definition the ith to begin */

/* shared memory: the partition's state */
bool state_exists;
byte next;                      /* next offset to reserve */
byte current;                   /* segment of the next reservation */
byte moved_on;                  /* offset at which the partition moved on to `current` */
byte in_flight;                 /* set: entries of open transactions */

/* the log, by offset */
byte segment_of[P];
byte committed;                 /* set: visible to a new snapshot */

/* the reader */
byte position;
byte delivered;                 /* set */

#define visible(s) (row[s] == VISIBLE || row[s] == ENDED)

/* newest_segment finds the newest segment a new catalog snapshot sees. */
inline newest_segment(s)
{
    atomic {
        s = SEGMENTS - 1;
        do
        :: !visible(s) -> s--
        :: else -> break
        od
    }
}

inline watermark(w)
{
    w = 0;
    do
    :: w < next && !(in_flight & BIT(w)) -> w++
    :: else -> break
    od
}

inline activate(s)
{
    atomic {
        if
        :: state_exists -> current = s; moved_on = next
        :: else
        fi
    }
}

proctype publisher(byte me)
{
    byte s;

    if
    :: state_exists
    :: else ->
#ifdef STATE_READS_BEFORE_LOCK
        newest_segment(s);
#endif
#ifndef STATE_WITHOUT_LOCK
        atomic { !roll_lock -> roll_lock = true };
#endif
#ifndef STATE_READS_BEFORE_LOCK
        newest_segment(s);
#endif
        atomic {
            if
            :: !state_exists -> state_exists = true; current = s; moved_on = next
            :: else
            fi;
#ifndef STATE_WITHOUT_LOCK
            roll_lock = false;
#endif
            s = 0
        }
    fi;

    atomic {
        next == me ->
        assert(row[current] == ENDED);                  /* every backend finds the table */
        assert(me == 0 || segment_of[me - 1] <= current); /* offsets grow with segments */
        segment_of[me] = current;
        in_flight = in_flight | BIT(me);
        next++
    };
    if
    :: committed = committed | BIT(me);
        in_flight = in_flight & ~BIT(me)
    :: in_flight = in_flight & ~BIT(me)                 /* rolls back */
    fi
}

proctype roller(byte me)
{
    byte s;

    atomic { !roll_lock && rolls == me -> roll_lock = true; rolls++ };
    atomic { newest_segment(s); s++; row[s] = CREATED };
#ifdef ACTIVATE_BEFORE_COMMIT
    activate(s);
#endif
    if
    :: row[s] = VISIBLE
    :: atomic {                                         /* the roll fails */
            row[s] = NONE;
#ifndef FAILED_ROLL_KEEPS_LOCK
            roll_lock = false;
#endif
            goto done
        }
    fi;
#ifdef ACTIVATE_IN_CALLBACK
    activate(s);
#endif
    row[s] = ENDED;
#ifdef UNLOCK_BEFORE_ACTIVATION
    roll_lock = false;
#endif
    if
    :: skip ->
#if !defined(ACTIVATE_BEFORE_COMMIT) && !defined(ACTIVATE_IN_CALLBACK)
        activate(s)
#endif
    :: skip                                             /* the backend ends here */
    fi;
#ifndef UNLOCK_BEFORE_ACTIVATION
    roll_lock = false;
#endif
done:
    skip
}

/* No entry is below moved_on: the watermark has reached it. */
#ifdef SEAL_EARLY
#define reservations_ended(s) true
#else
#define reservations_ended(s) (!state_exists || (current > s && !(in_flight & BELOW(moved_on))))
#endif

/* sealer seals the segments in order, each as soon as it may. */
active proctype sealer()
{
    byte s, e, seen;

    do
    :: s == SEGMENTS - 1 -> break
    :: s < SEGMENTS - 1 ->
#ifdef SEAL_SNAPSHOT_FIRST
        seen = committed;
#endif
end_waiting:
        visible(s + 1) && reservations_ended(s);
#ifndef SEAL_SNAPSHOT_FIRST
        seen = committed;
#endif
        atomic {
            e = P;
            do
            :: e > 0 && !((seen & BIT(e - 1)) && segment_of[e - 1] == s) -> e--
            :: else -> break
            od;
            sealed[s] = true; end_of[s] = e;
            e = 0; seen = 0; s++
        }
    od
}

/* next_to_read moves s to the first segment from s on that may hold something at or above the position. */
inline next_to_read(s)
{
    do
    :: s < SEGMENTS && visible(s) && sealed[s] && end_of[s] <= position -> s++
    :: else -> break
    od
}

active proctype reader()
{
    byte own, fresh;            /* snapshots: sets of offsets */
    byte w, s, o, list_end, statements;
    bool stateless, stopped, applier, last;

    if
    :: applier = true           /* no statement around it: its fresh snapshot is its own */
    :: applier = false
    fi;
statement:
    if
    :: !applier -> own = committed
    :: applier
    fi;
#ifdef NEXT_SEGMENT_BEFORE_WATERMARK
    newest_segment(list_end);
#endif
    atomic { s = 0; next_to_read(s) };
again:
    atomic {
        stateless = !state_exists;
        if
        :: stateless -> w = P
        :: else -> watermark(w)
        fi
    };
    fresh = committed;
    atomic {
        if
        :: stateless && state_exists -> goto again
        :: else
        fi;
        if
        :: applier -> own = fresh
        :: else
        fi
    };
    do
    :: atomic {
            /* The snapshot decides what is read, so one step may read it all. */
            o = position;
            do
            :: o < w && !stopped ->
                if
                :: !(fresh & BIT(o)) || segment_of[o] != s
                :: (fresh & BIT(o)) && segment_of[o] == s && !(own & BIT(o)) -> stopped = true
                :: (fresh & BIT(o)) && segment_of[o] == s && (own & BIT(o)) ->
                    assert(committed & BIT(o));         /* no phantom */
                    assert(!(delivered & BIT(o)));      /* once */
                    delivered = delivered | BIT(o);
                    position = o + 1
                fi;
                o++
            :: else -> break
            od;
            o = 0;
#ifdef STOP_ENDS_THE_SEGMENT_ONLY
            stopped = false;
#endif
        };
        atomic {
            /* look the next segment up: a new look at the catalog */
            s++;
            next_to_read(s);
            if
            :: stopped -> break
            :: s == SEGMENTS -> break
#ifdef NEXT_SEGMENT_BEFORE_WATERMARK
            :: s > list_end -> break
#endif
            :: !stopped && s < SEGMENTS && !visible(s) -> break
            :: else
            fi
        };
#ifdef FRESH_WATERMARK_PER_SEGMENT
        atomic {
            if
            :: !stateless -> watermark(w)
            :: else
            fi
        };
        atomic {
            fresh = committed;
            if
            :: applier -> own = fresh
            :: else
            fi
        }
#endif
    od;
    atomic {
        if
        :: !stopped && !stateless && position < w -> position = w   /* it may commit the watermark */
        :: else
        fi;
        assert(!(committed & BELOW(position) & ~delivered));        /* no loss */
        w = 0; s = 0; fresh = 0; own = 0; stopped = false; stateless = false; list_end = 0
    };
    if
    :: last
    :: !last && statements < STATEMENTS -> statements++; goto statement
    :: !last && next == P && !in_flight -> last = true; goto statement      /* one more after all have ended */
    fi;
    assert(!(committed & ~delivered))
}

init
{
    atomic {
        byte n;
        if
        :: skip
        :: committed = BIT(0); next = 1     /* after a restart: a record of before, and no state */
        fi;
        for (n : next .. P - 1) {
            run publisher(n)
        }
        for (n : 0 .. ROLLERS - 1) {
            run roller(n)
        }
        row[0] = ENDED;
        n = 0
    }
}
