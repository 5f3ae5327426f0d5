/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter on a busy host in virtual time: programs wake up late, as beside an endless loop on
 * each processor. Shares hold over 10 s and the device stays busy. Quiet hosts and latency tenants
 * see no wider window. A tenant gets back the time of a short absence.
 */
#include "unit.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "virtual.h"

#define RUN_NS (30 * SEC)
#define FROM_NS (2 * SEC)
#define SWITCH_NS (150 * US)

static const struct vm_mix mixes[] = {
	{"30:70", 2, {{"0.3", "1", 300}, {"0.7", "1", 700}}},
	{"10:90", 2, {{"0.1", "1", 100}, {"0.9", "1", 900}}},
	{"25:25:50", 3, {{"0.25", "1", 250}, {"0.25", "1", 250}, {"0.5", "1", 500}}},
	{"0.4..0.7, 0.6..0.8", 2, {{"0.4", "0.7", 400}, {"0.6", "0.8", 600}}},
	{"0.2..0.3, 0.3..0.5, 0.1..1", 3,
		{{"0.2", "0.3", 300}, {"0.3", "0.5", 350}, {"0.1", "1", 350}}},
};

static const uint64_t kernels[] = {20 * US, 500 * US, 0 /* mixed */};

static struct vm *run(const struct vm_mix *mix, uint64_t kernel_ns, uint64_t host_late_ns)
{
	struct vm *vm = vm_new(1, SWITCH_NS, 7);

	vm->host_late_ns = host_late_ns;
	vm_add_mix(vm, mix, kernel_ns);
	vm_run(vm, RUN_NS);
	return vm;
}

/* The fraction of the time that the device spent neither running a kernel nor switching. */
static double idle_part(const struct vm *vm)
{
	return 1 - vm_busy(vm, 0, FROM_NS, RUN_NS) -
		(double)(vm->device[0].switches * SWITCH_NS) / (double)RUN_NS;
}

/*
 * On a processor that runs an endless loop, a program wakes up at most one time slice of the Linux
 * scheduler late, about 3 ms. Shares must hold with this delay.
 */
static void shares_hold_beside_endless_loops(void **state)
{
	for (size_t m = 0; m < ARRAY_SIZE(mixes); m++) {
		for (size_t k = 0; k < ARRAY_SIZE(kernels); k++) {
			const struct vm_mix *mix = &mixes[m];
			struct vm *vm = run(mix, kernels[k], 3 * MS);
			double idle = idle_part(vm);

			for (uint32_t i = 0; i < mix->n; i++) {
				double e10 = vm_error_pp(
					vm, i, mix->program[i].entitled, 1000, FROM_NS, RUN_NS);

				if (e10 > 3 || idle > 0.03)
					fail_msg("%s, kernels of %g ms, program %u: %.2f points in "
						 "10 s, idle %.4f",
						mix->name, (double)kernels[k] / 1e6, i, e10, idle);
			}
			vm_free(vm);
		}
	}
}

static uint32_t widest_us(const char *class, uint64_t host_late_ns)
{
	struct vm *vm = vm_new(1, SWITCH_NS, 3);
	uint32_t widest;

	vm->host_late_ns = host_late_ns;
	vm->n_programs = 3;
	for (uint32_t i = 0; i < 2; i++) {
		vm->program[i].request = "0.4";
		vm->program[i].kernel_ns = 500 * US;
	}
	vm->program[2].request = "0.1";
	vm->program[2].class = class;
	vm->program[2].pattern = VM_POISSON;
	vm->program[2].kernel_ns = 500 * US;
	vm->program[2].busy_ns = 2 * MS;
	vm->program[2].period_ns = 5 * SEC;
	vm_run(vm, 20 * SEC);
	widest = MAX(vm->program[0].on[0].widest_us, vm->program[1].on[0].widest_us);
	vm_free(vm);
	return widest;
}

static void the_window_is_wider_only_on_a_busy_host(void **state)
{
	struct arbiter_config config;

	arbiter_config_init(&config);
	assert_int_equal(widest_us(NULL, 0), config.window_us);
	assert_true(widest_us(NULL, 6 * MS) > 2 * config.window_us);
	/*
	 * The window stays narrow beside a latency tenant, which has to wait for other tenants'
	 * work in flight.
	 */
	assert_int_equal(widest_us("latency", 6 * MS), config.window_us);
}

struct pair {
	struct arbiter *arbiter;
	struct arbiter_action action[16];
	uint64_t now, next;
};

static void pair_step(struct pair *pair, uint64_t later_ns)
{
	size_t n;

	pair->now += later_ns;
	do {
		n = arbiter_step(pair->arbiter, pair->now, pair->action, 16, &pair->next);
		for (size_t i = 0; i < n; i++)
			if (pair->action[i].type == ARBITER_CLOSE)
				arbiter_drained(pair->arbiter, pair->action[i].tenant, 0, pair->now,
					pair->now);
	} while (n);
}

static int64_t pair_lag_ns(struct pair *pair, arbiter_id id)
{
	struct arbiter_usage usage;

	assert_ok(arbiter_usage_get(pair->arbiter, id, 0, pair->now, &usage));
	return usage.lag_ns;
}

/*
 * How much the lag of tenant 1, whose request is 0.6, grows while tenant 1 has no work for away_ns.
 */
static int64_t credit_after(uint64_t away_ns)
{
	struct pair pair = {.now = SEC};
	struct arbiter_config config;
	struct spec spec;
	int64_t before;

	arbiter_config_init(&config);
	assert_ok(arbiter_new(&config, 1, &pair.arbiter, NULL));
	for (arbiter_id id = 1; id <= 2; id++) {
		spec_init(&spec);
		assert_ok(spec_set(&spec, "request", id == 1 ? "0.6" : "0.4", NULL));
		assert_ok(spec_finish(&spec, NULL));
		assert_ok(arbiter_add(pair.arbiter, id, &spec, 1, pair.now, NULL));
		arbiter_want(pair.arbiter, id, 0, true, pair.now);
	}
	pair_step(&pair, 0);
	arbiter_observe(pair.arbiter, 1, 0, true, MS, 0, pair.now);
	pair_step(&pair, 10 * MS);
	arbiter_observe(pair.arbiter, 1, 0, false, MS, 0, pair.now);
	pair_step(&pair, 500 * US); /* tenant 1 is idle: tenant 2 gets the token */
	before = pair_lag_ns(&pair, 1);
	for (uint64_t gone_ns = 0; gone_ns < away_ns; gone_ns += MS) {
		arbiter_observe(pair.arbiter, 2, 0, true, MS, 0, pair.now);
		pair_step(&pair, MS);
	}
	arbiter_want(pair.arbiter, 1, 0, true, pair.now);
	before = pair_lag_ns(&pair, 1) - before;
	arbiter_free(pair.arbiter);
	return before;
}

/*
 * The device runs dry between this program's bursts. A tenant that is alone on its device loses
 * nothing by that, so the arbiter does not widen its in-flight window.
 */
static void the_window_of_a_lone_tenant_stays(void **state)
{
	struct vm *vm = vm_new(1, SWITCH_NS, 3);
	struct arbiter_config config;

	arbiter_config_init(&config);
	vm->n_programs = 1;
	vm->program[0].request = vm->program[0].limit = "0.3";
	vm->program[0].pattern = VM_DUTY;
	vm->program[0].kernel_ns = vm->program[0].busy_ns = 1 * MS;
	vm->program[0].period_ns = 2 * MS;
	vm_run(vm, 5 * SEC);
	assert_true(vm->grants > 10); /* the tenant reaches its limit */
	assert_int_equal(vm->program[0].on[0].widest_us, config.window_us);
	vm_free(vm);
}

static void a_short_absence_gives_credit(void **state)
{
	/* The credit is 0.6 of the time that tenant 2 used. */
	assert_in_range(credit_after(20 * MS), 11 * MS, 13 * MS);
	assert_in_range(credit_after(90 * MS), 53 * MS, 55 * MS);
	/* A longer absence gives no credit. */
	assert_true(credit_after(150 * MS) <= (int64_t)(2 * MS));
}

/* Tenant 1 has work for 25 ms of each 50 ms; tenant 2 always has work. */
static void absences_give_credit_only_once(void **state)
{
	struct pair pair = {.now = SEC};
	struct arbiter_config config;
	struct spec spec;

	arbiter_config_init(&config);
	assert_ok(arbiter_new(&config, 1, &pair.arbiter, NULL));
	for (arbiter_id id = 1; id <= 2; id++) {
		spec_init(&spec);
		assert_ok(spec_set(&spec, "request", "0.5", NULL));
		assert_ok(spec_finish(&spec, NULL));
		assert_ok(arbiter_add(pair.arbiter, id, &spec, 1, pair.now, NULL));
	}
	arbiter_want(pair.arbiter, 2, 0, true, pair.now);
	for (int i = 0; i < 400; i++) {
		arbiter_want(pair.arbiter, 1, 0, true, pair.now);
		for (int ms = 0; ms < 50; ms++) {
			arbiter_observe(pair.arbiter, 1, 0, ms < 25, MS, 0, pair.now);
			arbiter_observe(pair.arbiter, 2, 0, true, MS, 0, pair.now);
			arbiter_want(pair.arbiter, 2, 0, true, pair.now);
			pair_step(&pair, MS);
		}
	}
	/* No tenant's lag exceeds the credit of one absence. */
	assert_true(pair_lag_ns(&pair, 1) < (int64_t)(150 * MS));
	assert_true(pair_lag_ns(&pair, 2) > -(int64_t)(150 * MS));
	arbiter_free(pair.arbiter);
}

UNIT_MAIN(UNIT(absences_give_credit_only_once), UNIT(shares_hold_beside_endless_loops),
	UNIT(the_window_is_wider_only_on_a_busy_host), UNIT(the_window_of_a_lone_tenant_stays),
	UNIT(a_short_absence_gives_credit))
