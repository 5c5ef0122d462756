/*-------------------------------------------------------------------------
 *
 * tables.h
 *		The extension itself and the way to its internal tables.
 *
 * Internal tables are read with the latest snapshot, not the transaction's: a
 * publisher under REPEATABLE READ must see the segment that it was just told
 * to write to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_TABLES_H
#define STREAM_TABLES_H

#include "access/genam.h"
#include "access/htup.h"
#include "utils/relcache.h"

#define STREAM_EXTENSION		"stream"
#define STREAM_VERSION			"0.1"
#define STREAM_SERVER			"stream"
#define STREAM_SCHEMA			"stream"
#define STREAM_TABLE_SCHEMA		"streams"
#define STREAM_INTERNAL_SCHEMA	"stream_internal"

/* An index scan over an internal table. */
typedef struct StreamCatalogScan
{
	Relation	rel;
	Relation	index;
	SysScanDesc scan;
	bool		ordered;
} StreamCatalogScan;

extern Oid	stream_internal_schema(void);
extern Oid	stream_internal_relation(const char *name, bool missing_ok);
extern void stream_lock_extension(void);
extern bool stream_try_lock_extension(void);
extern Oid	stream_extension_owner(void);

extern void stream_catalog_begin(StreamCatalogScan *scan, const char *table, const char *index,
								 int nkeys, ScanKey keys, bool ordered);
extern HeapTuple stream_catalog_next(StreamCatalogScan *scan, ScanDirection direction);
extern Datum stream_catalog_get(StreamCatalogScan *scan, HeapTuple tuple, int attnum, bool *isnull);
extern void stream_catalog_end(StreamCatalogScan *scan);

extern void stream_catalog_insert(const char *table, int natts, Datum *values, bool *nulls);
extern void stream_catalog_delete(const char *table, const char *index, int nkeys, ScanKey keys);
extern void stream_catalog_update(const char *table, const char *index, int nkeys, ScanKey keys,
								  int attnum, Datum value, bool isnull);
extern void stream_catalog_replace(const char *table, const char *index, int nkeys, ScanKey keys,
								   int natts, Datum *values, bool *nulls);

extern void stream_execute(const char *sql, Oid as_user);

#endif							/* STREAM_TABLES_H */
