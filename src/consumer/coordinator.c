/*-------------------------------------------------------------------------
 *
 * coordinator.c
 *		The coordinator of a consumer group: members come, go and take steps.
 *
 * There is no process that coordinates.  Each call of a member that changes
 * something takes the group's members lock, loads all members, removes those
 * that have timed out, does its own change, and stores what is different; the
 * lock lasts to the end of the transaction.  So changes are one after the
 * other, commit or roll back as a whole, and need nobody alive but the caller.
 *
 * When the list of members has changed, a new target is computed for all of
 * them at once.  What each holds changes at its own calls only, or when it is
 * removed.  The rules are in assign.c.
 *
 * A member times out
 *
 *		when nothing was heard of it for its session timeout;
 *		when it has not polled for its max_poll_interval; a static member only
 *			when the session timeout has passed after that as well;
 *		when it has not let go of a revoked partition for its max_poll_interval.
 *
 * Any member's call finds that out, so a crash costs the others one session
 * timeout, and a group whose members are all gone waits for the next one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "consumer/coordinator.h"
#include "consumer/wait.h"
#include "miscadmin.h"
#include "sessions.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

static bool
is_static(const StreamMemberRow *row)
{
	return NameStr(row->instance_id)[0] != '\0';
}

/* deadline_of returns when a member times out of which that is known. */
static TimestampTz
deadline_of(const StreamMemberRow *row, const StreamSession *session)
{
	TimestampTz session_end = TimestampTzPlusMilliseconds(session->heartbeat, row->session_timeout);
	TimestampTz poll_end = TimestampTzPlusMilliseconds(session->poll, row->max_poll_interval);
	TimestampTz end;

	if (row->member.member_epoch <= session->closed_epoch)
		return DT_NOBEGIN;
	if (row->member.state == STREAM_MEMBER_AWAY)
		return session_end;
	if (is_static(row))
		end = Min(session_end, TimestampTzPlusMilliseconds(poll_end, row->session_timeout));
	else
		end = Min(session_end, poll_end);
	if (row->revoking_since != 0)
		end = Min(end, TimestampTzPlusMilliseconds(row->revoking_since, row->max_poll_interval));
	return end;
}

/*
 * stream_member_deadline returns when a member times out unless it is heard of
 * before.  One of which nothing can be known has just been heard of.
 */
TimestampTz
stream_member_deadline(const StreamMembers *members, const StreamMemberRow *row)
{
	StreamSession session;

	if (!stream_session_get(members->table, members->group_id, NameStr(row->member_id), &session))
		return TimestampTzPlusMilliseconds(GetCurrentTimestamp(), row->session_timeout);
	return deadline_of(row, &session);
}

/* close_late closes a member that has timed out; false: it has not. */
static bool
close_late(const StreamMembers *members, const StreamMemberRow *row, TimestampTz now)
{
	StreamSession session;
	TimestampTz deadline;

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!stream_session_get(members->table, members->group_id, NameStr(row->member_id), &session))
			return false;
		deadline = deadline_of(row, &session);
		if (deadline > Min(now, GetCurrentTimestamp()))
			return false;
	} while (!stream_session_close(members->table, members->group_id, NameStr(row->member_id),
								   row->member.member_epoch, &session, deadline));
	return true;
}

/* set_target computes a new target after the list of members has changed. */
static void
set_target(StreamMembers *members)
{
	StreamMember **list = palloc_array(StreamMember *, members->n + 1);
	int32	   *target = palloc_array(int32, members->partitions);

	for (int i = 0; i < members->n; i++)
		list[i] = &members->rows[i]->member;
	stream_assign_target(&members->epochs, members->partitions, list, members->n, target);
	for (int i = 0; i < members->n; i++)
	{
		StreamMemberRow *row = members->rows[i];
		StreamPartitionSet set;

		stream_target_of(target, members->partitions, i, &set);
		if (stream_pset_equals(&set, &row->target))
			continue;
		row->target = set;
		row->changed = true;
		if (row->member.state == STREAM_MEMBER_AWAY)
			stream_member_set_away(&row->member, &row->target);
	}
	pfree(list);
	pfree(target);
}

/* unlist takes a member out of the list; its partitions are free. */
static void
unlist(StreamMembers *members, StreamMemberRow *row)
{
	int			at = 0;

	while (members->rows[at] != row)
		at++;
	members->n--;
	memmove(&members->rows[at], &members->rows[at + 1], (members->n - at) * sizeof(StreamMemberRow *));
	stream_delete_member(members->group_id, NameStr(row->member_id));
	stream_session_forget(members->table, members->group_id, NameStr(row->member_id));
}

/*
 * stream_coordinator_begin locks and loads a group's members, without those
 * that had timed out when it was called: the time that it waits for the lock
 * counts for nobody.  Other members wait for it as well, each since it was last
 * heard of, and get it in turn.
 */
StreamMembers *
stream_coordinator_begin(Oid table, const StreamGroup *group)
{
	StreamMembers *members;
	TimestampTz now = GetCurrentTimestamp();

	stream_lock_members(group->group_id);
	members = stream_load_members(table, group->group_id, stream_info(table)->partitions);
	for (int i = members->n - 1; i >= 0; i--)
		if (close_late(members, members->rows[i], now))
		{
			unlist(members, members->rows[i]);
			members->timed_out = true;
		}
	if (members->timed_out)
		set_target(members);
	return members;
}

StreamMemberRow *
stream_coordinator_find(StreamMembers *members, const char *member_id)
{
	for (int i = 0; i < members->n; i++)
		if (strcmp(NameStr(members->rows[i]->member_id), member_id) == 0)
			return members->rows[i];
	return NULL;
}

StreamMemberRow *
stream_coordinator_find_instance(StreamMembers *members, const char *instance_id)
{
	for (int i = 0; i < members->n; i++)
		if (strcmp(NameStr(members->rows[i]->instance_id), instance_id) == 0)
			return members->rows[i];
	return NULL;
}

/* stream_coordinator_add puts a new member into the list, which has room for one. */
StreamMemberRow *
stream_coordinator_add(StreamMembers *members, const char *member_id)
{
	StreamMemberRow *row = palloc0_object(StreamMemberRow);
	int			at = members->n;

	if (members->n == STREAM_ASSIGN_MAX_MEMBERS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a consumer group cannot have more than %d members", STREAM_ASSIGN_MAX_MEMBERS)));
	namestrcpy(&row->member_id, member_id);
	row->member.epochs = members->partition_epochs;
	row->joined_at = GetCurrentTimestamp();
	row->changed = true;
	while (at > 0 && strcmp(NameStr(members->rows[at - 1]->member_id), member_id) > 0)
	{
		members->rows[at] = members->rows[at - 1];
		at--;
	}
	members->rows[at] = row;
	members->n++;
	set_target(members);
	return row;
}

void
stream_coordinator_remove(StreamMembers *members, StreamMemberRow *row)
{
	unlist(members, row);
	set_target(members);
}

/* stream_coordinator_rename gives a static member's place to its successor. */
void
stream_coordinator_rename(StreamMembers *members, StreamMemberRow *row, const char *member_id)
{
	stream_delete_member(members->group_id, NameStr(row->member_id));
	stream_session_forget(members->table, members->group_id, NameStr(row->member_id));
	namestrcpy(&row->member_id, member_id);
	row->stored = false;
	row->changed = true;
}

/* held_by_others returns what the members but one hold. */
static void
held_by_others(const StreamMembers *members, const StreamMemberRow *row, StreamPartitionSet *others)
{
	memset(others, 0, sizeof(StreamPartitionSet));
	for (int i = 0; i < members->n; i++)
	{
		StreamPartitionSet held;

		if (strcmp(NameStr(members->rows[i]->member_id), NameStr(row->member_id)) == 0)
			continue;
		stream_member_held(&members->rows[i]->member, &held);
		stream_pset_union(others, &held);
	}
}

/* count_late reads how many members a group has, and how many have timed out. */
static int
count_late(Oid table, const StreamGroup *group, TimestampTz now, int *n)
{
	StreamMembers *members = stream_load_members(table, group->group_id, stream_info(table)->partitions);
	int			late = 0;

	for (int i = 0; i < members->n; i++)
		if (stream_member_deadline(members, members->rows[i]) <= now)
			late++;
	*n = members->n;
	return late;
}

/*
 * stream_has_late_members says whether a heartbeat of anybody would find a member
 * that has timed out.
 */
bool
stream_has_late_members(Oid table, const StreamGroup *group)
{
	TimestampTz now = GetCurrentTimestamp();
	int			n;

	return stream_session_check_is_due(table, group->group_id, now) && count_late(table, group, now, &n) > 0;
}

/*
 * stream_can_take_more says whether a member that waits for partitions would get
 * some by a heartbeat: they have been released.
 */
bool
stream_can_take_more(Oid table, const StreamGroup *group, const StreamMemberRow *row)
{
	StreamMembers *members;
	StreamPartitionSet wanted = row->target;
	StreamPartitionSet others;

	if (row->member.state != STREAM_MEMBER_UNRELEASED)
		return false;
	members = stream_load_members(table, group->group_id, stream_info(table)->partitions);
	held_by_others(members, row, &others);
	stream_pset_subtract(&wanted, &row->member.assigned);
	return !stream_pset_is_subset(&wanted, &others);
}

/* stream_coordinator_reconcile takes a member's step at a call of its client. */
void
stream_coordinator_reconcile(StreamMembers *members, StreamMemberRow *row, int32 client_epoch,
							 const StreamPartitionSet *owned)
{
	StreamPartitionSet others;

	held_by_others(members, row, &others);
	if (stream_member_reconcile(&row->member, &members->epochs, &row->target, &others, client_epoch, owned))
		row->changed = true;
	if (client_epoch == STREAM_EPOCH_JOIN)
	{
		row->joined_epoch = row->member.member_epoch;
		row->changed = true;
	}
	if ((row->member.state == STREAM_MEMBER_UNREVOKED) != (row->revoking_since != 0))
	{
		row->revoking_since = row->revoking_since == 0 ? GetCurrentTimestamp() : 0;
		row->changed = true;
	}
}

/* stream_coordinator_set_away notes that a static member is to return soon. */
void
stream_coordinator_set_away(StreamMembers *members, StreamMemberRow *row)
{
	stream_member_set_away(&row->member, &row->target);
	row->revoking_since = 0;
	row->changed = true;
}

/*
 * stream_coordinator_end stores what has changed.  Whether a group has members
 * is something that each backend remembers: consume does not go with them.
 */
void
stream_coordinator_end(StreamMembers *members)
{
	TimestampTz next = DT_NOEND;

	stream_store_members(members);
	CommandCounterIncrement();
	/* clients act on what they are told, so it must not be lost in a crash */
	ForceSyncCommit();
	stream_wake_members_at_end(members->table);
	if (members->was_empty != (members->n == 0))
		stream_invalidate(members->table);
	/* a rollback would bring back those that have timed out: look again soon */
	if (members->timed_out)
		next = 0;
	for (int i = 0; i < members->n; i++)
		next = Min(next, stream_member_deadline(members, members->rows[i]));
	if (members->n > 0)
		stream_session_set_check(members->table, members->group_id, next);
	else
		stream_session_forget(members->table, members->group_id, "");
}

/*
 * stream_remove_members removes all members before the group's offsets are
 * changed from outside; without force, it refuses when there are live ones.
 * The caller holds the locks on the partitions.
 */
void
stream_remove_members(Oid table, const StreamGroup *group, bool force)
{
	StreamMembers *members;

	if (!stream_group_has_members(group->group_id))
		return;
	members = stream_coordinator_begin(table, group);
	if (members->n > 0 && !force)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("consumer group \"%s\" has active members", NameStr(group->name)),
				 errhint("Let them leave, or wait until their sessions have timed out; the view stream.group_members names them.")));
	while (members->n > 0)
		unlist(members, members->rows[members->n - 1]);
	set_target(members);
	stream_coordinator_end(members);
}

/*
 * stream_has_live_members removes the members that have timed out and says whether
 * some are left.  While others change the members, those count that are there by
 * what is committed; only when all of these are late it has to wait, since who
 * removes them may be about to roll that back, or to join.
 */
bool
stream_has_live_members(Oid table, const StreamGroup *group)
{
	StreamMembers *members;
	int			n;

	if (!stream_try_lock_members(group->group_id) &&
		count_late(table, group, GetCurrentTimestamp(), &n) < n)
		return true;
	members = stream_coordinator_begin(table, group);
	stream_coordinator_end(members);
	return members->n > 0;
}

/*
 * stream_member_is_current says whether a client that has an epoch is the one
 * that has joined last, and may go on.
 */
bool
stream_member_is_current(const StreamMemberRow *row, int32 client_epoch)
{
	return row != NULL && row->member.state != STREAM_MEMBER_AWAY &&
		client_epoch >= row->joined_epoch && client_epoch <= row->member.member_epoch;
}

/*
 * stream_member_lives notes a sign of life of a member, which polls or not, and
 * reads its row; false: the client is no member, and *row is null unless another
 * one is.  The row is read before, so that only members leave a sign, and again
 * after it: who has removed the member before that either has committed, or has
 * closed it.
 */
bool
stream_member_lives(Oid table, const StreamGroup *group, const char *member_id, int32 client_epoch, bool polls,
					StreamMemberRow **row)
{
	int32		partitions = stream_info(table)->partitions;

	*row = stream_load_member(group->group_id, partitions, member_id);
	if (!stream_member_is_current(*row, client_epoch))
		return false;
	if (!stream_session_touch(table, group->group_id, member_id, (*row)->member.member_epoch, polls))
	{
		*row = NULL;
		return false;
	}
	*row = stream_load_member(group->group_id, partitions, member_id);
	return stream_member_is_current(*row, client_epoch);
}

/* stream_member_calls does so for a call that only a member may make, and returns its row. */
StreamMemberRow *
stream_member_calls(Oid table, const StreamGroup *group, const char *member_id, int32 client_epoch, bool polls)
{
	StreamMemberRow *row;

	if (!stream_member_lives(table, group, member_id, client_epoch, polls, &row))
		stream_report_fenced(NameStr(group->name), member_id,
							 row == NULL ? STREAM_NOT_A_MEMBER : STREAM_JOINED_ANEW);
	return row;
}

void
stream_report_fenced(const char *group_name, const char *member_id, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_STREAM_FENCED_MEMBER),
			 errmsg("member \"%s\" of consumer group \"%s\" is fenced", member_id, group_name),
			 errdetail("%s", detail),
			 errhint("Give up all its partitions, without committing, and call stream.join_group again.")));
	pg_unreachable();
}
