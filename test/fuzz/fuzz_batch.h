/*-------------------------------------------------------------------------
 *
 * fuzz_batch.h
 *		What the fuzz target tells its driver.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FUZZ_BATCH_H
#define FUZZ_BATCH_H

/*
 * The first byte of an input says what the others are.
 */
#define FUZZ_KIND_MASK		0x03
#define FUZZ_DATUM			0	/* a batch */
#define FUZZ_BODY			1	/* count and gap, then an uncompressed body */
#define FUZZ_PACKED_BODY	2	/* the same, to be compressed */
#define FUZZ_SCRIPT			3	/* calls that build batches */

#define FUZZ_FIX_CRC		0x04	/* of a datum: make the CRC right */
#define FUZZ_FIX_LENGTH		0x08	/* of a datum: and the raw length */

/* How far the inputs came. */
typedef struct FuzzCounts
{
	uint64		inputs;
	uint64		opened;			/* batches that passed open */
	uint64		sound;			/* and were read to their end */
	uint64		built;			/* batches that scripts built */
} FuzzCounts;

extern FuzzCounts fuzz_counts;

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif							/* FUZZ_BATCH_H */
