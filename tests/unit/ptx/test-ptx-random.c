/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs give the same results in src/ptx and in a second interpreter, which was written
 * from the description of the instruction set alone. A difference is reduced to the instructions
 * that matter, and printed with its seed. $DIVVY_PTX_SEED and $DIVVY_PTX_PROGRAMS choose the first
 * program and their number.
 */
#include "ptx-machine.h"

#include "base/cleanup.h"
#include "ptx-generate.h"
#include "ptx-naive.h"

enum { PROGRAMS = 2000, THREADS_MAX = 128, BYTES = THREADS_MAX * GENERATE_RECORD };

static uint8_t expected[BYTES];
static uint8_t *const input = machine.memory, *const output = machine.memory + BYTES;

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

/* Runs the program in both. Returns the first differing byte of the output, or -1. */
static int compare(const char *text, uint32_t threads)
{
	const uint64_t params[2] = {(uint64_t)(uintptr_t)input, (uint64_t)(uintptr_t)output};
	struct ptx *ptx = machine_load(text);
	struct ptx_result result;

	memset(expected, 0, sizeof(expected));
	memset(output, 0, BYTES);
	result = machine_run(ptx, 1, threads, 0, params, sizeof(params));
	ptx_free(ptx);
	if (result.fault)
		fail_msg("%s at line %u\n%s", ptx_fault_name(result.fault), result.line, text);
	naive_run(text, threads, input, expected);
	for (uint32_t i = 0; i < threads * GENERATE_RECORD; i++)
		if (output[i] != expected[i])
			return (int)i;
	return -1;
}

/* Whether a line may be left out: what remains must be a program with valid addresses. */
static bool is_spare(const char *line, const char *end)
{
	static const char *const needed[] = {"ret", "bra", "bar.", "%d8", "%d9", "%d10", "%d13",
		"%d14", "%d15", "%r16", "%r17", "%r18", "%r19", "%r20", "%r22", "%r23", "%r24",
		"%r25", "ld.param", ".reg"};
	bool is_transfer = strncmp(line, "ld.global", 9) == 0 || strncmp(line, "st.global", 9) == 0;

	if (!strchr("@abcdflmnprstvx", *line) || memchr(line, ':', (size_t)(end - line)))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(needed) && !is_transfer; i++)
		if (memmem(line, (size_t)(end - line), needed[i], strlen(needed[i])))
			return false;
	return true;
}

/* Leaves out every line whose absence keeps the difference. */
static void reduce(char *text, uint32_t threads)
{
	static char shorter[GENERATE_TEXT_MAX];
	bool has_changed = true;

	while (has_changed) {
		char *line = strstr(text, ".visible"), *end;

		for (has_changed = false; *line; line = end) {
			end = strchr(line, '\n') + 1;
			if (!is_spare(line, end))
				continue;
			memcpy(shorter, text, (size_t)(line - text));
			stpcpy(shorter + (line - text), end);
			if (compare(shorter, threads) < 0)
				continue;
			stpcpy(text, shorter);
			end = line;
			has_changed = true;
		}
	}
}

static void report(uint64_t seed, char *text, uint32_t threads)
{
	uint32_t thread, offset;
	uint64_t a, b;
	int at;

	reduce(text, threads);
	at = compare(text, threads);
	thread = (uint32_t)at / GENERATE_RECORD;
	offset = (uint32_t)at % GENERATE_RECORD / 8 * 8;
	memcpy(&a, output + thread * GENERATE_RECORD + offset, 8);
	memcpy(&b, expected + thread * GENERATE_RECORD + offset, 8);
	fprintf(stderr,
		"# DIVVY_PTX_SEED=%llu, thread %u of %u, bytes %u: %016llx, not %016llx\n%s",
		(unsigned long long)seed, thread, threads, offset, (unsigned long long)a,
		(unsigned long long)b, strstr(text, "call") ? text : strstr(text, ".visible"));
	fail_msg("the results differ");
}

static void test_random_programs_give_the_same_in_both(void **state)
{
	static char text[GENERATE_TEXT_MAX];
	const uint64_t first = setting("DIVVY_PTX_SEED", 1);
	const uint64_t n = setting("DIVVY_PTX_PROGRAMS", PROGRAMS);

	machine_init();
	machine.device.stack_bytes = 4096; /* less to clear for each program */
	print_message("# programs %llu to %llu\n", (unsigned long long)first,
		(unsigned long long)(first + n - 1));
	for (uint64_t seed = first; seed < first + n; seed++) {
		struct rand rand = rand_seeded(seed);
		uint32_t threads = 32u << rand_below(&rand, 3);

		generate_program(&rand, threads, text);
		generate_input(&rand, threads, input);
		if (compare(text, threads) >= 0)
			report(seed, text, threads);
	}
}

UNIT_MAIN(UNIT(test_random_programs_give_the_same_in_both))
