/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of the devices is free, and why some tasks that stand for all cannot have it: kept for each
 * node, and counted again for those that have changed.
 */
#include <errno.h>
#include <stdlib.h>

#include "place/place-mix.h"
#include "replay/replay-internal.h"

#define KINDS 32u /* tasks that stand for all */
#define REASONS (METRICS_OPEN - METRICS_NO_CPU + 1)

struct tally {
	uint64_t free[REASONS]; /* permille of devices, of all kinds together */
	uint64_t fragmented;    /* times the mix's weights */
};

struct idle_node {
	uint64_t version; /* +1; 0: to be counted again */
	struct tally tally;
};

struct idle {
	uint32_t kinds[KINDS]; /* tasks */
	uint32_t n_kinds;
	bool looks_around; /* what a kind may have of a node depends on others as well */
	bool is_stale;     /* then only nodes that have changed were counted since all were */
	uint32_t point;    /* of the curves, when last looked at, +1 */
	struct tally sum;
	struct idle_node *nodes;
};

/* Some of the tasks that want devices, at even distances. */
static void choose_kinds(struct idle *idle, const struct run *run)
{
	const struct workload *w = run->in->workload;
	uint32_t n = 0, seen = 0;

	for (uint32_t i = 0; i < w->n; i++)
		n += w->tasks[i].spec.count > 0 && run_counts(run, i);
	for (uint32_t i = 0; i < w->n && n; i++) {
		if (!w->tasks[i].spec.count || !run_counts(run, i))
			continue;
		if (seen++ * (uint64_t)MIN(n, KINDS) / n >= idle->n_kinds) {
			idle->looks_around |= run->specs[i].affinity || run->specs[i].queue;
			idle->kinds[idle->n_kinds++] = i;
		}
	}
}

int idle_start(struct run *run)
{
	struct idle *idle = calloc(1, sizeof(*idle));

	run->idle = idle;
	if (idle)
		idle->nodes = calloc(place_n_nodes(run->place), sizeof(*idle->nodes));
	if (!idle || !idle->nodes)
		return -ENOMEM;
	choose_kinds(idle, run);
	return 0;
}

void idle_stop(struct run *run)
{
	if (run->idle)
		free(run->idle->nodes);
	free(run->idle);
}

void idle_forget(struct run *run, uint32_t device)
{
	if (run->idle)
		run->idle->nodes[run->devices[device].node].version = 0;
}

/*
 * Not as the engine counts it: without limits those are hundredths, or memory, and what somebody
 * has who waits for others to go is given to nobody yet.
 */
static uint16_t share_free(const struct run *run, uint32_t device)
{
	return (uint16_t)(SPEC_SHARE_ONE - MIN(run->devices[device].given, SPEC_SHARE_ONE));
}

static enum metrics_series series_of(
	enum place_reason reason, const struct place_device_view *d, const struct place_spec *spec)
{
	if (reason == PLACE_NO_CPU || reason == PLACE_NO_MEMORY)
		return METRICS_NO_CPU;
	if (reason == PLACE_FITS && d->share_free >= spec->share)
		return METRICS_OPEN;
	return reason == PLACE_FITS || reason == PLACE_NO_SHARE ? METRICS_TOO_SMALL : METRICS_OTHER;
}

static struct tally count(const struct run *run, uint32_t at)
{
	const struct idle *idle = run->idle;
	struct place_device_view devices[PLACE_NODE_DEVICES_MAX];
	uint16_t open[PLACE_NODE_DEVICES_MAX];
	struct place_node_view node;
	struct tally tally = {0};

	if (!place_node_get(run->place, at, &node))
		return tally;
	for (uint32_t i = 0; i < node.n_devices; i++) {
		place_device_get(run->place, node.first_device + i, &devices[i]);
		open[i] = share_free(run, node.first_device + i);
	}
	for (uint32_t k = 0; k < idle->n_kinds; k++) {
		const struct place_spec *spec = &run->specs[idle->kinds[k]];
		const enum place_reason reason = place_reason_of(run->place, spec, at);

		for (uint32_t i = 0; i < node.n_devices; i++)
			tally.free[series_of(reason, &devices[i], spec) - METRICS_NO_CPU] +=
				open[i];
	}
	tally.fragmented = place_mix_unusable(run->mix, run->place, at, open);
	return tally;
}

static void add(struct tally *sum, const struct tally *tally, bool is_less)
{
	for (uint32_t i = 0; i < REASONS; i++)
		sum->free[i] += is_less ? -tally->free[i] : tally->free[i];
	sum->fragmented += is_less ? -tally->fragmented : tally->fragmented;
}

/* Of who looks around all nodes are counted once for each point, as that takes long. */
void idle_look(struct run *run, uint32_t point)
{
	struct idle *idle = run->idle;
	bool is_all;

	if (!idle)
		return;
	is_all = idle->is_stale && idle->point != point + 1;
	idle->point = point + 1;
	idle->is_stale = idle->looks_around && !is_all;
	for (uint32_t at = 0; at < place_n_nodes(run->place); at++) {
		const uint64_t version = place_node_version(run->place, at) + 1;
		struct idle_node *node = &idle->nodes[at];

		if (node->version == version && !is_all)
			continue;
		add(&idle->sum, &node->tally, true);
		node->tally = count(run, at);
		node->version = version;
		add(&idle->sum, &node->tally, false);
	}
	for (uint32_t i = 0; i < REASONS; i++)
		run->now.value[METRICS_NO_CPU + i] = (double)idle->sum.free[i] /
			MAX(idle->n_kinds, 1u) / run->all;
	run->now.value[METRICS_FRAGMENTED] =
		(double)(idle->sum.fragmented / MAX((uint64_t)run->mix->weights, 1u)) / run->all;
}
