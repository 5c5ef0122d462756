/*-------------------------------------------------------------------------
 *
 * coordinator.h
 *		The coordinator of a consumer group: members come, go and take steps.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_COORDINATOR_H
#define STREAM_COORDINATOR_H

#include "catalog/groups.h"
#include "compat.h"
#include "consumer/members.h"

/* Why a member is fenced. */
#define STREAM_NOT_A_MEMBER	"It is not a member: its session has timed out, it has left, or another client has taken its place."
#define STREAM_JOINED_ANEW	"Its epoch is not the member's: it has joined anew since, or has missed a change."
#define STREAM_LOST_RECORDS	"It is ahead of the log: records that were committed asynchronously were lost in a crash of the server."

/* The stages of a change of a group's members; see coordinator.c. */
extern StreamMembers *stream_coordinator_begin(Oid table, const StreamGroup *group);
extern StreamMemberRow *stream_coordinator_find(StreamMembers *members, const char *member_id);
extern StreamMemberRow *stream_coordinator_find_instance(StreamMembers *members, const char *instance_id);
extern StreamMemberRow *stream_coordinator_add(StreamMembers *members, const char *member_id);
extern void stream_coordinator_remove(StreamMembers *members, StreamMemberRow *row);
extern void stream_coordinator_rename(StreamMembers *members, StreamMemberRow *row, const char *member_id);
extern void stream_coordinator_reconcile(StreamMembers *members, StreamMemberRow *row, int32 client_epoch,
										 const StreamPartitionSet *owned);
extern void stream_coordinator_set_away(StreamMembers *members, StreamMemberRow *row);
extern void stream_coordinator_end(StreamMembers *members);

extern void stream_remove_members(Oid table, const StreamGroup *group, bool force);
extern bool stream_can_take_more(Oid table, const StreamGroup *group, const StreamMemberRow *row);
extern bool stream_has_late_members(Oid table, const StreamGroup *group);
extern bool stream_has_live_members(Oid table, const StreamGroup *group);
extern TimestampTz stream_member_deadline(const StreamMembers *members, const StreamMemberRow *row);
extern bool stream_member_is_current(const StreamMemberRow *row, int32 client_epoch);
extern bool stream_member_lives(Oid table, const StreamGroup *group, const char *member_id, int32 client_epoch,
								bool polls, StreamMemberRow **row);
extern StreamMemberRow *stream_member_calls(Oid table, const StreamGroup *group, const char *member_id,
											int32 client_epoch, bool polls);
extern stream_noreturn void stream_report_fenced(const char *group_name, const char *member_id, const char *detail);

#endif							/* STREAM_COORDINATOR_H */
