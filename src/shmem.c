/*-------------------------------------------------------------------------
 *
 * shmem.c
 *		Allocation of the extension's shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "guc.h"
#include "miscadmin.h"
#include "sessions.h"
#include "shmem.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"
#include "workers.h"

#define STREAM_TRANCHE_CONTROL		"StreamControl"
#define STREAM_TRANCHE_PARTITION	"StreamPartition"
#define STREAM_TRANCHE_WORKERS		"StreamWorkers"
#define STREAM_TRANCHE_METER		"StreamMeter"

StreamControl *stream_control = NULL;
HTAB	   *stream_partition_hash = NULL;
HTAB	   *stream_task_hash = NULL;
StreamWaiter *stream_waiters = NULL;
StreamProgress *stream_progress = NULL;
HTAB	   *stream_meter_hash = NULL;
StreamConsumerSlot *stream_consumer_slots = NULL;

static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

Size
stream_shmem_partition_size(void)
{
	return hash_estimate_size(stream_max_partitions, sizeof(StreamPartition));
}

Size
stream_shmem_publisher_size(void)
{
	return mul_size(stream_max_publishers, sizeof(StreamPublisher));
}

Size
stream_shmem_task_size(void)
{
	return hash_estimate_size(stream_max_projection_partitions, sizeof(StreamTask));
}

Size
stream_shmem_meter_size(void)
{
	return hash_estimate_size(stream_max_group_partitions, sizeof(StreamMeter));
}

/* Waiters, progress and workers: one slot of each for each process. */
Size
stream_shmem_process_size(void)
{
	return mul_size(STREAM_MAX_PROCS,
					sizeof(StreamWaiter) + sizeof(StreamProgress) + sizeof(StreamConsumerSlot));
}

static void
shmem_request(void)
{
	Size		size = 0;

	if (previous_request_hook)
		previous_request_hook();

	size = add_size(size, MAXALIGN(sizeof(StreamControl)));
	size = add_size(size, stream_shmem_partition_size());
	size = add_size(size, MAXALIGN(stream_shmem_publisher_size()));
	size = add_size(size, stream_shmem_meter_size());
	size = add_size(size, stream_shmem_process_size());
	size = add_size(size, stream_shmem_task_size());
	size = add_size(size, MAXALIGN(stream_workers_size()));
	size = add_size(size, stream_sessions_size());
	/* alignment of the separate allocations */
	size = add_size(size, 8 * PG_CACHE_LINE_SIZE);
	RequestAddinShmemSpace(size);
	RequestNamedLWLockTranche(STREAM_TRANCHE_CONTROL, 1);
	RequestNamedLWLockTranche(STREAM_TRANCHE_PARTITION, 1);
	RequestNamedLWLockTranche(STREAM_TRANCHE_WORKERS, 1);
	RequestNamedLWLockTranche(STREAM_TRANCHE_METER, 1);
}

/*
 * Locks that come and go cannot be the named tranche's own; they share its
 * name, which every process knows.
 */
static int
tranche_id(const char *name)
{
	return GetNamedLWLockTranche(name)->lock.tranche;
}

static void
shmem_startup(void)
{
	HASHCTL		info;
	StreamPublisher *publishers;
	bool		found;

	if (previous_startup_hook)
		previous_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);

	stream_control = ShmemInitStruct("stream control", sizeof(StreamControl), &found);
	if (!found)
	{
		memset(stream_control, 0, sizeof(StreamControl));
		LWLockInitialize(&stream_control->lock, tranche_id(STREAM_TRANCHE_CONTROL));
		LWLockInitialize(&stream_control->meter_lock, tranche_id(STREAM_TRANCHE_METER));
		SpinLockInit(&stream_control->publisher_mutex);
		dlist_init(&stream_control->free_publishers);
		pg_atomic_init_u32(&stream_control->nwaiters, 0);
		stream_control->started_at = GetCurrentTimestamp();
		LWLockInitialize(&stream_control->task_lock, tranche_id(STREAM_TRANCHE_CONTROL));
		pg_atomic_init_u64(&stream_control->projection_changes, 1);
	}

	publishers = ShmemInitStruct("stream publishers", stream_shmem_publisher_size(), &found);
	if (!found)
	{
		memset(publishers, 0, stream_shmem_publisher_size());
		for (int i = 0; i < stream_max_publishers; i++)
			dlist_push_tail(&stream_control->free_publishers, &publishers[i].node);
	}

	stream_waiters = ShmemInitStruct("stream waiters",
									 mul_size(STREAM_MAX_PROCS, sizeof(StreamWaiter)), &found);
	if (!found)
	{
		memset(stream_waiters, 0, STREAM_MAX_PROCS * sizeof(StreamWaiter));
		for (int i = 0; i < STREAM_MAX_PROCS; i++)
			SpinLockInit(&stream_waiters[i].mutex);
	}

	stream_progress = ShmemInitStruct("stream progress",
									  mul_size(STREAM_MAX_PROCS, sizeof(StreamProgress)), &found);
	if (!found)
	{
		memset(stream_progress, 0, STREAM_MAX_PROCS * sizeof(StreamProgress));
		for (int i = 0; i < STREAM_MAX_PROCS; i++)
			SpinLockInit(&stream_progress[i].mutex);
	}

	stream_workers_shmem_startup(tranche_id(STREAM_TRANCHE_WORKERS));
	stream_consumer_slots = ShmemInitStruct("stream consumers",
										  mul_size(STREAM_MAX_PROCS, sizeof(StreamConsumerSlot)), &found);
	if (!found)
	{
		memset(stream_consumer_slots, 0, STREAM_MAX_PROCS * sizeof(StreamConsumerSlot));
		for (int i = 0; i < STREAM_MAX_PROCS; i++)
			SpinLockInit(&stream_consumer_slots[i].mutex);
	}

	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(StreamPartitionKey);
	info.entrysize = sizeof(StreamPartition);
	stream_partition_hash = ShmemInitHash("stream partitions",
										  stream_max_partitions, stream_max_partitions,
										  &info, HASH_ELEM | HASH_BLOBS);

	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(StreamTaskKey);
	info.entrysize = sizeof(StreamTask);
	stream_task_hash = ShmemInitHash("stream tasks",
									 stream_max_projection_partitions, stream_max_projection_partitions,
									 &info, HASH_ELEM | HASH_BLOBS);
	stream_sessions_startup(tranche_id(STREAM_TRANCHE_CONTROL));

	memset(&info, 0, sizeof(info));
	info.keysize = sizeof(StreamMeterKey);
	info.entrysize = sizeof(StreamMeter);
	stream_meter_hash = ShmemInitHash("stream meters",
									  stream_max_group_partitions, stream_max_group_partitions,
									  &info, HASH_ELEM | HASH_BLOBS);

	LWLockRelease(AddinShmemInitLock);
}

/* stream_shmem_init installs the hooks that allocate shared memory. */
void
stream_shmem_init(void)
{
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}

/* stream_require_shmem refuses to work when the library was not preloaded. */
void
stream_require_shmem(void)
{
	if (unlikely(stream_control == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stream must be loaded via \"shared_preload_libraries\""),
				 errhint("Add \"stream\" to shared_preload_libraries in postgresql.conf and restart the server.")));
}

void
stream_init_partition_lock(StreamPartition *partition)
{
	LWLockInitialize(&partition->lock, tranche_id(STREAM_TRANCHE_PARTITION));
}
