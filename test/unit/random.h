/*-------------------------------------------------------------------------
 *
 * random.h
 *		Random numbers that are the same everywhere for the same seed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RANDOM_H
#define RANDOM_H

typedef struct Random
{
	uint64		state;
} Random;

/*
 * random_next gives 64 random bits (the splitmix64 generator).
 */
static inline uint64
random_next(Random *random)
{
	uint64		z = (random->state += UINT64CONST(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/*
 * random_below gives a number from 0 to limit - 1.
 */
static inline uint64
random_below(Random *random, uint64 limit)
{
	return random_next(random) % limit;
}

/*
 * random_chance is true once in "one_in" times.
 */
static inline bool
random_chance(Random *random, uint64 one_in)
{
	return random_below(random, one_in) == 0;
}

#endif							/* RANDOM_H */
