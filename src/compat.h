/*-------------------------------------------------------------------------
 *
 * compat.h
 *		Differences between the supported major versions of PostgreSQL, 15 to
 *		18.  No other file tests PG_VERSION_NUM.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_COMPAT_H
#define STREAM_COMPAT_H

#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "commands/explain.h"
#include "foreign/fdwapi.h"
#include "optimizer/pathnode.h"
#include "storage/proc.h"
#include "utils/acl.h"

#if PG_VERSION_NUM < 150000
#error "stream needs PostgreSQL 15 or later"
#endif

/* 17 numbers all processes alike and has dropped PGPROC.pgprocno. */
#if PG_VERSION_NUM >= 170000
#define STREAM_MY_PROC_NUMBER	MyProcNumber
#else
#define STREAM_MY_PROC_NUMBER	MyProc->pgprocno
#endif

/*
 * Processes that can have a PGPROC.  17 has a function-like name for the
 * auxiliary ones; a slot for each is cheaper than an argument about who waits.
 */
#define STREAM_MAX_PROCS		(MaxBackends + NUM_AUXILIARY_PROCS)

/* 16 has one function for the ownership of any object, and SET as an option of membership. */
#if PG_VERSION_NUM >= 160000
#define stream_relation_ownercheck(relid, roleid) \
	object_ownercheck(RelationRelationId, relid, roleid)
#define stream_namespace_aclcheck(nspid, roleid, mode) \
	object_aclcheck(NamespaceRelationId, nspid, roleid, mode)
#define stream_database_ownercheck(database, roleid) \
	object_ownercheck(DatabaseRelationId, database, roleid)
#define stream_function_aclcheck(function, roleid, mode) \
	object_aclcheck(ProcedureRelationId, function, roleid, mode)
#define stream_check_can_set_role(member, role)		check_can_set_role(member, role)
#else
#define stream_relation_ownercheck(relid, roleid) \
	pg_class_ownercheck(relid, roleid)
#define stream_namespace_aclcheck(nspid, roleid, mode) \
	pg_namespace_aclcheck(nspid, roleid, mode)
#define stream_database_ownercheck(database, roleid) \
	pg_database_ownercheck(database, roleid)
#define stream_function_aclcheck(function, roleid, mode) \
	pg_proc_aclcheck(function, roleid, mode)
#define stream_check_can_set_role(member, role)		check_is_member_of_role(member, role)
#endif

/* 17 wants the index's cleanup called after a series of insertions. */
#if PG_VERSION_NUM >= 170000
#define stream_index_insert_cleanup(index, info)	index_insert_cleanup(index, info)
#else
#define stream_index_insert_cleanup(index, info)	((void) 0)
#endif

/* 18 counts index searches for EXPLAIN. */
#if PG_VERSION_NUM >= 180000
#define stream_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, NULL, nkeys, 0)
#else
#define stream_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, nkeys, 0)
#endif

/* 17 added restriction clauses, 18 the number of disabled nodes. */
#if PG_VERSION_NUM >= 180000
#define stream_create_foreignscan_path(root, rel, rows, startup, total, pathkeys, outer) \
	create_foreignscan_path(root, rel, NULL, rows, 0, startup, total, pathkeys, outer, NULL, NIL, NIL)
#elif PG_VERSION_NUM >= 170000
#define stream_create_foreignscan_path(root, rel, rows, startup, total, pathkeys, outer) \
	create_foreignscan_path(root, rel, NULL, rows, startup, total, pathkeys, outer, NULL, NIL, NIL)
#else
#define stream_create_foreignscan_path(root, rel, rows, startup, total, pathkeys, outer) \
	create_foreignscan_path(root, rel, NULL, rows, startup, total, pathkeys, outer, NULL, NIL)
#endif

/* 18 has split the header. */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/* 18 writes the attribute before the function. */
#if PG_VERSION_NUM >= 180000
#define stream_noreturn		pg_noreturn
#else
#define stream_noreturn		pg_attribute_noreturn()
#endif

/* 16 can report a soft error here; we want hard ones. */
#if PG_VERSION_NUM >= 160000
#define stream_make_range(typcache, lower, upper)	make_range(typcache, lower, upper, false, NULL)
#else
#define stream_make_range(typcache, lower, upper)	make_range(typcache, lower, upper, false)
#endif

/* The same two for a path above the scan. */
#if PG_VERSION_NUM >= 180000
#define stream_create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, private) \
	create_foreign_upper_path(root, rel, target, rows, 0, startup, total, pathkeys, NULL, NIL, private)
#elif PG_VERSION_NUM >= 170000
#define stream_create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, NULL, NIL, private)
#else
#define stream_create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, NULL, private)
#endif

/* 18 gives the direction of a sort by a comparison type, not a btree strategy. */
#if PG_VERSION_NUM >= 180000
#define stream_pathkey_ascends(pathkey)		((pathkey)->pk_cmptype == COMPARE_LT)
#else
#define stream_pathkey_ascends(pathkey)		((pathkey)->pk_strategy == BTLessStrategyNumber)
#endif

/* 18 tells ANALYZE's delays from VACUUM's. */
#if PG_VERSION_NUM >= 180000
#define stream_analyze_delay_point()	vacuum_delay_point(true)
#else
#define stream_analyze_delay_point()	vacuum_delay_point()
#endif

/* 17 can also ask for a stronger lock. */
#if PG_VERSION_NUM >= 170000
#define stream_lock_held_by_me(tag, mode)	LockHeldByMe(tag, mode, false)
#else
#define stream_lock_held_by_me(tag, mode)	LockHeldByMe(tag, mode)
#endif

/* 18 has dropped an argument of the executor's hook. */
#if PG_VERSION_NUM >= 180000
#define STREAM_EXECUTOR_RUN_ARGS	QueryDesc *query, ScanDirection direction, uint64 count
#define STREAM_EXECUTOR_RUN_PASS	query, direction, count
#else
#define STREAM_EXECUTOR_RUN_ARGS	QueryDesc *query, ScanDirection direction, uint64 count, bool once
#define STREAM_EXECUTOR_RUN_PASS	query, direction, count, once
#endif

/* 17 names wait events of extensions. */
#if PG_VERSION_NUM >= 170000
#include "utils/wait_event.h"
#define STREAM_WAIT_EVENT(var, name) \
	((var) != 0 ? (var) : ((var) = WaitEventExtensionNew(name)))
#else
#include "utils/wait_event.h"
#define STREAM_WAIT_EVENT(var, name)	((void) (var), PG_WAIT_EXTENSION)
#endif

/* 17 has a timeout that background workers would obey. */
#if PG_VERSION_NUM >= 170000
#define stream_override_transaction_timeout() \
	SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE)
#else
#define stream_override_transaction_timeout()	((void) 0)
#endif

/*
 * Its header, libpq/libpq.h, includes those of GSSAPI and OpenSSL when the
 * server was built with them; a build of an extension need not have these.
 */
extern bool pq_check_connection(void);

#endif							/* STREAM_COMPAT_H */
