/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/world.h"

#include <errno.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/parse.h"
#include "cli/json.h"
#include "scheduler/decide.h"
#include "scheduler/source.h"

static const char *option_or(const struct cli_args *args, const char *name, const char *otherwise)
{
	const char *value = cli_get(args, name);

	return value ? value : otherwise;
}

const char *world_scheduler_name(const struct cli_args *args)
{
	return option_or(args, "scheduler-name", "divvy-scheduler");
}

/* "28+" is 28. */
static int read_minor(struct access *a, unsigned *ret, struct error *err)
{
	_cleanup_json_ json_t *version = NULL;
	struct str text;
	uint64_t n;
	int r = access_get(a, "/version", NULL, &version, err);

	if (r < 0)
		return r;
	text = str_from(jtext(version, "minor"));
	str_skip_suffix(&text, STR("+"));
	if (parse_uint(text, 1, 10000, &n, NULL) < 0)
		return fail(err, EPROTO, "the server's version is not understood: minor '%.20s'",
			jtext(version, "minor"));
	*ret = (unsigned)n;
	return 0;
}

static int load(struct access *a, const struct cli_args *args, struct sched *sched,
	const struct cluster_source *source, struct error *err)
{
	const struct kube_api_row *row = kube_discovery_find(a->discovery, source->api);
	_cleanup_json_ json_t *items = NULL;
	struct kube_target target;
	int r;

	if (!row && source->is_waited_for)
		return fail(err, ENOENT, "the server has no resource that is needed (number %d)",
			(int)source->api);
	if (!row)
		return 0;
	target = (struct kube_target){.group_version = row->group_version,
		.resource = row->resource,
		.namespace_name = source->is_leases
			? option_or(args, "lease-namespace", "divvy-node-lease")
			: NULL};
	r = access_list(a, &target, NULL, &items, err);
	for (size_t i = 0; r >= 0 && i < json_array_size(items); i++) {
		struct error why;

		/* As the scheduler: what is not understood of one object is its own matter. */
		if (sched_set(sched, source->kind, json_array_get(items, i), &why) == -ENOMEM)
			r = fail(err, ENOMEM, "out of memory");
	}
	return MIN(r, 0);
}

int world_load(struct access *a, const struct cli_args *args, struct sched **ret, struct error *err)
{
	struct sched_config config = {.cluster = {.scheduler_name = world_scheduler_name(args),
					      .policy = &place_scarcity},
		.seed = 1};
	_cleanup_(sched_free_p) struct sched *sched = NULL;
	int r = access_discover(a, err);

	r = r < 0 ? r : read_minor(a, &config.cluster.minor, err);
	r = r < 0 ? r : sched_new(&config, &sched, err);
	if (r < 0)
		return r;
	sched_set_time(sched, clock_now_ns(), kube_client_real_ns(a->client));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(cluster_sources); i++)
		r = load(a, args, sched, &cluster_sources[i], err);
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
		json_object_set_new(one, "model", json_string(reason->model));
		json_object_set_new(
			one, "free_permille", json_integer((json_int_t)reason->share_free));
		json_object_set_new(
			one, "free_bytes", json_integer((json_int_t)reason->memory_free));
	}
	json_object_set_new(one, "why", json_string(reason->text));
	json_array_append_new(list, one);
}

int world_reasons(struct sched *sched, struct cpod *pod, json_t **ret, struct error *err)
{
	_cleanup_json_ json_t *list = json_array();
	int r = decide_reasons(sched_cluster(sched), pod, add_reason, list, err);

	if (r == 0)
		*ret = TAKE_PTR(list);
	return r;
}

int world_print_reasons(const json_t *reasons, struct error *err)
{
	static const struct table_column columns[] = {{"NODE", false}, {"DEVICE", false},
		{"MODEL", false}, {"FREE", true}, {"MEMORY", true}, {"WHY", false}};
	_cleanup_table_ struct table t;

	table_init(&t, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < json_array_size(reasons); i++) {
		const json_t *one = json_array_get(reasons, i);
		const bool is_device = json_object_get(one, "device") != NULL;

		table_add(&t, jtext(one, "node"));
		table_add(&t, jtext(one, "device"));
		table_add(&t, jtext(one, "model"));
		table_add(
			&t, is_device ? format_share((uint32_t)juint(one, "free_permille")).s : "");
		table_add(&t, is_device ? format_bytes(juint(one, "free_bytes")).s : "");
		table_add(&t, jtext(one, "why")[0] ? jtext(one, "why") : "fits");
	}
	return output_table(&t, err);
}
