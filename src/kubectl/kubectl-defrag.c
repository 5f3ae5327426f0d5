/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy defrag`: plans moves on a cluster snapshot and carries the plan out by
 * evictions. kubectl_defrag_carry_out_plan() cordons the devices of the plan, evicts the pods in
 * order, and waits for their successors. Then the command uncordons the devices that it cordoned
 * itself, also after an error or a signal. A second signal of the same kind ends the process at
 * once and may leave devices cordoned. The scheduler, not this command, places the successors, so
 * kubectl_defrag_compare_plan() compares their places with the plan.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "cmdline/json-member.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/cordon-patch.h"
#include "kubectl/evict.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/report.h"
#include "kubectl/cluster-snapshot.h"
#include "scheduler/cluster-move.h"

#define TIMEOUT_NS (1800 * NSEC_PER_SEC)
/*
 * Longest wait for the successors to get nodes: a controller needs seconds to create a pod again,
 * the scheduler needs milliseconds to place it.
 */
#define SUCCESSORS_NS (10 * NSEC_PER_SEC)
#define SUCCESSORS_LOOK_NS (500 * NSEC_PER_MSEC)
#define REASON "emptied by kubectl divvy defrag"

static const struct option_row options[] = {
	{"dry-run", NULL, "print the plan and change nothing"},
	{"timeout", "TIME", "time limit (default 30m)"},
	CLI_OUTPUT_OPTION,
	SNAPSHOT_OPTIONS,
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

static int kubectl_defrag_print_plan(const json_t *plan, struct error *err)
{
	static const struct table_column columns[] = {{"NAMESPACE", false}, {"POD", false},
		{"FROM", false}, {"DEVICE", false}, {"TO", false}, {"DEVICE", false}};
	static const char *const keys[] = {
		"namespace", "pod", "node", "device", "to_node", "to_device"};
	const json_t *moves = json_object_get(plan, "moves");
	_cleanup_table_ struct table t = {.columns = NULL};

	if (!json_array_size(moves)) {
		puts("no move would free a device");
		return 0;
	}
	printf("%zu pod%s to move, which leaves %d instead of %d devices unused\n",
		json_array_size(moves), json_array_size(moves) == 1 ? " is" : "s are",
		(int)json_int_or_zero(plan, "whole_after"),
		(int)json_int_or_zero(plan, "whole_before"));
	table_init(&t, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < json_array_size(moves); i++)
		for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
			table_add(&t, json_text_or_empty(json_array_get(moves, i), keys[k]));
	return output_table(&t, err);
}

/* Reads the pods to move, in the plan's order. */
static int kubectl_defrag_list_movers(
	struct access *a, const json_t *moves, json_t **ret, struct error *err)
{
	_cleanup_json_ json_t *list = json_array();
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(moves); i++) {
		const json_t *m = json_array_get(moves, i);
		const struct kube_target target = {"v1", "pods", json_text_or_empty(m, "namespace"),
			json_text_or_empty(m, "pod"), NULL};
		_cleanup_buf_ struct buf path = BUF_INIT(KUBE_URL_MAX);
		json_t *pod = NULL;

		r = kube_path(&path, &target, err);
		r = r < 0 ? r : access_get(a, buf_text(&path), NULL, &pod, err);
		if (r == 0)
			json_array_append_new(list, pod);
		/* -ENOENT: the pod no longer exists and need not move */
		r = r == -ENOENT ? 0 : r;
	}
	if (r == 0)
		*ret = TAKE_PTR(list);
	return r;
}

/*
 * Cordons the devices that the plan empties. is_ours[i]: this call cordoned the device of move i,
 * so it is uncordoned at the end. A device that was cordoned before stays cordoned.
 */
static int close_devices(struct access *a, const json_t *moves, bool *is_ours, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < json_array_size(moves); i++) {
		const json_t *m = json_array_get(moves, i);

		r = cordon_set(a, json_text_or_empty(m, "node"), json_text_or_empty(m, "device"),
			true, REASON, err);
		is_ours[i] = r > 0;
	}
	return MIN(r, 0);
}

static void kubectl_defrag_open_devices(struct access *a, const json_t *moves, const bool *is_ours)
{
	for (size_t i = 0; i < json_array_size(moves); i++) {
		const json_t *m = json_array_get(moves, i);
		struct error err;

		if (is_ours[i] &&
			cordon_set(a, json_text_or_empty(m, "node"),
				json_text_or_empty(m, "device"), false, "", &err) < 0)
			fprintf(stderr, "%s/%s stays cordoned: %s\n", json_text_or_empty(m, "node"),
				json_text_or_empty(m, "device"), err.msg);
	}
}

static volatile sig_atomic_t is_ended;

static void kubectl_defrag_on_signal(int sig)
{
	is_ended = sig;
}

/*
 * The first signal makes the command end after it has uncordoned its devices. A second signal of
 * the same kind has its default effect.
 */
static void heed_signals(void)
{
	const struct sigaction action = {
		.sa_handler = kubectl_defrag_on_signal, .sa_flags = (int)SA_RESETHAND};
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaction(ends[i], &action, NULL);
}

/* Counts the pods with shares that have a node. */
static int count_placed(struct access *a, size_t *ret, struct error *err)
{
	_cleanup_json_ json_t *pods = NULL;
	int r = access_pods(a, NULL, &pods, err);

	*ret = 0;
	for (size_t i = 0; r == 0 && i < json_array_size(pods); i++) {
		const json_t *pod = json_array_get(pods, i);

		*ret += report_is_tenant(pod) && kube_json_text_at(pod, "spec", "nodeName", NULL) &&
			!kube_json_text_at(pod, "metadata", "deletionTimestamp", NULL) &&
			!kube_json_is_over(pod);
	}
	return r;
}

/*
 * Waits until as many pods have a node as before the evictions, at most SUCCESSORS_NS. Then the
 * devices are uncordoned.
 */
static int await_successors(struct access *a, size_t wanted, struct error *err)
{
	const uint64_t until_ns = clock_now_ns() + SUCCESSORS_NS;
	size_t n = 0;
	int r = count_placed(a, &n, err);

	while (r == 0 && n < wanted && clock_now_ns() < until_ns && !is_ended) {
		clock_sleep_until_ns(clock_now_ns() + SUCCESSORS_LOOK_NS);
		r = count_placed(a, &n, err);
	}
	return r;
}

static int kubectl_defrag_carry_out_plan(
	struct access *a, const json_t *moves, uint64_t timeout_ns, struct error *err)
{
	const struct evict_options evict = {.timeout_ns = timeout_ns,
		.grace_s = -1,
		.is_in_order = true,
		.is_ended = &is_ended};
	_cleanup_free_ bool *is_ours = calloc(json_array_size(moves) + 1, sizeof(bool));
	_cleanup_json_ json_t *pods = NULL;
	size_t n = 0;
	int r = is_ours ? kubectl_defrag_list_movers(a, moves, &pods, err)
			: fail(err, ENOMEM, "out of memory");

	r = r < 0 ? r : count_placed(a, &n, err);
	if (r < 0)
		return r;
	heed_signals();
	r = close_devices(a, moves, is_ours, err);
	r = r < 0 ? r : evict_pods(a, pods, &evict, err);
	r = r ? r : await_successors(a, n, err);
	kubectl_defrag_open_devices(a, moves, is_ours);
	if (r == -EINTR || (r >= 0 && is_ended))
		return fail(err, EINTR,
			"stopped by a signal; the devices are uncordoned and moved pods stay "
			"where they are");
	return r > 0 ? KUBECTL_EXIT_NO : r;
}

/* Compares the places that the scheduler chose for the successors with the plan. */
static int kubectl_defrag_compare_plan(
	struct access *a, const struct cli_args *args, const json_t *plan, struct error *err)
{
	_cleanup_(sched_free_p) struct sched *sched = NULL;
	struct cluster_moves moves = {.n = 0};
	const uint32_t wanted = (uint32_t)json_int_or_zero(plan, "whole_after");
	uint32_t whole;
	int r = snapshot_load(a, args, &sched, err);

	r = r < 0 ? r : cluster_find_moves(sched_cluster(sched), &moves, err);
	if (r < 0)
		return r;
	whole = moves.whole_before;
	cluster_moves_done(&moves);
	if (whole >= wanted) {
		printf("%u devices are unused\n", whole);
		return 0;
	}
	printf("%u devices are unused instead of %u: the scheduler placed other pods on the rest\n",
		whole, wanted);
	return KUBECTL_EXIT_NO;
}

static int read_timeout(const struct cli_args *args, uint64_t *ret_ns, struct error *err)
{
	static const uint64_t bounds[2] = {1 * NSEC_PER_SEC, 7 * 86400 * NSEC_PER_SEC};

	return cli_get_duration_within(args, "timeout", TIMEOUT_NS, bounds, ret_ns, err);
}

static int kubectl_defrag_run(const struct cli_args *args, struct error *err)
{
	_cleanup_(sched_free_p) struct sched *sched = NULL;
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_json_ json_t *plan = NULL;
	struct cluster_moves moves = {.n = 0};
	uint64_t timeout_ns;
	int r = read_timeout(args, &timeout_ns, err);

	r = r < 0 ? r : access_open(args, &a, err);
	r = r < 0 ? r : snapshot_load(&a, args, &sched, err);
	r = r < 0 ? r : cluster_find_moves(sched_cluster(sched), &moves, err);
	if (r < 0)
		return r;
	plan = plan_json(&moves);
	cluster_moves_done(&moves);
	r = output_as_table(args, plan, err);
	r = r == 1 ? kubectl_defrag_print_plan(plan, err) : r;
	if (r < 0 || cli_has(args, "dry-run") || !json_array_size(json_object_get(plan, "moves")))
		return r;
	r = kubectl_defrag_carry_out_plan(&a, json_object_get(plan, "moves"), timeout_ns, err);
	return r ? r : kubectl_defrag_compare_plan(&a, args, plan, err);
}

static int kubectl_defrag_check(const struct cli_args *args, struct error *err)
{
	uint64_t timeout_ns;

	if (cli_has(args, "output") && !cli_has(args, "dry-run"))
		return fail(err, EINVAL, "--output %s: allowed only with --dry-run",
			cli_get(args, "output"));
	return read_timeout(args, &timeout_ns, err);
}

const struct cli_command cmd_defrag = {
	.name = "defrag",
	.operands = "",
	.summary = "Move tenants together to free whole devices",
	.text = TEXT_DEFRAG_TEXT,
	.examples = "kubectl divvy defrag --dry-run\nkubectl divvy defrag --timeout 1h",
	.exit_status = TEXT_DEFRAG_EXIT_STATUS,
	.options = options,
	.check = kubectl_defrag_check,
	.run = kubectl_defrag_run,
};
