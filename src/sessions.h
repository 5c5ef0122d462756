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

extern Size stream_sessions_size(void);
extern void stream_sessions_startup(int lock_tranche);
extern int	stream_sessions_used(void);
extern void stream_session_touch(Oid table, int32 group_id, const char *member_id, bool polls);
extern void stream_session_get(Oid table, int32 group_id, const char *member_id,
							   TimestampTz *heartbeat, TimestampTz *poll);
extern void stream_session_forget(Oid table, int32 group_id, const char *member_id);
extern void stream_sessions_remove(Oid database, Oid table);
/* for xact.c */
extern void stream_sessions_commit_sub(SubTransactionId subid, SubTransactionId parent);
extern void stream_sessions_abort_sub(SubTransactionId subid);
extern void stream_sessions_end(bool commit);

extern bool stream_session_check_is_due(Oid table, int32 group_id, TimestampTz now);
extern void stream_session_set_check(Oid table, int32 group_id, TimestampTz at);

#endif							/* STREAM_SESSIONS_H */
