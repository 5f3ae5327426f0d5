/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests whether a tenant may go to a device, and explains a refusal: see place.h. The rules of
 * labels are those of KubeShare (Yeh et al., HPDC 2020, algorithm 1). The first tenant of an
 * affinity label gets an idle device. Later tenants of that label must share a device with an
 * earlier one; if no such device has capacity, they have no place. Tenants with equal anti-affinity
 * labels never share a device. All tenants of a device have the same exclusion label, or all have
 * none.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-conflicts.h"
#include "place/place-internal.h"
#include "place/place-mode.h"
#include "place/place-policy.h"
#include "place/place-queue.h"

uint64_t place_device_bytes(
	const struct place *place, const struct place_spec *spec, uint32_t device)
{
	uint64_t size = place->devices[device].memory_size;
	uint64_t part = spec->device_permille ? spec->device_permille : spec->share;

	if (spec->device_bytes)
		return spec->device_bytes;
	return size / 1000 * part + size % 1000 * part / 1000;
}

static bool is_near(const struct node *node, uint32_t label)
{
	for (uint32_t i = 0; i < node->n_labels; i++)
		if (node->labels[i] == label)
			return true;
	return false;
}

enum place_reason place_node_reason(
	const struct place *place, const struct place_spec *spec, uint32_t at)
{
	const struct node *node = &place->nodes[at];
	const uint32_t n_tenants = node_taken(node, node->is_terminating_free).n_tenants;

	if (!node->is_used || node->is_closed)
		return PLACE_CLOSED;
	if (spec->node != PLACE_NONE && spec->node != at)
		return PLACE_OTHER_NODE;
	if (node->taints & ~spec->tolerations)
		return PLACE_TAINTED;
	if (spec->near && !is_near(node, spec->near))
		return PLACE_NOT_NEAR;
	if (node->n_tenants_max && n_tenants >= node->n_tenants_max)
		return PLACE_FULL_OF_TENANTS;
	if (place->cpu_free[at] < spec->cpu_milli)
		return PLACE_NO_CPU;
	if (place->memory_free[at] < spec->memory_bytes)
		return PLACE_NO_MEMORY;
	if ((spec->network[0] || spec->network[1]) && place_network_fits(place, spec, at, NULL) < 0)
		return PLACE_NO_NETWORK;
	return PLACE_FITS;
}

bool place_policy_allows(const struct place *place, const struct place_spec *spec, uint32_t at)
{
	const struct device *d = &place->devices[at];
	struct place_cotenants cotenants = {
		.n_tenants = d->n_tenants, .share_free = place->share_free[at]};

	if (!place->config.policy->allows)
		return true;
	memcpy(cotenants.n_of, d->n_of, sizeof(cotenants.n_of));
	return place->config.policy->allows(spec, &cotenants);
}

/* The rules of one spec that are the same for all devices. */
struct rules {
	const struct label *together; /* the affinity label, or NULL */
	uint64_t models;              /* models that both the spec and the tenant's queue permit */
};

static struct rules rules_of(const struct place *place, const struct place_spec *spec)
{
	struct rules rules = {.together = place_label_at(place, spec->affinity),
		.models = spec->models ? spec->models : UINT64_MAX};

	if (spec->queue)
		rules.models = place_queue_models(place, spec);
	return rules;
}

/* Returns the first reason that excludes the device. */
static enum place_reason device_reason(const struct place *place, const struct place_spec *spec,
	uint32_t at, const struct rules *rules)
{
	const struct label *together = rules->together;
	const struct device *d = &place->devices[at];

	if (d->is_closed)
		return PLACE_CLOSED;
	if (!(rules->models >> d->model & 1))
		return spec->models && !(spec->models >> d->model & 1) ? PLACE_OTHER_MODEL
								       : PLACE_OVER_LIMIT;
	if (spec->device != PLACE_NONE && spec->device != at)
		return PLACE_OTHER_DEVICE;
	if (d->n_tenants) {
		if (d->exclusion != spec->exclusion)
			return PLACE_LABELS;
		if (spec->anti_affinity &&
			place_is_tagged(place, at, spec->anti_affinity, ROLE_ANTI_AFFINITY))
			return PLACE_LABELS;
	}
	if (together) {
		bool is_first = together->n_devices[ROLE_AFFINITY] == 0;

		if (is_first ? d->n_tenants != 0
			     : !place_is_tagged(place, at, spec->affinity, ROLE_AFFINITY))
			return PLACE_LABELS;
	}
	if (place->config.policy->allows && !place_policy_allows(place, spec, at))
		return PLACE_POLICY;
	if (spec->is_exclusive ? d->n_tenants != 0 : place->share_free[at] < spec->share)
		return PLACE_NO_SHARE;
	if (d->memory_free < place_device_bytes(place, spec, at))
		return PLACE_NO_DEVICE_MEMORY;
	return d->n_terminating ? PLACE_TERMINATING : PLACE_FITS;
}

uint64_t place_eligible(const struct place *place, const struct place_spec *spec, uint32_t at)
{
	const struct rules rules = rules_of(place, spec);
	const struct node *node = &place->nodes[at];
	uint64_t mask = 0;

	if (!spec->count)
		return 0;
	for (uint32_t i = 0; i < node->n_devices; i++)
		if (place->share_free[node->first_device + i] >= spec->share &&
			device_reason(place, spec, node->first_device + i, &rules) == PLACE_FITS)
			mask |= 1ull << i;
	return mask;
}

/*
 * Removes the devices of one reason after another, in the order of the enum, and returns the reason
 * that leaves too few devices. So if the only device of the right model is full, the reason is
 * PLACE_NO_SHARE and not the model. If a later reason excludes more devices and would also leave
 * too few, that reason is returned.
 */
static enum place_reason devices_reason(
	const struct place *place, const struct place_spec *spec, uint32_t at)
{
	const struct rules rules = rules_of(place, spec);
	const struct node *node = &place->nodes[at];
	uint32_t n[PLACE_N_REASONS] = {0}, n_left = node->n_devices;
	int reason = PLACE_FITS;

	if (node->n_devices < spec->count)
		return PLACE_NO_DEVICES;
	for (uint32_t i = 0; i < node->n_devices; i++)
		n[device_reason(place, spec, node->first_device + i, &rules)]++;
	if (n[PLACE_FITS] >= spec->count)
		return PLACE_FITS;
	while (n_left >= spec->count)
		n_left -= n[++reason];
	n_left += n[reason];
	for (int later = reason + 1; later < PLACE_N_REASONS; later++)
		if (n[later] > n[reason] && n_left - n[later] < spec->count)
			reason = later;
	return (enum place_reason)reason;
}

enum place_reason place_reason_of(
	const struct place *place, const struct place_spec *spec, uint32_t node)
{
	enum place_reason reason = place_node_reason(place, spec, node);

	if (reason != PLACE_FITS || !spec->count)
		return reason;
	return devices_reason(place, spec, node);
}

/* Returns the largest share that is free on each of `count` devices of the mask. */
static uint32_t most_on_each(
	const struct place *place, const struct node *node, uint64_t mask, uint32_t count)
{
	uint32_t most = 0;

	for (; count && mask; count--) {
		uint32_t best = (uint32_t)__builtin_ctzll(mask);

		for (uint64_t left = mask; left; left &= left - 1) {
			const uint32_t i = (uint32_t)__builtin_ctzll(left);

			if (place->share_free[node->first_device + i] >
				place->share_free[node->first_device + best])
				best = i;
		}
		most = place->share_free[node->first_device + best];
		mask &= ~(1ull << best);
	}
	return count ? 0 : most;
}

/* Records the largest free shares of a node whose reason is PLACE_NO_SHARE. */
static void count_share(const struct place *place, const struct place_spec *spec,
	const struct node *node, struct place_why *why)
{
	const struct rules rules = rules_of(place, spec);
	uint64_t possible = 0, is_short = 0, barred = 0;
	uint32_t most;

	for (uint32_t i = 0; i < node->n_devices; i++) {
		enum place_reason reason = device_reason(
			place, spec, node->first_device + i, &rules);

		if (reason == PLACE_NO_DEVICE_MEMORY)
			is_short |= 1ull << i;
		else if (reason == PLACE_FITS || reason == PLACE_NO_SHARE ||
			reason == PLACE_TERMINATING)
			possible |= 1ull << i;
		else if (reason != PLACE_OTHER_MODEL && reason != PLACE_OTHER_DEVICE)
			barred |= 1ull << i;
	}
	most = most_on_each(place, node, possible, spec->count);
	why->most_share = MAX(why->most_share, most);
	most = most_on_each(place, node, possible | is_short, spec->count);
	why->most_share_short = MAX(why->most_share_short, most);
	most = most_on_each(place, node, possible | is_short | barred, spec->count);
	why->most_share_all = MAX(why->most_share_all, most);
}

void place_explain(
	const struct place *place, const struct place_spec *spec, struct place_why *ret_why)
{
	*ret_why = (struct place_why){0};
	for (uint32_t at = 0; at < place->n_nodes; at++) {
		enum place_reason reason;

		if (!place->nodes[at].is_used)
			continue;
		reason = place_reason_of(place, spec, at);
		ret_why->nodes[reason]++;
		if (reason == PLACE_NO_SHARE)
			count_share(place, spec, &place->nodes[at], ret_why);
	}
}

/* Texts that follow a number of nodes: for several nodes, and for one. */
static const char *const reason_texts[PLACE_N_REASONS][2] = {
	[PLACE_CLOSED] = {"are closed or have closed devices", "is closed or has closed devices"},
	[PLACE_OTHER_NODE] = {"are not the requested node", "is not the requested node"},
	[PLACE_TAINTED] = {"have a taint that is not tolerated",
		"has a taint that is not tolerated"},
	[PLACE_NOT_NEAR] = {"lack the node label", "lacks the node label"},
	[PLACE_FULL_OF_TENANTS] = {"have reached their tenant limit",
		"has reached its tenant limit"},
	[PLACE_NO_CPU] = {"have too little CPU", "has too little CPU"},
	[PLACE_NO_MEMORY] = {"have too little memory", "has too little memory"},
	[PLACE_NO_NETWORK] = {"lack the network device or its bandwidth",
		"lacks the network device or its bandwidth"},
	[PLACE_NO_DEVICES] = {"have too few devices", "has too few devices"},
	[PLACE_OTHER_MODEL] = {"have other models", "has other models"},
	[PLACE_OVER_LIMIT] = {"are beyond the limits of its queue",
		"is beyond the limits of its queue"},
	[PLACE_OTHER_DEVICE] = {"lack the requested device", "lacks the requested device"},
	[PLACE_LABELS] = {"are excluded by affinity or exclusion labels",
		"is excluded by affinity or exclusion labels"},
	[PLACE_POLICY] = {"are excluded by the policy's rules",
		"is excluded by the policy's rules"},
	[PLACE_NO_DEVICE_MEMORY] = {"have too little device memory",
		"has too little device memory"},
	[PLACE_NO_SHARE] = {"have too little of their devices left",
		"has too little of its devices left"},
	[PLACE_TERMINATING] = {"have devices with terminating tenants",
		"has devices with terminating tenants"},
};

/*
 * Formats the requested and the largest free share. If devices that the tenant may not use have
 * more free, the text mentions them, because other views show the user their free share. Returns
 * like snprintf().
 */
static size_t share_format(
	const struct place_why *why, const struct place_spec *spec, char *ret, size_t size)
{
	char asked[8], most[8], each[32] = "";
	const char *more = "";

	if (spec->is_exclusive)
		return (size_t)snprintf(ret, size, " (%" PRIu32 " unused requested)", spec->count);
	if (why->most_share > 9999)
		return 0;
	if (spec->count > 1)
		snprintf(each, sizeof(each), " on each of %" PRIu32, spec->count);
	if (why->most_share_all > MAX(why->most_share, why->most_share_short))
		more = ", more only with devices that it may not have";
	else if (why->most_share_short > why->most_share)
		more = ", more only with devices that have too little memory";
	return (size_t)snprintf(ret, size, " (%s of %" PRIu32 " asked, %s free%s at most%s)",
		spec_share_format(spec->share, asked), spec->count,
		spec_share_format(why->most_share, most), each, more);
}

char *place_why_format(
	const struct place_why *why, const struct place_spec *spec, char ret[static PLACE_WHY])
{
	bool is_first = true;
	uint32_t all = 0;
	size_t n;

	for (int r = 0; r < PLACE_N_REASONS; r++)
		all += why->nodes[r];
	n = (size_t)snprintf(ret, PLACE_WHY, "%" PRIu32 " of %" PRIu32 " nodes have room",
		why->nodes[PLACE_FITS], all);
	for (int r = PLACE_FITS + 1; r < PLACE_N_REASONS && n < PLACE_WHY; r++) {
		if (!why->nodes[r])
			continue;
		n += (size_t)snprintf(ret + n, PLACE_WHY - n, "%s %" PRIu32 " %s",
			is_first ? ":" : ",", why->nodes[r], reason_texts[r][why->nodes[r] == 1]);
		is_first = false;
		if (r == PLACE_NO_SHARE && n < PLACE_WHY)
			n += share_format(why, spec, ret + n, PLACE_WHY - n);
	}
	return ret;
}

enum place_reason place_device_reason(
	const struct place *place, const struct place_spec *spec, uint32_t device)
{
	const struct rules rules = rules_of(place, spec);
	enum place_reason reason = place_node_reason(place, spec, place->devices[device].node);

	if (reason != PLACE_FITS || !spec->count)
		return reason;
	if (place->nodes[place->devices[device].node].n_devices < spec->count)
		return PLACE_NO_DEVICES;
	return device_reason(place, spec, device, &rules);
}

char *place_choice_format(struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, char ret[static PLACE_WHY])
{
	struct place_why why;
	char free[8], left[8], met[SPEC_CONFLICTS];
	size_t n;

	place_explain(place, spec, &why);
	n = (size_t)snprintf(ret, PLACE_WHY, "node %s", place->nodes[choice->node].name->text);
	for (uint32_t k = 0; k < choice->n && n < PLACE_WHY; k++) {
		const uint32_t at = choice->device[k], share = place->share_free[at];
		const uint32_t took = spec->is_exclusive ? share : spec->share;

		n += (size_t)snprintf(ret + n, PLACE_WHY - n,
			", %s (%s of it free, %s when it has come)", place->devices[at].uuid,
			spec_share_format(MIN(share, 9999u), free),
			spec_share_format(MIN(share - MIN(took, share), 9999u), left));
	}
	if (n < PLACE_WHY && why.nodes[PLACE_FITS] == 1)
		n += (size_t)snprintf(ret + n, PLACE_WHY - n, ": the only node with room");
	else if (n < PLACE_WHY)
		n += (size_t)snprintf(ret + n, PLACE_WHY - n,
			": best of %" PRIu32 " nodes with room by %s", why.nodes[PLACE_FITS],
			place->config.policy->name);
	if (n < PLACE_WHY) {
		place_locality_format(place, spec, choice, ret + n, PLACE_WHY - n);
		n = strlen(ret);
	}
	if (choice->n_conflicts)
		snprintf(ret + n, PLACE_WHY - n, ", %s",
			place_choice_conflicts(place, spec, choice, met));
	return ret;
}
