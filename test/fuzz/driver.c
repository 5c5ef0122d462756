/*-------------------------------------------------------------------------
 *
 * driver.c
 *		Runs the fuzz target without libFuzzer.
 *
 *		driver						mutate a seed corpus for STREAM_FUZZ_SECONDS
 *		driver FILE...				run each file once, as to repeat a failure
 *		driver --corpus DIRECTORY	write the seed corpus and stop
 *
 * The seeds are sound inputs of each kind.  Without coverage to guide it, the
 * driver keeps what got far: an input that ends in a sound batch may take the
 * place of another.
 *
 * An input that fails is written to a file before the program ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <fcntl.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "batch.h"
#include "records.h"
#include "reference.h"

#include "fuzz_batch.h"

#define POOL_SIZE		512
#define MAX_INPUT		8192
#define DEFAULT_SECONDS	5

/* A program that has not ended this long after its time hangs. */
#define HANG_SECONDS	60

typedef struct Input
{
	Size		size;
	char		data[MAX_INPUT];
} Input;

static Input inputs[POOL_SIZE];
static Input current;

/* Where the input that fails goes. */
static const char *failure_file = "failed-input";

/*
 * save_current writes the input at work to a file.  Called when the program is
 * about to die: system calls only.
 */
static void
save_current(void)
{
	static const char message[] = "the input that failed is in: ";
	int			file = open(failure_file, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (file < 0 || write(file, current.data, current.size) < 0)
		return;
	close(file);
	if (write(STDERR_FILENO, message, sizeof(message) - 1) < 0 ||
		write(STDERR_FILENO, failure_file, strlen(failure_file)) < 0 ||
		write(STDERR_FILENO, "\n", 1) < 0)
		return;
}

/*
 * handle_signal saves the input on abort (a failed check) and alarm (a hang).
 */
static void
handle_signal(int signal_number)
{
	static const char message[] = "an input takes too long\n";

	if (signal_number == SIGALRM &&
		write(STDERR_FILENO, message, sizeof(message) - 1) < 0)
		_exit(EXIT_FAILURE);
	save_current();
	_exit(EXIT_FAILURE);
}

/*
 * read_setting gives a number from the environment.
 */
static uint64
read_setting(const char *name, uint64 otherwise)
{
	const char *value = getenv(name);

	return value != NULL && *value != '\0' ? strtoull(value, NULL, 0) : otherwise;
}

/*
 * make_seed makes one sound input.  Returns false when it became too large.
 */
static bool
make_seed(Random *random, Input *input)
{
	StreamBatchBuilder builder = {0};
	StreamBatchPrefix taken;
	RecordList	list = {0};
	int			kind = random_below(random, 4);
	int			count = 1 + random_below(random, 12);
	Size		size;

	input->data[0] = kind;
	if (kind == FUZZ_SCRIPT)
	{
		input->size = 20 + random_below(random, 400);
		for (Size i = 1; i < input->size; i++)
			input->data[i] = (char) (random_chance(random, 3) ?
									 random_next(random) : random_below(random, 40));
		return true;
	}

	records_generate(random, count, &list);
	records_append(&builder, &list, 0, count);
	if (kind == FUZZ_DATUM)
	{
		input->data[0] |= random_below(random, 4) << 2;
		size = stream_batch_encode(&builder, builder.len,
								   random_below(random, 2), 1, input->data + 1,
								   MAX_INPUT / 2, &taken);
		input->size = 1 + size;
	}
	else
	{
		int64		gap = builder.last_offset - builder.base_offset - (count - 1);

		/* The kinds of body know only small gaps. */
		size = gap <= PG_UINT8_MAX && builder.len < MAX_INPUT / 2 ? builder.len : 0;
		input->data[1] = (char) (count - 1);
		input->data[2] = (char) gap;
		memcpy(input->data + 3, builder.data, size);
		input->size = 3 + size;
	}

	records_free(&list);
	stream_batch_builder_free(&builder);
	return size > 0;
}

/*
 * mutate changes an input in a few places.
 */
static void
mutate(Random *random, Input *input)
{
	static const unsigned char bytes[] = {0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff};
	int			changes = 1 + random_below(random, 5);

	while (changes-- > 0)
	{
		Size		at = random_chance(random, 4) ?
			random_below(random, Min(input->size, STREAM_BATCH_HEADER_SIZE + 4)) :
			random_below(random, input->size);
		Size		len = 1 + random_below(random, Min(input->size - at, 16));
		char	   *p = input->data + at;

		switch (random_below(random, 8))
		{
			case 0:
				*p ^= 1 << random_below(random, 8);
				break;
			case 1:
				*p += (char) (random_below(random, 9) - 4);
				break;
			case 2:
				*p = (char) bytes[random_below(random, lengthof(bytes))];
				break;
			case 3:
				memset(p, bytes[random_below(random, lengthof(bytes))], len);
				break;
			case 4:				/* take out */
				if (len == input->size)
					break;
				memmove(p, p + len, input->size - at - len);
				input->size -= len;
				break;
			case 5:				/* double */
				if (input->size + len > MAX_INPUT)
					break;
				memmove(p + len, p, input->size - at);
				input->size += len;
				break;
			case 6:				/* copy from elsewhere */
				memmove(p, input->data + random_below(random, input->size - len + 1),
						len);
				break;
			case 7:				/* from another input */
				{
					const Input *other = &inputs[random_below(random, POOL_SIZE)];
					Size		from = random_below(random, other->size);

					memcpy(p, other->data + from, Min(len, other->size - from));
				}
				break;
		}
	}
}

/*
 * run_files runs files given by name.
 */
static int
run_files(int count, char **names)
{
	for (int i = 0; i < count; i++)
	{
		FILE	   *file = fopen(names[i], "rb");

		if (file == NULL)
		{
			perror(names[i]);
			return EXIT_FAILURE;
		}
		current.size = fread(current.data, 1, MAX_INPUT, file);
		fclose(file);
		LLVMFuzzerTestOneInput((const uint8_t *) current.data, current.size);
	}
	printf("%d files, no failure\n", count);
	return EXIT_SUCCESS;
}

/*
 * write_corpus writes the seeds, a file each.
 */
static int
write_corpus(const char *directory)
{
	for (int i = 0; i < POOL_SIZE; i++)
	{
		char		name[MAXPGPATH];
		FILE	   *file;

		snprintf(name, sizeof(name), "%s/seed-%03d", directory, i);
		file = fopen(name, "wb");
		if (file == NULL ||
			fwrite(inputs[i].data, 1, inputs[i].size, file) != inputs[i].size ||
			fclose(file) != 0)
		{
			perror(name);
			return EXIT_FAILURE;
		}
	}
	return EXIT_SUCCESS;
}

/*
 * fuzz mutates inputs until the time is up.
 */
static int
fuzz(Random *random, int seconds)
{
	time_t		deadline = time(NULL) + seconds;

	for (int i = 0; i < POOL_SIZE; i++)
	{
		current = inputs[i];
		LLVMFuzzerTestOneInput((const uint8_t *) current.data, current.size);
	}

	/* The clock costs more than an input does. */
	while (fuzz_counts.inputs % 256 != 0 || time(NULL) < deadline)
	{
		const Input *parent = &inputs[random_below(random, POOL_SIZE)];
		uint64		before = fuzz_counts.sound + fuzz_counts.built;

		current.size = parent->size;
		memcpy(current.data, parent->data, parent->size);
		mutate(random, &current);
		LLVMFuzzerTestOneInput((const uint8_t *) current.data, current.size);

		if (fuzz_counts.sound + fuzz_counts.built > before &&
			random_chance(random, 8))
		{
			Input	   *other = &inputs[random_below(random, POOL_SIZE)];

			/* Of its own kind, so that none takes over. */
			if (((other->data[0] ^ current.data[0]) & FUZZ_KIND_MASK) == 0)
			{
				other->size = current.size;
				memcpy(other->data, current.data, current.size);
			}
		}
	}

	printf("%llu inputs: %llu opened, %llu sound; scripts built %llu batches\n",
		   (unsigned long long) fuzz_counts.inputs,
		   (unsigned long long) fuzz_counts.opened,
		   (unsigned long long) fuzz_counts.sound,
		   (unsigned long long) fuzz_counts.built);

	/* A run that reached nothing shows nothing. */
	if (fuzz_counts.sound < fuzz_counts.inputs / 1000 ||
		fuzz_counts.opened <= fuzz_counts.sound || fuzz_counts.built == 0)
	{
		printf("too few of them got anywhere\n");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
	int			seconds = (int) read_setting("STREAM_FUZZ_SECONDS", DEFAULT_SECONDS);
	uint64		seed = read_setting("STREAM_FUZZ_SEED", (uint64) time(NULL));
	Random		random = {seed};

	if (getenv("STREAM_FUZZ_FAILURE") != NULL)
		failure_file = getenv("STREAM_FUZZ_FAILURE");
	__sanitizer_set_death_callback(save_current);
	signal(SIGABRT, handle_signal);
	signal(SIGALRM, handle_signal);
	alarm(seconds + HANG_SECONDS);

	if (argc > 1 && strcmp(argv[1], "--corpus") != 0)
		return run_files(argc - 1, argv + 1);

	for (int i = 0; i < POOL_SIZE; i++)
	{
		while (!make_seed(&random, &inputs[i]))
			 /* once more */ ;
	}
	if (argc == 3)
		return write_corpus(argv[2]);

	printf("seed %llu, %d seconds; STREAM_FUZZ_SEED and STREAM_FUZZ_SECONDS set others\n",
		   (unsigned long long) seed, seconds);
	return fuzz(&random, seconds);
}
