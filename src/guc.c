/*-------------------------------------------------------------------------
 *
 * guc.c
 *		Definition of the extension's settings, sorted by name.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "guc.h"
#include "utils/guc.h"

bool		stream_auto_create_groups = false;
bool		stream_background_workers = true;
int			stream_apply_timeout = 300000;
int			stream_batch_records = 100000;
int			stream_max_appliers = 2;
int			stream_max_databases = 64;
int			stream_max_group_partitions = 8192;
int			stream_max_members = 1024;
int			stream_max_partitions = 8192;
int			stream_max_projection_partitions = 8192;
int			stream_max_publishers = 8192;
int			stream_max_retry_delay = 60000;
int			stream_max_wait = 60000;
int			stream_max_worker_delay = 60000;
int			stream_min_retry_delay = 1000;
int			stream_min_worker_delay = 1000;
int			stream_offset_retention = 0;
int			stream_publish_timeout = 0;

/*
 * stream_define_settings defines all settings.  It runs while the library is
 * preloaded: some of them can be set at server start only.
 */
void
stream_define_settings(void)
{
	DefineCustomIntVariable("stream.apply_timeout",
							"Time after which an applier gives up a projection's statement, to try fewer records later.",
							"Zero turns this off.",
							&stream_apply_timeout,
							300000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("stream.auto_create_groups",
							 "Whether consuming for an unknown consumer group creates it, to start at the log start.",
							 NULL,
							 &stream_auto_create_groups,
							 false,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("stream.background_workers",
							 "Runs background workers in the databases that have the extension.",
							 NULL,
							 &stream_background_workers,
							 true,
							 PGC_SIGHUP, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("stream.batch_records",
							"Records up to which the batches of a projection grow under a backlog.",
							"A projection's own batch_records takes precedence.",
							&stream_batch_records,
							100000, 1, 10000000,
							PGC_SIGHUP, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.max_appliers",
							"Number of processes, for each database, that apply projections.",
							"They run only while the database has a projection that is not paused.",
							&stream_max_appliers,
							2, 0, 1024,
							PGC_SIGHUP, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.max_databases",
							"Number of databases that can have a manager process.",
							NULL,
							&stream_max_databases,
							64, 1, 65536,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.max_group_partitions",
							"Number of pairs of consumer group or projection and partition, over all databases, of which statistics are kept.",
							"Each group and projection counts as one more.",
							&stream_max_group_partitions,
							8192, 16, 1048576,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.max_members",
							"Number of members of consumer groups, and of groups with members, over all databases.",
							NULL,
							&stream_max_members,
							1024, 16, 1048576,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.max_partitions",
							"Number of partitions, over all databases, that can have been published to since the server's start.",
							"A dropped stream's partitions are free again.",
							&stream_max_partitions,
							8192, 16, 1048576,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.max_projection_partitions",
							"Number of partitions, counted for each projection over all databases, that can be applied.",
							NULL,
							&stream_max_projection_partitions,
							8192, 16, 1048576,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.max_publishers",
							"Number of partitions, counted for each transaction, that open transactions can have published to.",
							NULL,
							&stream_max_publishers,
							8192, 16, 1048576,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.max_retry_delay",
							"Time up to which the delays between attempts to apply a failing batch grow.",
							NULL,
							&stream_max_retry_delay,
							60000, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.max_wait",
							"Longest time a call of wait_for_offset or wait_for_records waits, whatever timeout it gives.",
							NULL,
							&stream_max_wait,
							60000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.max_worker_delay",
							"Longest time until a background worker that has failed is tried again.",
							"The delay doubles with each failure in a row.",
							&stream_max_worker_delay,
							60000, 100, INT_MAX / 2,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.min_retry_delay",
							"Time after which a failing batch of a projection is tried again; each failure doubles it.",
							NULL,
							&stream_min_retry_delay,
							1000, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.min_worker_delay",
							"Time until a background worker that has failed is tried again the first time.",
							NULL,
							&stream_min_worker_delay,
							1000, 100, INT_MAX / 2,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.offset_retention",
							"Time after which a consumer group that nobody uses is dropped with its offsets.",
							"Zero: never.",
							&stream_offset_retention,
							0, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S,
							NULL, NULL, NULL);

	DefineCustomIntVariable("stream.publish_timeout",
							"Time after its first publish at which a transaction still open is ended with its session.",
							"Zero: never. It bounds how long a publisher can hold back a high watermark.",
							&stream_publish_timeout,
							0, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);

	MarkGUCPrefixReserved("stream");
}
