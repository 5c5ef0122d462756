/*-------------------------------------------------------------------------
 *
 * hooks.c
 *		Commands that concern the workers.
 *
 *	CREATE, ALTER and DROP EXTENSION: at the transaction's end the
 *		launcher looks whether the database has ours, and the manager, if there
 *		is one, whether it still has.
 *	CREATE, ALTER and DROP DATABASE: at the transaction's end the launcher looks
 *		at the list of databases.
 *	Commands that need a database for themselves (DROP DATABASE, its use as a
 *		template, RENAME, SET TABLESPACE) hold its workers first, if the user
 *		may run the command at all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/tables.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "compat.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "worker/worker.h"
#include "workers.h"

static object_access_hook_type previous_object_access_hook = NULL;
static ProcessUtility_hook_type previous_utility_hook = NULL;

/* is_ours says whether an extension, which may have just been created, is this one. */
static bool
is_ours(Oid extension)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		result;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(extension));
	scan = systable_beginscan(rel, ExtensionOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	result = HeapTupleIsValid(tuple) &&
		strcmp(NameStr(((Form_pg_extension) GETSTRUCT(tuple))->extname), STREAM_EXTENSION) == 0;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (previous_object_access_hook)
		previous_object_access_hook(access, class_id, object_id, sub_id, arg);

	if (access != OAT_POST_CREATE && access != OAT_DROP && access != OAT_POST_ALTER)
		return;
	if (class_id == ExtensionRelationId && is_ours(object_id))
		stream_check_workers();
	else if (class_id == DatabaseRelationId)
		stream_wake_launcher();
}

/* find_database reads the row of a database by name; false: there is none. */
static bool
find_database(const char *name, FormData_pg_database *row)
{
	Oid			database = get_database_oid(name, true);
	HeapTuple	tuple;

	if (!OidIsValid(database))
		return false;
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	if (!HeapTupleIsValid(tuple))
		return false;
	memcpy(row, GETSTRUCT(tuple), sizeof(FormData_pg_database));
	ReleaseSysCache(tuple);
	return true;
}

static bool
may_create_databases(void)
{
	HeapTuple	tuple;
	bool		result;

	if (superuser())
		return true;
	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	result = HeapTupleIsValid(tuple) && ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return result;
}

static const char *
string_option(List *options, const char *name)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = (DefElem *) lfirst(cell);

		if (strcmp(option->defname, name) == 0 && option->arg != NULL)
			return defGetString(option);
	}
	return NULL;
}

/* hold_for_command holds the workers of the database that a command needs for itself. */
static void
hold_for_command(Node *command)
{
	const char *name = NULL;
	bool		as_template = false;
	FormData_pg_database database;

	switch (nodeTag(command))
	{
		case T_DropdbStmt:
			name = ((DropdbStmt *) command)->dbname;
			break;
		case T_RenameStmt:
			if (((RenameStmt *) command)->renameType == OBJECT_DATABASE && may_create_databases())
				name = ((RenameStmt *) command)->subname;
			break;
		case T_AlterDatabaseStmt:
			if (string_option(((AlterDatabaseStmt *) command)->options, "tablespace") != NULL)
				name = ((AlterDatabaseStmt *) command)->dbname;
			break;
		case T_CreatedbStmt:
			as_template = true;
			if (!may_create_databases())
				break;
			name = string_option(((CreatedbStmt *) command)->options, "template");
			if (name == NULL)
				name = "template1";
			break;
		default:
			break;
	}
	if (name == NULL || !find_database(name, &database) || RecoveryInProgress())
		return;
	/* a session can copy the database that it is in; all else is refused */
	if (database.oid == MyDatabaseId && !as_template)
		return;
	if (stream_database_ownercheck(database.oid, GetUserId()) || (as_template && database.datistemplate))
		stream_hold_workers(database.oid);
}

static void
process_utility(PlannedStmt *statement, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	hold_for_command(statement->utilityStmt);
	if (previous_utility_hook)
		previous_utility_hook(statement, query, read_only_tree, context, params,
							  environment, dest, completion);
	else
		standard_ProcessUtility(statement, query, read_only_tree, context, params,
								environment, dest, completion);
}

/* stream_worker_hooks_init runs while the library is preloaded. */
void
stream_worker_hooks_init(void)
{
	previous_object_access_hook = object_access_hook;
	object_access_hook = object_access;
	previous_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
