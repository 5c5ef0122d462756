/*-------------------------------------------------------------------------
 *
 * status.c
 *		The function behind the view group_status, and scaling_advice.
 *
 * Capacity is that of the group's workers together: the records a second that
 * one of them has processed of full batches, times the workers that can work
 * at once, which the number of partitions bounds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "args.h"
#include "catalog/groups.h"
#include "consumer/coordinator.h"
#include "consumer/expire.h"
#include "consumer/load.h"
#include "funcapi.h"
#include "meter.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(stream_group_status);
PG_FUNCTION_INFO_V1(stream_scaling_advice);

/* live_members counts the members that have neither timed out nor left for a while. */
static int
live_members(const StreamMembers *members)
{
	TimestampTz now = GetCurrentTimestamp();
	int			result = 0;

	for (int i = 0; i < members->n; i++)
		if (members->rows[i]->member.state != STREAM_MEMBER_AWAY &&
			stream_member_deadline(members, members->rows[i]) > now)
			result++;
	return result;
}

/* state_name: Kafka's states of a group with members, and one for sessions that consume without. */
static const char *
state_name(const StreamMembers *members, int workers)
{
	StreamMember **list = palloc_array(StreamMember *, members->n + 1);

	for (int i = 0; i < members->n; i++)
		list[i] = &members->rows[i]->member;
	switch (stream_group_state(&members->epochs, list, members->n))
	{
		case STREAM_GROUP_EMPTY:
			break;
		case STREAM_GROUP_ASSIGNING:
			return "assigning";
		case STREAM_GROUP_RECONCILING:
			return "reconciling";
		case STREAM_GROUP_STABLE:
			return "stable";
	}
	return workers > 0 ? "consuming" : "empty";
}

static Datum
interval_of_ms(int32 ms)
{
	Interval   *interval = palloc0_object(Interval);

	interval->time = ms * INT64CONST(1000);
	return IntervalPGetDatum(interval);
}

static void
status_row(ReturnSetInfo *rsinfo, Oid table, const StreamGroup *group, const double *arrival_rate)
{
	StreamInfo *info = stream_info(table);
	NameData	stream = info->name;
	int32		partitions = info->partitions;
	StreamMembers *members = stream_load_members(table, group->group_id, partitions);
	int			nmembers = live_members(members);
	int			workers = members->n > 0 ? nmembers : stream_meter_consumers(group->group_id);
	int			at_work = Min(workers, partitions);
	StreamLoad	load;
	double		capacity;
	TimestampTz expires_at = 0;
	Datum		values[23];
	bool		nulls[23] = {false};

	stream_measure_load(table, group->group_id, &load);
	capacity = load.worker_rate * at_work;

	values[0] = NameGetDatum(&group->name);
	values[1] = NameGetDatum(&stream);
	values[2] = CStringGetTextDatum(state_name(members, workers));
	values[3] = BoolGetDatum(group->paused);
	nulls[4] = nulls[5] = members->epochs.last_epoch == 0;
	values[4] = Int32GetDatum(members->epochs.group_epoch);
	values[5] = Int32GetDatum(members->epochs.target_epoch);
	values[6] = Int32GetDatum(nmembers);
	values[7] = Int32GetDatum(workers);
	values[8] = Int32GetDatum(partitions);
	values[9] = Int64GetDatum(load.lag);
	nulls[10] = load.oldest_unread == 0;
	values[10] = TimestampTzGetDatum(load.oldest_unread);
	values[11] = Float8GetDatum(load.oldest_unread == 0 ? 0.0 :
								(double) Max(GetCurrentTimestamp() - load.oldest_unread, 0) / USECS_PER_SEC);
	values[12] = TimestampTzGetDatum(load.committed_at);
	nulls[12] = load.committed_at == 0;
	nulls[13] = arrival_rate == NULL;
	values[13] = Float8GetDatum(arrival_rate ? *arrival_rate : 0);
	nulls[14] = nulls[15] = nulls[19] = load.measured_at == 0;
	values[14] = Float8GetDatum(load.worker_rate);
	values[15] = Float8GetDatum(capacity);
	nulls[16] = nulls[17] = arrival_rate == NULL || capacity == 0;
	nulls[18] = nulls[16] || at_work < 2;
	if (!nulls[16])
	{
		values[16] = Float8GetDatum(*arrival_rate / capacity);
		values[17] = Float8GetDatum(1 - *arrival_rate / capacity);
	}
	if (!nulls[18])
		values[18] = Float8GetDatum(1 - *arrival_rate / (load.worker_rate * Min(workers - 1, partitions)));
	values[19] = TimestampTzGetDatum(load.measured_at);
	values[20] = CStringGetTextDatum(stream_out_of_range_name(group->out_of_range));
	values[21] = interval_of_ms(group->max_poll_interval);
	nulls[22] = nmembers > 0 || !stream_group_expires_at(group, load.committed_at, &expires_at);
	values[22] = TimestampTzGetDatum(expires_at);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
stream_group_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *cell;

	stream_require_shmem();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (RecoveryInProgress())
		return (Datum) 0;
	foreach(cell, stream_visible_tables(true))
	{
		Oid			table = lfirst_oid(cell);
		StreamGroup *groups;
		int			n = stream_copy_groups(stream_info(table), &groups);
		double		rate;
		bool		has_rate;

		has_rate = n > 0 && stream_arrival_rate(table, -1, &rate);
		for (int i = 0; i < n; i++)
			status_row(rsinfo, table, &groups[i], has_rate ? &rate : NULL);
		UnlockRelationOid(table, AccessShareLock);
	}
	return (Datum) 0;
}

/* advice_note explains the advice; wanted is the number of workers without the bound. */
static char *
advice_note(const StreamLoad *load, bool has_rate, double arrival_rate, double wanted, int32 partitions)
{
	double		spare = load->worker_rate * partitions - arrival_rate;

	if (!has_rate)
		return "not measurable yet: the stream is too young for an arrival rate";
	if (load->measured_at == 0)
		return "not measurable yet: no worker has processed a full batch, one that left records behind";
	if (wanted <= partitions)
		return NULL;
	if (spare <= 0)
		return psprintf("the partitions bound it: with a worker for each of the %d, records still arrive faster than they are processed",
						partitions);
	return psprintf("the partitions bound it: with a worker for each of the %d, it catches up in %.0f s",
					partitions, ceil(load->lag / spare));
}

/* stream_scaling_advice: scaling_advice(stream, consumer_group, target). */
Datum
stream_scaling_advice(PG_FUNCTION_ARGS)
{
	char	   *stream = stream_text_argument(fcinfo, 0, "stream");
	char	   *group_name = stream_text_argument(fcinfo, 1, "consumer_group");
	double		target;
	StreamLoad	load;
	StreamGroup group;
	double		arrival_rate = 0;
	double		wanted = 0;
	int32		partitions;
	bool		has_rate;
	char	   *note;
	Oid			table;
	TupleDesc	desc;
	Datum		values[7];
	bool		nulls[7] = {false};

	stream_need_argument(fcinfo, 2, "target");
	target = stream_ms_argument(fcinfo, 2, "target") / 1000.0;
	stream_require_shmem();
	PreventCommandDuringRecovery("scaling_advice()");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	table = stream_table(stream, AccessShareLock, ACL_SELECT, false);
	group = *stream_group(stream_info(table), group_name, false);
	partitions = stream_info(table)->partitions;
	stream_measure_load(table, group.group_id, &load);
	has_rate = stream_arrival_rate(table, -1, &arrival_rate);
	if (has_rate && load.measured_at != 0)
		wanted = ceil((load.lag / target + arrival_rate) / load.worker_rate);
	note = advice_note(&load, has_rate, arrival_rate, wanted, partitions);

	nulls[0] = nulls[1] = !has_rate || load.measured_at == 0;
	values[0] = Int32GetDatum((int32) Min(wanted, (double) partitions));
	values[1] = BoolGetDatum(wanted > partitions);
	values[2] = Int64GetDatum(load.lag);
	nulls[3] = !has_rate;
	values[3] = Float8GetDatum(arrival_rate);
	nulls[4] = nulls[5] = load.measured_at == 0;
	values[4] = Float8GetDatum(load.worker_rate);
	values[5] = TimestampTzGetDatum(load.measured_at);
	nulls[6] = note == NULL;
	values[6] = note == NULL ? (Datum) 0 : CStringGetTextDatum(note);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
