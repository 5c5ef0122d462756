/*-------------------------------------------------------------------------
 *
 * sessions.h
 *		When the members of consumer groups were last heard of.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_SESSIONS_H
#define STREAM_SESSIONS_H

#include "datatype/timestamp.h"

/* What is known of a member. */
typedef struct StreamSession
{
	TimestampTz heartbeat;
	TimestampTz poll;
	int32		closed_epoch;	/* member epochs up to this one have timed out; 0: none */
} StreamSession;

extern Size stream_sessions_size(void);
extern void stream_sessions_startup(int lock_tranche);
extern int	stream_sessions_used(void);
extern bool stream_session_touch(Oid table, int32 group_id, const char *member_id, int32 epoch, bool polls);
extern void stream_session_begin(Oid table, int32 group_id, const char *member_id, int32 epoch);
extern bool stream_session_get(Oid table, int32 group_id, const char *member_id, StreamSession *result);
extern bool stream_session_close(Oid table, int32 group_id, const char *member_id, int32 epoch,
								 const StreamSession *seen, TimestampTz deadline);
extern void stream_session_forget(Oid table, int32 group_id, const char *member_id);
extern void stream_sessions_remove(Oid database, Oid table);
/* for xact.c */
extern void stream_sessions_commit_sub(SubTransactionId subid, SubTransactionId parent);
extern void stream_sessions_abort_sub(SubTransactionId subid);
extern void stream_sessions_end(bool commit);

extern bool stream_session_check_is_due(Oid table, int32 group_id, TimestampTz now);
extern void stream_session_set_check(Oid table, int32 group_id, TimestampTz at);

#endif							/* STREAM_SESSIONS_H */
