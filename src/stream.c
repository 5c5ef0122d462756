/*-------------------------------------------------------------------------
 *
 * stream.c
 *		Entry of the library.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/streams.h"
#include "consumer/consume.h"
#include "consumer/holds.h"
#include "consumer/wait.h"
#include "face/call.h"
#include "face/hooks.h"
#include "fmgr.h"
#include "guc.h"
#include "log/segtable.h"
#include "miscadmin.h"
#include "projection/guard.h"
#include "shmem.h"
#include "worker/worker.h"
#include "xact.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

/*
 * Everything needs shared memory, so a library that was not preloaded installs
 * nothing; each function then says what is missing.
 */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	stream_define_settings();
	stream_shmem_init();
	stream_cache_init();
	stream_segtable_init();
	stream_xact_init();
	stream_hooks_init();
	stream_call_init();
	stream_holds_init();
	stream_consumer_wait_init();
	stream_consume_init();
	stream_target_guard_init();
	stream_worker_hooks_init();
	stream_launcher_register();
}
