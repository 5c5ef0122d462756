/*-------------------------------------------------------------------------
 *
 * failure.h
 *		What to do after an attempt to apply a batch has failed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_FAILURE_H
#define STREAM_FAILURE_H

#include "projection/apply.h"
#include "shmem.h"

extern bool stream_is_record_fault(int sqlerrcode);
extern void stream_report_failure(const StreamApply *apply, const ErrorData *error, bool stopped,
								  StreamTask *state);

#endif							/* STREAM_FAILURE_H */
