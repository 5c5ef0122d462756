/*-------------------------------------------------------------------------
 *
 * seed.h
 *		The seed of a test program.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SEED_H
#define SEED_H

#include "random.h"
#include "tap.h"

/*
 * seed_random starts the random numbers from STREAM_TEST_SEED, or from a fixed
 * seed, and prints it.
 */
static inline Random
seed_random(void)
{
	const char *seed = getenv("STREAM_TEST_SEED");
	Random		random = {20240229};

	if (seed != NULL && *seed != '\0')
		random.state = strtoull(seed, NULL, 0);
	tap_note("seed %llu; STREAM_TEST_SEED sets another",
			 (unsigned long long) random.state);
	return random;
}

#endif							/* SEED_H */
