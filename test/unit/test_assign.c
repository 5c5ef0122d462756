/*-------------------------------------------------------------------------
 *
 * test_assign.c
 *		The rules of a consumer group, each by itself.
 *
 * test_assign_rounds has all of them at work in a group.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "assign.h"
#include "assign_checks.h"
#include "seed.h"
#include "tap.h"

#define MAX_PARTITIONS	STREAM_ASSIGN_MAX_PARTITIONS

/* A set of the partitions given; SET(-1) is empty. */
#define SET(...)	set_of((const int[]) {__VA_ARGS__, -1})

static StreamPartitionSet
set_of(const int *partitions)
{
	StreamPartitionSet set = {{0}};

	for (; *partitions >= 0; partitions++)
		stream_pset_add(&set, *partitions);
	return set;
}

/* ---------- sets ---------- */

static void
test_sets(Random *random)
{
	bool		passed = true;

	for (int round = 0; round < 200; round++)
	{
		bool		a[MAX_PARTITIONS] = {false};
		bool		b[MAX_PARTITIONS] = {false};
		StreamPartitionSet set = {{0}};
		StreamPartitionSet other = {{0}};
		StreamPartitionSet result[3];
		int			density = 1 + random_below(random, 200);
		int			next = -1;
		int			count = 0;
		bool		subset = true;
		bool		overlap = false;

		for (int p = 0; p < MAX_PARTITIONS; p++)
		{
			if (random_chance(random, density))
			{
				stream_pset_add(&set, p);
				a[p] = true;
			}
			if (random_chance(random, density) || (round % 2 == 0 && a[p]))
			{
				stream_pset_add(&other, p);
				b[p] = true;
			}
			if (random_chance(random, density))
			{
				stream_pset_remove(&set, p);
				a[p] = false;
			}
			count += a[p];
			subset = subset && (!a[p] || b[p]);
			overlap = overlap || (a[p] && b[p]);
		}

		for (int i = 0; i < 3; i++)
			result[i] = set;
		stream_pset_union(&result[0], &other);
		stream_pset_intersect(&result[1], &other);
		stream_pset_subtract(&result[2], &other);
		for (int p = 0; p < MAX_PARTITIONS; p++)
		{
			if (a[p] && (next = stream_pset_next(&set, next)) != p)
				passed = false;
			if (stream_pset_has(&set, p) != a[p] ||
				stream_pset_has(&result[0], p) != (a[p] || b[p]) ||
				stream_pset_has(&result[1], p) != (a[p] && b[p]) ||
				stream_pset_has(&result[2], p) != (a[p] && !b[p]))
				passed = false;
		}
		if (stream_pset_next(&set, next) != -1 ||
			stream_pset_count(&set) != count ||
			stream_pset_is_empty(&set) != (count == 0) ||
			stream_pset_is_subset(&set, &other) != subset ||
			stream_pset_overlaps(&set, &other) != overlap ||
			!stream_pset_equals(&set, &set) ||
			stream_pset_equals(&set, &result[0]) != stream_pset_is_subset(&other, &set))
			passed = false;
	}
	tap_ok(passed, "sets agree with arrays of booleans");
}

/* ---------- the target ---------- */

/*
 * A group for tests of the target alone.
 */
typedef struct Group
{
	StreamMember members[8];
	StreamMember *list[8];
	int32		epochs[8][MAX_PARTITIONS];
	int			count;
} Group;

/*
 * add_member puts a member with what it holds behind a group, all of it given at
 * one epoch.
 */
static void
add_member(Group *group, int32 epoch, StreamPartitionSet assigned,
		   StreamPartitionSet revoking)
{
	int			m = group->count++;

	memset(&group->members[m], 0, sizeof(StreamMember));
	group->members[m].member_epoch = epoch;
	group->members[m].assigned = assigned;
	group->members[m].revoking = revoking;
	group->members[m].epochs = group->epochs[m];
	for (int p = 0; p < MAX_PARTITIONS; p++)
		group->epochs[m][p] = epoch;
	group->list[m] = &group->members[m];
}

/*
 * target_is compares a group's target with what it should be: a digit for each
 * partition's member.
 */
static bool
target_is(const Group *group, const char *wanted)
{
	StreamGroupEpochs epochs = {0};
	int32		target[MAX_PARTITIONS];
	int			partitions = strlen(wanted);

	stream_assign_target(&epochs, partitions, group->list, group->count, target);
	for (int p = 0; p < partitions; p++)
	{
		if (target[p] != wanted[p] - '0')
			return false;
	}
	return true;
}

static void
test_target(void)
{
	StreamPartitionSet none = SET(-1);
	StreamGroupEpochs epochs = {0};
	int32		target[MAX_PARTITIONS];
	Group		group = {.count = 0};

	stream_assign_target(&epochs, 3, group.list, 0, target);
	tap_ok(target[0] == STREAM_NOBODY && target[2] == STREAM_NOBODY,
		   "an empty group: nobody gets anything");

	for (int m = 0; m < 3; m++)
		add_member(&group, 0, none, none);
	tap_ok(target_is(&group, "0001122"), "new members take the partitions in order");
	tap_ok(target_is(&group, "01"), "more members than partitions");

	group.count = 0;
	add_member(&group, 1, SET(0, 1), none);
	add_member(&group, 1, SET(2, 3), none);
	add_member(&group, 1, SET(4, 5, 6), none);
	tap_ok(target_is(&group, "0011222"), "who holds most has the larger share");
	group.count = 2;
	tap_ok(target_is(&group, "0011001"), "among equals the first has the larger share");

	group.count = 0;
	add_member(&group, 1, SET(3, 4, 5), SET(0, 1, 2));
	add_member(&group, 1, none, none);
	tap_ok(target_is(&group, "111000"), "what is being revoked already goes first");
	add_member(&group, 1, SET(6, 700, 1023), none);
	tap_ok(target_is(&group, "1120002"), "partitions that are no more are ignored");

	group.count = 0;
	add_member(&group, 1, none, none);
	add_member(&group, 5, SET(0), none);
	add_member(&group, 5, SET(0), none);
	tap_ok(target_is(&group, "012"), "two claims of one epoch: neither is kept");
	add_member(&group, 6, SET(0), none);
	tap_ok(target_is(&group, "3012"), "the claim of the highest epoch is kept");
	group.count = 0;
	add_member(&group, 1, none, none);
	add_member(&group, 6, SET(0), none);
	add_member(&group, 5, SET(0), none);
	add_member(&group, 5, SET(0), none);
	tap_ok(target_is(&group, "1023"), "and wherever it stands");
}

/*
 * test_sizes checks shares for many sizes of group, from nothing held.
 */
static void
test_sizes(void)
{
	static const int sizes[] = {1, 2, 3, 4, 5, 7, 16, 63, 64, 65, 1000, 1023, 1024, 4096};
	static StreamMember member;
	static StreamMember *members[STREAM_ASSIGN_MAX_MEMBERS];
	int32		target[MAX_PARTITIONS];
	bool		passed = true;

	for (int m = 0; m < STREAM_ASSIGN_MAX_MEMBERS; m++)
		members[m] = &member;
	for (int i = 0; i < (int) lengthof(sizes); i++)
	{
		for (int p = 1; p <= MAX_PARTITIONS; p += p < 70 ? 1 : 53)
		{
			StreamGroupEpochs epochs = {0};

			stream_assign_target(&epochs, p, members, sizes[i], target);
			passed = passed && balanced(p, sizes[i], target);
		}
	}
	tap_ok(passed, "shares differ by one at most, up to 1024 partitions and 4096 members");
}

/*
 * test_optimum compares the moves with the least of all balanced targets, found
 * by trying every one.
 */
static void
test_optimum(Random *random)
{
	bool		optimal = true;
	bool		formula = true;

	for (int round = 0; round < 2000; round++)
	{
		int			partitions = 1 + random_below(random, 6);
		int			nmembers = 1 + random_below(random, 4);
		int			greedy = random_below(random, 4);
		StreamGroupEpochs epochs = {0};
		Group		group = {.count = 0};
		int32		target[MAX_PARTITIONS] = {0};
		int			least = partitions;
		int			digit;

		for (int m = 0; m < nmembers; m++)
			add_member(&group, 1, SET(-1), SET(-1));
		for (int p = 0; p < partitions; p++)
		{
			int			m = random_chance(random, 2) ? greedy : (int) random_below(random, 5);

			if (m < nmembers)
				stream_pset_add(random_chance(random, 4) ? &group.members[m].revoking :
								&group.members[m].assigned, p);
		}

		do
		{
			if (balanced(partitions, nmembers, target))
				least = Min(least, count_moves(partitions, group.list, nmembers, target));
			for (digit = 0; digit < partitions && ++target[digit] == nmembers; digit++)
				target[digit] = 0;
		} while (digit < partitions);

		stream_assign_target(&epochs, partitions, group.list, nmembers, target);
		if (count_moves(partitions, group.list, nmembers, target) != least ||
			!balanced(partitions, nmembers, target))
			optimal = false;
		if (fewest_moves(partitions, group.list, nmembers) != least)
			formula = false;
	}
	tap_ok(optimal, "no balanced target moves fewer partitions");
	tap_ok(formula, "nor can one, says the formula the simulation uses");
}

/* ---------- a member's steps ---------- */

static bool
member_is(const StreamMember *member, StreamMemberState state, int32 epoch,
		  StreamPartitionSet assigned, StreamPartitionSet revoking)
{
	return member->state == state && member->member_epoch == epoch &&
		stream_pset_equals(&member->assigned, &assigned) &&
		stream_pset_equals(&member->revoking, &revoking);
}

/*
 * step makes a call for one of the first two members of a group, whose part of
 * the target is given.
 */
static bool
step(Group *group, StreamGroupEpochs *epochs, int m, StreamPartitionSet target,
	 int32 client_epoch, StreamPartitionSet reported)
{
	StreamPartitionSet others;

	stream_member_held(group->list[1 - m], &others);
	return stream_member_reconcile(group->list[m], epochs, &target, &others,
								   client_epoch, &reported);
}

static void
test_steps(void)
{
	StreamGroupEpochs epochs = {1, 1, 1};
	StreamPartitionSet none = SET(-1);
	StreamPartitionSet low = SET(0, 1);
	StreamPartitionSet high = SET(2, 3);
	StreamPartitionSet all = SET(0, 1, 2, 3);
	Group		group = {.count = 0};
	StreamMember *a = &group.members[0];
	StreamMember *b = &group.members[1];

	add_member(&group, 0, none, none);
	add_member(&group, 0, none, none);
	tap_ok(step(&group, &epochs, 0, all, 0, none) &&
		   member_is(a, STREAM_MEMBER_STABLE, 1, all, none), "the first member gets all");
	tap_ok(!step(&group, &epochs, 0, all, 1, all), "a call without news changes nothing");

	epochs = (StreamGroupEpochs) {2, 2, 2};
	tap_ok(step(&group, &epochs, 1, high, 0, none) &&
		   member_is(b, STREAM_MEMBER_UNRELEASED, 2, none, none), "the second one waits");
	tap_ok(stream_group_state(&epochs, group.list, 2) == STREAM_GROUP_RECONCILING,
		   "the group is reconciling");
	tap_ok(step(&group, &epochs, 0, low, 1, low) &&
		   member_is(a, STREAM_MEMBER_UNREVOKED, 1, low, high),
		   "the first is told to let go, and keeps its epoch");
	tap_ok(!stream_member_reconcile(a, &epochs, &low, &none, 1, NULL) &&
		   !step(&group, &epochs, 0, low, 1, all),
		   "it is asked again while it says nothing or still owns them");
	tap_ok(!step(&group, &epochs, 1, high, 2, none), "the second still waits");
	tap_ok(step(&group, &epochs, 0, low, 1, SET(0, 1, 2)) &&
		   member_is(a, STREAM_MEMBER_UNREVOKED, 1, low, SET(2)),
		   "it lets go of one and stays at its epoch for the other");
	tap_ok(step(&group, &epochs, 1, high, 2, none) &&
		   member_is(b, STREAM_MEMBER_UNRELEASED, 3, SET(3), none) && epochs.last_epoch == 3,
		   "which the second gets at once, at a new epoch");
	tap_ok(step(&group, &epochs, 0, low, 1, low) &&
		   member_is(a, STREAM_MEMBER_STABLE, 2, low, none) && a->previous_epoch == 1,
		   "without the other it goes on to the target's epoch");
	tap_ok(step(&group, &epochs, 1, high, 2, none) &&
		   member_is(b, STREAM_MEMBER_STABLE, 4, high, none) && b->previous_epoch == 2 &&
		   b->epochs[2] == 4 && b->epochs[3] == 3,
		   "two lost answers: the second is known to have the epoch before both");
	tap_ok(stream_group_state(&epochs, group.list, 2) == STREAM_GROUP_STABLE,
		   "the group is stable");

	/* An old report, or a client that has not had what it is to give back. */
	epochs = (StreamGroupEpochs) {5, 5, 5};
	tap_ok(stream_group_state(&epochs, group.list, 2) == STREAM_GROUP_RECONCILING,
		   "and no longer when there is a new target");
	step(&group, &epochs, 1, SET(3), 2, none);
	step(&group, &epochs, 1, SET(3), 2, none);
	tap_ok(member_is(b, STREAM_MEMBER_UNREVOKED, 4, SET(3), SET(2)),
		   "silence about what the client does not know of releases nothing");
	tap_ok(step(&group, &epochs, 1, all, 4, SET(3)) &&
		   member_is(b, STREAM_MEMBER_UNRELEASED, 5, high, none) && b->epochs[2] == 5,
		   "given back while it is let go of, a partition comes at a new epoch");

	epochs = (StreamGroupEpochs) {6, 6, 6};
	step(&group, &epochs, 1, SET(3), 5, high);
	epochs = (StreamGroupEpochs) {7, 7, 7};
	tap_ok(!step(&group, &epochs, 1, high, 5, high) &&
		   member_is(b, STREAM_MEMBER_UNREVOKED, 5, SET(3), SET(2)),
		   "and not before it was");
	tap_ok(step(&group, &epochs, 1, none, 5, high) &&
		   member_is(b, STREAM_MEMBER_UNREVOKED, 5, none, high),
		   "more to let go of is told at once");
	step(&group, &epochs, 1, high, 0, none);
	tap_ok(member_is(b, STREAM_MEMBER_STABLE, 7, high, none) && b->previous_epoch == 0 &&
		   b->epochs[2] == 7 && b->epochs[3] == 7,
		   "to join again is to let go of everything");
	tap_ok(step(&group, &epochs, 1, high, 0, none) && b->member_epoch == 8 &&
		   b->epochs[3] == 8,
		   "to join twice gives a new epoch");

	step(&group, &epochs, 1, SET(3), 8, high);
	low = SET(3, 4);
	stream_member_set_away(b, &low);
	tap_ok(member_is(b, STREAM_MEMBER_AWAY, 8, SET(3), none),
		   "a member that is away keeps its part and lets go of the rest");
	stream_member_set_away(b, &none);
	tap_ok(member_is(b, STREAM_MEMBER_AWAY, 8, none, none),
		   "and of that as soon as the target changes");
	a->member_epoch = 8;
	tap_ok(stream_group_state(&epochs, group.list, 2) == STREAM_GROUP_RECONCILING,
		   "its group is not stable");
	step(&group, &epochs, 1, SET(3), 0, none);
	tap_ok(member_is(b, STREAM_MEMBER_STABLE, 9, SET(3), none), "it returns at a new epoch");
}

static void
test_group_state(void)
{
	StreamGroupEpochs epochs = {0};
	Group		group = {.count = 0};
	int32		target[1];

	add_member(&group, 0, SET(-1), SET(-1));
	add_member(&group, 0, SET(-1), SET(-1));
	tap_ok(stream_group_state(&epochs, group.list, 0) == STREAM_GROUP_EMPTY,
		   "a group without members is empty");
	stream_group_raise(&epochs);
	tap_ok(stream_group_state(&epochs, group.list, 1) == STREAM_GROUP_ASSIGNING,
		   "a group without a new target is assigning");
	step(&group, &epochs, 0, SET(-1), 0, SET(-1));
	stream_assign_target(&epochs, 1, group.list, 1, target);
	tap_ok(group.members[0].member_epoch == 2 && epochs.target_epoch == 3 &&
		   epochs.group_epoch == 3 && epochs.last_epoch == 3,
		   "a target is newer than what was given while it was waited for");
	stream_assign_target(&epochs, 1, group.list, 1, target);
	tap_ok(epochs.target_epoch == 4, "each target has an epoch of its own");
	stream_group_raise(&epochs);
	stream_assign_target(&epochs, 1, group.list, 1, target);
	tap_ok(epochs.target_epoch == 5 && epochs.group_epoch == 5,
		   "a raised group's target has the group's epoch");
}

/* ---------- fencing ---------- */

static void
test_fencing(void)
{
	StreamPartitionSet none = SET(-1);
	StreamPartitionSet held = SET(1, 2, 3);
	StreamPartitionSet foreign = SET(1, 4);
	Group		group = {.count = 0};
	StreamMember *member = &group.members[0];

	add_member(&group, 7, SET(1, 2), SET(3));
	member->previous_epoch = 5;
	group.epochs[0][1] = 4;
	group.epochs[0][2] = 6;

#define HEARTBEAT(verdict, epoch, owned) \
	(stream_check_heartbeat(member, epoch, owned) == STREAM_HEARTBEAT_##verdict)
	tap_ok(HEARTBEAT(CURRENT, 7, &held) && HEARTBEAT(CURRENT, 7, &none) &&
		   HEARTBEAT(CURRENT, 7, NULL), "the known epoch is right");
	tap_ok(HEARTBEAT(FENCED, 8, &none), "one above is fenced");
	tap_ok(HEARTBEAT(REPEATED, 5, &held) && HEARTBEAT(REPEATED, 5, &none),
		   "the epoch before is a lost answer");
	tap_ok(HEARTBEAT(FENCED, 5, &foreign) && HEARTBEAT(FENCED, 5, NULL),
		   "unless it owns what it should not, or does not say");
	tap_ok(HEARTBEAT(FENCED, 6, &none) && HEARTBEAT(FENCED, 4, &none),
		   "any other epoch below is fenced");
	tap_ok(HEARTBEAT(FENCED, 7, &foreign), "a foreign partition is fenced at any epoch");
	tap_ok(HEARTBEAT(JOIN, 0, &none) && HEARTBEAT(LEAVE, -1, &none) &&
		   HEARTBEAT(LEAVE_STATIC, -2, &none) && HEARTBEAT(FENCED, -3, &none),
		   "0 joins, -1 leaves, -2 leaves to return");
	member->state = STREAM_MEMBER_AWAY;
	tap_ok(HEARTBEAT(FENCED, 7, &none) && HEARTBEAT(JOIN, 0, &none),
		   "a member that is away can only join");
	member = NULL;
	tap_ok(HEARTBEAT(FENCED, 7, &none) && HEARTBEAT(JOIN, 0, &none) &&
		   HEARTBEAT(LEAVE, -1, &none), "so can an unknown one, and leave twice");

	member = &group.members[0];
	member->state = STREAM_MEMBER_UNREVOKED;
#define COMMIT(verdict, partition, epoch) \
	(stream_check_commit(member, partition, epoch) == STREAM_FENCE_##verdict)
	tap_ok(COMMIT(NONE, 1, 7) && COMMIT(NONE, 1, 5) && COMMIT(NONE, 1, 4),
		   "a commit is right from the epoch at which the partition was given");
	tap_ok(COMMIT(STALE, 1, 3) && COMMIT(STALE, 2, 5) && COMMIT(NONE, 2, 6),
		   "before it, it is stale, for each partition by itself");
	tap_ok(COMMIT(AHEAD, 1, 8), "an epoch the member does not have is refused");
	tap_ok(COMMIT(NOT_OWNER, 4, 7), "a foreign partition is refused");
	tap_ok(COMMIT(NONE, 3, 7), "what is being revoked may still be committed");
	member->state = STREAM_MEMBER_AWAY;
	tap_ok(COMMIT(NOT_OWNER, 1, 7), "who is away commits nothing");
}

int
main(void)
{
	Random		random = seed_random();

	test_sets(&random);
	test_target();
	test_sizes();
	test_optimum(&random);
	test_steps();
	test_group_state();
	test_fencing();
	return tap_done();
}
