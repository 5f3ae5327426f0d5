/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/json.h"
#include "kubectl/commands.h"
#include "kubectl/cordon.h"
#include "kubectl/evict.h"
#include "kubectl/world.h"
#include "scheduler/cluster-move.h"

#define TIMEOUT_NS (1800 * NSEC_PER_SEC)
#define REASON "emptied by kubectl divvy defrag"

static const struct cli_option options[] = {
	{"dry-run", 0, CLI_FLAG, NULL, NULL, "show the plan alone"},
	{"timeout", 0, CLI_VALUE, "TIME", NULL, "how long to go on at most (default 30m)"},
	CLI_OUTPUT_OPTION,
	WORLD_OPTIONS,
	ACCESS_OPTIONS,
	{0},
};

static json_t *plan_json(const struct cluster_moves *moves)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < moves->n; i++) {
		const struct cluster_move *m = &moves->v[i];

		json_array_append_new(list,
			json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "namespace", cpod_ns(m->pod),
				"pod", cpod_name(m->pod), "node", m->node, "device", m->device,
				"to_node", m->to_node, "to_device", m->to_device));
	}
	return json_pack("{s:i, s:i, s:o}", "whole_before", (int)moves->whole_before, "whole_after",
		(int)moves->whole_after, "moves", list);
}

static int print(const json_t *plan, struct error *err)
{
	static const struct table_column columns[] = {{"NAMESPACE", false}, {"POD", false},
		{"FROM", false}, {"DEVICE", false}, {"TO", false}, {"DEVICE", false}};
	static const char *const keys[] = {
		"namespace", "pod", "node", "device", "to_node", "to_device"};
	const json_t *moves = json_object_get(plan, "moves");
	_cleanup_table_ struct table t = {.columns = NULL};

	if (!json_array_size(moves)) {
		puts("nothing is gained by moving anybody");
		return 0;
	}
	printf("%zu pods move, and %d devices instead of %d are left to nobody\n",
		json_array_size(moves), (int)jint(plan, "whole_after"),
		(int)jint(plan, "whole_before"));
	table_init(&t, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < json_array_size(moves); i++)
		for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
			table_add(&t, jtext(json_array_get(moves, i), keys[k]));
	return output_table(&t, err);
}

/* The objects of those who move, in the plan's order. */
static int movers(struct access *a, const json_t *moves, json_t **ret, struct error *err)
{
	_cleanup_json_ json_t *list = json_array();
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(moves); i++) {
		const json_t *m = json_array_get(moves, i);
		const struct kube_target target = {
			"v1", "pods", jtext(m, "namespace"), jtext(m, "pod"), NULL};
		_cleanup_buf_ struct buf path = BUF_INIT(KUBE_URL_MAX);
		json_t *pod = NULL;

		r = kube_path(&path, &target, err);
		r = r < 0 ? r : access_get(a, buf_text(&path), NULL, &pod, err);
		if (r == 0)
			json_array_append_new(list, pod);
		/* It has gone by itself. */
		r = r == -ENOENT ? 0 : r;
	}
	if (r == 0)
		*ret = TAKE_PTR(list);
	return r;
}

/* Of the devices to be emptied; those that were so already stay so in the end. */
static int close_devices(struct access *a, const json_t *moves, bool *is_ours, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < json_array_size(moves); i++) {
		const json_t *m = json_array_get(moves, i);

		r = cordon_set(a, jtext(m, "node"), jtext(m, "device"), true, REASON, err);
		is_ours[i] = r > 0;
	}
	return MIN(r, 0);
}

static void open_devices(struct access *a, const json_t *moves, const bool *is_ours)
{
	for (size_t i = 0; i < json_array_size(moves); i++) {
		const json_t *m = json_array_get(moves, i);
		struct error err;

		if (is_ours[i] &&
			cordon_set(a, jtext(m, "node"), jtext(m, "device"), false, "", &err) < 0)
			fprintf(stderr, "%s/%s stays cordoned: %s\n", jtext(m, "node"),
				jtext(m, "device"), err.msg);
	}
}

static int carry_out(struct access *a, const json_t *moves, uint64_t timeout_ns, struct error *err)
{
	const struct evict_options evict = {
		.timeout_ns = timeout_ns, .grace_s = -1, .is_in_order = true};
	_cleanup_free_ bool *is_ours = calloc(json_array_size(moves) + 1, sizeof(bool));
	_cleanup_json_ json_t *pods = NULL;
	int r = is_ours ? movers(a, moves, &pods, err) : fail(err, ENOMEM, "out of memory");

	if (r < 0)
		return r;
	r = close_devices(a, moves, is_ours, err);
	r = r < 0 ? r : evict_pods(a, pods, &evict, err);
	open_devices(a, moves, is_ours);
	return r > 0 ? KUBECTL_EXIT_NO : r;
}

static int read_timeout(const struct cli_args *args, uint64_t *ret_ns, struct error *err)
{
	static const uint64_t bounds[2] = {1 * NSEC_PER_SEC, 7 * 86400 * NSEC_PER_SEC};

	return cli_get_duration_within(args, "timeout", TIMEOUT_NS, bounds, ret_ns, err);
}

static int run(const struct cli_args *args, struct error *err)
{
	_cleanup_(sched_free_p) struct sched *sched = NULL;
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_json_ json_t *plan = NULL;
	struct cluster_moves moves = {.n = 0};
	uint64_t timeout_ns;
	int r = read_timeout(args, &timeout_ns, err);

	r = r < 0 ? r : access_open(args, &a, err);
	r = r < 0 ? r : world_load(&a, args, &sched, err);
	r = r < 0 ? r : cluster_find_moves(sched_cluster(sched), &moves, err);
	if (r < 0)
		return r;
	plan = plan_json(&moves);
	cluster_moves_done(&moves);
	r = output_as_table(args, plan, err);
	r = r == 1 ? print(plan, err) : r;
	if (r < 0 || cli_has(args, "dry-run") || !json_array_size(json_object_get(plan, "moves")))
		return r;
	return carry_out(&a, json_object_get(plan, "moves"), timeout_ns, err);
}

static int check(const struct cli_args *args, struct error *err)
{
	uint64_t timeout_ns;

	if (cli_has(args, "output") && !cli_has(args, "dry-run"))
		return fail(
			err, EINVAL, "--output %s: with --dry-run only", cli_get(args, "output"));
	return read_timeout(args, &timeout_ns, err);
}

const struct cli_command cmd_defrag = {
	.name = "defrag",
	.operands = "",
	.summary = "Move tenants together, so that more devices are whole",
	.text = "The scheduler's engine plans which tenants to move so that more devices are left "
		"to "
		"nobody. Those may be moved that a controller makes again, that have one container "
		"with devices, and whose disruption budget lets one go; each to a device where "
		"there "
		"is room and to a node that it fits by all rules.\n\n"
		"A pod moves by eviction: its controller makes another, which the scheduler "
		"places. "
		"The devices to be emptied are cordoned meanwhile, so that nobody goes back there; "
		"where exactly the new pod goes is the scheduler's decision then, not the plan's. "
		"Each pod is gone before the next one is evicted.",
	.examples = "kubectl divvy defrag --dry-run\nkubectl divvy defrag --timeout 1h",
	.exit_status = "0 when the plan was shown or carried out, 3 when the timeout was over "
		       "before that, 1 on failure, 2 on bad usage.",
	.options = options,
	.check = check,
	.run = run,
};
