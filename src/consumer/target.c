/*-------------------------------------------------------------------------
 *
 * target.c
 *		Where a consumer group's offsets are to be set: parsed and resolved.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "catalog/streams.h"
#include "common/int.h"
#include "consumer/target.h"
#include "log/read.h"
#include "log/reserve.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* after_word returns what follows a word and a space, or null. */
static const char *
after_word(const char *text, const char *word)
{
	size_t		len = strlen(word);

	if (strncmp(text, word, len) != 0 || text[len] != ' ')
		return NULL;
	while (text[len] == ' ')
		len++;
	return text + len;
}

static int64
parse_number(const char *text)
{
	return DatumGetInt64(DirectFunctionCall1(int8in, CStringGetDatum(*text == '+' ? text + 1 : text)));
}

/*
 * parse reads: earliest, latest, current, offset <n>, shift <n>, datetime
 * <timestamptz>, duration <interval> (so long before now).  False: it is none of
 * these.
 */
static bool
parse(const char *text, StreamOffsetTarget *target)
{
	const char *rest;

	memset(target, 0, sizeof(StreamOffsetTarget));
	if (strcmp(text, "earliest") == 0)
		target->kind = STREAM_TARGET_EARLIEST;
	else if (strcmp(text, "latest") == 0)
		target->kind = STREAM_TARGET_LATEST;
	else if (strcmp(text, "current") == 0)
		target->kind = STREAM_TARGET_CURRENT;
	else if ((rest = after_word(text, "offset")) != NULL)
	{
		target->kind = STREAM_TARGET_OFFSET;
		target->number = parse_number(rest);
	}
	else if ((rest = after_word(text, "shift")) != NULL)
	{
		target->kind = STREAM_TARGET_SHIFT;
		target->number = parse_number(rest);
	}
	else if ((rest = after_word(text, "datetime")) != NULL)
	{
		target->kind = STREAM_TARGET_TIME;
		target->time = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in, CStringGetDatum(rest),
															   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	}
	else if ((rest = after_word(text, "duration")) != NULL)
	{
		Datum		interval = DirectFunctionCall3(interval_in, CStringGetDatum(rest),
												   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));

		target->kind = STREAM_TARGET_TIME;
		target->time = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
															   TimestampTzGetDatum(GetCurrentTimestamp()), interval));
	}
	else
		return false;
	return true;
}

/* stream_parse_target reads a target of a consumer group that has offsets. */
void
stream_parse_target(const char *text, StreamOffsetTarget *target)
{
	if (!parse(text, target))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is no position in a log", text),
				 errhint("Use earliest, latest, current, offset <number>, shift <number>, datetime <timestamp> or duration <interval>.")));
}

/* stream_parse_start reads a target that needs no committed offset; what says who starts there. */
void
stream_parse_start(const char *text, const char *what, StreamOffsetTarget *target)
{
	if (!parse(text, target))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is no position in a log", text),
				 errhint("Use earliest, latest, offset <number>, datetime <timestamp> or duration <interval>.")));
	if (target->kind == STREAM_TARGET_CURRENT || target->kind == STREAM_TARGET_SHIFT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a new %s cannot start at \"%s\"", what, text),
				 errhint("Use earliest, latest, offset <number>, datetime <timestamp> or duration <interval>.")));
}

/*
 * stream_resolve_target computes a partition's offset, between the log start
 * and the high watermark.  current is the committed one, where there is one.
 * *note, unless null, is set to a remark when the target had to be changed.
 */
int64
stream_resolve_target(Oid table, int32 partition, const StreamOffsetTarget *target,
					  const StreamOffset *current, const char **note)
{
	StreamInfo *info = stream_info(table);
	int64		start = stream_partition_info(info, partition)->log_start_offset;
	int64		end = stream_current_watermark(info, partition);
	int64		result = 0;

	if (note)
		*note = NULL;
	switch (target->kind)
	{
		case STREAM_TARGET_EARLIEST:
			return start;
		case STREAM_TARGET_LATEST:
			return end;
		case STREAM_TARGET_CURRENT:
			result = current->committed_offset;
			break;
		case STREAM_TARGET_OFFSET:
			result = target->number;
			break;
		case STREAM_TARGET_SHIFT:
			if (pg_add_s64_overflow(current->committed_offset, target->number, &result))
				result = target->number < 0 ? PG_INT64_MIN : PG_INT64_MAX;
			break;
		case STREAM_TARGET_TIME:
			return Min(stream_first_offset_at(table, partition, target->time, GetActiveSnapshot()), end);
	}
	if (result < start)
	{
		if (note)
			*note = "raised to the log start";
		return start;
	}
	if (result > end)
	{
		if (note)
			*note = "lowered to the high watermark";
		return end;
	}
	return result;
}

/* stream_start_offsets commits the first offsets of a new group or projection. */
void
stream_start_offsets(Oid table, int32 group_id, const StreamOffsetTarget *target)
{
	int32		partitions = stream_info(table)->partitions;

	for (int32 partition = 0; partition < partitions; partition++)
	{
		CHECK_FOR_INTERRUPTS();
		stream_append_offset(group_id, partition, NULL,
							 stream_resolve_target(table, partition, target, NULL, NULL), 0);
	}
}
