/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the arbiter on any sequence of events for two devices, also events that did not happen.
 * Checks: the arbiter opens only closed gates and closes only open ones. Two gates are open on a
 * device only for co-runners or while one drains. Charged time never exceeds the time that passed.
 * Once only true events follow, every waiting tenant's gate opens.
 */
#include <string.h>

#include "core/arbiter-internal.h"
#include "fuzz.h"

#define TENANTS 6
#define DEVICES 2
#define US 1000ull
#define MS 1000000ull

struct world {
	struct arbiter *arbiter;
	uint64_t now, next, start;
	bool is_there[TENANTS + 1];
	uint64_t devices[TENANTS + 1];
	uint32_t request[TENANTS + 1];
	/*
	 * True for opportunistic tenants, because other tenants may use all time, and for tenants
	 * with a limit below 1, whose debt may last for minutes.
	 */
	bool may_starve[TENANTS + 1];
	bool is_open[TENANTS + 1][DEVICES], drains[TENANTS + 1][DEVICES];
	uint64_t used[DEVICES]; /* time that removed tenants have used */
};

static void check_holders(struct world *world)
{
	for (uint32_t d = 0; d < DEVICES; d++) {
		uint32_t exclusive = 0, open = 0;

		for (arbiter_id id = 1; id <= TENANTS; id++) {
			struct arbiter_usage usage;

			if (!world->is_there[id] ||
				arbiter_usage_get(world->arbiter, id, d, world->now, &usage) < 0)
				continue;
			FUZZ_CHECK(usage.holds == world->is_open[id][d]);
			open += usage.holds;
			exclusive += usage.holds && !usage.corun;
			FUZZ_CHECK(usage.entitlement <= SPEC_SHARE_ONE);
			FUZZ_CHECK(usage.window_used_ns <= ARBITER_WINDOW_NS + ARBITER_BUCKET_NS);
			FUZZ_CHECK(usage.lag_ns <= (int64_t)ARBITER_WINDOW_NS);
		}
		/* One tenant has the token; others run beside it only as declared co-runners. */
		FUZZ_CHECK(exclusive <= 1);
		FUZZ_CHECK(open <= TENANTS);
	}
}

static void check_sums(struct world *world)
{
	for (uint32_t d = 0; d < DEVICES; d++) {
		uint64_t sum = world->used[d];

		for (arbiter_id id = 1; id <= TENANTS; id++) {
			struct arbiter_usage usage;

			if (world->is_there[id] &&
				arbiter_usage_get(world->arbiter, id, d, world->now, &usage) == 0)
				sum += usage.used_ns;
		}
		FUZZ_CHECK(sum <= world->now - world->start);
	}
}

static void act(struct world *world)
{
	struct arbiter_action action[4];
	uint32_t rounds = 0;
	size_t n;

	do {
		n = arbiter_step(world->arbiter, world->now, action, 4, &world->next);
		for (size_t i = 0; i < n; i++) {
			arbiter_id id = action[i].tenant;
			uint32_t d = action[i].device;

			FUZZ_CHECK(id >= 1 && id <= TENANTS && d < DEVICES && world->is_there[id]);
			FUZZ_CHECK(world->devices[id] >> d & 1);
			switch (action[i].type) {
			case ARBITER_OPEN:
				FUZZ_CHECK(!world->is_open[id][d]);
				world->is_open[id][d] = true;
				world->drains[id][d] = false;
				break;
			case ARBITER_CLOSE:
				FUZZ_CHECK(world->is_open[id][d]);
				world->is_open[id][d] = false;
				world->drains[id][d] = true;
				break;
			case ARBITER_WINDOW: FUZZ_CHECK(world->is_open[id][d]); break;
			}
		}
		FUZZ_CHECK(++rounds < 1000);
	} while (n);
}

static uint32_t requested(const struct world *world, uint32_t device)
{
	uint32_t sum = 0;

	for (arbiter_id id = 1; id <= TENANTS; id++)
		if (world->is_there[id] && world->devices[id] >> device & 1)
			sum += world->request[id];
	return sum;
}

static struct spec spec_of(uint8_t how)
{
	static const char *const requests[] = {"0.1", "0.3", "0.5", "0.9"};
	static const char *const classes[] = {"standard", "latency", "opportunistic", "standard"};
	struct spec spec;

	spec_init(&spec);
	spec_set(&spec, "request", requests[how & 3], NULL);
	spec_set(&spec, "class", classes[how >> 2 & 3], NULL);
	if (how & 16)
		spec_set(&spec, "limit", requests[how & 3], NULL);
	FUZZ_CHECK(spec_finish(&spec, NULL) == 0);
	return spec;
}

static void add_tenant(struct world *world, arbiter_id id, uint8_t how)
{
	struct spec spec;

	if (world->is_there[id])
		return;
	spec = spec_of(how);
	/* requests never exceed a device: admission would refuse the spec */
	for (uint32_t d = 0; d < DEVICES; d++)
		if ((1 + (how >> 5) % 3) >> d & 1 &&
			requested(world, d) + spec.request > SPEC_SHARE_ONE)
			return;
	world->devices[id] = 1 + (how >> 5) % 3;
	FUZZ_CHECK(
		arbiter_add(world->arbiter, id, &spec, world->devices[id], world->now, NULL) == 0);
	world->is_there[id] = true;
	world->request[id] = spec.request;
	world->may_starve[id] = spec.class == SPEC_OPPORTUNISTIC || spec.limit < SPEC_SHARE_ONE;
}

static void remove_tenant(struct world *world, arbiter_id id)
{
	for (uint32_t d = 0; d < DEVICES; d++) {
		struct arbiter_usage usage;

		if (arbiter_usage_get(world->arbiter, id, d, world->now, &usage) == 0)
			world->used[d] += usage.used_ns;
		world->is_open[id][d] = world->drains[id][d] = false;
	}
	arbiter_remove(world->arbiter, id, world->now);
	world->is_there[id] = false;
}

/* Changes class and limit of a tenant, but not its request. */
static void change_tenant(struct world *world, arbiter_id id, uint8_t how)
{
	struct spec spec = spec_of(how);

	if (!world->is_there[id])
		return;
	spec.request = world->request[id];
	spec.limit = MAX(spec.limit, spec.request);
	FUZZ_CHECK(arbiter_change(world->arbiter, id, &spec, world->now, NULL) == 0);
	world->may_starve[id] = spec.class == SPEC_OPPORTUNISTIC || spec.limit < SPEC_SHARE_ONE;
}

static void event(struct world *world, uint8_t what, uint8_t value)
{
	arbiter_id id = 1 + (what >> 4) % TENANTS;
	uint32_t d = what >> 3 & 1;

	switch (what & 7) {
	case 0: arbiter_want(world->arbiter, id, d, value & 1, world->now); break;
	case 1:
		arbiter_observe(world->arbiter, id, d, value & 1, (value >> 1) * 300 * US,
			(value & 0xf) * 500 * US, world->now);
		if (value & 2)
			arbiter_observe_at(world->arbiter, id, d,
				world->now - MIN(world->now, (value & 0xfu) * 200 * US),
				world->now);
		break;
	case 2:
		if (value < 128)
			arbiter_release(world->arbiter, id, d, world->now);
		else if (value < 192)
			arbiter_yield(world->arbiter, id, d);
		else
			arbiter_late(world->arbiter, id, d, (value & 63) * 50 * US);
		break;
	case 3:
		if (value < 224)
			arbiter_draining(world->arbiter, id, d, value * 50 * US, 0, world->now);
		else
			arbiter_drain_seen(world->arbiter, id, d, value & 1, value & 2, world->now);
		break;
	case 4:
		arbiter_drained(world->arbiter, id, d, world->now - value * 10 * US, world->now);
		world->drains[id][d] = false;
		break;
	case 5: add_tenant(world, id, value); break;
	case 6:
		if (value < 32)
			remove_tenant(world, id);
		else if (value < 64)
			change_tenant(world, id, value);
		break;
	default: world->now += (uint64_t)value * value * 10 * US;
	}
}

/* Sends true events only: short work, prompt drains. No tenant may wait for ever. */
static void settle(struct world *world)
{
	bool was_open[TENANTS + 1][DEVICES] = {{false}};

	for (uint32_t i = 0; i < 60000; i++) {
		bool all = true;

		for (arbiter_id id = 1; id <= TENANTS; id++) {
			for (uint32_t d = 0; world->is_there[id] && d < DEVICES; d++) {
				if (!(world->devices[id] >> d & 1))
					continue;
				was_open[id][d] |= world->is_open[id][d];
				all &= was_open[id][d] || world->may_starve[id];
				if (world->drains[id][d]) {
					world->drains[id][d] = false;
					arbiter_drained(
						world->arbiter, id, d, world->now, world->now);
				}
				if (world->is_open[id][d]) /* busy for 10 ms, then idle for 10 ms */
					arbiter_observe(world->arbiter, id, d, i / 10 % 2 == 0, MS,
						0, world->now);
				else
					arbiter_want(world->arbiter, id, d, true, world->now);
			}
		}
		if (all)
			return;
		act(world);
		check_holders(world);
		world->now += MS;
	}
	__builtin_trap(); /* a tenant has waited for a minute of virtual time */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct world world = {.now = 1000 * MS, .start = 1000 * MS};
	struct arbiter_config config;
	bool someone = false;

	arbiter_config_init(&config);
	if (arbiter_new(&config, DEVICES, &world.arbiter, NULL) < 0)
		return 0;
	for (size_t i = 0; i + 1 < n && i < 4096; i += 2) {
		event(&world, data[i], data[i + 1]);
		if (data[i] & 1) {
			act(&world);
			check_holders(&world);
			check_sums(&world);
		}
	}
	act(&world);
	for (arbiter_id id = 1; id <= TENANTS; id++)
		someone |= world.is_there[id];
	world.start = world.now;
	memset(world.used, 0, sizeof(world.used));
	if (someone)
		settle(&world);
	arbiter_free(world.arbiter);
	return 0;
}
