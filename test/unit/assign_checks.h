/*-------------------------------------------------------------------------
 *
 * assign_checks.h
 *		What a target assignment must be.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ASSIGN_CHECKS_H
#define ASSIGN_CHECKS_H

#include "assign.h"

/*
 * balanced tells whether a target leaves nobody more than one partition behind.
 */
static inline bool
balanced(int partitions, int nmembers, const int32 *target)
{
	int			sizes[STREAM_ASSIGN_MAX_MEMBERS] = {0};

	for (int p = 0; p < partitions; p++)
	{
		if (target[p] < 0 || target[p] >= nmembers)
			return false;
		sizes[target[p]]++;
	}
	for (int m = 0; m < nmembers; m++)
	{
		if (sizes[m] != partitions / nmembers &&
			sizes[m] != partitions / nmembers + 1)
			return false;
	}
	return true;
}

/*
 * count_moves gives the partitions that a target takes from who holds them.
 */
static inline int
count_moves(int partitions, StreamMember *const *members, int nmembers,
			const int32 *target)
{
	int			moves = 0;

	for (int m = 0; m < nmembers; m++)
	{
		StreamPartitionSet held;

		stream_member_held(members[m], &held);
		for (int p = 0; p < partitions; p++)
			moves += stream_pset_has(&held, p) && target[p] != m;
	}
	return moves;
}

/*
 * fewest_moves gives the least that a balanced target can take: from each what
 * is above the smaller share, but for one partition each of as many as may have
 * the larger share.
 */
static inline int
fewest_moves(int partitions, StreamMember *const *members, int nmembers)
{
	int			larger = partitions % nmembers;
	int			moves = 0;

	for (int m = 0; m < nmembers; m++)
	{
		StreamPartitionSet held;
		int			above;

		stream_member_held(members[m], &held);
		above = stream_pset_count(&held) - partitions / nmembers;
		if (above > 0)
			moves += above - (larger-- > 0);
	}
	return moves;
}

#endif							/* ASSIGN_CHECKS_H */
