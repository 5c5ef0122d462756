/*-------------------------------------------------------------------------
 *
 * expire.h
 *		Consumer groups that nobody uses any more.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_EXPIRE_H
#define STREAM_EXPIRE_H

#include "catalog/groups.h"

extern bool stream_group_expires_at(const StreamGroup *group, TimestampTz committed_at, TimestampTz *expires_at);
/* for the manager: in a transaction of its own, having the extension locked */
extern bool stream_expiry_is_due(void);
extern int	stream_expire_groups(void);

#endif							/* STREAM_EXPIRE_H */
