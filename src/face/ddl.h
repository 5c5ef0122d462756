/*-------------------------------------------------------------------------
 *
 * ddl.h
 *		Streams as objects: created, altered, dropped.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_DDL_H
#define STREAM_DDL_H

extern void stream_ddl_hooks_init(void);

#endif							/* STREAM_DDL_H */
