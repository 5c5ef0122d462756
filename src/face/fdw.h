/*-------------------------------------------------------------------------
 *
 * fdw.h
 *		The foreign-data wrapper behind streams.<stream>.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_FDW_H
#define STREAM_FDW_H

#include "catalog/streams.h"
#include "foreign/fdwapi.h"

extern StreamInfo *stream_face_info(Relation rel);
extern void stream_fdw_scan_routines(FdwRoutine *routine);
extern void stream_fdw_insert_routines(FdwRoutine *routine);

#endif							/* STREAM_FDW_H */
