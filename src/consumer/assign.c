/*-------------------------------------------------------------------------
 *
 * assign.c
 *		Which member of a consumer group works on which partition: the rules.
 *
 * See assign.h for the whole.  Nothing here knows of relations, of time or of
 * the server beyond palloc.
 *
 * The target is sticky.  With P partitions and N members each gets P/N of them,
 * rounded down, and P mod N get one more; within that each keeps what it holds,
 * so no assignment of these sizes moves fewer partitions.
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "assign.h"

/*
 * stream_group_raise says that the list of members has changed and the target
 * will be computed later.
 */
void
stream_group_raise(StreamGroupEpochs *epochs)
{
	epochs->group_epoch = ++epochs->last_epoch;
}

/*
 * raise_target gives the epochs for a new target.  It must be above every
 * member's, or a member that was given something since the group's epoch was
 * raised would count as reconciled.
 */
static void
raise_target(StreamGroupEpochs *epochs)
{
	if (epochs->group_epoch == epochs->target_epoch ||
		epochs->group_epoch != epochs->last_epoch)
		stream_group_raise(epochs);
	epochs->target_epoch = epochs->group_epoch;
}

/*
 * settle_claims finds the member that holds each partition.  Where several
 * claim one, which only a damaged state makes possible, the claim of the highest
 * epoch wins, and of two equal ones neither.
 */
static void
settle_claims(int partitions, StreamMember *const *members, int nmembers,
			  int32 *owner)
{
	int32		highest[STREAM_ASSIGN_MAX_PARTITIONS];

	for (int p = 0; p < partitions; p++)
	{
		owner[p] = STREAM_NOBODY;
		highest[p] = -1;
	}

	for (int m = 0; m < nmembers; m++)
	{
		StreamPartitionSet held;

		stream_member_held(members[m], &held);
		for (int p = -1; (p = stream_pset_next(&held, p)) >= 0 && p < partitions;)
		{
			int32		epoch = members[m]->epochs[p];

			if (epoch > highest[p])
			{
				highest[p] = epoch;
				owner[p] = m;
			}
			else if (epoch == highest[p])
				owner[p] = STREAM_NOBODY;
		}
	}
}

/*
 * share_out sets how many partitions each member gets, from how many it holds.
 * Those that hold most get the larger share; among equals the first in order.
 */
static void
share_out(int partitions, int nmembers, const int32 *holds, int32 *quota)
{
	int			with_count[STREAM_ASSIGN_MAX_PARTITIONS + 1] = {0};
	int			larger = partitions % nmembers;
	int			limit = partitions;

	for (int m = 0; m < nmembers; m++)
		with_count[holds[m]]++;

	/* All above the limit get the larger share, and "larger" of those at it. */
	while (with_count[limit] < larger)
		larger -= with_count[limit--];

	for (int m = 0; m < nmembers; m++)
	{
		quota[m] = partitions / nmembers;
		if (holds[m] > limit)
			quota[m]++;
		else if (holds[m] == limit && larger > 0)
		{
			quota[m]++;
			larger--;
		}
	}
}

/*
 * keep_part leaves with their owners what is in the assigned or the revoking
 * parts of what they hold, lowest partition first, as far as quotas allow.
 * A quota here is what is still missing.
 */
static void
keep_part(int partitions, StreamMember *const *members, bool revoking,
		  const int32 *owner, int32 *quota, int32 *target)
{
	for (int p = 0; p < partitions; p++)
	{
		int32		m = owner[p];

		if (m != STREAM_NOBODY && quota[m] > 0 &&
			stream_pset_has(&members[m]->revoking, p) == revoking)
		{
			target[p] = m;
			quota[m]--;
		}
	}
}

/*
 * stream_assign_target computes the target for a group of 0 to
 * STREAM_ASSIGN_MAX_MEMBERS members and raises its epochs.
 *
 * target[p], for 0 <= p < partitions, becomes an index into "members", or
 * STREAM_NOBODY when there are none.  The order of members decides between
 * equals and should be the same each time.  What members hold beyond
 * "partitions" is ignored, so it will be revoked.
 *
 * What a client reports is of no account here: it is within what the member
 * holds, or the client is fenced.
 */
void
stream_assign_target(StreamGroupEpochs *epochs, int partitions,
					 StreamMember *const *members, int nmembers, int32 *target)
{
	int32	   *owner;
	int32	   *holds;
	int32	   *quota;
	int			m = 0;

	Assert(partitions >= 1 && partitions <= STREAM_ASSIGN_MAX_PARTITIONS);
	Assert(nmembers >= 0 && nmembers <= STREAM_ASSIGN_MAX_MEMBERS);

	raise_target(epochs);
	for (int p = 0; p < partitions; p++)
		target[p] = STREAM_NOBODY;
	if (nmembers == 0)
		return;

	owner = palloc(partitions * sizeof(int32));
	holds = palloc0(nmembers * sizeof(int32));
	quota = palloc(nmembers * sizeof(int32));

	settle_claims(partitions, members, nmembers, owner);
	for (int p = 0; p < partitions; p++)
	{
		if (owner[p] != STREAM_NOBODY)
			holds[owner[p]]++;
	}
	share_out(partitions, nmembers, holds, quota);

	/*
	 * What a member is already letting go of comes second: it would have to
	 * finish that before it gets the partition again.
	 */
	keep_part(partitions, members, false, owner, quota, target);
	keep_part(partitions, members, true, owner, quota, target);

	/* The quotas add up to the partitions, so that there is a member for each. */
	for (int p = 0; p < partitions; p++)
	{
		if (target[p] != STREAM_NOBODY)
			continue;
		while (quota[m] == 0)
			m++;
		Assert(m < nmembers);
		target[p] = m;
		quota[m]--;
	}

	pfree(owner);
	pfree(holds);
	pfree(quota);
}

/*
 * stream_target_of picks one member's part out of a target.
 */
void
stream_target_of(const int32 *target, int partitions, int32 member,
				 StreamPartitionSet *set)
{
	memset(set, 0, sizeof(StreamPartitionSet));
	for (int p = 0; p < partitions; p++)
	{
		if (target[p] == member)
			stream_pset_add(set, p);
	}
}

/*
 * stream_member_held gives what nobody else may have: what the member works on
 * and what it has not let go of yet.
 */
void
stream_member_held(const StreamMember *member, StreamPartitionSet *set)
{
	*set = member->assigned;
	stream_pset_union(set, &member->revoking);
}

/*
 * drop_released takes out of "revoking" what the client has let go of.
 *
 * Silence about a partition counts only from a client that knew that it had it,
 * that is, whose epoch is not below the partition's.  As a member's epoch grows
 * each time it is given something, an old report that arrives late is never
 * taken for an answer about what was given since.
 */
static void
drop_released(StreamMember *member, int32 client_epoch,
			  const StreamPartitionSet *reported)
{
	StreamPartitionSet silent = member->revoking;

	stream_pset_subtract(&silent, reported);
	for (int p = -1; (p = stream_pset_next(&silent, p)) >= 0;)
	{
		if (member->epochs[p] <= client_epoch)
			stream_pset_remove(&member->revoking, p);
	}
}

/*
 * stream_member_reconcile brings a member a step nearer to its target, at a call
 * of its client that was not fenced, and tells whether the member has changed.
 *
 * "target" is the member's part of the target, "others" what all other members
 * hold together.  "client_epoch" is what the client has sent, and "reported"
 * what it says it owns; null: it did not say, so nothing can be released.  With
 * STREAM_EPOCH_JOIN it holds nothing, whatever was known of it.
 *
 *		assigned := assigned within the target
 *		revoking := what else is held and was not let go of
 *
 * While there is something to revoke, the member stays at its epoch and gets
 * nothing.  Else it goes on to the target's epoch, and gets what it lacks and
 * nobody else holds.  When it has that epoch already, because others let go
 * only later, it gets one that is new in the group.  So of two times a
 * member has had a partition the later one has the higher epoch, which is what
 * fencing relies on.
 *
 * What becomes revoking in a call is never released in the same one: the client
 * has to be told first.  A partition that the target gives back meanwhile goes
 * the same way, since its client may have stopped working on it.
 */
bool
stream_member_reconcile(StreamMember *member, StreamGroupEpochs *epochs,
						const StreamPartitionSet *target,
						const StreamPartitionSet *others,
						int32 client_epoch, const StreamPartitionSet *reported)
{
	StreamMember before = *member;
	StreamPartitionSet missing;
	StreamPartitionSet granted;
	StreamPartitionSet unwanted;
	bool		joins = client_epoch == STREAM_EPOCH_JOIN;

	Assert(joins || member->state != STREAM_MEMBER_AWAY);
	Assert(joins || client_epoch <= member->member_epoch);

	if (joins)
	{
		memset(&member->assigned, 0, sizeof(StreamPartitionSet));
		memset(&member->revoking, 0, sizeof(StreamPartitionSet));
	}
	else if (reported != NULL)
		drop_released(member, client_epoch, reported);

	unwanted = member->assigned;
	stream_pset_subtract(&unwanted, target);
	stream_pset_subtract(&member->assigned, &unwanted);
	stream_pset_union(&member->revoking, &unwanted);

	if (!stream_pset_is_empty(&member->revoking))
		member->state = STREAM_MEMBER_UNREVOKED;
	else
	{
		missing = *target;
		stream_pset_subtract(&missing, &member->assigned);
		granted = missing;
		stream_pset_subtract(&granted, others);

		/* Joining twice has to tell the first time from the second as well. */
		if (member->member_epoch < epochs->target_epoch)
			member->member_epoch = epochs->target_epoch;
		else if (joins || !stream_pset_is_empty(&granted))
			member->member_epoch = ++epochs->last_epoch;

		for (int p = -1; (p = stream_pset_next(&granted, p)) >= 0;)
			member->epochs[p] = member->member_epoch;
		stream_pset_union(&member->assigned, &granted);

		if (stream_pset_is_subset(&missing, &granted))
			member->state = STREAM_MEMBER_STABLE;
		else
			member->state = STREAM_MEMBER_UNRELEASED;
	}

	/*
	 * Not the epoch before, which the client may have missed like this one: what
	 * it is known to have, so that any number of lost answers does no harm.
	 */
	if (member->member_epoch != before.member_epoch)
		member->previous_epoch = client_epoch;

	/* Nothing else changes without one of these. */
	return member->member_epoch != before.member_epoch ||
		!stream_pset_equals(&member->revoking, &before.revoking);
}

/*
 * stream_member_set_away notes that a static member has left to return soon.
 * It has stopped working, so only what the target leaves it stays reserved.  Call
 * it again when the target changes.  The member is itself again when it joins,
 * be it as the same client or as one that takes the member over.
 */
void
stream_member_set_away(StreamMember *member, const StreamPartitionSet *target)
{
	member->state = STREAM_MEMBER_AWAY;
	stream_pset_intersect(&member->assigned, target);
	memset(&member->revoking, 0, sizeof(StreamPartitionSet));
}

/*
 * stream_member_is_reconciled tells whether a member has arrived at the target.
 */
bool
stream_member_is_reconciled(const StreamMember *member,
							const StreamGroupEpochs *epochs)
{
	return member->state == STREAM_MEMBER_STABLE &&
		member->member_epoch >= epochs->target_epoch;
}

/*
 * stream_group_state tells how far a group is.
 */
StreamGroupState
stream_group_state(const StreamGroupEpochs *epochs,
				   StreamMember *const *members, int nmembers)
{
	if (nmembers == 0)
		return STREAM_GROUP_EMPTY;
	if (epochs->group_epoch > epochs->target_epoch)
		return STREAM_GROUP_ASSIGNING;
	for (int m = 0; m < nmembers; m++)
	{
		if (!stream_member_is_reconciled(members[m], epochs))
			return STREAM_GROUP_RECONCILING;
	}
	return STREAM_GROUP_STABLE;
}

/*
 * stream_check_heartbeat judges the epoch and the owned partitions that a client
 * sends.  "member" is null for an unknown member, "owned" null when the client
 * did not say.
 *
 * An epoch below the known one is right only when the answer that carried the
 * new one was lost: the client has the epoch before, and nothing that has gone
 * to someone else since.  To own what the member does not hold is wrong at any
 * epoch.  What is being revoked is still held, so that an answer may be lost
 * while a revocation is under way.
 */
StreamHeartbeat
stream_check_heartbeat(const StreamMember *member, int32 client_epoch,
					   const StreamPartitionSet *owned)
{
	if (client_epoch == STREAM_EPOCH_JOIN)
		return STREAM_HEARTBEAT_JOIN;
	if (client_epoch == STREAM_EPOCH_LEAVE)
		return STREAM_HEARTBEAT_LEAVE;
	if (client_epoch == STREAM_EPOCH_LEAVE_STATIC)
		return STREAM_HEARTBEAT_LEAVE_STATIC;

	if (member == NULL || member->state == STREAM_MEMBER_AWAY)
		return STREAM_HEARTBEAT_FENCED;
	if (owned != NULL)
	{
		StreamPartitionSet held;

		stream_member_held(member, &held);
		if (!stream_pset_is_subset(owned, &held))
			return STREAM_HEARTBEAT_FENCED;
	}

	if (client_epoch == member->member_epoch)
		return STREAM_HEARTBEAT_CURRENT;
	if (client_epoch == member->previous_epoch && owned != NULL)
		return STREAM_HEARTBEAT_REPEATED;
	return STREAM_HEARTBEAT_FENCED;
}

/*
 * stream_check_commit judges a commit of one partition.
 *
 *		epoch at which the partition was given <= client's <= member's
 *
 * So a commit survives a rise of the member's epoch that had other reasons, and
 * never outlives the loss of the partition.
 */
StreamFence
stream_check_commit(const StreamMember *member, int partition, int32 client_epoch)
{
	StreamPartitionSet held;

	Assert(partition >= 0 && partition < STREAM_ASSIGN_MAX_PARTITIONS);

	if (client_epoch > member->member_epoch)
		return STREAM_FENCE_AHEAD;

	stream_member_held(member, &held);
	if (member->state == STREAM_MEMBER_AWAY || !stream_pset_has(&held, partition))
		return STREAM_FENCE_NOT_OWNER;
	if (client_epoch < member->epochs[partition])
		return STREAM_FENCE_STALE;
	return STREAM_FENCE_NONE;
}
