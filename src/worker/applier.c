/*-------------------------------------------------------------------------
 *
 * applier.c
 *		The process of an applier; what it does is in projection/applier.c.
 *
 * Appliers of a database are alike: each takes any partition of any projection
 * that it can lock.  The manager starts and stops them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"
#include "projection/applier.h"
#include "task.h"
#include "utils/guc.h"
#include "worker/worker.h"
#include "workers.h"

PGDLLEXPORT void stream_applier_main(Datum arg);

static bool more;

static void
applier_turn(void)
{
	more = stream_applier_step();
}

static void
applier_wait(void)
{
	stream_applier_wait();
}

void
stream_applier_main(Datum arg)
{
	uint32		generation;
	StreamWorker *worker = stream_worker_slot(arg, &generation);
	int			failures = 0;

	stream_worker_attach(worker, generation);
	stream_worker_connect();
	/* to lose an offset together with its effects is harmless: the log is durable */
	SetConfigOption("synchronous_commit", "off", PGC_SUSET, PGC_S_OVERRIDE);
	for (;;)
	{
		stream_worker_check_stop();
		if (!stream_worker_try(applier_turn))
		{
			/* others need not wait until this one is ready again */
			if (stream_task_let_go())
				stream_wake_workers();
			stream_worker_wait_after_error(++failures);
			continue;
		}
		failures = 0;
		if (more)
			continue;
		stream_worker_report(STREAM_WORKER_IDLE, "%s", "");
		(void) pgstat_report_stat(true);
		if (!stream_worker_try(applier_wait))
			stream_worker_wait_after_error(++failures);
	}
}
