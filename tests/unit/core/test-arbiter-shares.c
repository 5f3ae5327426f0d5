/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares that the arbiter keeps on a machine in virtual time, as the device executed them: largest
 * errors over sliding windows, use above a limit, busy time at several switch costs, arrivals.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "virtual.h"

#define RUN_NS (30 * SEC)
#define FROM_NS (2 * SEC)

static const struct vm_mix mixes[] = {
	{"30:70", 2, {{"0.3", "1", 300}, {"0.7", "1", 700}}},
	{"10:90", 2, {{"0.1", "1", 100}, {"0.9", "1", 900}}},
	{"50:50", 2, {{"0.5", "1", 500}, {"0.5", "1", 500}}},
	{"25:25:50", 3, {{"0.25", "1", 250}, {"0.25", "1", 250}, {"0.5", "1", 500}}},
	{"0.4..0.7, 0.6..0.8", 2, {{"0.4", "0.7", 400}, {"0.6", "0.8", 600}}},
	{"50:30:20", 3, {{"0.5", "1", 500}, {"0.3", "1", 300}, {"0.2", "1", 200}}},
	{"0.3..0.6, 0.4..0.6", 2, {{"0.3", "0.6", 500}, {"0.4", "0.6", 500}}},
	{"at their limits", 2, {{"0.3", "0.4", 400}, {"0.3", "0.4", 400}}},
	{"alone with a limit", 1, {{"0.3", "0.6", 600}}},
};

static struct vm *run(
	const struct vm_mix *mix, uint64_t kernel_ns, uint64_t switch_ns, uint64_t seed)
{
	struct vm *vm = vm_new(1, switch_ns, seed);

	vm_add_mix(vm, mix, kernel_ns);
	vm_run(vm, RUN_NS);
	return vm;
}

static uint64_t longest(uint64_t kernel_ns)
{
	return kernel_ns ? kernel_ns : 20 * MS;
}

/*
 * Largest error in a window of 1 s, in percentage points. Mixed lengths are random, and a twelfth
 * of these kernels takes 20 ms. All programs wake up later than on a real machine. Therefore mixed
 * lengths may have a slightly larger error.
 */
static double bound_1s(uint64_t kernel_ns)
{
	return kernel_ns ? 3 : 3.25;
}

static void check_mix(
	const struct vm_mix *mix, uint64_t kernel_ns, uint64_t switch_ns, uint64_t seed)
{
	struct vm *vm = run(mix, kernel_ns, switch_ns, seed);

	for (uint32_t i = 0; i < mix->n; i++) {
		uint32_t entitled = mix->program[i].entitled;
		uint64_t limit_ns = (uint64_t)(atof(mix->program[i].limit) * 1e9);
		double e1 = vm_error_pp(vm, i, entitled, 100, FROM_NS, RUN_NS);
		double e10 = vm_error_pp(vm, i, entitled, 1000, FROM_NS, RUN_NS);
		uint64_t most = vm_window_max_ns(vm, i, 100, 0, RUN_NS);

		if (e1 > bound_1s(kernel_ns) || e10 > 1)
			fail_msg("%s, kernels of %g ms, switch %g us, program %u: %.2f points in 1 "
				 "s, %.2f in 10 s",
				mix->name, (double)kernel_ns / 1e6, (double)switch_ns / 1e3, i, e1,
				e10);
		if (most > limit_ns + vm->config.quantum_ns + longest(kernel_ns))
			fail_msg("%s, kernels of %g ms, program %u: %g ms within a second",
				mix->name, (double)kernel_ns / 1e6, i, (double)most / 1e6);
	}
	vm_free(vm);
}

static const uint64_t kernels[] = {20 * US, 1 * MS, 20 * MS, 0};

static void shares_within_bounds_on_a_free_switch(void **state)
{
	for (size_t m = 0; m < ARRAY_SIZE(mixes); m++)
		for (size_t k = 0; k < ARRAY_SIZE(kernels); k++)
			check_mix(&mixes[m], kernels[k], 0, m * 10 + k);
}

static void shares_within_bounds_at_the_usual_switch_cost(void **state)
{
	for (size_t m = 0; m < ARRAY_SIZE(mixes); m++)
		for (size_t k = 0; k < ARRAY_SIZE(kernels); k++)
			check_mix(&mixes[m], kernels[k], 150 * US, 1000 + m * 10 + k);
}

static void the_device_is_busy_at_every_switch_cost(void **state)
{
	static const uint64_t costs[] = {0, 150 * US, 450 * US};

	for (size_t m = 0; m < ARRAY_SIZE(mixes); m++) {
		uint32_t sum = 0;

		for (uint32_t i = 0; i < mixes[m].n; i++)
			sum += mixes[m].program[i].entitled;
		if (sum < 1000)
			continue; /* the tenants' limits leave the device idle */
		for (size_t c = 0; c < ARRAY_SIZE(costs); c++)
			for (size_t k = 0; k < 2; k++) {
				struct vm *vm = run(&mixes[m], kernels[k], costs[c], 77 + m);
				double busy = vm_busy(vm, 0, FROM_NS, RUN_NS);

				if (busy < 0.98)
					fail_msg("%s, kernels of %g ms, switch %g us: busy %.4f",
						mixes[m].name, (double)kernels[k] / 1e6,
						(double)costs[c] / 1e3, busy);
				vm_free(vm);
			}
	}
}

static void shares_follow_arrivals_and_departures(void **state)
{
	static const char *const request[] = {"0.3", "0.4", "0.3"};
	static const char *const limit[] = {"0.6", "0.6", "0.5"};
	static const struct {
		uint32_t program, entitled;
		uint64_t from, until;
	} expected[] = {
		{0, 600, 2, 20},
		{0, 500, 22, 40},
		{1, 500, 22, 40},
		{0, 300, 42, 58},
		{1, 400, 42, 58},
		{2, 300, 42, 58},
	};
	struct vm *vm = vm_new(1, 150 * US, 5);

	vm->n_programs = 3;
	for (uint32_t i = 0; i < 3; i++) {
		vm->program[i].request = request[i];
		vm->program[i].limit = limit[i];
		vm->program[i].kernel_ns = 1 * MS;
		vm->program[i].from_ns = i * 20 * SEC;
		vm->program[i].until_ns = i == 2 ? 60 * SEC : 0;
	}
	vm_run(vm, 69 * SEC);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		double e1 = vm_error_pp(vm, expected[i].program, expected[i].entitled, 100,
			expected[i].from * SEC, expected[i].until * SEC);

		if (e1 > 3)
			fail_msg("program %u from %u s: %.2f points", expected[i].program,
				(unsigned int)expected[i].from, e1);
	}
	/* The third program has ended: the other two share its part at once. */
	assert_true(vm_error_pp(vm, 0, 500, 100, 61 * SEC, 69 * SEC) <= 3);
	assert_true(vm_error_pp(vm, 1, 500, 100, 61 * SEC, 69 * SEC) <= 3);
	vm_free(vm);
}

/* The bounds of the tests above hold for random requests, limits, kernels and arrivals, too. */
static void random_mixes_keep_the_bounds(void **state)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct rand rand = rand_seeded(seed);
		struct vm *vm = vm_new(1, 150 * US, seed);
		char request[VM_PROGRAMS][16];
		uint32_t permille[VM_PROGRAMS], full[VM_PROGRAMS], micro[VM_PROGRAMS];
		uint32_t left = 1000;

		vm->n_programs = 2 + (uint32_t)rand_below(&rand, 2);
		for (uint32_t i = 0; i < vm->n_programs; i++) {
			permille[i] = 50 +
				(uint32_t)rand_below(&rand, left / (vm->n_programs - i) - 50);
			left -= permille[i];
			full[i] = 1000;
			snprintf(request[i], sizeof(request[i]), "0.%03u", permille[i]);
			vm->program[i].request = request[i];
			vm->program[i].kernel_ns = 20 * US << rand_below(&rand, 8);
			vm->program[i].from_ns = rand_below(&rand, 500 * MS);
		}
		arbiter_water_fill(permille, full, vm->n_programs, micro);
		vm_run(vm, RUN_NS);
		for (uint32_t i = 0; i < vm->n_programs; i++) {
			double e1 = vm_error_pp(vm, i, micro[i] / 1000, 100, FROM_NS, RUN_NS);
			double e10 = vm_error_pp(vm, i, micro[i] / 1000, 1000, FROM_NS, RUN_NS);

			if (e1 > 3 || e10 > 1)
				fail_msg("seed %u, program %u of %u at %u: %.2f and %.2f points",
					(unsigned int)seed, i, vm->n_programs, micro[i] / 1000, e1,
					e10);
		}
		vm_free(vm);
	}
}

UNIT_MAIN(UNIT(shares_within_bounds_on_a_free_switch),
	UNIT(shares_within_bounds_at_the_usual_switch_cost),
	UNIT(the_device_is_busy_at_every_switch_cost), UNIT(shares_follow_arrivals_and_departures),
	UNIT(random_mixes_keep_the_bounds))
