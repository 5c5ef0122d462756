/*
 * restart.pml: offsets across restarts; one partition.
 *
 * A sequence counts ranges of offsets. The keeper stands for whichever backend holds the partition's right to
 * extend: it takes the next range from the sequence, flushes the WAL, and only then lets anybody use the
 * range, by creating the partition's state or by raising its ceiling. A crash loses shared memory, open
 * transactions, and what of the WAL is not flushed; the WAL may be flushed at any time. Transactions roll
 * back, or commit, waiting for the flush or not.
 *
 * The reader keeps its position outside the database, so that no crash takes it back.
 *
 * Publishers are alike, so publisher i is by definition the ith to reserve.
 *
 * Checked: an offset is never issued twice; none is issued below a position that a reader already has; no
 * loss below the reader's position; nothing delivered twice, out of order or rolled back; at the end
 * everything committed that survived is delivered.
 *
 * Switches are listed in README.md.
 */
#ifndef P
#define P 3                     /* publishers, one record each */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef STATEMENTS
#define STATEMENTS 2            /* statements of the reader before the last one */
#endif

#define RANGE 2                 /* offsets in a range of the sequence */
#define N (P + CRASHES * 2 * RANGE) /* no offset reaches this: a crash wastes less than two ranges */
#define BIT(o) (1 << (o))
#define BELOW(o) (BIT(o) - 1)

/* what the WAL holds, and what of it is flushed */
byte sequence, flushed_sequence;    /* first offset of the next range */
short logged, flushed;          /* sets: offsets whose commit is in the WAL */

/* shared memory */
bool state_exists;
byte next;                      /* next offset to reserve */
byte ceiling;                   /* end of the last range that may be used */
byte log_end;                   /* watermark until the first reservation */
bool reserved;                  /* there was one */
short in_flight;                /* set: entries of open transactions */

short visible;                  /* set: committed for new snapshots */
byte crashes;
byte begun, ended;              /* publishers */

short issued;                   /* set: what was ever issued, to check against */

/* the reader */
byte position;
short delivered;                /* set */

inline flush()
{
    flushed_sequence = sequence;
    flushed = logged
}

/* The WAL writer may flush at any time; when makes a difference only between two records, so it is decided at each. */
inline maybe_flush()
{
    if
    :: flush()
    :: skip
    fi
}

active proctype crash()
{
end_idle:
    do
    :: crashes < CRASHES ->
        d_step {
            crashes < CRASHES;
            sequence = flushed_sequence;
            logged = flushed;
            visible = flushed;
            state_exists = false;
            next = 0; ceiling = 0; log_end = 0; reserved = false; in_flight = 0;
            crashes++
        }
    :: crashes == CRASHES -> break
    od
}

/* end_of_log: one past the last record that is left. */
inline end_of_log(e)
{
    e = N;
    do
    :: e > 0 && !(visible & BIT(e - 1)) -> e--
    :: else -> break
    od
}

/* low is true when half of the last range is used. */
#define low (next + RANGE / 2 >= ceiling)

active proctype keeper()
{
    byte base, life;

end_idle:
    do
    :: atomic { !state_exists || low ->
            life = crashes;
            base = sequence;                            /* nextval */
            sequence = sequence + RANGE;
            maybe_flush()
        };
        {
            atomic {
#ifndef CEILING_NOT_FLUSHED
                flush();
#endif
                if
                :: !state_exists ->
                    state_exists = true;
                    end_of_log(log_end);
#ifdef RESTART_AT_LOG_END
                    next = log_end;
#else
                    next = base;
#endif
                    assert(next >= position)
                :: else
                fi;
                ceiling = base + RANGE;
                base = 0
            }
        } unless { life != crashes }
    od
}

proctype publisher(byte me)
{
    byte mine, life;

    atomic {
        begun == me && state_exists && next < ceiling ->
        begun++;
        life = crashes;
        mine = next;
        assert(mine < N);
        next++;
        reserved = true;
        in_flight = in_flight | BIT(mine);
        assert(!(issued & BIT(mine)));                  /* once */
        issued = issued | BIT(mine)
    };
    {
        if
        :: atomic { logged = logged | BIT(mine); maybe_flush() };   /* waits for the flush or not */
            visible = visible | BIT(mine);
            atomic { in_flight = in_flight & ~BIT(mine); ended++ }
        :: atomic { in_flight = in_flight & ~BIT(mine); ended++ }       /* rolls back */
        fi
    } unless { atomic { life != crashes -> ended++ } }
}

inline watermark(w)
{
    if
    :: !reserved -> w = log_end
    :: else ->
        w = 0;
        do
        :: w < next && !(in_flight & BIT(w)) -> w++
        :: else -> break
        od
    fi
}

active proctype reader()
{
    byte w, o, statements, life;
    short fresh;                /* snapshot: set of offsets */
    bool stateless, last;

    do
    :: atomic {
            life = crashes;
            last = (ended == P);
            stateless = !state_exists;
            if
            :: stateless -> w = N
            :: else -> watermark(w)
            fi
        };
        fresh = visible;
        atomic {
            if
            :: life != crashes || (stateless && state_exists)       /* starts over */
            :: life == crashes && !(stateless && state_exists) ->
                for (o : position .. N - 1) {
                    if
                    :: o < w && (fresh & BIT(o)) ->
                        assert(logged & BIT(o));            /* no phantom */
                        assert(!(delivered & BIT(o)));      /* once */
                        delivered = delivered | BIT(o);
                        position = o + 1
                    :: else
                    fi
                }
                if
                :: !stateless && position < w -> position = w   /* it may commit the watermark */
                :: else
                fi;
                assert(!(visible & BELOW(position) & ~delivered));  /* no loss */
                if
                :: last -> break
                :: !last && statements < STATEMENTS -> statements++
                :: !last -> statements = STATEMENTS             /* no more until all have ended */
                fi
            fi;
            w = 0; o = 0; fresh = 0; stateless = false
        };
        statements < STATEMENTS || ended == P
    od;
    assert(!(visible & ~delivered))
}

init
{
    atomic {
        byte n;
        for (n : 0 .. P - 1) {
            run publisher(n)
        }
        n = 0
    }
}
