/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a cluster snapshot: fills a struct sched, the scheduler's engine, with the objects of each
 * resource in cluster_sources. snapshot_load() reads the resources one after the other, so the
 * snapshot may mix states of slightly different moments. Like the scheduler, snapshot_load() skips
 * an object that the engine cannot read. snapshot_print_reasons() joins adjacent rows of one node
 * with equal model and reason into one line with index ranges.
 */
#include "kubectl/cluster-snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/parse.h"
#include "cmdline/json-member.h"
#include "scheduler/decide.h"
#include "scheduler/source.h"

#define DEVICES_TEXT_MAX 1024u /* bytes of the index ranges of a node's devices */

static const char *option_or(const struct cli_args *args, const char *name, const char *otherwise)
{
	const char *value = cli_get(args, name);

	return value ? value : otherwise;
}

const char *snapshot_scheduler_name(const struct cli_args *args)
{
	return option_or(args, "scheduler-name", "divvy-scheduler");
}

/* Reads the server's minor version; "28+" means 28. */
static int read_minor(struct access *a, unsigned *ret, struct error *err)
{
	_cleanup_json_ json_t *version = NULL;
	struct str text;
	uint64_t n;
	int r = access_get(a, "/version", NULL, &version, err);

	if (r < 0)
		return r;
	text = str_from(json_text_or_empty(version, "minor"));
	str_skip_suffix(&text, STR("+"));
	if (parse_uint(text, 1, 10000, &n, NULL) < 0)
		return fail(err, EPROTO, "cannot read the server's version: minor '%.20s'",
			json_text_or_empty(version, "minor"));
	*ret = (unsigned)n;
	return 0;
}

static int snapshot_load_objects(struct access *a, const struct cli_args *args, struct sched *sched,
	const struct cluster_source *source, struct error *err)
{
	const struct kube_api_row *row = kube_discovery_find(a->discovery, source->api);
	_cleanup_json_ json_t *items = NULL;
	struct kube_target target;
	int r;

	if (!row && source->is_waited_for)
		return fail(err, ENOENT,
			"the API server lacks a resource that the scheduler needs (number %d)",
			(int)source->api);
	if (!row)
		return 0;
	cluster_note_served(sched_cluster(sched), source->kind);
	target = (struct kube_target){.group_version = row->group_version,
		.resource = row->resource,
		.namespace_name = source->is_leases
			? option_or(args, "lease-namespace", "divvy-node-lease")
			: NULL};
	r = access_list(a, &target, NULL, &items, err);
	for (size_t i = 0; r >= 0 && i < json_array_size(items); i++) {
		struct error why;

		/* Like the scheduler, ignore an object that the engine cannot read. */
		if (sched_set(sched, source->kind, json_array_get(items, i), &why) == -ENOMEM)
			r = fail(err, ENOMEM, "out of memory");
	}
	return MIN(r, 0);
}

int snapshot_load(
	struct access *a, const struct cli_args *args, struct sched **ret, struct error *err)
{
	return snapshot_load_as(a, args, snapshot_scheduler_name(args), ret, err);
}

int snapshot_load_as(struct access *a, const struct cli_args *args, const char *scheduler,
	struct sched **ret, struct error *err)
{
	struct sched_config config = {
		.cluster = {.scheduler_name = scheduler, .policy = &place_scarcity}, .seed = 1};
	_cleanup_(sched_free_p) struct sched *sched = NULL;
	int r = access_discover(a, err);

	r = r < 0 ? r : read_minor(a, &config.cluster.minor, err);
	r = r < 0 ? r : sched_new(&config, &sched, err);
	if (r < 0)
		return r;
	sched_set_time(sched, clock_now_ns(), kube_client_real_ns(a->client));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(cluster_sources); i++)
		r = snapshot_load_objects(a, args, sched, &cluster_sources[i], err);
	if (r == 0)
		*ret = TAKE_PTR(sched);
	return r;
}

/* ---- why ---- */

static void add_reason(void *data, const struct decide_reason *reason)
{
	json_t *list = data, *one = json_pack("{s:s}", "node", reason->node);

	if (reason->device[0]) {
		json_object_set_new(one, "device", json_string(reason->device));
		json_object_set_new(one, "index", json_integer((json_int_t)reason->index));
		json_object_set_new(one, "model", json_string(reason->model));
	}
	if (reason->device[0] && !reason->is_unmeasured) {
		json_object_set_new(
			one, "free_permille", json_integer((json_int_t)reason->share_free));
		json_object_set_new(
			one, "free_bytes", json_integer((json_int_t)reason->memory_free));
	}
	json_object_set_new(one, "why", json_string(reason->text));
	json_array_append_new(list, one);
}

/*
 * Places the other members of the pod's gang. The members start together, so a member can wait
 * although it fits alone. The reasons for the pod must therefore count the other members' places as
 * occupied.
 */
static int place_rest_of_group(struct cluster *c, const struct cpod *pod, struct error *err)
{
	const char *group = cpod_group(pod);
	const uint32_t n = group[0] ? cluster_members(c, group, NULL, 0) : 0;
	_cleanup_free_ struct cpod **member = calloc(n + 1ul, sizeof(struct cpod *));
	struct decide_outcome unused = DECIDE_OUTCOME_INIT;
	int r = 0;

	if (!member)
		return fail(err, ENOMEM, "out of memory");
	cluster_members(c, group, member, n);
	for (uint32_t i = 0; r == 0 && i < n; i++)
		if (member[i] != pod && cpod_state(member[i]) == CPOD_PENDING)
			r = decide_pod(c, member[i], NULL, &unused, err);
	decide_outcome_done(&unused);
	return r;
}

int snapshot_reasons(struct sched *sched, struct cpod *pod, json_t **ret, struct error *err)
{
	_cleanup_json_ json_t *list = json_array();
	int r = place_rest_of_group(sched_cluster(sched), pod, err);

	r = r < 0 ? r : decide_reasons(sched_cluster(sched), pod, add_reason, list, err);
	if (r == 0)
		*ret = TAKE_PTR(list);
	return r;
}

/* Devices of a node with equal model and reason, which share an output line. */
struct alike {
	size_t n;
	struct buf devices;          /* text such as "devices 0-3, 6" */
	uint64_t share[2], bytes[2]; /* smallest and largest free amount */
};

static bool is_alike(const json_t *a, const json_t *b)
{
	static const char *const fields[] = {"node", "model", "why"};

	if (!json_object_get(a, "device") || !json_object_get(b, "device"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (!json_equal(json_object_get(a, fields[i]), json_object_get(b, fields[i])))
			return false;
	return true;
}

static void snapshot_widen_range(uint64_t range[2], uint64_t value)
{
	range[0] = MIN(range[0], value);
	range[1] = MAX(range[1], value);
}

/* Collects the adjacent rows from `at` on that share a line with row `at`. */
static void find_alike(const json_t *reasons, size_t at, struct alike *ret)
{
	const json_t *first = json_array_get(reasons, at), *one = first;
	uint64_t from = json_uint_or_zero(first, "index"), to = from;

	buf_clear(&ret->devices);
	buf_addf(&ret->devices, "devices %" PRIu64, from);
	ret->share[0] = ret->share[1] = json_uint_or_zero(first, "free_permille");
	ret->bytes[0] = ret->bytes[1] = json_uint_or_zero(first, "free_bytes");
	for (ret->n = 1; is_alike(first, (one = json_array_get(reasons, at + ret->n))); ret->n++) {
		const uint64_t index = json_uint_or_zero(one, "index");

		snapshot_widen_range(ret->share, json_uint_or_zero(one, "free_permille"));
		snapshot_widen_range(ret->bytes, json_uint_or_zero(one, "free_bytes"));
		if (index == to + 1) {
			to = index;
			continue;
		}
		if (to > from)
			buf_addf(&ret->devices, "-%" PRIu64, to);
		buf_addf(&ret->devices, ", %" PRIu64, index);
		from = to = index;
	}
	if (to > from)
		buf_addf(&ret->devices, "-%" PRIu64, to);
}

static void add_free(struct table *t, const struct alike *alike)
{
	char share[64], bytes[64];

	snprintf(share, sizeof(share), "%s", format_share((uint32_t)alike->share[0]).s);
	if (alike->share[1] != alike->share[0])
		snprintf(share + strlen(share), sizeof(share) - strlen(share), "-%s",
			format_share((uint32_t)alike->share[1]).s);
	snprintf(bytes, sizeof(bytes), "%s", format_bytes(alike->bytes[0]).s);
	if (alike->bytes[1] != alike->bytes[0])
		snprintf(bytes + strlen(bytes), sizeof(bytes) - strlen(bytes), "-%s",
			format_bytes(alike->bytes[1]).s);
	table_add(t, share);
	table_add(t, bytes);
}

static void snapshot_add_row(struct table *t, const json_t *one, const struct alike *alike)
{
	table_add(t, json_text_or_empty(one, "node"));
	table_add(t, alike->n > 1 ? buf_text(&alike->devices) : json_text_or_empty(one, "device"));
	table_add(t, json_text_or_empty(one, "model"));
	if (json_object_get(one, "free_permille")) {
		add_free(t, alike);
	} else {
		table_add(t, "");
		table_add(t, "");
	}
	table_add(t, json_text_or_empty(one, "why")[0] ? json_text_or_empty(one, "why") : "fits");
}

int snapshot_print_reasons(const json_t *reasons, struct error *err)
{
	static const struct table_column columns[] = {{"NODE", false}, {"DEVICE", false},
		{"MODEL", false}, {"FREE", true}, {"MEMORY", true}, {"WHY", false}};
	struct alike alike = {.n = 1, .devices = BUF_INIT(DEVICES_TEXT_MAX)};
	_cleanup_table_ struct table t;

	table_init(&t, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < json_array_size(reasons); i += alike.n) {
		find_alike(reasons, i, &alike);
		snapshot_add_row(&t, json_array_get(reasons, i), &alike);
	}
	buf_done(&alike.devices);
	return output_table(&t, err);
}
