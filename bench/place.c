/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.*: speed of placement, in one thread. A cluster of 8-device nodes of six models is three
 * quarters full. Each decision places a pod, then random tenants terminate. Specs are drawn from
 * 2,000 distinct ones, or are all distinct. The specs request shares, whole devices and fractions
 * of several, CPU, memory of node and device, models, node labels, tolerations, affinity,
 * anti-affinity and exclusion. The time includes that in which a policy learns the workload mix and
 * builds tables.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "place/place-gang.h"
#include "place/place-policy.h"
#include "place/place-preempt.h"
#include "place/place.h"

#define DEVICES 8u
#define SPECS 2000u
#define NODES 10000u

static const char *const models[] = {"A10", "T4", "V100", "A100", "H100", "H200"};
static const uint64_t sizes_gib[] = {24, 16, 32, 80, 80, 141};
#define GIB (1ull << 30)

/* ---- the cluster ---- */

struct cluster {
	struct place *place;
	uint32_t *tenants; /* placed */
	uint32_t n, size;
	uint64_t share, all; /* in 1/1000: allocated share, and share of all devices */
	uint32_t zone[4];
	uint32_t label[3][64]; /* affinity, anti-affinity, exclusion */
	uint64_t taint;
};

static void check(int r, const struct error *err)
{
	if (r < 0)
		bench_die("%s", err->msg);
}

static void add_node(struct cluster *c, uint32_t i)
{
	struct place_device_info device[DEVICES] = {0};
	uint32_t model = i % ARRAY_SIZE(models), node;
	char name[32], rack[32];
	struct error err;
	uint64_t bit;

	check(place_model(c->place, models[model], &bit, &err), &err);
	for (uint32_t d = 0; d < DEVICES; d++)
		device[d] = (struct place_device_info){.model = (uint32_t)__builtin_ctzll(bit),
			.memory_bytes = sizes_gib[model] * GIB,
			.numa = (uint8_t)(d / 4),
			.link = (uint8_t)(d / 2)};
	snprintf(name, sizeof(name), "node-%06u", i);
	snprintf(rack, sizeof(rack), "rack-%u", i / 16);
	check(place_node_add(c->place,
		      &(struct place_node_info){.name = name,
			      .rack = rack,
			      .cpu_milli = i % 3 ? 96000 : 128000,
			      .memory_bytes = (i % 3 ? 384 : 768) * GIB,
			      .taints = i % 10 ? 0 : c->taint,
			      .labels = &c->zone[i % 4],
			      .n_labels = 1,
			      .n_tenants_max = 250,
			      .n_devices = DEVICES,
			      .devices = device},
		      &node, &err),
		&err);
	c->all += DEVICES * 1000u;
}

static void cluster_init(struct cluster *c, const struct place_policy *policy, uint32_t nodes)
{
	static const char *const roles[] = {"affinity", "anti-affinity", "exclusion"};
	char name[32];
	struct error err;

	*c = (struct cluster){0};
	check(place_new(&(struct place_config){.policy = policy}, &c->place, &err), &err);
	check(place_taint(c->place, "spot", &c->taint, &err), &err);
	for (uint32_t z = 0; z < 4; z++) {
		snprintf(name, sizeof(name), "zone=%u", z);
		check(place_label(c->place, "", name, &c->zone[z], &err), &err);
	}
	for (uint32_t role = 0; role < 3; role++)
		for (uint32_t i = 0; i < 64; i++) {
			snprintf(name, sizeof(name), "%s-%u", roles[role], i);
			check(place_label(c->place, "bench", name, &c->label[role][i], &err), &err);
		}
	for (uint32_t i = 0; i < nodes; i++)
		add_node(c, i);
}

static void cluster_done(struct cluster *c)
{
	place_free(c->place);
	free(c->tenants);
}

/* ---- specs ---- */

/*
 * SOME: 2,000 distinct specs. DISTINCT: all specs differ, with shares in steps of 0.01. FINE: all
 * specs differ, with shares in steps of 0.001.
 */
enum variety { SOME, DISTINCT, FINE, N_VARIETIES };
static const uint32_t share_steps[] = {50, 10, 1};

static struct place_spec draw(struct rand *r, const struct cluster *c, enum variety variety)
{
	static const uint32_t counts[] = {1, 1, 1, 1, 1, 2, 2, 4, 8};
	struct place_spec s = PLACE_SPEC_INIT;
	uint32_t kind = (uint32_t)rand_below(r, 100);

	s.share = share_steps[variety] *
		(1 + (uint32_t)rand_below(r, 1000 / share_steps[variety] - 1));
	if (kind < 30) {
		s.share = 1000;
		s.count = counts[rand_below(r, ARRAY_SIZE(counts))];
		s.is_exclusive = kind < 15;
	} else if (kind < 35) {
		s.count = 2;
	}
	s.cpu_milli = (variety ? 500 + (uint32_t)rand_below(r, 11000)
			       : 1000 * (1 + (uint32_t)rand_below(r, 11))) *
		s.count * s.share / 1000;
	s.memory_bytes = (1 + rand_below(r, 40)) * GIB * s.share / 1000;
	if (rand_below(r, 2))
		s.device_bytes = (1 + rand_below(r, 14)) * GIB * s.share / 1000;
	if (rand_below(r, 4) == 0)
		s.models = 3ull << rand_below(r, 5);
	if (rand_below(r, 10) == 0)
		s.near = c->zone[rand_below(r, 4)];
	if (rand_below(r, 2))
		s.tolerations = c->taint;
	kind = (uint32_t)rand_below(r, 100);
	if (kind < 5)
		s.anti_affinity = c->label[1][rand_below(r, 64)];
	else if (kind < 8)
		s.exclusion = c->label[2][rand_below(r, 64)];
	s.priority = (uint32_t)rand_below(r, 101);
	return s;
}

static struct place_spec *draw_many(
	const struct cluster *c, uint32_t n, enum variety variety, uint64_t seed)
{
	struct place_spec *specs = calloc(n, sizeof(*specs));
	struct rand r = rand_seeded(seed);

	if (!specs)
		bench_die("out of memory for %u specs", n);
	for (uint32_t i = 0; i < n; i++)
		specs[i] = draw(&r, c, variety);
	return specs;
}

/* ---- decisions ---- */

static void add_one(
	struct cluster *c, const struct place_spec *spec, const struct place_choice *choice)
{
	uint32_t tenant;
	struct error err;

	check(place_add(c->place, spec, choice, &tenant, &err), &err);
	if (c->n == c->size) {
		c->size = c->size ? 2 * c->size : 1024;
		c->tenants = realloc(c->tenants, c->size * sizeof(*c->tenants));
		if (!c->tenants)
			bench_die("out of memory for tenants");
	}
	c->tenants[c->n++] = tenant;
	c->share += spec->share * spec->count;
}

static bool place_one(struct cluster *c, const struct place_spec *spec)
{
	struct place_choice choice;

	place_note_arrival(c->place, spec);
	if (place_find(c->place, spec, &choice, NULL) < 0)
		return false;
	add_one(c, spec, &choice);
	return true;
}

static void remove_one(struct cluster *c, struct rand *r)
{
	uint32_t at = (uint32_t)rand_below(r, c->n);
	const struct place_tenant *t = place_tenant(c->place, c->tenants[at]);

	c->share -= t->spec.share * t->spec.count;
	place_remove(c->place, c->tenants[at]);
	c->tenants[at] = c->tenants[--c->n];
}

static void fill(struct cluster *c, const struct place_spec *specs, uint32_t n)
{
	uint32_t tries = 0;

	for (uint32_t i = 0; c->share * 4 < c->all * 3 && tries < 1000; i = (i + 1) % n)
		tries = place_one(c, &specs[i]) ? 0 : tries + 1;
}

struct speed {
	uint32_t n;
	double per_s, median_us, p99_us, max_us, refused;
};

/* Decides for some seconds and times each decision, but no removal of tenants. */
static struct speed run(struct cluster *c, const struct place_spec *specs, uint32_t n, double for_s)
{
	enum { TIMES_MAX = 1 << 21 };
	double *times = calloc(TIMES_MAX, sizeof(*times)), sum = 0;
	struct rand r = rand_seeded(7);
	struct speed s = {0};
	size_t done = 0;

	if (!times)
		bench_die("out of memory for times");
	while (done < TIMES_MAX && sum < for_s * 1e9) {
		uint64_t began = clock_now_ns();
		bool is_placed = place_one(c, &specs[done % n]);

		times[done] = (double)(clock_now_ns() - began);
		sum += times[done++];
		s.refused += !is_placed;
		while (c->share * 4 > c->all * 3)
			remove_one(c, &r);
	}
	bench_sort(times, done);
	s.n = (uint32_t)done;
	s.per_s = (double)done / (sum / 1e9);
	s.median_us = bench_quantile(times, done, 0.5) / 1e3;
	s.p99_us = bench_quantile(times, done, 0.99) / 1e3;
	s.max_us = times[done - 1] / 1e3;
	s.refused /= (double)done;
	free(times);
	return s;
}

/*
 * Fills the cluster as first fit does, in negligible time, and reports each arrival to the policy.
 */
static void fill_quickly(
	struct cluster *c, uint32_t nodes, const struct place_spec *specs, uint32_t n)
{
	struct cluster first;

	cluster_init(&first, &place_first_fit, nodes);
	fill(&first, specs, n);
	for (uint32_t i = 0; i < first.n; i++) {
		const struct place_tenant *t = place_tenant(first.place, first.tenants[i]);
		struct place_choice choice = {.node = t->node, .n = t->n};

		memcpy(choice.device, t->device, sizeof(t->device));
		place_note_arrival(c->place, &t->spec);
		add_one(c, &t->spec, &choice);
	}
	cluster_done(&first);
}

static struct speed measure(
	const struct place_policy *policy, uint32_t nodes, enum variety variety, double for_s)
{
	const uint32_t n = variety ? 1u << 20 : SPECS;
	struct place_spec *specs;
	struct cluster c;
	struct speed s;

	cluster_init(&c, policy, nodes);
	specs = draw_many(&c, n, variety, 1);
	fill(&c, specs, n);
	s = run(&c, specs, n, for_s);
	cluster_done(&c);
	free(specs);
	return s;
}

static void speeds(void)
{
	static const struct {
		const char *policy, *goal;
	} of[] = {{"best-fit", ">= 200000"}, {"fgd", ">= 100000"}, {"default", ">= 30000"},
		{"first-fit", ""}};
	static const char *const varieties[] = {
		"2,000 distinct", "only distinct", "only distinct, any permille"};
	static const char *const prefixes[] = {"", "distinct_", "permille_"};
	const double for_s = bench_quick() ? 1 : 4;
	char name[64], detail[128];

	for (size_t i = 0; i < ARRAY_SIZE(of); i++)
		for (int v = 0; v < N_VARIETIES; v++) {
			struct speed sp;

			snprintf(name, sizeof(name), "%s, %s specs", of[i].policy, varieties[v]);
			if (!bench_wants(name))
				continue;
			bench_note("%s", name);
			sp = measure(
				place_policy_find(of[i].policy), NODES, (enum variety)v, for_s);
			snprintf(detail, sizeof(detail),
				"%u nodes, %s specs; p99 %.0f us, longest %.0f us, %.1f %% refused",
				NODES, varieties[v], sp.p99_us, sp.max_us, 100 * sp.refused);
			snprintf(name, sizeof(name), "place.%s.%sper_s", of[i].policy, prefixes[v]);
			bench_metric(name, sp.per_s, "1/s", v < FINE ? of[i].goal : "", 1, false,
				detail);
			if (v || strcmp(of[i].policy, "default"))
				continue;
			bench_metric("place.p99_us", sp.p99_us, "us", "<= 1000", 1, false, detail);
		}
}

static void curve(void)
{
	static const uint32_t nodes[] = {10, 100, 1000, 10000, 100000};
	const struct place_policy *policy = place_policy_find("default");
	char name[64], detail[160];

	for (size_t i = 0; i < ARRAY_SIZE(nodes) - bench_quick(); i++) {
		struct place_spec *specs;
		struct cluster c;
		struct speed s;
		uint32_t tenants;

		snprintf(name, sizeof(name), "default, %u nodes", nodes[i]);
		if (!bench_wants(name))
			continue;
		bench_note("%s", name);
		cluster_init(&c, policy, nodes[i]);
		specs = draw_many(&c, SPECS, SOME, 1);
		fill_quickly(&c, nodes[i], specs, SPECS);
		/*
		 * Runs until the learnt workload mix is complete again; the policy rebuilds its
		 * tables then.
		 */
		s = run(&c, specs, SPECS, bench_quick() ? 1 : nodes[i] > NODES ? 40 : 4);
		tenants = c.n;
		cluster_done(&c);
		free(specs);
		snprintf(name, sizeof(name), "place.default.us_at_%u", nodes[i]);
		snprintf(detail, sizeof(detail),
			"%u tenants, mean of %u decisions; median %.2f us, p99 %.0f us, longest "
			"%.0f us (its tables)",
			tenants, s.n, s.median_us, s.p99_us, s.max_us);
		bench_metric(name, 1e6 / s.per_s, "us", "", 1, false, detail);
	}
}

/* ---- a state read back ---- */

static double rss_mib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}

static void rebuild(void)
{
	const uint32_t n = 200000;
	struct place_spec spec = PLACE_SPEC_INIT;
	uint64_t began = clock_now_ns();
	struct cluster c;

	bench_note("rebuild");
	cluster_init(&c, place_policy_find("default"), NODES);
	spec.cpu_milli = 1000;
	spec.memory_bytes = GIB;
	for (uint32_t i = 0; i < n; i++) {
		struct place_choice choice = {.node = i % NODES, .n = 1};
		struct error err;
		uint32_t tenant;

		spec.share = 50 + i % 7 * 40;
		spec.tolerations = c.taint;
		spec.anti_affinity = i % 20 ? 0 : c.label[1][i / 20 % 61];
		choice.device[0] = choice.node * DEVICES + i / NODES % DEVICES;
		check(place_restore(c.place, &spec, &choice, NULL, &tenant, &err), &err);
	}
	/* Counts the first decision, which builds the tables. */
	place_one(&c, &spec);
	bench_metric("place.rebuild_s", (double)(clock_now_ns() - began) / 1e9, "s", "<= 2", 1,
		false, "10,000 nodes, 200,000 tenants, the first decision");
	cluster_done(&c);
}

/* ---- groups and victims ---- */

static double median_ms(double *ms, size_t n, double *ret_most)
{
	bench_sort(ms, n);
	*ret_most = ms[n - 1];
	return bench_median(ms, n);
}

/* Places a gang of 1,024 in free capacity, or with `rules` by preemption; rolls back each time. */
static void gangs(struct cluster *c, const struct place_preempt *rules)
{
	enum { SIZE = 1024 };
	const uint32_t times = rules ? 1 : 9;
	struct place_spec *members = calloc(SIZE, sizeof(*members));
	double ms[9], most;
	char detail[96];

	if (!members)
		bench_die("out of memory for a gang");
	for (uint32_t i = 0; i < SIZE; i++) {
		members[i] = PLACE_SPEC_INIT;
		members[i].share = rules ? 1000 : 300;
		members[i].group = 1;
		members[i].cpu_milli = 1000;
		members[i].memory_bytes = GIB;
		members[i].tolerations = c->taint;
	}
	for (uint32_t k = 0; k < times; k++) {
		const struct place_gang gang = {
			.members = members, .n = SIZE, .threshold = 1000, .preempt = rules};
		uint32_t mark = place_savepoint(c->place);
		struct place_group group;
		struct error err;
		uint64_t began = clock_now_ns();

		check(place_gang_add(c->place, &gang, &group, &err), &err);
		ms[k] = (double)(clock_now_ns() - began) / 1e6;
		place_group_done(&group);
		place_rollback(c->place, mark);
		place_release(c->place);
	}
	free(members);
	ms[0] = median_ms(ms, times, &most);
	snprintf(detail, sizeof(detail), "%u members of %s, most %.1f ms", SIZE,
		rules ? "1, others leave for each" : "0.3", most);
	bench_metric(rules ? "place.gang1024_preempt_ms" : "place.gang1024_ms", ms[0], "ms",
		rules ? "" : "<= 50", times, false, detail);
}

/* Requests whole devices, or CPU, that only preemption makes free. */
static void victims(struct cluster *c, bool is_for_cpu)
{
	enum { TIMES = 101 };
	const struct place_preempt rules = {0};
	struct place_spec spec = PLACE_SPEC_INIT;
	double ms[TIMES], most;
	uint32_t found = 0;
	char detail[96];

	spec.share = 1000;
	spec.priority = 100;
	spec.cpu_milli = 8000;
	spec.tolerations = c->taint;
	for (uint32_t k = 0; k < TIMES; k++) {
		struct place_plan plan;
		uint64_t began;

		spec.count = 1u << k % 4;
		spec.models = k % 3 ? 0 : 1ull << k % 6;
		spec.is_exclusive = k % 2;
		if (is_for_cpu) {
			spec.count = 1;
			spec.share = 10;
			spec.is_exclusive = false;
			spec.cpu_milli = 8000 + 400 * k;
		}
		began = clock_now_ns();
		if (place_preempt_find(c->place, &spec, &rules, &plan, NULL) == 0) {
			found += plan.n_victims != 0;
			place_plan_done(&plan);
		}
		ms[k] = (double)(clock_now_ns() - began) / 1e6;
	}
	ms[0] = median_ms(ms, TIMES, &most);
	snprintf(detail, sizeof(detail), "%u tenants, %u of %u with victims, most %.1f ms", c->n,
		found, TIMES, most);
	bench_metric(is_for_cpu ? "place.preempt_cpu_ms" : "place.preempt_ms", ms[0], "ms", "<= 5",
		TIMES, false, detail);
}

/* Puts tenants on each device, 200,000 tenants in all. */
static void occupy(struct cluster *c)
{
	struct place_spec small = PLACE_SPEC_INIT;

	small.share = 90;
	small.tolerations = c->taint;
	for (uint32_t d = 0; c->n < 200000; d = (d + 1) % (NODES * DEVICES)) {
		struct place_choice choice = {.node = d / DEVICES, .n = 1, .device = {d}};
		uint32_t tenant;

		small.priority = c->n % 100;
		if (place_add(c->place, &small, &choice, &tenant, NULL) == 0)
			c->n++; /* from here on c->tenants is not used */
	}
}

/* Adds tenants without a device until no node has 8 free cores. */
static void use_cpu(struct cluster *c)
{
	struct place_spec spec = PLACE_SPEC_INIT;

	spec.count = 0;
	spec.cpu_milli = 8000;
	spec.tolerations = c->taint;
	for (uint32_t node = 0; node < NODES; node++) {
		const struct place_choice choice = {.node = node};
		uint32_t tenant;

		do
			spec.priority = c->n++ % 100;
		while (place_add(c->place, &spec, &choice, &tenant, NULL) == 0);
	}
}

static void groups(void)
{
	struct place_spec *specs;
	struct cluster c;

	bench_note("gangs and victims");
	cluster_init(&c, place_policy_find("default"), NODES);
	specs = draw_many(&c, SPECS, SOME, 1);
	fill(&c, specs, SPECS);
	gangs(&c, NULL);
	occupy(&c);
	victims(&c, false);
	gangs(&c, &(struct place_preempt){0});
	use_cpu(&c);
	victims(&c, true);
	cluster_done(&c);
	free(specs);
}

int main(int argc, char **argv)
{
	bench_init("place", argc, argv);
	if (bench_wants("gangs and victims"))
		groups();
	rebuild();
	speeds();
	bench_metric("place.rss_mib", rss_mib(), "MiB", "<= 400", 1, false,
		"the most of all runs at 10,000 nodes");
	curve();
	return bench_done();
}
