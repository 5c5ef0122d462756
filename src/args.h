/*-------------------------------------------------------------------------
 *
 * args.h
 *		Arguments of SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_ARGS_H
#define STREAM_ARGS_H

#include "fmgr.h"

extern void stream_need_argument(FunctionCallInfo fcinfo, int arg, const char *name);
extern char *stream_text_argument(FunctionCallInfo fcinfo, int arg, const char *name);
extern int64 stream_limit_argument(FunctionCallInfo fcinfo, int arg, bool is_int8, const char *name);
extern int64 stream_age_argument(FunctionCallInfo fcinfo, int arg, const char *name);
extern int32 stream_ms_argument(FunctionCallInfo fcinfo, int arg, const char *name);

#endif							/* STREAM_ARGS_H */
