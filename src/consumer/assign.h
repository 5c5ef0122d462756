/*-------------------------------------------------------------------------
 *
 * assign.h
 *		Which member of a consumer group works on which partition: the rules.
 *
 * A group reads one stream.  Its coordinator, the caller, keeps the members and
 * their clocks, stores them and takes the locks; here are pure functions of
 * what it knows.  With FRONTEND defined they build outside the server, for
 * their tests.
 *
 * There are two assignments.  The target is what should be; it is computed for
 * all members when one comes or goes.  The current one is what each member
 * holds; it follows the target a step at each of the member's own calls.  The
 * steps are cooperative: a partition that moves is first revoked from the one,
 * who goes on with the rest, and given to the other only afterwards.
 *
 * A member comes, leaves or has timed out (also: the partitions changed):
 *
 *		change the list of members; a removed one's partitions are free
 *		stream_assign_target		for the new list; it raises the epochs
 *		stream_member_set_away		for each member that is away
 *
 * A member's call arrives:
 *
 *		stream_check_heartbeat		fenced: an error, and nothing changes
 *		stream_member_reconcile		store the member when it says so
 *		answer (member_epoch, assigned, revoking), whether anything changed or not
 *
 * What a client has to do: take up what is in "assigned" and keep the epoch
 * together; commit what it has polled of "revoking" and let go of it; report
 * as owned all it was given and has not let go of for good.  It starts with
 * nothing when it joins, also when it joins again because it was fenced.
 *
 * Under these rules no two clients work on a partition at once, whatever calls
 * and answers are lost, repeated or overtaken by later ones; only a call that
 * joins or leaves must not be carried out after a later call of the same
 * member.  The reasons are at stream_member_reconcile.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_ASSIGN_H
#define STREAM_ASSIGN_H

#include "port/pg_bitutils.h"

/* The most partitions and members this can handle. */
#define STREAM_ASSIGN_MAX_PARTITIONS	1024
#define STREAM_ASSIGN_MAX_MEMBERS		4096

/* No member, in a target. */
#define STREAM_NOBODY				(-1)

/* What a client says instead of its epoch. */
#define STREAM_EPOCH_JOIN			0
#define STREAM_EPOCH_LEAVE			(-1)
#define STREAM_EPOCH_LEAVE_STATIC	(-2)	/* to return soon, keeping its place */

/* A set of partitions, 0 <= p < STREAM_ASSIGN_MAX_PARTITIONS; all zero: empty. */
#define STREAM_PSET_WORDS			(STREAM_ASSIGN_MAX_PARTITIONS / 64)

typedef struct StreamPartitionSet
{
	uint64		words[STREAM_PSET_WORDS];
} StreamPartitionSet;

/*
 * The epochs of a group; all zero: a new one.
 *
 *		0 <= target_epoch <= group_epoch <= last_epoch
 *		member_epoch <= last_epoch, of all members that ever were
 *
 * stream_group_raise moves group_epoch, stream_assign_target all three, and
 * stream_member_reconcile last_epoch.  A member's epoch may be above the
 * target's: each time a member is given something, its epoch grows.
 */
typedef struct StreamGroupEpochs
{
	int32		last_epoch;		/* the highest one ever given out */
	int32		group_epoch;	/* of the list of members */
	int32		target_epoch;	/* of the list that the target was computed for */
} StreamGroupEpochs;

typedef enum StreamMemberState
{
	STREAM_MEMBER_STABLE = 0,	/* holds its target, as of its epoch */
	STREAM_MEMBER_UNREVOKED,	/* has to let go of something first */
	STREAM_MEMBER_UNRELEASED,	/* waits for what another still holds */
	STREAM_MEMBER_AWAY			/* a static member that left to return */
} StreamMemberState;

/*
 * A member as its coordinator knows it; all zero but for "epochs": one that has
 * not joined yet.  It holds assigned and revoking.
 *
 *		assigned and revoking are disjoint
 *		revoking is not empty  <=>  state = UNREVOKED
 *		0 <= previous_epoch <= member_epoch
 *		0 < epochs[p] <= member_epoch, for each p it holds
 *		member_epoch >= target_epoch  =>  assigned is within the target, and equal
 *			to it if state = STABLE
 *
 * No partition is held by two members, so those of a group may share one array
 * of epochs.
 */
typedef struct StreamMember
{
	int32		member_epoch;
	int32		previous_epoch; /* what the client had when member_epoch was set;
								 * 0: it joined then */
	StreamMemberState state;
	StreamPartitionSet assigned;	/* it may poll and commit */
	StreamPartitionSet revoking;	/* it is to let go; it may only commit */
	int32	   *epochs;			/* by partition: member_epoch when it was given;
								 * meaningless for what it does not hold */
} StreamMember;

typedef enum StreamHeartbeat
{
	STREAM_HEARTBEAT_CURRENT,	/* go on */
	STREAM_HEARTBEAT_REPEATED,	/* it missed the last answer: go on as well */
	STREAM_HEARTBEAT_JOIN,
	STREAM_HEARTBEAT_LEAVE,
	STREAM_HEARTBEAT_LEAVE_STATIC,
	STREAM_HEARTBEAT_FENCED		/* it must let go of everything and join again */
} StreamHeartbeat;

typedef enum StreamFence
{
	STREAM_FENCE_NONE = 0,		/* the commit is allowed */
	STREAM_FENCE_AHEAD,			/* an epoch the member does not have */
	STREAM_FENCE_NOT_OWNER,		/* does not hold the partition */
	STREAM_FENCE_STALE			/* held it before, lost it and got it again */
} StreamFence;

typedef enum StreamGroupState
{
	STREAM_GROUP_EMPTY = 0,
	STREAM_GROUP_ASSIGNING,		/* the target is out of date */
	STREAM_GROUP_RECONCILING,	/* members are on their way to it, or away */
	STREAM_GROUP_STABLE
} StreamGroupState;

/* The target. */
extern void stream_group_raise(StreamGroupEpochs *epochs);
extern void stream_assign_target(StreamGroupEpochs *epochs, int partitions,
								 StreamMember *const *members, int nmembers,
								 int32 *target);
extern void stream_target_of(const int32 *target, int partitions, int32 member,
							 StreamPartitionSet *set);

/* A member's step towards it. */
extern void stream_member_held(const StreamMember *member, StreamPartitionSet *set);
extern bool stream_member_reconcile(StreamMember *member, StreamGroupEpochs *epochs,
									const StreamPartitionSet *target,
									const StreamPartitionSet *others,
									int32 client_epoch,
									const StreamPartitionSet *reported);
extern void stream_member_set_away(StreamMember *member,
								   const StreamPartitionSet *target);
extern bool stream_member_is_reconciled(const StreamMember *member,
										const StreamGroupEpochs *epochs);
extern StreamGroupState stream_group_state(const StreamGroupEpochs *epochs,
										   StreamMember *const *members, int nmembers);

/* Fencing. */
extern StreamHeartbeat stream_check_heartbeat(const StreamMember *member,
											  int32 client_epoch,
											  const StreamPartitionSet *owned);
extern StreamFence stream_check_commit(const StreamMember *member, int partition,
									   int32 client_epoch);


static inline bool
stream_pset_has(const StreamPartitionSet *set, int partition)
{
	return (set->words[partition / 64] >> (partition % 64)) & 1;
}

static inline void
stream_pset_add(StreamPartitionSet *set, int partition)
{
	set->words[partition / 64] |= UINT64CONST(1) << (partition % 64);
}

static inline void
stream_pset_remove(StreamPartitionSet *set, int partition)
{
	set->words[partition / 64] &= ~(UINT64CONST(1) << (partition % 64));
}

/* set := set + other */
static inline void
stream_pset_union(StreamPartitionSet *set, const StreamPartitionSet *other)
{
	for (int i = 0; i < STREAM_PSET_WORDS; i++)
		set->words[i] |= other->words[i];
}

/* set := what is in both */
static inline void
stream_pset_intersect(StreamPartitionSet *set, const StreamPartitionSet *other)
{
	for (int i = 0; i < STREAM_PSET_WORDS; i++)
		set->words[i] &= other->words[i];
}

/* set := set - other */
static inline void
stream_pset_subtract(StreamPartitionSet *set, const StreamPartitionSet *other)
{
	for (int i = 0; i < STREAM_PSET_WORDS; i++)
		set->words[i] &= ~other->words[i];
}

static inline bool
stream_pset_is_empty(const StreamPartitionSet *set)
{
	uint64		any = 0;

	for (int i = 0; i < STREAM_PSET_WORDS; i++)
		any |= set->words[i];
	return any == 0;
}

/* Is all of "set" in "other"? */
static inline bool
stream_pset_is_subset(const StreamPartitionSet *set, const StreamPartitionSet *other)
{
	uint64		outside = 0;

	for (int i = 0; i < STREAM_PSET_WORDS; i++)
		outside |= set->words[i] & ~other->words[i];
	return outside == 0;
}

static inline bool
stream_pset_overlaps(const StreamPartitionSet *set, const StreamPartitionSet *other)
{
	uint64		common = 0;

	for (int i = 0; i < STREAM_PSET_WORDS; i++)
		common |= set->words[i] & other->words[i];
	return common != 0;
}

static inline bool
stream_pset_equals(const StreamPartitionSet *set, const StreamPartitionSet *other)
{
	return memcmp(set, other, sizeof(StreamPartitionSet)) == 0;
}

static inline int
stream_pset_count(const StreamPartitionSet *set)
{
	int			count = 0;

	for (int i = 0; i < STREAM_PSET_WORDS; i++)
		count += pg_popcount64(set->words[i]);
	return count;
}

/*
 * stream_pset_next gives the lowest member above "after", or -1.  All of them
 * in order: for (p = -1; (p = stream_pset_next(set, p)) >= 0;)
 */
static inline int
stream_pset_next(const StreamPartitionSet *set, int after)
{
	int			first = after + 1;

	for (int i = first / 64; i < STREAM_PSET_WORDS; i++)
	{
		uint64		word = set->words[i];

		if (i == first / 64)
			word &= ~UINT64CONST(0) << (first % 64);
		if (word != 0)
			return i * 64 + pg_rightmost_one_pos64(word);
	}
	return -1;
}

#endif							/* STREAM_ASSIGN_H */
