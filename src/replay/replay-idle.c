/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the free share of devices by the reason why sample tasks cannot use that share. Each node
 * has its own count, and only changed nodes are counted again.
 */
#include <errno.h>
#include <stdlib.h>

#include "place/workload-mix.h"
#include "replay/replay-internal.h"

#define KINDS 32u /* sample tasks */
#define REASONS (METRICS_OPEN - METRICS_NO_CPU + 1)

struct idle_counts {
	uint64_t free[REASONS]; /* permille of devices, summed over all sample tasks */
	uint64_t fragmented;    /* workload_mix_unusable() of the node */
};

struct idle_node {
	uint64_t version; /* place_node_version() when the node was counted, + 1; 0: count again */
	struct idle_counts counts;
};

struct idle {
	uint32_t kinds[KINDS]; /* task indexes */
	uint32_t n_kinds;
	/*
	 * a sample task has affinity or a queue, so other nodes decide what the task can use on a
	 * node
	 */
	bool looks_around;
	bool is_stale;  /* some nodes kept their count although looks_around is set */
	uint32_t point; /* point of the curves at the last count of all nodes, + 1 */
	struct idle_counts sum;
	struct idle_node *nodes;
};

/* Chooses up to KINDS sample tasks at even distances among the tasks that request devices. */
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
 * Returns the device's free share as the scheme counts it. The placement model's free share
 * differs. Some schemes let the placement model count hundredths of a device or memory. The
 * placement model also counts reserved places as used, although no task has started there.
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

static struct idle_counts idle_count_node(const struct run *run, uint32_t at)
{
	const struct idle *idle = run->idle;
	struct place_device_view devices[PLACE_NODE_DEVICES_MAX];
	uint16_t open[PLACE_NODE_DEVICES_MAX];
	struct place_node_view node;
	struct idle_counts counts = {0};

	if (!place_node_get(run->place, at, &node))
		return counts;
	for (uint32_t i = 0; i < node.n_devices; i++) {
		place_device_get(run->place, node.first_device + i, &devices[i]);
		open[i] = share_free(run, node.first_device + i);
	}
	for (uint32_t k = 0; k < idle->n_kinds; k++) {
		const struct place_spec *spec = &run->specs[idle->kinds[k]];
		const enum place_reason reason = place_reason_of(run->place, spec, at);

		for (uint32_t i = 0; i < node.n_devices; i++)
			counts.free[series_of(reason, &devices[i], spec) - METRICS_NO_CPU] +=
				open[i];
	}
	counts.fragmented = workload_mix_unusable(run->mix, run->place, at, open);
	return counts;
}

static void idle_add_counts(struct idle_counts *sum, const struct idle_counts *counts, bool is_less)
{
	for (uint32_t i = 0; i < REASONS; i++)
		sum->free[i] += is_less ? -counts->free[i] : counts->free[i];
	sum->fragmented += is_less ? -counts->fragmented : counts->fragmented;
}

/*
 * If looks_around is set, all nodes are counted, but only once for each point, because a count of
 * all takes long.
 */
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
		idle_add_counts(&idle->sum, &node->counts, true);
		node->counts = idle_count_node(run, at);
		node->version = version;
		idle_add_counts(&idle->sum, &node->counts, false);
	}
	for (uint32_t i = 0; i < REASONS; i++)
		run->now.value[METRICS_NO_CPU + i] = (double)idle->sum.free[i] /
			MAX(idle->n_kinds, 1u) / run->all;
	run->now.value[METRICS_FRAGMENTED] =
		(double)(idle->sum.fragmented / MAX((uint64_t)run->mix->weights, 1u)) / run->all;
}
