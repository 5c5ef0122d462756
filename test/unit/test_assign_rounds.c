/*-------------------------------------------------------------------------
 *
 * test_assign_rounds.c
 *		The rules of a consumer group at work, in a simulated one.
 *
 * In each of many runs a coordinator and its clients go through rounds of joins,
 * leaves, crashes, time-outs and returns.  Calls and answers get lost, clients
 * let go of a partition late, and in every second run calls arrive once more,
 * long after they were made.  The invariants are checked after every call.
 *
 * A client that the coordinator has thrown out works on until it hears of it.
 * All it may do then is to have its commits refused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "assign.h"
#include "assign_checks.h"
#include "seed.h"
#include "tap.h"

#define RUNS			400
#define ROUNDS			120		/* of each run */
#define SETTLE_EVERY	20		/* rounds, then all have time to settle */
#define MAX_ROUNDS		4		/* to be stable in */
#define SESSION			5		/* rounds without a call until a member is out */
#define SEATS			12		/* clients at a time */
#define MAX_DELAYED		16
#define MAX_LOST		64

/* A process.  The client in place i has the coordinator's seat i. */
typedef struct Client
{
	int			id;				/* of the member; 0: never started */
	bool		running;
	bool		is_static;
	bool		expired;		/* thrown out, and has not heard of it */
	bool		cut;			/* nothing it sends arrives */
	bool		may_return;		/* it, or the client before it, has left to */
	int32		epoch;			/* 0: has to join */
	StreamPartitionSet owned;	/* works on */
	StreamPartitionSet told;	/* of these it is to let go */
	int			patience;		/* calls until it does */
} Client;

/* A member, as the coordinator keeps it. */
typedef struct Seat
{
	int			id;				/* 0: free */
	int			heard;			/* round of the last call */
	StreamMember member;
	StreamPartitionSet target;
	int32		epochs[STREAM_ASSIGN_MAX_PARTITIONS];
} Seat;

typedef struct Answer
{
	bool		refused;		/* someone else has the seat */
	bool		fenced;
	int32		epoch;
	StreamPartitionSet assigned;
	StreamPartitionSet revoking;
} Answer;

/* A call that will arrive once more. */
typedef struct Delayed
{
	int			place;
	int			id;
	int32		epoch;
	StreamPartitionSet owned;
} Delayed;

/* A partition that a member had, and the last epoch it had it at. */
typedef struct Lost
{
	int			place;
	int			id;
	int			partition;
	int32		epoch;
} Lost;

typedef struct Simulation
{
	uint64		seed;
	Random		random;
	bool		delays;
	int			partitions;
	int			round;
	int			last_id;
	StreamGroupEpochs epochs;
	Client		clients[SEATS];
	Seat		seats[SEATS];
	Delayed		delayed[MAX_DELAYED];
	int			ndelayed;
	Lost		lost[MAX_LOST];
	int			nlost;			/* that ever were */
} Simulation;

typedef enum Invariant
{
	ONE_OWNER,
	ONE_HOLDER,
	KNOWN_OWNER,
	COMMITS_PASS,
	STALE_REFUSED,
	STATES,
	BALANCED,
	FEWEST_MOVES,
	UNAFFECTED,
	REPEATABLE,
	NEVER_FENCED,
	NEVER_REFUSED,
	IN_TIME,
	ARRIVED,
	GROUP_STATE,
	INVARIANTS
} Invariant;

static const char *const invariant_names[INVARIANTS] = {
	"no two clients work on a partition",
	"no partition is held by two members",
	"what a client works on is known to be held by it",
	"a client's commit of what it works on is never refused",
	"a commit from before a partition was lost is refused, whatever comes after",
	"a member's state agrees with what it holds",
	"shares of the target differ by one at most",
	"no target moves more partitions than it has to",
	"whoever has no more than its share keeps all of it",
	"the same members get the same target",
	"lost calls and answers get nobody fenced",
	"whoever left to return finds its seat",
	"a group left alone is stable in 4 rounds",
	"all work on their part of the target then, and someone on each partition",
	"the group's state is empty without members and stable at last"
};

/* What has to happen for the invariants to be worth something. */
typedef enum Event
{
	SEEN_TOLD_TWICE,
	SEEN_LATE_GRANT,
	SEEN_REGRANT,
	SEEN_REPEATED,
	SEEN_REPEATED_TWICE,
	SEEN_DELAYED,
	SEEN_DELAYED_FENCED,
	SEEN_EXPIRED,
	SEEN_ZOMBIE_BACK,
	SEEN_REFUSED,
	SEEN_RETURN,
	EVENTS
} Event;

static const char *const event_names[EVENTS] = {
	"a member had more to revoke before it was done",
	"a member was given something at its target's epoch",
	"a member was given back what it was letting go of",
	"an answer was lost",
	"and so was the next, which had a new epoch",
	"a call arrived once more",
	"and was fenced",
	"a working client was thrown out",
	"and came back",
	"a static client found its seat taken",
	"a static client took its seat over"
};

static int	violations[INVARIANTS];
static int	seen[EVENTS];
static int	most_rounds = 0;

/*
 * check counts what does not hold, and says where it was first.
 */
static void
check(Simulation *sim, Invariant invariant, bool holds)
{
	if (!holds && violations[invariant]++ == 0)
		tap_note("%s: broken in round %d of the run with seed %llu",
				 invariant_names[invariant], sim->round,
				 (unsigned long long) sim->seed);
}

/*
 * list_members gives the members in the order of their seats, and returns how
 * many there are.
 */
static int
list_members(Simulation *sim, StreamMember **members, int *places)
{
	int			count = 0;

	for (int i = 0; i < SEATS; i++)
	{
		if (sim->seats[i].id != 0)
		{
			places[count] = i;
			members[count++] = &sim->seats[i].member;
		}
	}
	return count;
}

/*
 * note_lost remembers what a seat's member no longer holds, or holds anew, which
 * it does of all when it has joined.
 */
static void
note_lost(Simulation *sim, int place, int id, const StreamMember *before,
		  const int32 *epochs_before, bool joined)
{
	Seat	   *seat = &sim->seats[place];
	StreamPartitionSet had;
	StreamPartitionSet has;

	stream_member_held(before, &had);
	stream_member_held(&seat->member, &has);
	for (int p = -1; (p = stream_pset_next(&had, p)) >= 0;)
	{
		if (!joined && stream_pset_has(&has, p) &&
			epochs_before[p] == seat->epochs[p])
			continue;
		sim->lost[sim->nlost++ % MAX_LOST] =
			(Lost) {place, id, p, before->member_epoch};
		if (!joined && stream_pset_has(&has, p))
			seen[SEEN_REGRANT]++;
	}
}

static void
set_away(Simulation *sim, int place)
{
	Seat	   *seat = &sim->seats[place];
	StreamMember before = seat->member;

	stream_member_set_away(&seat->member, &seat->target);
	note_lost(sim, place, seat->id, &before, seat->epochs, false);
}

/*
 * rebalance computes a new target and checks it.
 */
static void
rebalance(Simulation *sim)
{
	StreamMember *members[SEATS];
	int			places[SEATS];
	int			count = list_members(sim, members, places);
	StreamGroupEpochs epochs = sim->epochs;
	int32		target[STREAM_ASSIGN_MAX_PARTITIONS];
	int32		again[STREAM_ASSIGN_MAX_PARTITIONS];

	stream_assign_target(&sim->epochs, sim->partitions, members, count, target);
	stream_assign_target(&epochs, sim->partitions, members, count, again);
	check(sim, REPEATABLE,
		  memcmp(target, again, sim->partitions * sizeof(int32)) == 0);
	if (count == 0)
		return;

	check(sim, BALANCED, balanced(sim->partitions, count, target));
	check(sim, FEWEST_MOVES,
		  count_moves(sim->partitions, members, count, target) ==
		  fewest_moves(sim->partitions, members, count));
	for (int m = 0; m < count; m++)
	{
		StreamPartitionSet held;

		stream_target_of(target, sim->partitions, m, &sim->seats[places[m]].target);
		stream_member_held(members[m], &held);
		check(sim, UNAFFECTED,
			  stream_pset_count(&held) > sim->partitions / count ||
			  stream_pset_is_subset(&held, &sim->seats[places[m]].target));
		if (members[m]->state == STREAM_MEMBER_AWAY)
			set_away(sim, places[m]);
	}
}

/*
 * remove_member frees a seat, whose client may go on for a while.
 */
static void
remove_member(Simulation *sim, int place)
{
	Client	   *client = &sim->clients[place];
	Seat	   *seat = &sim->seats[place];
	StreamMember before = seat->member;
	int			id = seat->id;

	memset(seat, 0, sizeof(Seat));
	note_lost(sim, place, id, &before, seat->epochs, false);
	if (client->running && client->id == id)
	{
		client->expired = true;
		if (!stream_pset_is_empty(&client->owned))
			seen[SEEN_EXPIRED]++;
	}
	rebalance(sim);
}

/*
 * reconcile moves a seat's member on and checks what has become of it.
 */
static void
reconcile(Simulation *sim, int place, int32 epoch, const StreamPartitionSet *owned)
{
	Seat	   *seat = &sim->seats[place];
	StreamMember *member = &seat->member;
	StreamMember before = *member;
	StreamPartitionSet held;
	StreamPartitionSet others = {{0}};
	int32		epochs_before[STREAM_ASSIGN_MAX_PARTITIONS];
	bool		changed;
	bool		whole;

	memcpy(epochs_before, seat->epochs, sizeof(epochs_before));
	for (int i = 0; i < SEATS; i++)
	{
		stream_member_held(&sim->seats[i].member, &held);
		if (i != place)
			stream_pset_union(&others, &held);
	}

	changed = stream_member_reconcile(member, &sim->epochs, &seat->target, &others,
									  epoch, owned);
	note_lost(sim, place, seat->id, &before, epochs_before,
			  epoch == STREAM_EPOCH_JOIN);

	if (before.state == STREAM_MEMBER_UNREVOKED &&
		stream_pset_count(&member->revoking) > stream_pset_count(&before.revoking))
		seen[SEEN_TOLD_TWICE]++;
	if (epoch > 0 && member->member_epoch > sim->epochs.target_epoch &&
		member->member_epoch > before.member_epoch)
		seen[SEEN_LATE_GRANT]++;
	if (epoch > 0 && epoch < before.member_epoch &&
		member->member_epoch > before.member_epoch)
		seen[SEEN_REPEATED_TWICE]++;

	check(sim, STATES, changed || (member->member_epoch == before.member_epoch &&
								   member->state == before.state &&
								   stream_pset_equals(&member->assigned, &before.assigned) &&
								   stream_pset_equals(&member->revoking, &before.revoking)));
	check(sim, STATES, !stream_pset_overlaps(&member->assigned, &member->revoking));
	check(sim, STATES, stream_pset_is_subset(&member->assigned, &seat->target));
	check(sim, STATES, (member->state == STREAM_MEMBER_UNREVOKED) ==
		  !stream_pset_is_empty(&member->revoking));
	check(sim, STATES, member->previous_epoch <= member->member_epoch &&
		  member->member_epoch <= sim->epochs.last_epoch);

	/* At its old epoch while it has to revoke, else not below the target's. */
	whole = stream_pset_equals(&member->assigned, &seat->target);
	if (member->state == STREAM_MEMBER_UNREVOKED)
		check(sim, STATES, member->member_epoch == before.member_epoch);
	else
		check(sim, STATES, member->member_epoch >= sim->epochs.target_epoch &&
			  (member->state == STREAM_MEMBER_STABLE) == whole);
	stream_member_held(member, &held);
	for (int p = -1; (p = stream_pset_next(&held, p)) >= 0;)
		check(sim, STATES, seat->epochs[p] > 0 &&
			  seat->epochs[p] <= member->member_epoch);
}

/*
 * serve is the coordinator's part of a call.
 */
static void
serve(Simulation *sim, int place, int id, int32 epoch,
	  const StreamPartitionSet *owned, Answer *answer)
{
	Seat	   *seat = &sim->seats[place];

	memset(answer, 0, sizeof(Answer));
	switch (stream_check_heartbeat(seat->id == id ? &seat->member : NULL, epoch, owned))
	{
		case STREAM_HEARTBEAT_JOIN:
			if (seat->id != 0 && seat->id != id)
			{
				if (seat->member.state != STREAM_MEMBER_AWAY)
				{
					answer->refused = true;
					seen[SEEN_REFUSED]++;
					return;
				}
				seen[SEEN_RETURN]++;
			}
			seat->id = id;
			seat->member.epochs = seat->epochs;
			rebalance(sim);
			break;
		case STREAM_HEARTBEAT_REPEATED:
			seen[SEEN_REPEATED]++;
			break;
		case STREAM_HEARTBEAT_CURRENT:
			break;
		default:
			answer->fenced = true;
			return;
	}

	reconcile(sim, place, epoch, owned);
	seat->heard = sim->round;
	answer->epoch = seat->member.member_epoch;
	answer->assigned = seat->member.assigned;
	answer->revoking = seat->member.revoking;
}

/*
 * may_commit is the coordinator's judgement of a commit.
 */
static bool
may_commit(Simulation *sim, int place, int id, int partition, int32 epoch)
{
	return sim->seats[place].id == id &&
		stream_check_commit(&sim->seats[place].member, partition,
							epoch) == STREAM_FENCE_NONE;
}

/*
 * check_all checks what must hold at any time.
 */
static void
check_all(Simulation *sim)
{
	StreamPartitionSet working = {{0}};
	StreamPartitionSet taken = {{0}};

	for (int i = 0; i < SEATS; i++)
	{
		Client	   *client = &sim->clients[i];
		StreamPartitionSet held;

		stream_member_held(&sim->seats[i].member, &held);
		check(sim, ONE_HOLDER, !stream_pset_overlaps(&held, &taken));
		stream_pset_union(&taken, &held);

		if (!client->running)
			continue;
		if (!client->expired)
		{
			check(sim, ONE_OWNER, !stream_pset_overlaps(&client->owned, &working));
			stream_pset_union(&working, &client->owned);
			check(sim, KNOWN_OWNER, stream_pset_is_subset(&client->owned, &held));
		}
		for (int p = -1; (p = stream_pset_next(&client->owned, p)) >= 0;)
			check(sim, client->expired ? STALE_REFUSED : COMMITS_PASS,
				  may_commit(sim, i, client->id, p, client->epoch) != client->expired);
	}

	for (int i = 0; i < Min(sim->nlost, MAX_LOST); i++)
	{
		Lost	   *lost = &sim->lost[i];

		check(sim, STALE_REFUSED, !may_commit(sim, lost->place, lost->id,
											  lost->partition, lost->epoch));
	}
}

/*
 * hear is a client's part of an answer.
 */
static void
hear(Simulation *sim, Client *client, const Answer *answer)
{
	check(sim, NEVER_REFUSED, !answer->refused || !client->may_return);
	if (answer->refused)
		return;
	if (answer->fenced)
	{
		/* A call that arrives once more can move a member on unseen. */
		check(sim, NEVER_FENCED, client->expired || sim->delays);
		client->epoch = STREAM_EPOCH_JOIN;
		memset(&client->owned, 0, sizeof(StreamPartitionSet));
		memset(&client->told, 0, sizeof(StreamPartitionSet));
		return;
	}

	if (client->expired)
		seen[SEEN_ZOMBIE_BACK]++;
	client->expired = false;
	client->may_return = false;
	client->epoch = answer->epoch;
	stream_pset_union(&client->owned, &answer->assigned);
	client->told = answer->revoking;
	stream_pset_intersect(&client->told, &client->owned);
}

/*
 * call has a client make a call.  Nothing goes wrong with it when "safe".
 */
static void
call(Simulation *sim, int place, bool safe)
{
	Client	   *client = &sim->clients[place];
	Random	   *random = &sim->random;
	Answer		answer;

	if (!client->running)
		return;

	if (stream_pset_is_empty(&client->told))
		client->patience = random_below(random, 6);
	else if (safe || client->patience-- <= 0)
	{
		stream_pset_subtract(&client->owned, &client->told);
		memset(&client->told, 0, sizeof(StreamPartitionSet));
	}

	if (!safe && (client->cut || random_chance(random, 8)))
		return;
	if (!safe && sim->delays && client->epoch > 0 && random_chance(random, 2))
	{
		int			slot = sim->ndelayed < MAX_DELAYED ? sim->ndelayed++ :
			(int) random_below(random, MAX_DELAYED);

		sim->delayed[slot] = (Delayed) {place, client->id, client->epoch, client->owned};
	}
	serve(sim, place, client->id, client->epoch, &client->owned, &answer);
	check_all(sim);
	if (!safe && random_chance(random, 6))
		return;
	hear(sim, client, &answer);
	check_all(sim);
}

/*
 * deliver has a delayed call arrive, perhaps not for the last time.  Nobody hears
 * the answer.
 */
static void
deliver(Simulation *sim)
{
	int			slot = random_below(&sim->random, sim->ndelayed);
	Delayed		delayed = sim->delayed[slot];
	Answer		answer;

	if (random_chance(&sim->random, 2))
		sim->delayed[slot] = sim->delayed[--sim->ndelayed];
	serve(sim, delayed.place, delayed.id, delayed.epoch, &delayed.owned, &answer);
	seen[answer.fenced ? SEEN_DELAYED_FENCED : SEEN_DELAYED]++;
	check_all(sim);
}

/*
 * start starts a client that holds nothing, as a member of its own or as the
 * one the client before it was.
 */
static void
start(Simulation *sim, int place, int id)
{
	Client	   *client = &sim->clients[place];
	bool		is_static = client->is_static;
	bool		may_return = client->may_return;

	if (sim->seats[place].id == 0)
	{
		is_static = random_chance(&sim->random, 3);
		may_return = false;
	}
	memset(client, 0, sizeof(Client));
	client->running = true;
	client->id = id;
	client->is_static = is_static;
	client->may_return = may_return;
}

static void
stop(Client *client)
{
	client->running = false;
	memset(&client->owned, 0, sizeof(StreamPartitionSet));
	memset(&client->told, 0, sizeof(StreamPartitionSet));
}

/*
 * happen has something happen to one client.
 */
static void
happen(Simulation *sim)
{
	int			place = random_below(&sim->random, SEATS);
	Client	   *client = &sim->clients[place];
	Seat	   *seat = &sim->seats[place];

	if (!client->running)
	{
		if (seat->id == 0 || client->is_static)
			start(sim, place, ++sim->last_id);
		else
			start(sim, place, client->id);
	}
	else
	{
		bool		member = seat->id == client->id;

		switch (random_below(&sim->random, 5))
		{
			case 0:				/* leaves */
				stop(client);
				if (member)
					remove_member(sim, place);
				break;
			case 1:				/* leaves to return */
				stop(client);
				if (member && client->is_static)
				{
					set_away(sim, place);
					client->may_return = true;
				}
				break;
			case 2:				/* crashes */
				stop(client);
				client->may_return = client->may_return && !member;
				break;
			default:
				client->cut = !client->cut;
		}
	}
	check_all(sim);
}

/*
 * call_all has all clients make a call, in a random order.
 */
static void
call_all(Simulation *sim, bool safe)
{
	int			order[SEATS];

	for (int i = 0; i < SEATS; i++)
	{
		int			j = random_below(&sim->random, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (int i = 0; i < SEATS; i++)
	{
		if (safe || !random_chance(&sim->random, 5))
			call(sim, order[i], safe);
		if (sim->ndelayed > 0 && random_chance(&sim->random, 3))
			deliver(sim);
	}
}

/*
 * expire removes members that have not called for too long.
 */
static void
expire(Simulation *sim)
{
	for (int i = 0; i < SEATS; i++)
	{
		if (sim->seats[i].id != 0 && sim->round - sim->seats[i].heard > SESSION)
		{
			remove_member(sim, i);
			check_all(sim);
		}
	}
}

/*
 * arrived tells whether all work on what they should, and on nothing else.
 */
static bool
arrived(Simulation *sim)
{
	int			working = 0;
	int			clients = 0;

	for (int i = 0; i < SEATS; i++)
	{
		Client	   *client = &sim->clients[i];

		if (client->running &&
			(sim->seats[i].id != client->id || client->epoch == STREAM_EPOCH_JOIN ||
			 !stream_pset_equals(&client->owned, &sim->seats[i].target)))
			return false;
		working += stream_pset_count(&client->owned);
		clients += client->running;
	}
	return clients == 0 || working == sim->partitions;
}

/*
 * settle leaves the group alone: the dead are out, nothing is lost, and all let
 * go when told.  A client that was fenced joins again, which starts the count
 * of rounds anew.
 */
static void
settle(Simulation *sim)
{
	StreamMember *members[SEATS];
	int			places[SEATS];
	int			count;
	int			rounds = 0;
	int			left = 5 * MAX_ROUNDS;	/* in case it never ends */
	StreamGroupState state;

	sim->ndelayed = 0;
	for (int i = 0; i < SEATS; i++)
	{
		sim->clients[i].cut = false;
		if (sim->seats[i].id != 0 && (!sim->clients[i].running ||
									  sim->seats[i].id != sim->clients[i].id))
			remove_member(sim, i);
	}

	do
	{
		int32		epoch = sim->epochs.group_epoch;

		call_all(sim, true);
		rounds = sim->epochs.group_epoch == epoch ? rounds + 1 : 0;
		count = list_members(sim, members, places);
		state = stream_group_state(&sim->epochs, members, count);
	} while (rounds < MAX_ROUNDS && --left > 0 &&
			 !(state != STREAM_GROUP_RECONCILING && arrived(sim)));

	most_rounds = Max(most_rounds, rounds);
	check(sim, GROUP_STATE, (count == 0) == (state == STREAM_GROUP_EMPTY) &&
		  state != STREAM_GROUP_ASSIGNING);
	check(sim, IN_TIME, state != STREAM_GROUP_RECONCILING);
	check(sim, ARRIVED, arrived(sim));
}

static void
run(uint64 seed, bool delays)
{
	static const int sizes[] = {1, 2, 3, 5, 8, 12, 13, 16, 33, 64, 100, 1024};
	static Simulation sim;
	int			calm = 1 + seed % 4;

	memset(&sim, 0, sizeof(sim));
	sim.seed = seed;
	sim.random.state = seed;
	sim.delays = delays;
	sim.partitions = sizes[random_below(&sim.random, lengthof(sizes))];

	for (sim.round = 1; sim.round <= ROUNDS; sim.round++)
	{
		/* Time to get somewhere in some runs, none in others. */
		if (random_chance(&sim.random, calm))
		{
			for (int i = random_below(&sim.random, 3); i >= 0; i--)
				happen(&sim);
		}
		call_all(&sim, false);
		expire(&sim);
		if (sim.round % SETTLE_EVERY == 0)
			settle(&sim);
	}
}

int
main(void)
{
	Random		random = seed_random();

	for (int i = 0; i < RUNS; i++)
		run(random_next(&random), i % 2 == 1);

	for (int i = 0; i < INVARIANTS; i++)
		tap_ok(violations[i] == 0, "%s", invariant_names[i]);
	for (int i = 0; i < EVENTS; i++)
		tap_ok(seen[i] > 0, "%s: %d times", event_names[i], seen[i]);
	tap_note("at most %d rounds until stable", most_rounds);
	return tap_done();
}
