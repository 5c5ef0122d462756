/*-------------------------------------------------------------------------
 *
 * task.c
 *		What the processes share of projections' partitions.
 *
 * A task is one partition of one projection, Kafka Streams' word for it.
 * Appliers tell each other here who is at which one, how far it has come, and
 * when to try again; nothing in it is needed to be right.  Right is what the
 * lock on the partition's offset and the offset itself say, in the transaction
 * that applies.  So all of it may be lost, and is, at a restart.
 *
 * applied_offset is set after the commit, by the process that holds the claim.
 * Who reads it there may rely on seeing the rows in its next snapshot.  Whoever
 * else moves an offset resets the task when that has been committed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "guc.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "task.h"

static bool claimed = false;	/* this process is at the task of ... */
static StreamTaskKey claimed_key;
static bool exit_registered = false;

/* stream_task_removals returns a number that changes when pointers to tasks become void. */
uint32
stream_task_removals(void)
{
	uint32		result;

	LWLockAcquire(&stream_control->task_lock, LW_SHARED);
	result = stream_control->task_removals;
	LWLockRelease(&stream_control->task_lock);
	return result;
}

static StreamTaskKey
task_key(int32 projection_id, int32 partition)
{
	StreamTaskKey key = {MyDatabaseId, projection_id, partition};

	return key;
}

/*
 * stream_task_enter finds or makes a task; null: there is no room.  The pointer
 * is good as long as stream_task_removals says the same.
 */
StreamTask *
stream_task_enter(Oid table, int32 projection_id, int32 partition)
{
	StreamTaskKey key = task_key(projection_id, partition);
	StreamTask *task;
	bool		found;

	LWLockAcquire(&stream_control->task_lock, LW_EXCLUSIVE);
	task = hash_search(stream_task_hash, &key, HASH_FIND, NULL);
	if (task == NULL && stream_control->ntasks < stream_max_projection_partitions)
	{
		task = hash_search(stream_task_hash, &key, HASH_ENTER_NULL, &found);
		if (task != NULL)
		{
			memset(task, 0, sizeof(StreamTask));
			task->key = key;
			task->table = table;
			task->applied_offset = -1;
			task->failing = true;
			stream_control->ntasks++;
		}
	}
	LWLockRelease(&stream_control->task_lock);
	return task;
}

static void
let_go_at_exit(int code, Datum arg)
{
	(void) stream_task_let_go();
}

/*
 * stream_task_claim makes this process the one that is at a task, and copies
 * its state.  tasks are all of the projection's.  False: another process is, or
 * as many as may be at the projection, or the pointers are void.
 */
bool
stream_task_claim(StreamTask **tasks, int32 ntasks, int32 partition, int32 workers,
				  uint32 removals, StreamTask *state)
{
	StreamTask *task = tasks[partition];
	int32		busy = 0;

	Assert(!claimed);
	if (!exit_registered)
	{
		before_shmem_exit(let_go_at_exit, (Datum) 0);
		exit_registered = true;
	}
	LWLockAcquire(&stream_control->task_lock, LW_EXCLUSIVE);
	if (removals == stream_control->task_removals && task->pid == 0)
	{
		for (int32 i = 0; i < ntasks; i++)
			busy += tasks[i]->pid != 0;
		if (busy < workers)
		{
			task->pid = MyProcPid;
			*state = *task;
			claimed = true;
			claimed_key = task->key;
		}
	}
	LWLockRelease(&stream_control->task_lock);
	return claimed;
}

/* find_claimed finds the task that this process is at; null: it has been removed. */
static StreamTask *
find_claimed(void)
{
	StreamTask *task = hash_search(stream_task_hash, &claimed_key, HASH_FIND, NULL);

	return task != NULL && task->pid == MyProcPid ? task : NULL;
}

/*
 * stream_task_release ends the claim and publishes the new state.  An offset
 * that was reset meanwhile stays so: what we know of it is not the newest.
 */
void
stream_task_release(const StreamTask *state)
{
	StreamTask *task;

	LWLockAcquire(&stream_control->task_lock, LW_EXCLUSIVE);
	task = find_claimed();
	if (task != NULL)
	{
		if (task->resets == state->resets)
		{
			task->applied_offset = state->applied_offset;
			task->failing = state->failing;
			task->failures = state->failures;
			task->retry_at = state->retry_at;
			task->suspects = state->suspects;
		}
		task->batch_records = state->batch_records;
		task->pid = 0;
	}
	claimed = false;
	LWLockRelease(&stream_control->task_lock);
}

/*
 * stream_task_let_go ends a claim whose outcome is not known; false: there was
 * none.  It does not throw.
 */
bool
stream_task_let_go(void)
{
	StreamTask *task;

	if (!claimed)
		return false;
	LWLockAcquire(&stream_control->task_lock, LW_EXCLUSIVE);
	task = find_claimed();
	if (task != NULL)
	{
		task->pid = 0;
		task->applied_offset = -1;
	}
	claimed = false;
	LWLockRelease(&stream_control->task_lock);
	return true;
}

/* stream_task_get copies a task's state; false: there is none. */
bool
stream_task_get(int32 projection_id, int32 partition, StreamTask *state)
{
	StreamTaskKey key = task_key(projection_id, partition);
	StreamTask *task;

	LWLockAcquire(&stream_control->task_lock, LW_SHARED);
	task = hash_search(stream_task_hash, &key, HASH_FIND, NULL);
	if (task != NULL)
		*state = *task;
	LWLockRelease(&stream_control->task_lock);
	return task != NULL;
}

static void
reset_task(StreamTask *task)
{
	task->resets++;
	task->applied_offset = -1;
	task->failing = true;
	task->failures = 0;
	task->retry_at = 0;
	task->suspects = 0;
}

/*
 * stream_tasks_reset forgets what is known of a task (partition -1: of all of
 * the projection's), after its offset has been moved by a transaction that has
 * committed.  It does not throw.
 */
void
stream_tasks_reset(int32 projection_id, int32 partition)
{
	HASH_SEQ_STATUS status;
	StreamTask *task;

	LWLockAcquire(&stream_control->task_lock, LW_EXCLUSIVE);
	hash_seq_init(&status, stream_task_hash);
	while ((task = hash_seq_search(&status)) != NULL)
		if (task->key.database == MyDatabaseId && task->key.projection_id == projection_id &&
			(partition == -1 || task->key.partition == partition))
			reset_task(task);
	LWLockRelease(&stream_control->task_lock);
}

/* stream_tasks_keep removes the tasks of this database's other projections; ids are sorted. */
void
stream_tasks_keep(const int32 *projection_ids, int n)
{
	HASH_SEQ_STATUS status;
	StreamTask *task;

	LWLockAcquire(&stream_control->task_lock, LW_EXCLUSIVE);
	hash_seq_init(&status, stream_task_hash);
	while ((task = hash_seq_search(&status)) != NULL)
	{
		bool		keep = task->key.database != MyDatabaseId || task->pid != 0;

		for (int i = 0; i < n && !keep; i++)
			keep = projection_ids[i] == task->key.projection_id;
		if (!keep)
		{
			(void) hash_search(stream_task_hash, &task->key, HASH_REMOVE, NULL);
			stream_control->ntasks--;
			stream_control->task_removals++;
		}
	}
	LWLockRelease(&stream_control->task_lock);
}

/*
 * stream_remove_tasks forgets a projection's tasks, or when that is zero those of
 * a stream's projections, or when that is invalid a database's.  It does not
 * throw: it runs in transaction callbacks.
 */
void
stream_remove_tasks(Oid database, Oid table, int32 projection_id)
{
	HASH_SEQ_STATUS status;
	StreamTask *task;

	LWLockAcquire(&stream_control->task_lock, LW_EXCLUSIVE);
	hash_seq_init(&status, stream_task_hash);
	while ((task = hash_seq_search(&status)) != NULL)
	{
		if (task->key.database == database &&
			(projection_id != 0 ? task->key.projection_id == projection_id :
			 !OidIsValid(table) || task->table == table))
		{
			(void) hash_search(stream_task_hash, &task->key, HASH_REMOVE, NULL);
			stream_control->ntasks--;
			stream_control->task_removals++;
		}
	}
	LWLockRelease(&stream_control->task_lock);
}
