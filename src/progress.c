/*-------------------------------------------------------------------------
 *
 * progress.c
 *		What a long operation of this backend is doing, for the view progress.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "progress.h"
#include "shmem.h"

static bool in_progress = false;

/* stream_progress_begin announces an operation; the transaction's abort ends it too. */
void
stream_progress_begin(const char *command, Oid table)
{
	StreamProgress *slot = &stream_progress[STREAM_MY_PROC_NUMBER];

	SpinLockAcquire(&slot->mutex);
	slot->pid = MyProcPid;
	slot->database = MyDatabaseId;
	slot->table = table;
	slot->command = command;
	slot->phase = "starting";
	slot->done = 0;
	slot->total = 0;
	SpinLockRelease(&slot->mutex);
	in_progress = true;
}

void
stream_progress_update(const char *phase, int64 done, int64 total)
{
	StreamProgress *slot = &stream_progress[STREAM_MY_PROC_NUMBER];

	SpinLockAcquire(&slot->mutex);
	slot->phase = phase;
	slot->done = done;
	slot->total = total;
	SpinLockRelease(&slot->mutex);
}

/* stream_progress_end does not throw: it runs in transaction callbacks. */
void
stream_progress_end(void)
{
	StreamProgress *slot;

	if (!in_progress)
		return;
	in_progress = false;
	slot = &stream_progress[STREAM_MY_PROC_NUMBER];
	SpinLockAcquire(&slot->mutex);
	slot->pid = 0;
	SpinLockRelease(&slot->mutex);
}
