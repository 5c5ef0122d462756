/*-------------------------------------------------------------------------
 *
 * args.c
 *		Arguments of SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "args.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* stream_need_argument refuses a null where a value is needed. */
void
stream_need_argument(FunctionCallInfo fcinfo, int arg, const char *name)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", name)));
}

/* stream_text_argument returns a text, which must not be null. */
char *
stream_text_argument(FunctionCallInfo fcinfo, int arg, const char *name)
{
	stream_need_argument(fcinfo, arg, name);
	return text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

/* stream_limit_argument returns a limit of type int4 or int8; null is none. */
int64
stream_limit_argument(FunctionCallInfo fcinfo, int arg, bool is_int8, const char *name)
{
	int64		value;

	if (PG_ARGISNULL(arg))
		return PG_INT64_MAX;
	value = is_int8 ? PG_GETARG_INT64(arg) : PG_GETARG_INT32(arg);
	if (value < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be negative", name)));
	return value;
}

static double
interval_ms(const Interval *interval)
{
	return (interval->month * (double) DAYS_PER_MONTH + interval->day) * (SECS_PER_DAY * 1000.0) + interval->time / 1000.0;
}

/* stream_age_argument returns an interval in milliseconds; zero means never. */
int64
stream_age_argument(FunctionCallInfo fcinfo, int arg, const char *name)
{
	double		ms;

	stream_need_argument(fcinfo, arg, name);
	ms = interval_ms(PG_GETARG_INTERVAL_P(arg));
	/* as long as timestamps reach */
	if (ms < 0 || ms > 100000.0 * DAYS_PER_YEAR * SECS_PER_DAY * 1000.0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between 0 and 100000 years", name)));
	return (int64) ceil(ms);
}

/* stream_ms_argument returns an interval in milliseconds, at least one. */
int32
stream_ms_argument(FunctionCallInfo fcinfo, int arg, const char *name)
{
	Interval   *interval;
	double		ms;

	stream_need_argument(fcinfo, arg, name);
	interval = PG_GETARG_INTERVAL_P(arg);
	ms = interval_ms(interval);
	if (ms < 1 || ms > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between 1 ms and 24 days", name)));
	return (int32) ms;
}
