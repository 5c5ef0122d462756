/*-------------------------------------------------------------------------
 *
 * groups.h
 *		Consumer groups as objects.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_CONSUMER_GROUPS_H
#define STREAM_CONSUMER_GROUPS_H

#include "catalog/groups.h"

extern bool stream_try_lock_groups(Oid table);
extern void stream_note_call(Oid table, const StreamGroup *group);
extern StreamGroup *stream_group_or_create(Oid table, const char *name);

#endif							/* STREAM_CONSUMER_GROUPS_H */
