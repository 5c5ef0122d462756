/*-------------------------------------------------------------------------
 *
 * failure.c
 *		What to do after an attempt to apply a batch has failed.
 *
 * An error is the record's fault when the same record would fail again under
 * other circumstances: bad data, a constraint, an exception of the projection's
 * own functions.  Everything else is circumstance, to be retried however long
 * it takes: taking that for the record's fault would put good records aside.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/projection_errors.h"
#include "catalog/tables.h"
#include "consumer/offsets.h"
#include "guc.h"
#include "projection/failure.h"
#include "utils/timestamp.h"

/*
 * stream_is_record_fault decides by the SQLSTATE's class.  What is in no list is
 * circumstance: names and types that are missing or do not fit (42, 3F, 26: the
 * target was dropped or altered), privileges, deadlocks and serialization (40),
 * resources (53), locks and objects in use (55), cancel and shutdown (57), I/O
 * and damage (58, XX), other servers (08, HV), read-only (25).
 */
bool
stream_is_record_fault(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case MAKE_SQLSTATE('0', '9', '0', '0', '0'):	/* triggered action */
		case MAKE_SQLSTATE('1', '0', '0', '0', '0'):	/* XQuery */
		case MAKE_SQLSTATE('2', '0', '0', '0', '0'):	/* PL/pgSQL: CASE without ELSE */
		case MAKE_SQLSTATE('2', '1', '0', '0', '0'):	/* cardinality */
		case MAKE_SQLSTATE('2', '2', '0', '0', '0'):	/* data exception */
		case MAKE_SQLSTATE('2', '3', '0', '0', '0'):	/* constraint */
		case MAKE_SQLSTATE('2', '7', '0', '0', '0'):	/* a trigger has changed the row */
		case MAKE_SQLSTATE('2', 'F', '0', '0', '0'):	/* SQL routine */
		case MAKE_SQLSTATE('3', '8', '0', '0', '0'):	/* external routine */
		case MAKE_SQLSTATE('3', '9', '0', '0', '0'):	/* its invocation */
		case MAKE_SQLSTATE('4', '4', '0', '0', '0'):	/* WITH CHECK OPTION */
		case MAKE_SQLSTATE('5', '4', '0', '0', '0'):	/* program limit: a row too long */
		case MAKE_SQLSTATE('P', '0', '0', '0', '0'):	/* PL/pgSQL: RAISE */
			return true;
		case MAKE_SQLSTATE('7', '2', '0', '0', '0'):	/* snapshot too old */
			return false;
	}

	/* classes that SQL and PostgreSQL leave to users begin with 5 to 9 or I to Z */
	switch (sqlerrcode & 0x3F)
	{
		case '5' - '0':
		case 'F' - '0':
		case 'H' - '0':
		case 'X' - '0':
			return false;
		default:
			return (sqlerrcode & 0x3F) >= '6' - '0';
	}
}

/* retry_delay returns milliseconds. */
static int64
retry_delay(int failures)
{
	int64		delay = stream_min_retry_delay;

	for (int i = 1; i < failures && delay < stream_max_retry_delay; i++)
		delay *= 2;
	return Min(delay, Max(stream_max_retry_delay, stream_min_retry_delay));
}

/*
 * stream_report_failure makes a failure visible, in a transaction of its own,
 * which the caller begins and ends, and says in *state when to try again.  The
 * server's log has an entry when the reason is another one than before.
 */
void
stream_report_failure(const StreamApply *apply, const ErrorData *error, bool stopped, StreamTask *state)
{
	TimestampTz now = GetCurrentTimestamp();
	StreamProjectionError *before;
	StreamProjectionError row = {0};

	state->failing = true;
	state->failures++;
	state->retry_at = TimestampTzPlusMilliseconds(now, retry_delay(state->failures));

	stream_lock_extension();
	/* dropped meanwhile, or in somebody else's hands? */
	if (!stream_try_lock_offset(apply->projection_id, apply->partition) ||
		stream_projection_by_id(apply->projection_id, true) == NULL)
		return;
	before = stream_projection_error(apply->projection_id, apply->partition);
	row.projection_id = apply->projection_id;
	row.partition = apply->partition;
	row.record_offset = Max(apply->first_offset, 0);
	row.stopped = stopped;
	row.sqlstate = unpack_sql_state(error->sqlerrcode);
	row.sqlstate = pstrdup(row.sqlstate);
	row.message = error->message ? error->message : "";
	row.detail = error->detail;
	row.hint = error->hint;
	row.failing_since = before ? before->failing_since : now;
	row.failed_at = now;
	row.next_retry_at = state->retry_at;
	row.retries = before ? before->retries + 1 : 0;
	stream_put_projection_error(&row);

	if (before == NULL || before->record_offset != row.record_offset || before->stopped != stopped ||
		strcmp(before->sqlstate, row.sqlstate) != 0)
		ereport(LOG,
				(errcode(error->sqlerrcode),
				 errmsg("projection \"%s\", partition %d, cannot apply offset %lld: %s",
						NameStr(apply->name), apply->partition, (long long) row.record_offset, row.message),
				 errhidecontext(true),
				 error->detail || error->context ?
				 errdetail_internal("%s%s%s", error->detail ? error->detail : "",
									error->detail && error->context ? "\n" : "",
									error->context ? error->context : "") : 0,
				 errhint("%s%sIt is tried again with growing delays, and not logged again until the reason changes: see stream.projection_status.",
						 error->hint ? error->hint : "", error->hint ? "\n" : "")));
}
