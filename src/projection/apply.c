/*-------------------------------------------------------------------------
 *
 * apply.c
 *		Applying records of one partition to a projection.
 *
 * In one transaction, which the caller begins and ends, in this order:
 *
 *	1.	lock the extension and the stream's foreign table;
 *	2.	lock the partition for the projection, without waiting;
 *	3.	look the projection up again: it may have been dropped, paused or altered
 *		since it was chosen;
 *	4.	find the newest offset: what is below it has been applied and is not read;
 *		check, and lock, the target;
 *	5.	read from there as everybody reads, watermark first, then a fresh
 *		snapshot.  No statement's snapshot need be respected: the statement below
 *		takes its own afterwards, so it sees all that the records' transactions
 *		wrote;
 *	6.	run the projection's statement over the records;
 *	7.	append the offset behind the last record, or the watermark when it was
 *		reached over holes.
 *
 * Effects and offset commit together.  A late write is not possible: the lock of
 * step 2 is held to the transaction's end, so as long as a process that hangs in
 * step 6 can still commit, nobody else gets past step 2; and when it has lost the
 * lock, its transaction has ended, and with it everything that it wrote.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dead_letters.h"
#include "catalog/projection_errors.h"
#include "catalog/tables.h"
#include "consumer/offsets.h"
#include "guc.h"
#include "log/append.h"
#include "log/read.h"
#include "log/value.h"
#include "miscadmin.h"
#include "projection/apply.h"
#include "projection/statement.h"
#include "projection/target.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/timeout.h"
#include "utils/tuplestore.h"

/* How long a statement waits for a lock; longer than for a deadlock to be found. */
#define STREAM_APPLY_LOCK_TIMEOUT	"3s"

/* set_local sets a setting to the transaction's end. */
static void
set_local(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

/*
 * check_privilege: the owner must be allowed to read the stream at this time.
 * Roles are held by name: one that was dropped and made anew is another one, for
 * which we shall not run what its predecessor wrote.
 */
static void
check_privilege(const StreamProjection *projection, const StreamInfo *info, Oid owner)
{
	if (pg_class_aclcheck(info->table, owner, ACL_SELECT) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("owner \"%s\" of projection \"%s\" may not read stream \"%s\"",
						NameStr(projection->owner), NameStr(projection->name), NameStr(info->name)),
				 errhint("Grant SELECT on the stream's foreign table.")));
}

/* check_log_start: what retention has removed before it was applied is missing for good. */
static void
check_log_start(const StreamProjection *projection, StreamInfo *info, int32 partition, int64 applied)
{
	int64		log_start = stream_partition_info(info, partition)->log_start_offset;

	if (applied < log_start)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("applied offset %lld of projection \"%s\", partition %d, is below the log start",
						(long long) applied, NameStr(projection->name), partition),
				 errdetail("The log starts at offset %lld: records were removed before they were applied.",
						   (long long) log_start),
				 errhint("To go on at the log start, call stream.skip_projection_record with the applied offset.")));
}

/* bury keeps the next record as a dead letter. */
static void
bury(const StreamProjection *projection, StreamValueType value_type, int32 partition,
	 const StreamRecord *record, const ErrorData *error)
{
	StreamRecordDatums copies = {0};
	Datum		values[Natts_record];
	bool		nulls[Natts_record];

	stream_record_datums(&copies, partition, record, STREAM_WANT_ALL, values, nulls);
	(void) stream_insert_dead_letter(projection->projection_id, value_type, values, nulls,
									 error->message, unpack_sql_state(error->sqlerrcode));
}

/*
 * begin_batch makes an empty batch in a context of its own, which packs rows closer
 * than others do.
 */
static Tuplestorestate *
begin_batch(MemoryContext *context)
{
	MemoryContext save;
	Tuplestorestate *batch;

	*context = GenerationContextCreate(CurrentMemoryContext, "stream batch", ALLOCSET_DEFAULT_SIZES);
	save = MemoryContextSwitchTo(*context);
	batch = tuplestore_begin_heap(false, false, maintenance_work_mem);
	MemoryContextSwitchTo(save);
	return batch;
}

/* end_batch frees it at once, not row by row, unless it has a file to be closed. */
static void
end_batch(Tuplestorestate *batch, MemoryContext context)
{
	if (!tuplestore_in_memory(batch))
		tuplestore_end(batch);
	MemoryContextDelete(context);
}

/*
 * apply_records reads what there is, up to the bounds, and applies it.  Returns
 * the next offset to apply.
 */
static int64
apply_records(StreamApply *apply, const StreamProjection *projection, StreamValueType value_type,
			  int64 position, int64 settled)
{
	int64		bytes_left = (int64) maintenance_work_mem * 1024;
	StreamRecordDatums copies = {0};
	MemoryContext batch_context = NULL;
	Tuplestorestate *batch = NULL;
	StreamReader reader;
	StreamRecord record;
	int64		end;

	stream_reader_begin(&reader, apply->table, apply->partition, position, NULL);
	while (stream_reader_next(&reader, &record))
	{
		/* somebody has passed it meanwhile */
		if (apply->dead != NULL && record.offset != apply->dead_offset)
			break;
		if (apply->first_offset < 0)
			apply->first_offset = record.offset;
		position = record.offset + 1;
		apply->records++;
		if (apply->dead != NULL)
		{
			bury(projection, value_type, apply->partition, &record, apply->dead);
			break;
		}
		if (batch == NULL)
			batch = begin_batch(&batch_context);
		stream_put_record(&copies, batch, apply->partition, &record);
		bytes_left -= Max(record.key_len, 0) + (int64) Max(record.value_len, 0) + Max(record.headers_len, 0);
		if (apply->records >= apply->max_records || bytes_left <= 0)
			break;
	}
	/* without shared state nothing was in flight below what had been issued */
	end = reader.limit != PG_INT64_MAX ? reader.limit : settled;
	if (reader.finished)
		position = Max(position, end);	/* over holes */
	apply->full = position < end;
	stream_reader_end(&reader);

	if (batch != NULL)
	{
		apply->in_statement = true;
		/* who runs for ever holds up others: appliers are few */
		if (stream_apply_timeout > 0)
			enable_timeout_after(STATEMENT_TIMEOUT, stream_apply_timeout);
		stream_run_statement(projection, value_type, batch, apply->records);
		disable_timeout(STATEMENT_TIMEOUT, false);
		apply->in_statement = false;
		end_batch(batch, batch_context);
	}
	return position;
}

/* clear_error: the partition gets on, or has nothing more to get on with. */
static void
clear_error(const StreamApply *apply)
{
	if (apply->failing)
		stream_delete_projection_error(apply->projection_id, apply->partition);
}

/* stream_apply makes one attempt. */
StreamApplyEnd
stream_apply(StreamApply *apply)
{
	StreamProjection *projection;
	StreamInfo *info;
	StreamOffset newest;
	StreamValueType value_type;
	Oid			owner;
	int64		position;
	int64		settled;

	apply->first_offset = -1;
	apply->applied_offset = -1;
	apply->records = 0;
	apply->full = apply->in_statement = apply->dead_letters = false;

	stream_lock_extension();
	/* never queue behind a drop, which may have to wait for others */
	if (!ConditionalLockRelationOid(apply->table, AccessShareLock))
		return STREAM_APPLY_BUSY;
	AcceptInvalidationMessages();
	if (stream_info_if_stream(apply->table) == NULL)
		return STREAM_APPLY_GONE;
	if (!stream_try_lock_offset(apply->projection_id, apply->partition))
		return STREAM_APPLY_BUSY;
	projection = stream_projection_by_id(apply->projection_id, true);
	info = stream_info(apply->table);
	if (projection == NULL || projection->paused || projection->stream_id != info->stream_id)
		return STREAM_APPLY_GONE;
	apply->name = projection->name;
	apply->dead_letters = projection->on_error == STREAM_ON_ERROR_DEAD_LETTER;
	/* altered since the record has failed: let it fail again, under the new policy */
	if (apply->dead != NULL && !apply->dead_letters)
		return STREAM_APPLY_BUSY;
	value_type = info->value_type;

	if (stream_newest_offset(apply->projection_id, apply->partition, NULL, &newest) != STREAM_OFFSET_FOUND)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("projection \"%s\" has no offset for partition %d", NameStr(projection->name), apply->partition),
				 errhint("When a restore is under way, let it finish first.")));
	apply->first_offset = apply->applied_offset = newest.committed_offset;
	info = stream_info(apply->table);
	settled = stream_current_watermark(info, apply->partition);
	if (settled <= newest.committed_offset)
	{
		clear_error(apply);
		return STREAM_APPLY_IDLE;
	}

	info = stream_info(apply->table);
	owner = stream_projection_owner(projection);
	check_privilege(projection, info, owner);
	/* who locks the target holds up neither this process nor those who wait for us */
	set_local("lock_timeout", STREAM_APPLY_LOCK_TIMEOUT);
	stream_check_target(projection, owner);
	info = stream_info(apply->table);
	check_log_start(projection, info, apply->partition, newest.committed_offset);
	apply->first_offset = -1;
	position = apply_records(apply, projection, value_type, newest.committed_offset, settled);
	if (position == newest.committed_offset)
	{
		clear_error(apply);
		return STREAM_APPLY_IDLE;
	}

	/* what was published is read by others, outside of the database as well: it must not be lost then */
	if (stream_has_publishers())
		set_local("synchronous_commit", "on");
	stream_append_offset(apply->projection_id, apply->partition, &newest, position, 0);
	clear_error(apply);
	apply->applied_offset = position;
	return STREAM_APPLY_DONE;
}
