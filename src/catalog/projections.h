/*-------------------------------------------------------------------------
 *
 * projections.h
 *		The table stream_internal.projections.
 *
 * A projection has its offsets in stream_internal.offsets, under a number that
 * no consumer group has.
 *
 * Whoever changes a row calls stream_invalidate for the stream's foreign table
 * in the same transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_PROJECTIONS_H
#define STREAM_PROJECTIONS_H

#include "catalog/streams.h"
#include "nodes/pg_list.h"

/* What to do with a record that cannot be applied. */
typedef enum StreamOnError
{
	STREAM_ON_ERROR_STOP,		/* its partition halts, and is retried later */
	STREAM_ON_ERROR_DEAD_LETTER /* the record is put aside */
} StreamOnError;

#define STREAM_MAX_PROJECTION_WORKERS	1024
#define STREAM_MAX_BATCH_RECORDS		1000000

/*
 * A projection.  Roles, schemas and tables are held by name, and may have gone
 * or changed since.
 */
typedef struct StreamProjection
{
	int32		projection_id;
	int32		stream_id;
	NameData	name;
	NameData	owner;			/* the role that applies it: see stream_projection_role */
	char	   *owner_identity;
	char	   *search_path;	/* under which apply_sql is parsed */
	bool		has_target;		/* else the next two are empty; see also projection_targets.h */
	NameData	target_schema;
	NameData	target_table;
	List	   *key;			/* char *: the target's columns that tell rows apart; with a query only */
	char	   *query;			/* null with a statement */
	char	   *merge;			/* jsonb as text; null with a statement */
	char	   *statement;		/* null with a query */
	char	   *apply_sql;		/* one statement over the relation "batch", the records */
	bool		replay_safe;	/* records applied again change nothing */
	StreamOnError on_error;
	int32		workers;		/* at most so many partitions at a time */
	int32		batch_records;	/* 0: chosen as it goes */
	bool		paused;
	TimestampTz created_at;
} StreamProjection;

/* All results are in the current memory context, and read anew by each call. */
extern StreamProjection *stream_projection(const char *name, bool missing_ok);
extern StreamProjection *stream_projection_by_id(int32 projection_id, bool missing_ok);
extern Oid	stream_projection_role(const StreamProjection *projection);
extern List *stream_projections(void);
extern bool stream_any_projection(void);

extern void stream_prevent_in_statement(const char *command);
extern void stream_check_projection_name(const char *name);
extern StreamOnError stream_parse_on_error(const char *text);
extern const char *stream_on_error_name(StreamOnError on_error);

extern void stream_insert_projection(StreamProjection *projection);
extern void stream_set_projection_on_error(int32 projection_id, StreamOnError on_error);
extern void stream_set_projection_workers(int32 projection_id, int32 workers);
extern void stream_set_projection_batch_records(int32 projection_id, int32 batch_records);
extern void stream_set_projection_owner(int32 projection_id, const char *owner);
extern void stream_set_projection_table(const StreamProjection *projection);
extern void stream_set_projection_paused(int32 projection_id, bool paused);
extern void stream_delete_projection(int32 projection_id);
extern void stream_notice_projections(const StreamInfo *info);
extern void stream_delete_projections(int32 stream_id);

#endif							/* STREAM_PROJECTIONS_H */
