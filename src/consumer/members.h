/*-------------------------------------------------------------------------
 *
 * members.h
 *		The members of consumer groups: the tables stream_internal.members and
 *		group_epochs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_MEMBERS_H
#define STREAM_MEMBERS_H

#include "consumer/assign.h"
#include "datatype/timestamp.h"

/* The member must give up what it has and join again. */
#define ERRCODE_STREAM_FENCED_MEMBER	MAKE_SQLSTATE('S', 'T', '0', '0', '1')
/* It has lost a partition, not its membership. */
#define ERRCODE_STREAM_LOST_PARTITION	MAKE_SQLSTATE('S', 'T', '0', '0', '2')

/*
 * The lock on a group's members is an advisory lock, beside the one on a
 * partition in offsets.h, with this last field.
 */
#define STREAM_MEMBERS_LOCK		84

/* A member, as stored. */
typedef struct StreamMemberRow
{
	NameData	member_id;
	NameData	instance_id;	/* empty: a dynamic member */
	StreamMember member;
	StreamPartitionSet target;	/* its part of it */
	int32		joined_epoch;	/* its client's first epoch: lower ones are of another client */
	int32		session_timeout;	/* ms */
	int32		max_poll_interval;	/* ms */
	TimestampTz joined_at;
	TimestampTz revoking_since; /* 0: has nothing to revoke */
	bool		stored;			/* there is a row */
	bool		own;			/* this transaction wrote it: nobody else has seen it yet */
	bool		changed;		/* and it has to be written */
} StreamMemberRow;

/* All members of a group. */
typedef struct StreamMembers
{
	Oid			table;			/* the stream's */
	int32		group_id;
	int32		partitions;
	StreamGroupEpochs epochs;
	StreamGroupEpochs stored_epochs;	/* as in the table */
	bool		was_empty;		/* there were none when they were loaded */
	bool		timed_out;		/* some have been removed for that */
	int			n;
	StreamMemberRow **rows;		/* by member_id; room for one more */
	int32	   *partition_epochs;	/* shared by all StreamMember.epochs */
} StreamMembers;

extern void stream_lock_members(int32 group_id);
extern bool stream_try_lock_members(int32 group_id);
extern StreamMembers *stream_load_members(Oid table, int32 group_id, int32 partitions);
extern StreamMemberRow *stream_load_member(int32 group_id, int32 partitions, const char *member_id);
extern void stream_load_epochs(int32 group_id, StreamGroupEpochs *epochs);
extern void stream_store_members(StreamMembers *members);
extern void stream_delete_member(int32 group_id, const char *member_id);
extern const char *stream_member_state_name(StreamMemberState state);
extern Datum stream_partition_array(const StreamPartitionSet *set);

#endif							/* STREAM_MEMBERS_H */
