/*-------------------------------------------------------------------------
 *
 * shmem.h
 *		The extension's shared memory.
 *
 * Its size is fixed at server start by settings.  Nothing in it outlives the
 * server; after a crash it starts empty.
 *
 * Locks, in the order in which they are taken:
 *
 *	1.	heavyweight locks: relations, and the stream's roll lock
 *	2.	StreamControl.lock
 *	3.	StreamPartition.lock, never two of them; that of sessions.c
 *	4.	StreamControl.task_lock, StreamControl.meter_lock; never both
 *	5.	StreamWorkers.lock, in workers.h; nothing of 2 to 4 is held then
 *	6.	StreamControl.publisher_mutex, StreamWaiter.mutex, StreamProgress.mutex,
 *		StreamMeter.mutex, StreamConsumerSlot.mutex: spinlocks, held for a few
 *		instructions
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_SHMEM_H
#define STREAM_SHMEM_H

#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "utils/hsearch.h"

#define STREAM_MAX_PARTITIONS	1024	/* of one stream */

/*
 * Names a partition across databases.  The stream is named by its foreign table:
 * numbers of streams start anew with a new extension, even before the
 * transaction that has dropped the old one has ended.
 */
typedef struct StreamPartitionKey
{
	Oid			database;
	Oid			table;
	int32		partition;
} StreamPartitionKey;

/*
 * State of a partition, made by its first reservation after server start.
 *
 * log start <= high watermark <= next_offset, where the high watermark is the
 * head's first_offset of publishers, and next_offset when that list is empty.
 * Each reservation ends with next_offset <= ceiling.
 *
 * A publisher that holds the lock on the stream's foreign table may keep a
 * pointer to it: dropping the stream takes AccessExclusiveLock first.  All
 * others find it under StreamControl.lock and let go before they release that.
 */
typedef struct StreamPartition
{
	StreamPartitionKey key;		/* hash key, constant */
	int32		stream_id;		/* constant */
	LWLock		lock;			/* protects all below but ceiling_cv */
	int64		next_offset;	/* raised by stream_reserve */
	int64		ceiling;		/* durable: no offset from here on was issued.
								 * Raised by the extender only. */
	int64		segment_base;	/* first offset that went to segment_no */
	int32		segment_no;		/* segment of new reservations; raised by
								 * stream_activate_segment */
	int32		grant;			/* sequence steps of the last extension, >= 1 */
	TimestampTz last_extension; /* when that was; 0: not yet */
	TimestampTz last_timestamp; /* published_at of the last reservation */
	bool		extending;		/* somebody raises the ceiling right now */
	bool		recording_gap;	/* an open publisher has inserted the row */
	int64		gap_base;		/* gap_base <= offset < gap_end were skipped when */
	int64		gap_end;		/* the state was made; equal: none, or recorded */
	int64		lost_base;		/* gap_base before it was recorded: there is no record
								 * at lost_base <= offset < gap_end, ever; constant */
	dlist_head	publishers;		/* of StreamPublisher, by first_offset */
	ConditionVariable ceiling_cv;	/* signalled when extending ends */
} StreamPartition;

/*
 * An open transaction that has published to a partition.  Free entries hang in
 * StreamControl.free_publishers.
 */
typedef struct StreamPublisher
{
	dlist_node	node;			/* in a partition's list, or the free list */
	int64		first_offset;	/* its first offset there */
	TimestampTz since;			/* when that was reserved */
	int32		pid;
} StreamPublisher;

/* What a waiter waits for. */
typedef enum StreamWaiterKind
{
	STREAM_WAITER_STREAM,		/* watermarks of partitions of one stream */
	STREAM_WAITER_STREAMS,		/* the same of many; some others wake it as well */
	STREAM_WAITER_PROJECTION	/* a projection's applied offsets */
} StreamWaiterKind;

/*
 * A backend that waits, one slot for each process number.  Only its owner
 * writes it; others read it under mutex.
 */
typedef struct StreamWaiter
{
	slock_t		mutex;
	bool		active;
	StreamWaiterKind kind;
	Oid			database;
	Oid			table;			/* of STREAM */
	int32		projection_id;	/* of PROJECTION */
	uint64		partitions[STREAM_MAX_PARTITIONS / 64]; /* bitmap: by number, of
														 * STREAMS by hash */
} StreamWaiter;

/* What a long operation of a backend is doing, one slot for each process number. */
typedef struct StreamProgress
{
	slock_t		mutex;			/* protects all below */
	int32		pid;			/* 0: nothing */
	Oid			database;
	Oid			table;			/* the stream's */
	const char *command;		/* a literal */
	const char *phase;			/* a literal */
	int64		done;
	int64		total;			/* 0: not known */
} StreamProgress;

/* A projection's partition. */
typedef struct StreamTaskKey
{
	Oid			database;
	int32		projection_id;
	int32		partition;
} StreamTaskKey;

/*
 * What appliers share of a projection's partition, made when one of them first
 * learns of the projection.  All is protected by StreamControl.task_lock.
 */
typedef struct StreamTask
{
	StreamTaskKey key;			/* hash key, constant */
	Oid			table;			/* the stream's, constant */
	uint32		resets;			/* grows when its offset was moved from outside */
	int32		pid;			/* of the applier that is at it; 0: none */
	int64		applied_offset; /* the next one to apply, as committed; -1: not
								 * known: look */
	bool		failing;		/* has a row in projection_errors, or, while
								 * applied_offset is not known, may have */
	int32		failures;		/* in a row, of the first record not applied */
	TimestampTz retry_at;		/* not before; 0: at once */
	int32		batch_records;	/* of the next batch; 0: not known */
	int32		suspects;		/* so many records, the next ones, have failed
								 * together; 0: none */
} StreamTask;

#define STREAM_WHOLE_GROUP		(-1)	/* a meter's partition, for the group itself */

typedef struct StreamMeterKey
{
	Oid			database;
	int32		group_id;		/* of a consumer group or projection */
	int32		partition;
} StreamMeterKey;

/* The part of a full batch that a member has polled of a partition. */
typedef struct StreamPolled
{
	uint32		member;			/* hash of its id */
	int64		records;		/* 0: there is none */
	int64		end_offset;		/* behind the last one */
	TimestampTz at;				/* when the poll began */
	double		share;			/* of the time it takes */
} StreamPolled;

/* What a group has done lately in a partition. */
typedef struct StreamMeter
{
	StreamMeterKey key;			/* hash key, constant */
	Oid			table;			/* the stream's, constant */
	slock_t		mutex;			/* protects all below */
	uint32		rollbacks;		/* since the last commit that advanced the offset */
	TimestampTz last_call;		/* 0: none yet; of the whole group's meter only */
	double		full_records;	/* of full batches, decayed; 0: none yet */
	double		full_busy_us;	/* the time they took, decayed likewise */
	TimestampTz measured_at;	/* when the last full batch ended; 0: none yet */
	StreamPolled polled;		/* a full batch that a member is processing */
} StreamMeter;

#define STREAM_CONSUMER_GROUPS	4	/* that a session can work for at a time, to be counted */

typedef struct StreamConsumerGroup
{
	Oid			database;
	int32		group_id;		/* 0: none */
	TimestampTz last_call;
	bool		holds;			/* it has records of the group in an open transaction */
} StreamConsumerGroup;

/* The groups that a session works for, one slot for each process number. */
typedef struct StreamConsumerSlot
{
	slock_t		mutex;			/* protects all below */
	StreamConsumerGroup groups[STREAM_CONSUMER_GROUPS];
} StreamConsumerSlot;

typedef struct StreamControl
{
	LWLock		lock;			/* protects the hash of partitions, npartitions */
	int32		npartitions;	/* partitions that have state */
	slock_t		publisher_mutex;	/* protects free_publishers, npublishers */
	int32		npublishers;	/* entries in use */
	dlist_head	free_publishers;
	pg_atomic_uint32 nwaiters;	/* slots with active set */
	LWLock		task_lock;		/* protects the hash of tasks, ntasks,
								 * task_removals */
	int32		ntasks;
	uint32		task_removals;	/* pointers to tasks found before are void */
	pg_atomic_uint64 projection_changes;	/* grows when projections of any
											 * database may have changed */
	TimestampTz started_at;		/* when shared memory was made, constant */
	LWLock		meter_lock;		/* protects the hash of meters, the next two */
	int32		nmeters;
	int32		meters_refused; /* times there was none left, since server start */
} StreamControl;

extern StreamControl *stream_control;
extern HTAB *stream_partition_hash;
extern HTAB *stream_task_hash;
extern StreamWaiter *stream_waiters;
extern StreamProgress *stream_progress;
extern HTAB *stream_meter_hash;
extern StreamConsumerSlot *stream_consumer_slots;

extern void stream_shmem_init(void);
extern void stream_require_shmem(void);
extern Size stream_shmem_partition_size(void);
extern Size stream_shmem_publisher_size(void);
extern Size stream_shmem_meter_size(void);
extern Size stream_shmem_process_size(void);
extern Size stream_shmem_task_size(void);
extern void stream_init_partition_lock(StreamPartition *partition);

#endif							/* STREAM_SHMEM_H */
