/*-------------------------------------------------------------------------
 *
 * xact.c
 *		Ends of transactions and subtransactions.
 *
 * The callbacks are registered while the library is preloaded, so they run
 * after those of extensions loaded later: those can still publish.
 *
 * PostgreSQL calls for commit and abort after the transaction has become
 * visible to new snapshots, or can never become so, and before it releases its
 * locks; also when the session ends by FATAL.  Nothing may throw there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "consumer/holds.h"
#include "consumer/wait.h"
#include "log/append.h"
#include "log/forget.h"
#include "log/reserve.h"
#include "log/wait.h"
#include "progress.h"
#include "sessions.h"
#include "workers.h"
#include "xact.h"

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			stream_flush_all();
			break;

		case XACT_EVENT_PRE_PREPARE:
			if (stream_has_publishers())
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has published to a stream"),
						 errhint("Publish in a transaction that commits in one phase.")));
			if (stream_holds_partitions())
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has consumed from a stream"),
						 errhint("Consume in a transaction that commits in one phase.")));
			if (stream_members_are_changed())
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has changed the members of a consumer group"),
						 errhint("Make these calls in transactions that commit in one phase.")));
			/* nothing would tell the background workers when it commits */
			if (stream_check_is_pending())
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has created, altered or dropped the extension stream")));
			if (stream_forget_is_pending())
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has created or dropped a stream")));
			break;

		case XACT_EVENT_COMMIT:
			stream_end_publishers(true);
			stream_holds_end(true);
			stream_sessions_end(true);
			stream_forget_end(true);
			stream_workers_end();
			break;

		case XACT_EVENT_ABORT:
			stream_stop_extending();
			stream_waiter_unregister();
			stream_progress_end();
			stream_end_publishers(false);
			stream_holds_end(false);
			stream_sessions_end(false);
			stream_forget_end(false);
			stream_workers_end();
			break;

		case XACT_EVENT_PREPARE:
			/* nothing was published, or all of it rolled back */
			stream_end_publishers(false);
			stream_holds_end(true);
			stream_sessions_end(false);
			stream_forget_end(true);
			stream_workers_end();
			break;

		default:
			/* parallel workers neither publish nor create streams */
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	switch (event)
	{
		case SUBXACT_EVENT_COMMIT_SUB:
			stream_publish_commit_sub(subid, parent);
			stream_holds_commit_sub(subid, parent);
			stream_sessions_commit_sub(subid, parent);
			stream_forget_commit_sub(subid, parent);
			break;

		case SUBXACT_EVENT_ABORT_SUB:
			stream_stop_extending();
			stream_waiter_unregister();
			stream_progress_end();
			stream_publish_abort_sub(subid);
			stream_holds_abort_sub(subid);
			stream_sessions_abort_sub(subid);
			stream_forget_abort_sub(subid);
			break;

		default:
			/* not at PRE_COMMIT_SUB: after it the subtransaction can still fail */
			break;
	}
}

void
stream_xact_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
