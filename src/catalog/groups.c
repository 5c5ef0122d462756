/*-------------------------------------------------------------------------
 *
 * groups.c
 *		The table stream_internal.consumer_groups.
 *
 * The groups of a stream are part of what a backend knows of it, and loaded
 * when first asked for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/dead_letters.h"
#include "catalog/groups.h"
#include "catalog/tables.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define GROUPS_TABLE		"consumer_groups"
#define GROUPS_PKEY			"consumer_groups_pkey"
#define GROUPS_BY_STREAM	"consumer_groups_stream_key"

#define OFFSETS_TABLE		"offsets"
#define OFFSETS_PKEY		"offsets_pkey"

#define MEMBERS_TABLE		"members"
#define MEMBERS_PKEY		"members_pkey"

#define EPOCHS_TABLE		"group_epochs"
#define EPOCHS_PKEY			"group_epochs_pkey"

#define Anum_groups_group_id			1
#define Anum_groups_stream_id			2
#define Anum_groups_consumer_group		3
#define Anum_groups_out_of_range		4
#define Anum_groups_max_poll_interval	5
#define Anum_groups_paused				6
#define Anum_groups_created_at			7
#define Natts_groups					7

static void
init_int4_key(ScanKey key, AttrNumber attnum, int32 value)
{
	ScanKeyInit(key, attnum, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(value));
}

/* By StreamOutOfRange. */
static const char *const out_of_range_names[] = {"error", "earliest", "latest"};

StreamOutOfRange
stream_parse_out_of_range(const char *text)
{
	for (int i = 0; i < (int) lengthof(out_of_range_names); i++)
		if (strcmp(text, out_of_range_names[i]) == 0)
			return (StreamOutOfRange) i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("on_offset_out_of_range \"%s\" is not known", text),
			 errhint("Use error, earliest or latest.")));
	return STREAM_OUT_OF_RANGE_ERROR;	/* keep compiler quiet */
}

const char *
stream_out_of_range_name(StreamOutOfRange value)
{
	return out_of_range_names[value];
}

/* stream_check_group_name refuses what is too long or empty. */
void
stream_check_group_name(const char *name)
{
	if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("consumer group \"%s\" has no valid name", name),
				 errdetail("A name has 1 to %d bytes.", NAMEDATALEN - 1)));
}

/* stream_group_has_members says whether a group has members, also such as are late. */
bool
stream_group_has_members(int32 group_id)
{
	StreamCatalogScan scan;
	ScanKeyData key;
	bool		exist;

	/* the first column */
	init_int4_key(&key, 1, group_id);
	stream_catalog_begin(&scan, MEMBERS_TABLE, MEMBERS_PKEY, 1, &key, false);
	exist = HeapTupleIsValid(stream_catalog_next(&scan, ForwardScanDirection));
	stream_catalog_end(&scan);
	return exist;
}

static void
load_groups(StreamInfo *info)
{
	StreamCatalogScan scan;
	ScanKeyData key;
	HeapTuple	tuple;
	int			n = 0;
	int			allocated = 8;
	StreamGroup *result = MemoryContextAllocZero(info->context, allocated * sizeof(StreamGroup));

	init_int4_key(&key, Anum_groups_stream_id, info->stream_id);
	stream_catalog_begin(&scan, GROUPS_TABLE, GROUPS_BY_STREAM, 1, &key, true);
	while (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
	{
		StreamGroup *group;

		CHECK_FOR_INTERRUPTS();
		if (n == allocated)
		{
			allocated *= 2;
			result = repalloc(result, allocated * sizeof(StreamGroup));
		}
		group = &result[n++];
		group->group_id = DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_groups_group_id, NULL));
		group->paused = DatumGetBool(stream_catalog_get(&scan, tuple, Anum_groups_paused, NULL));
		group->out_of_range =
			stream_parse_out_of_range(TextDatumGetCString(stream_catalog_get(&scan, tuple, Anum_groups_out_of_range, NULL)));
		group->max_poll_interval =
			DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_groups_max_poll_interval, NULL));
		group->created_at = DatumGetTimestampTz(stream_catalog_get(&scan, tuple, Anum_groups_created_at, NULL));
		group->name = *DatumGetName(stream_catalog_get(&scan, tuple, Anum_groups_consumer_group, NULL));
	}
	stream_catalog_end(&scan);
	for (int i = 0; i < n; i++)
		result[i].has_members = stream_group_has_members(result[i].group_id);
	info->groups = result;
	info->ngroups = n;
	info->groups_loaded = true;
}

/* stream_groups returns the number of a stream's groups, and them, by name. */
int
stream_groups(StreamInfo *info, StreamGroup **groups)
{
	if (!info->groups_loaded)
		load_groups(info);
	*groups = info->groups;
	return info->ngroups;
}

/* stream_copy_groups does the same for who goes on while the cache may be rebuilt. */
int
stream_copy_groups(StreamInfo *info, StreamGroup **groups)
{
	StreamGroup *cached;
	int			n = stream_groups(info, &cached);

	*groups = palloc_array(StreamGroup, n);
	memcpy(*groups, cached, n * sizeof(StreamGroup));
	return n;
}

/* stream_group finds a group of a stream by name. */
StreamGroup *
stream_group(StreamInfo *info, const char *name, bool missing_ok)
{
	StreamGroup *groups;
	int			n = stream_groups(info, &groups);

	for (int i = 0; i < n; i++)
		if (strcmp(NameStr(groups[i].name), name) == 0)
			return &groups[i];
	if (!missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("consumer group \"%s\" of stream \"%s\" does not exist", name, NameStr(info->name)),
				 errhint("Create it: SELECT stream.create_consumer_group(%s, %s);",
						 quote_literal_cstr(NameStr(info->name)), quote_literal_cstr(name))));
	return NULL;
}

/* stream_insert_group adds a group and returns its number. */
int32
stream_insert_group(int32 stream_id, const char *name, const char *out_of_range, int32 max_poll_interval)
{
	Datum		values[Natts_groups];
	bool		nulls[Natts_groups] = {false};
	NameData	consumer_group;
	int32		group_id;

	(void) stream_parse_out_of_range(out_of_range);
	group_id = (int32) nextval_internal(stream_internal_relation("group_id_seq", false), false);
	namestrcpy(&consumer_group, name);
	values[Anum_groups_group_id - 1] = Int32GetDatum(group_id);
	values[Anum_groups_stream_id - 1] = Int32GetDatum(stream_id);
	values[Anum_groups_consumer_group - 1] = NameGetDatum(&consumer_group);
	values[Anum_groups_out_of_range - 1] = CStringGetTextDatum(out_of_range);
	values[Anum_groups_max_poll_interval - 1] = Int32GetDatum(max_poll_interval);
	values[Anum_groups_paused - 1] = BoolGetDatum(false);
	values[Anum_groups_created_at - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	stream_catalog_insert(GROUPS_TABLE, Natts_groups, values, nulls);
	return group_id;
}

static void
set_column(int32 group_id, int attnum, Datum value)
{
	ScanKeyData key;

	init_int4_key(&key, Anum_groups_group_id, group_id);
	stream_catalog_update(GROUPS_TABLE, GROUPS_PKEY, 1, &key, attnum, value, false);
}

void
stream_set_group_paused(int32 group_id, bool paused)
{
	set_column(group_id, Anum_groups_paused, BoolGetDatum(paused));
}

void
stream_set_group_out_of_range(int32 group_id, const char *out_of_range)
{
	(void) stream_parse_out_of_range(out_of_range);
	set_column(group_id, Anum_groups_out_of_range, CStringGetTextDatum(out_of_range));
}

void
stream_set_group_max_poll_interval(int32 group_id, int32 max_poll_interval)
{
	set_column(group_id, Anum_groups_max_poll_interval, Int32GetDatum(max_poll_interval));
}

/* stream_delete_offsets removes the offsets and dead letters of a group or projection. */
void
stream_delete_offsets(int32 group_id)
{
	ScanKeyData key;

	/* the first column of this table, too */
	init_int4_key(&key, Anum_groups_group_id, group_id);
	stream_catalog_delete(OFFSETS_TABLE, OFFSETS_PKEY, 1, &key);
	stream_delete_dead_letters(group_id);
}

/* stream_delete_group removes a group with its offsets, members and dead letters. */
void
stream_delete_group(int32 group_id)
{
	ScanKeyData key;

	stream_delete_offsets(group_id);
	/* the first column of all */
	init_int4_key(&key, Anum_groups_group_id, group_id);
	stream_catalog_delete(MEMBERS_TABLE, MEMBERS_PKEY, 1, &key);
	stream_catalog_delete(EPOCHS_TABLE, EPOCHS_PKEY, 1, &key);
	stream_catalog_delete(GROUPS_TABLE, GROUPS_PKEY, 1, &key);
}

/* stream_delete_groups removes all groups of a stream. */
void
stream_delete_groups(StreamInfo *info)
{
	StreamGroup *groups;
	int			n = stream_groups(info, &groups);

	for (int i = 0; i < n; i++)
		stream_delete_group(groups[i].group_id);
}
