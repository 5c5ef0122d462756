/*
 * subxact.pml: a publisher with subtransactions and the batches it makes, beside other publishers and a
 * reader; one partition.
 *
 * The session publishes one record a time at its current nesting level, begins children, and commits or rolls
 * back each. What a level buffers is a set of batches; flushing writes a level's batches as tuples with that
 * level's xid. A child's commit relinks what the level has to its parent; its rollback drops it. A tuple
 * covers the whole range from its first to its last offset and is found by its last one.
 *
 * An open batch has a reach: one past the last offset known to be the session's or nobody's. It is extended
 * only when the new offset is its reach. When a child rolls back that has reserved right behind it, the batch
 * of an outer level may reach over what was dropped, or not. A child's flush, and a child that commits what
 * it has buffered, leave no open batch of an outer level that could reach over that.
 *
 * The session's entry in the in-flight list belongs to the level that made it, is relinked with it, and goes
 * when that level rolls back.
 *
 * Checked: no loss below the reader's position; nothing delivered twice, out of order or rolled back; there
 * is no entry when the transaction can commit nothing in the partition; at the end everything committed is
 * delivered.
 *
 * Switches are listed in README.md.
 */
#ifndef RECORDS
#define RECORDS 3               /* records of the session */
#endif
#ifndef CHILDREN
#define CHILDREN 2              /* subtransactions it begins */
#endif
#ifndef DEPTH
#define DEPTH 2                 /* deepest nesting level */
#endif
#ifndef OTHERS
#define OTHERS 1                /* other publishers, one record each */
#endif

#define N (RECORDS + OTHERS)
#define BIT(o) (1 << (o))
#define BELOW(o) (BIT(o) - 1)

/* the first offset of the batch that ends at o */
#define lowest(m) ((m & 1) -> 0 : ((m & 2) -> 1 : ((m & 4) -> 2 : ((m & 8) -> 3 : ((m & 16) -> 4 : 5)))))
#define first_of(o) lowest(members[o])

/* shared memory */
byte next;                      /* next offset to reserve */
byte in_flight;                 /* set: first offsets of the entries */

/* the session's batches, by their last offset */
byte members[N];                /* set of offsets; empty: there is none */
byte level_of[N];               /* level whose xid it has or will get */
byte reach[N];                  /* of a batch that is not written: see above */
byte written;                   /* set: it is a tuple */

/* the session, by level */
byte survivors[DEPTH + 1];      /* set of offsets the level still may commit: the truth to check against */
byte open[DEPTH + 1];           /* one past the last offset of the open batch; 0: none */
byte depth;
byte entry;                     /* one past the entry's offset; 0: no entry */
byte entry_level;               /* the level it belongs to */

bool session_visible;           /* top level committed */
byte others;                    /* set: committed offsets of others */
byte committed;                 /* set: all committed offsets */
byte ended;                     /* publishers that ended */

/* the reader */
byte position;
byte delivered;                 /* set */

inline watermark(w)
{
    w = 0;
    do
    :: w < next && !(in_flight & BIT(w)) -> w++
    :: else -> break
    od
}

#ifdef EXTEND_OVER_GAP
#define extends(o) true
#else
#define extends(o) (reach[open[depth] - 1] == o)
#endif

inline publish()
{
    o = next;
    next++;
    survivors[depth] = survivors[depth] | BIT(o);
    if
    :: !entry ->
        entry = o + 1;
        entry_level = depth;
        in_flight = in_flight | BIT(o)
    :: else
    fi;
    members[o] = BIT(o);
    level_of[o] = depth;
    if
    :: open[depth] && extends(o) ->
        /* the batch is known by its new last offset */
        members[o] = members[o] | members[open[depth] - 1];
        forget(open[depth] - 1)
    :: else
    fi;
    open[depth] = o + 1;
    reach[o] = o + 1;
    o = 0
}

inline forget(b)
{
    members[b] = 0;
    level_of[b] = 0;
    reach[b] = 0;
    written = written & ~BIT(b)
}

/* flush writes the level's batches. */
inline flush()
{
    for (o : 0 .. N - 1) {
        if
        :: members[o] && !(written & BIT(o)) && level_of[o] == depth ->
            written = written | BIT(o);
#ifdef CHILD_FLUSH_KEEPS_PARENT_OPEN
            for (l : 0 .. DEPTH) {
                if
                :: l < depth && open[l] -> reach[open[l] - 1] = o + 1
                :: else
                fi
            }
#endif
            reach[o] = 0
#ifdef CHILD_WRITES_FOR_PARENT
        :: members[o] && !(written & BIT(o)) && level_of[o] < depth ->
            level_of[o] = depth;
            written = written | BIT(o);
            reach[o] = 0
#endif
        :: else
        fi
    }
    o = 0;
    l = 0;
#ifdef CHILD_WRITES_FOR_PARENT
    for (l : 0 .. DEPTH) {
        open[l] = 0
    }
    l = 0;
#endif
    open[depth] = 0
}

/* relink gives the batches, and what else the level has, to the parent. */
inline relink()
{
    for (o : 0 .. N - 1) {
        if
        :: members[o] && level_of[o] == depth -> level_of[o] = depth - 1
        :: else
        fi
    }
    o = 0;
    if
#ifdef RELINK_KEEPS_PARENT_OPEN
    :: open[depth] && open[depth - 1] -> reach[open[depth - 1] - 1] = reach[open[depth] - 1]
#endif
    :: else ->
        if
        :: open[depth] -> open[depth - 1] = open[depth]
        :: else
        fi
    fi;
    open[depth] = 0;
#ifndef ENTRY_NOT_RELINKED
    if
    :: entry && entry_level == depth -> entry_level = depth - 1
    :: else
    fi
#endif
}

#ifdef REACH_OVER_GAP
#define follows(o) true
#else
#define follows(o) (first_of(o) == reach[open[l] - 1])
#endif

/* drop forgets the level's batches; the open batch of an outer level may reach over them. */
inline drop()
{
    l = depth;
    do
    :: l > 0 && (l == depth || !open[l]) -> l--
    :: else -> break
    od;
    for (o : 0 .. N - 1) {
        if
        :: members[o] && level_of[o] == depth ->
            if
            :: !(written & BIT(o)) && l < depth && open[l] && follows(o) ->
                if
                :: reach[open[l] - 1] = reach[o]
                :: skip
                fi
            :: else
            fi;
            forget(o)
        :: else
        fi
    }
    o = 0;
    l = 0;
    open[depth] = 0;
    if
#ifdef ENTRY_DIES_WITH_ANY_CHILD
    :: entry ->
#else
#ifdef ENTRY_OUTLIVES_CHILD
    :: false ->
#else
    :: entry && entry_level == depth ->
#endif
#endif
        in_flight = in_flight & ~BIT(entry - 1);
        entry = 0;
        entry_level = 0
    :: else
    fi
}

/* check_entry: a transaction that can commit nothing here holds nobody back. */
inline check_entry()
{
    s = 0;
    for (o : 0 .. DEPTH) {
        s = s | survivors[o]
    }
    o = 0;
    assert(s != 0 || !entry);
    s = 0
}

active proctype session()
{
    byte o, l, s, records, children;

    do
    :: d_step { records < RECORDS -> records++; publish(); check_entry() }
    :: d_step { depth < DEPTH && children < CHILDREN -> children++; depth++ }
    :: d_step { depth > 0 ->                        /* the child commits */
            relink();
            survivors[depth - 1] = survivors[depth - 1] | survivors[depth];
            survivors[depth] = 0;
            depth--;
            check_entry()
        }
    :: atomic { depth > 0 ->                        /* the child rolls back, be it in the middle of its commit */
#ifdef RELINK_AT_PRE_COMMIT
            if
            :: relink()
            :: skip
            fi;
#endif
            drop();
            survivors[depth] = 0;
            depth--;
            check_entry()
        }
    :: d_step { open[depth] -> flush() }                /* memory is full */
    :: depth == 0 -> break
    od;
    if
    :: d_step { flush() };
        d_step { session_visible = true; committed = committed | survivors[0] }
    :: skip
    fi;
    atomic {
        survivors[0] = 0;
        if
        :: entry -> in_flight = in_flight & ~BIT(entry - 1)
        :: else
        fi;
        entry = 0;
        ended++
    }
}

active [OTHERS] proctype other()
{
    byte mine;

    atomic { mine = next; next++; in_flight = in_flight | BIT(mine) };
    if
    :: atomic { others = others | BIT(mine); committed = committed | BIT(mine) }
    :: skip
    fi;
    atomic { in_flight = in_flight & ~BIT(mine); ended++ }
}

active proctype reader()
{
    byte w, o, r, batch;
    bool last, enough;

    do
    :: atomic {
            last = (ended == OTHERS + 1);
            watermark(w)
        };
        atomic {
            /* Snapshot and reading: the snapshot decides what is read, so it is one step. */
            for (o : position .. N - 1) {
                /* the tuple whose last offset is o */
                if
                :: others & BIT(o) -> batch = BIT(o)
                :: session_visible && (written & BIT(o)) -> batch = members[o]
                :: else -> batch = 0
                fi;
                for (r : 0 .. o) {
                    if
                    :: (batch & BIT(r)) && r >= position && r < w && !enough && !last ->
                        enough = true                       /* max_records */
                    :: (batch & BIT(r)) && r >= position && r < w && !enough ->
                        assert(committed & BIT(r));         /* no phantom */
                        assert(!(delivered & BIT(r)));      /* once */
                        delivered = delivered | BIT(r);
                        position = r + 1
                    :: else
                    fi
                }
                batch = 0;
                r = 0
            }
            o = 0;
            if
            :: position < w && !enough -> position = w              /* it may commit the watermark */
            :: else
            fi;
            assert(!(committed & BELOW(position) & ~delivered));    /* no loss */
            w = 0;
            enough = false
        };
        if
        :: last -> break
        :: else
        fi
    od;
    assert(!(committed & ~delivered))
}
