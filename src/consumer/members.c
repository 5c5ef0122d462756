/*-------------------------------------------------------------------------
 *
 * members.c
 *		The members of consumer groups: the tables stream_internal.members and
 *		group_epochs.
 *
 * They change when a member comes, goes, or takes a step towards its target,
 * always under the group's members lock, which lasts to the end of the
 * transaction.  Who only asks reads without it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "catalog/tables.h"
#include "consumer/members.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/resowner.h"

#define MEMBERS_TABLE	"members"
#define MEMBERS_PKEY	"members_pkey"

#define Anum_members_group_id			1
#define Anum_members_member_id			2
#define Anum_members_instance_id		3
#define Anum_members_member_epoch		4
#define Anum_members_previous_epoch		5
#define Anum_members_joined_epoch		6
#define Anum_members_state				7
#define Anum_members_assigned			8
#define Anum_members_revoking			9
#define Anum_members_epochs				10	/* of assigned, then of revoking */
#define Anum_members_target				11
#define Anum_members_session_timeout	12
#define Anum_members_max_poll_interval	13
#define Anum_members_joined_at			14
#define Anum_members_revoking_since		15
#define Natts_members					15

#define EPOCHS_TABLE	"group_epochs"
#define EPOCHS_PKEY		"group_epochs_pkey"

#define Anum_epochs_group_id			1
#define Anum_epochs_last_epoch			2
#define Anum_epochs_group_epoch			3
#define Anum_epochs_target_epoch		4
#define Natts_epochs					4

StaticAssertDecl(STREAM_MAX_PARTITIONS <= STREAM_ASSIGN_MAX_PARTITIONS,
				 "the assignor must be able to handle a stream's partitions");

static const char *const state_names[] = {
	[STREAM_MEMBER_STABLE] = "stable",
	[STREAM_MEMBER_UNREVOKED] = "unrevoked_partitions",
	[STREAM_MEMBER_UNRELEASED] = "unreleased_partitions",
	[STREAM_MEMBER_AWAY] = "away",
};

const char *
stream_member_state_name(StreamMemberState state)
{
	return state_names[state];
}

static bool
lock_members(int32 group_id, bool dont_wait)
{
	ResourceOwner save = CurrentResourceOwner;
	LockAcquireResult result;
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, group_id, 0, STREAM_MEMBERS_LOCK);
	CurrentResourceOwner = CurTransactionResourceOwner;
	result = LockAcquire(&tag, ExclusiveLock, false, dont_wait);
	CurrentResourceOwner = save;
	return result != LOCKACQUIRE_NOT_AVAIL;
}

/*
 * stream_lock_members lets one transaction at a time change a group's members.
 * The lock is the (sub)transaction's, whatever portal is running.
 */
void
stream_lock_members(int32 group_id)
{
	(void) lock_members(group_id, false);
}

/* stream_try_lock_members does so unless that must wait. */
bool
stream_try_lock_members(int32 group_id)
{
	return lock_members(group_id, true);
}

static void
init_group_key(ScanKey key, int32 group_id)
{
	/* the first column of both tables */
	ScanKeyInit(key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(group_id));
}

static void
init_member_keys(ScanKey keys, int32 group_id, const char *member_id, NameData *name)
{
	init_group_key(&keys[0], group_id);
	namestrcpy(name, member_id);
	ScanKeyInit(&keys[1], Anum_members_member_id, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(name));
}

static void
report_damage(int32 group_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("invalid row for consumer group %d in table \"%s.%s\"",
					group_id, STREAM_INTERNAL_SCHEMA, MEMBERS_TABLE)));
}

/* int_array returns the elements of an int4 array as stored. */
static Datum *
int_array(Datum datum, int32 group_id, int *n)
{
	ArrayType  *array = DatumGetArrayTypeP(datum);
	Datum	   *elements;

	if (ARR_NDIM(array) > 1 || ARR_HASNULL(array) || ARR_ELEMTYPE(array) != INT4OID)
		report_damage(group_id);
	deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT, &elements, NULL, n);
	return elements;
}

static int
read_set(Datum datum, int32 group_id, int32 partitions, StreamPartitionSet *set, Datum **elements)
{
	int			n;
	Datum	   *numbers = int_array(datum, group_id, &n);

	for (int i = 0; i < n; i++)
	{
		int32		partition = DatumGetInt32(numbers[i]);

		if (partition < 0 || partition >= partitions)
			report_damage(group_id);
		stream_pset_add(set, partition);
	}
	if (elements)
		*elements = numbers;
	return n;
}

/* stream_partition_array makes an int4 array of a set, in order. */
Datum
stream_partition_array(const StreamPartitionSet *set)
{
	Datum		elements[STREAM_ASSIGN_MAX_PARTITIONS];
	int			n = 0;

	for (int p = -1; (p = stream_pset_next(set, p)) >= 0;)
		elements[n++] = Int32GetDatum(p);
	return PointerGetDatum(construct_array(elements, n, INT4OID, sizeof(int32), true, TYPALIGN_INT));
}

static StreamMemberRow *
read_member(StreamCatalogScan *scan, HeapTuple tuple, int32 group_id, int32 partitions, int32 *epochs)
{
	StreamMemberRow *row = palloc0_object(StreamMemberRow);
	Datum	   *assigned;
	Datum	   *revoking;
	Datum	   *given;
	int			nassigned;
	int			nrevoking;
	int			ngiven;
	char	   *state;
	Datum		datum;
	bool		isnull;

	row->member_id = *DatumGetName(stream_catalog_get(scan, tuple, Anum_members_member_id, NULL));
	datum = stream_catalog_get(scan, tuple, Anum_members_instance_id, &isnull);
	if (!isnull)
		row->instance_id = *DatumGetName(datum);
	row->member.member_epoch = DatumGetInt32(stream_catalog_get(scan, tuple, Anum_members_member_epoch, NULL));
	row->member.previous_epoch = DatumGetInt32(stream_catalog_get(scan, tuple, Anum_members_previous_epoch, NULL));
	row->joined_epoch = DatumGetInt32(stream_catalog_get(scan, tuple, Anum_members_joined_epoch, NULL));
	state = TextDatumGetCString(stream_catalog_get(scan, tuple, Anum_members_state, NULL));
	while (strcmp(state, state_names[row->member.state]) != 0)
		if (++row->member.state >= lengthof(state_names))
			report_damage(group_id);
	nassigned = read_set(stream_catalog_get(scan, tuple, Anum_members_assigned, NULL), group_id, partitions,
						 &row->member.assigned, &assigned);
	nrevoking = read_set(stream_catalog_get(scan, tuple, Anum_members_revoking, NULL), group_id, partitions,
						 &row->member.revoking, &revoking);
	(void) read_set(stream_catalog_get(scan, tuple, Anum_members_target, NULL), group_id, partitions,
					&row->target, NULL);
	given = int_array(stream_catalog_get(scan, tuple, Anum_members_epochs, NULL), group_id, &ngiven);
	if (ngiven != nassigned + nrevoking)
		report_damage(group_id);
	for (int i = 0; i < nassigned; i++)
		epochs[DatumGetInt32(assigned[i])] = DatumGetInt32(given[i]);
	for (int i = 0; i < nrevoking; i++)
		epochs[DatumGetInt32(revoking[i])] = DatumGetInt32(given[nassigned + i]);
	row->member.epochs = epochs;
	row->session_timeout = DatumGetInt32(stream_catalog_get(scan, tuple, Anum_members_session_timeout, NULL));
	row->max_poll_interval = DatumGetInt32(stream_catalog_get(scan, tuple, Anum_members_max_poll_interval, NULL));
	row->joined_at = DatumGetTimestampTz(stream_catalog_get(scan, tuple, Anum_members_joined_at, NULL));
	datum = stream_catalog_get(scan, tuple, Anum_members_revoking_since, &isnull);
	if (!isnull)
		row->revoking_since = DatumGetTimestampTz(datum);
	row->stored = true;
	row->own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	return row;
}

/* stream_load_members reads all members of a group and its epochs. */
StreamMembers *
stream_load_members(Oid table, int32 group_id, int32 partitions)
{
	StreamMembers *members = palloc0_object(StreamMembers);
	StreamCatalogScan scan;
	ScanKeyData key;
	HeapTuple	tuple;
	int			allocated = 16;

	members->table = table;
	members->group_id = group_id;
	members->partitions = partitions;
	members->rows = palloc_array(StreamMemberRow *, allocated);
	members->partition_epochs = palloc0_array(int32, STREAM_ASSIGN_MAX_PARTITIONS);

	init_group_key(&key, group_id);
	stream_catalog_begin(&scan, MEMBERS_TABLE, MEMBERS_PKEY, 1, &key, true);
	while (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
	{
		CHECK_FOR_INTERRUPTS();
		if (members->n + 1 == allocated)
		{
			allocated *= 2;
			members->rows = repalloc_array(members->rows, StreamMemberRow *, allocated);
		}
		members->rows[members->n++] = read_member(&scan, tuple, group_id, partitions, members->partition_epochs);
	}
	stream_catalog_end(&scan);
	stream_load_epochs(group_id, &members->epochs);
	members->stored_epochs = members->epochs;
	members->was_empty = members->n == 0;
	return members;
}

/* stream_load_member reads one member; null: it is not one. */
StreamMemberRow *
stream_load_member(int32 group_id, int32 partitions, const char *member_id)
{
	StreamCatalogScan scan;
	ScanKeyData keys[2];
	NameData	name;
	HeapTuple	tuple;
	StreamMemberRow *row = NULL;

	init_member_keys(keys, group_id, member_id, &name);
	stream_catalog_begin(&scan, MEMBERS_TABLE, MEMBERS_PKEY, 2, keys, false);
	if (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
		row = read_member(&scan, tuple, group_id, partitions, palloc0_array(int32, STREAM_ASSIGN_MAX_PARTITIONS));
	stream_catalog_end(&scan);
	return row;
}

/* stream_load_epochs reads a group's epochs; all zero: it never had a member. */
void
stream_load_epochs(int32 group_id, StreamGroupEpochs *epochs)
{
	StreamCatalogScan scan;
	ScanKeyData key;
	HeapTuple	tuple;

	memset(epochs, 0, sizeof(StreamGroupEpochs));
	init_group_key(&key, group_id);
	stream_catalog_begin(&scan, EPOCHS_TABLE, EPOCHS_PKEY, 1, &key, false);
	if (HeapTupleIsValid(tuple = stream_catalog_next(&scan, ForwardScanDirection)))
	{
		epochs->last_epoch = DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_epochs_last_epoch, NULL));
		epochs->group_epoch = DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_epochs_group_epoch, NULL));
		epochs->target_epoch = DatumGetInt32(stream_catalog_get(&scan, tuple, Anum_epochs_target_epoch, NULL));
	}
	stream_catalog_end(&scan);
}

static void
store_epochs(StreamMembers *members)
{
	StreamGroupEpochs none = {0};
	ScanKeyData key;
	Datum		values[Natts_epochs];
	bool		nulls[Natts_epochs] = {false};

	if (memcmp(&members->epochs, &members->stored_epochs, sizeof(StreamGroupEpochs)) == 0)
		return;
	values[Anum_epochs_group_id - 1] = Int32GetDatum(members->group_id);
	values[Anum_epochs_last_epoch - 1] = Int32GetDatum(members->epochs.last_epoch);
	values[Anum_epochs_group_epoch - 1] = Int32GetDatum(members->epochs.group_epoch);
	values[Anum_epochs_target_epoch - 1] = Int32GetDatum(members->epochs.target_epoch);
	if (memcmp(&members->stored_epochs, &none, sizeof(StreamGroupEpochs)) == 0)
		stream_catalog_insert(EPOCHS_TABLE, Natts_epochs, values, nulls);
	else
	{
		init_group_key(&key, members->group_id);
		stream_catalog_replace(EPOCHS_TABLE, EPOCHS_PKEY, 1, &key, Natts_epochs, values, nulls);
	}
	members->stored_epochs = members->epochs;
}

static void
store_member(int32 group_id, StreamMemberRow *row)
{
	StreamMember *member = &row->member;
	ScanKeyData keys[2];
	NameData	name;
	Datum		epochs[STREAM_ASSIGN_MAX_PARTITIONS];
	int			n = 0;
	Datum		values[Natts_members];
	bool		nulls[Natts_members] = {false};

	for (int p = -1; (p = stream_pset_next(&member->assigned, p)) >= 0;)
		epochs[n++] = Int32GetDatum(member->epochs[p]);
	for (int p = -1; (p = stream_pset_next(&member->revoking, p)) >= 0;)
		epochs[n++] = Int32GetDatum(member->epochs[p]);

	values[Anum_members_group_id - 1] = Int32GetDatum(group_id);
	values[Anum_members_member_id - 1] = NameGetDatum(&row->member_id);
	values[Anum_members_instance_id - 1] = NameGetDatum(&row->instance_id);
	nulls[Anum_members_instance_id - 1] = NameStr(row->instance_id)[0] == '\0';
	values[Anum_members_member_epoch - 1] = Int32GetDatum(member->member_epoch);
	values[Anum_members_previous_epoch - 1] = Int32GetDatum(member->previous_epoch);
	values[Anum_members_joined_epoch - 1] = Int32GetDatum(row->joined_epoch);
	values[Anum_members_state - 1] = CStringGetTextDatum(state_names[member->state]);
	values[Anum_members_assigned - 1] = stream_partition_array(&member->assigned);
	values[Anum_members_revoking - 1] = stream_partition_array(&member->revoking);
	values[Anum_members_epochs - 1] =
		PointerGetDatum(construct_array(epochs, n, INT4OID, sizeof(int32), true, TYPALIGN_INT));
	values[Anum_members_target - 1] = stream_partition_array(&row->target);
	values[Anum_members_session_timeout - 1] = Int32GetDatum(row->session_timeout);
	values[Anum_members_max_poll_interval - 1] = Int32GetDatum(row->max_poll_interval);
	values[Anum_members_joined_at - 1] = TimestampTzGetDatum(row->joined_at);
	values[Anum_members_revoking_since - 1] = TimestampTzGetDatum(row->revoking_since);
	nulls[Anum_members_revoking_since - 1] = row->revoking_since == 0;

	if (row->stored)
	{
		init_member_keys(keys, group_id, NameStr(row->member_id), &name);
		stream_catalog_replace(MEMBERS_TABLE, MEMBERS_PKEY, 2, keys, Natts_members, values, nulls);
	}
	else
		stream_catalog_insert(MEMBERS_TABLE, Natts_members, values, nulls);
	row->stored = true;
	row->changed = false;
}

/* stream_store_members writes what has changed. */
void
stream_store_members(StreamMembers *members)
{
	for (int i = 0; i < members->n; i++)
		if (members->rows[i]->changed)
			store_member(members->group_id, members->rows[i]);
	store_epochs(members);
}

/* stream_delete_member removes a member's row. */
void
stream_delete_member(int32 group_id, const char *member_id)
{
	ScanKeyData keys[2];
	NameData	name;

	init_member_keys(keys, group_id, member_id, &name);
	stream_catalog_delete(MEMBERS_TABLE, MEMBERS_PKEY, 2, keys);
}
