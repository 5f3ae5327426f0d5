/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy why`: explains why a pod is pending, or why a running pod gets no larger
 * share. For a pod without a node, the command prints the condition PodScheduled and asks the
 * scheduler's engine on a cluster snapshot. For a pod with a node, the command combines container
 * states, the pod's conditions and the measured values. All findings go into one JSON object, which
 * -o prints and kubectl_why_print_answer() formats. If a right is missing, the object keeps what
 * the pod itself shows, and `missing` holds the error.
 */
#include <errno.h>
#include <stdio.h>

#include "base/format.h"
#include "cmdline/json-member.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/report.h"
#include "kubectl/throttle.h"
#include "kubectl/cluster-snapshot.h"
#include "spec/dialect.h"

static const struct option_row options[] = {
	ACCESS_NAMESPACE_OPTION,
	CLI_OUTPUT_OPTION,
	SNAPSHOT_OPTIONS,
	ACCESS_OPTIONS,
	{0},
};

struct why_pod {
	char space[64], name[254];
};

static int kubectl_why_read_name(
	const struct cli_args *args, const char *space, struct why_pod *ret, struct error *err)
{
	struct str rest = str_from(args->operand[0]), first;

	str_split(&rest, '/', &first);
	if (rest.p &&
		(str_copy(ret->space, sizeof(ret->space), first) < 0 ||
			str_copy(ret->name, sizeof(ret->name), rest) < 0))
		return fail(
			err, EINVAL, "'%.80s': expected POD or NAMESPACE/POD", args->operand[0]);
	if (rest.p)
		return 0;
	if (str_copy(ret->space, sizeof(ret->space), str_from(space)) < 0 ||
		str_copy(ret->name, sizeof(ret->name), first) < 0)
		return fail(err, EINVAL, "'%.80s': not a valid pod name", args->operand[0]);
	return 0;
}

/*
 * If a right is missing, keeps the message in `missing`, and the command goes on with the findings
 * from the pod itself. Returns other errors unchanged.
 */
static int note_rights(json_t *answer, int r, const struct error *err)
{
	if (r != -EPERM)
		return r;
	json_object_set_new(answer, "missing", json_string(err->msg));
	return 0;
}

/* ---- pending pods ---- */

static int explain_waiting(struct access *a, const struct cli_args *args, const json_t *pod,
	json_t *answer, struct error *err)
{
	_cleanup_(sched_free_p) struct sched *sched = NULL;
	const json_t *told = kube_json_condition(pod, "PodScheduled");
	const char *scheduler = kube_json_text_at(pod, "spec", "schedulerName", NULL);
	json_t *reasons = NULL;
	struct cpod *seen;
	int r;

	json_object_set_new(answer, "state", json_string("Pending"));
	if (!scheduler || strcmp(scheduler, snapshot_scheduler_name(args)))
		return fail(err, EINVAL,
			"divvy does not place the pod: its schedulerName is '%.80s', not '%.80s'",
			scheduler ? scheduler : "", snapshot_scheduler_name(args));
	json_object_set_new(answer, "sentence",
		json_string(told ? json_text_or_empty(told, "message")
				 : "divvy-scheduler has not tried the pod yet; check that it "
				   "runs: kubectl -n divvy-system get pods"));
	r = snapshot_load(a, args, &sched, err);
	if (r < 0)
		return note_rights(answer, r, err);
	seen = cluster_pod(sched_cluster(sched),
		kube_json_text_at(pod, "metadata", "namespace", NULL),
		kube_json_text_at(pod, "metadata", "name", NULL));
	if (!seen)
		return 0;
	r = snapshot_reasons(sched, seen, &reasons, err);
	if (r == 0)
		json_object_set_new(answer, "nodes", reasons);
	return r;
}

/* ---- pods with a node ---- */

/*
 * Finds the last running container, and the first container that waits for another reason than
 * PodInitializing. PodInitializing only says that an init container has not ended yet.
 */
static void find_state(const json_t *statuses, const json_t **ret_running, const json_t **ret_stuck)
{
	*ret_running = *ret_stuck = NULL;
	for (size_t i = 0; i < json_array_size(statuses); i++) {
		const json_t *one = json_array_get(statuses, i),
			     *state = json_object_get(one, "state"),
			     *waiting = json_object_get(state, "waiting");

		if (json_is_object(json_object_get(state, "running")))
			*ret_running = one;
		if (!*ret_stuck && json_is_object(waiting) &&
			strcmp(json_text_or_empty(waiting, "reason"), "PodInitializing"))
			*ret_stuck = one;
	}
}

/* Returns the reason why the pod does not run yet, from the kubelet's states of its containers. */
static json_t *explain_start(const json_t *pod)
{
	const json_t *status = json_object_get(pod, "status"), *init, *init_stuck, *running, *stuck;
	const json_t *waiting;
	const char *message;

	find_state(json_object_get(status, "initContainerStatuses"), &init, &init_stuck);
	find_state(json_object_get(status, "containerStatuses"), &running, &stuck);
	stuck = init_stuck ? init_stuck : stuck;
	if (!stuck && init && !running)
		return json_sprintf("init container %s runs", json_text_or_empty(init, "name"));
	if (!stuck)
		return json_string("the kubelet has not started the pod yet");
	waiting = kube_json_at(stuck, "state", "waiting", NULL);
	message = json_text_or_empty(waiting, "message");
	return json_sprintf("container %s waits: %s%s%.300s", json_text_or_empty(stuck, "name"),
		json_text_or_empty(waiting, "reason"), message[0] ? ": " : "", message);
}

static int explain_running(struct access *a, const json_t *pod, json_t *answer, struct error *err)
{
	_cleanup_json_ json_t *nodes = NULL, *leases = NULL, *devices = NULL, *tenants = NULL,
			      *pods = json_pack("[O]", pod);
	const json_t *resize = kube_json_condition(pod, "divvy.gpu/Granted");
	struct report_facts facts;
	int r;

	const char *phase = kube_json_text_at(pod, "status", "phase", NULL);

	json_object_set_new(answer, "state", json_string(phase ? phase : "Pending"));
	json_object_set_new(
		answer, "node", json_string(kube_json_text_at(pod, "spec", "nodeName", NULL)));
	if (!phase || !strcmp(phase, "Pending"))
		json_object_set_new(answer, "sentence", explain_start(pod));
	if (resize && !strcmp(json_text_or_empty(resize, "status"), "False"))
		json_object_set_new(
			answer, "sentence", json_string(json_text_or_empty(resize, "message")));
	r = access_gpunodes(a, &nodes, err);
	r = r < 0 ? r : access_leases(a, &leases, err);
	if (r < 0)
		return note_rights(answer, r, err);
	facts = (struct report_facts){nodes, leases, kube_client_real_ns(a->client)};
	devices = report_devices(&facts);
	tenants = report_tenants(&facts, pods, NULL);
	json_object_set_new(answer, "containers", throttle_explain(devices, tenants));
	if (!report_is_tenant(pod))
		json_object_set_new(answer, "sentence",
			json_string("the pod was created without divvy's webhook and has no "
				    "share; create it again while divvy-controller runs, in a "
				    "namespace that is not labelled "
				    "" DIALECT_ADMISSION_LABEL "=ignore"));
	if (!json_array_size(tenants))
		json_object_set_new(
			answer, "sentence", json_string("the pod requests no part of a GPU"));
	return 0;
}

static int kubectl_why_print_answer(const json_t *answer, struct error *err)
{
	const json_t *containers = json_object_get(answer, "containers"),
		     *nodes = json_object_get(answer, "nodes");

	printf("%s/%s: %s%s%s\n", json_text_or_empty(answer, "namespace"),
		json_text_or_empty(answer, "pod"), json_text_or_empty(answer, "state"),
		json_text_or_empty(answer, "node")[0] ? " on " : "",
		json_text_or_empty(answer, "node"));
	if (json_text_or_empty(answer, "sentence")[0])
		printf("%s\n", json_text_or_empty(answer, "sentence"));
	if (json_text_or_empty(answer, "missing")[0])
		printf("further details are missing: %s\n", json_text_or_empty(answer, "missing"));
	for (size_t i = 0; i < json_array_size(containers); i++) {
		const json_t *c = json_array_get(containers, i);
		const json_t *why = json_object_get(c, "why");

		printf("%s: requested %s, granted %s, used %s\n",
			json_text_or_empty(c, "container"), json_text_or_empty(c, "requested"),
			json_text_or_empty(c, "granted")[0] ? json_text_or_empty(c, "granted")
							    : "nothing",
			json_object_get(c, "used_permille")
				? format_share((uint32_t)json_uint_or_zero(c, "used_permille")).s
				: "?");
		for (size_t k = 0; k < json_array_size(why); k++)
			printf("  %s\n", json_string_value(json_array_get(why, k)));
	}
	return nodes ? snapshot_print_reasons(nodes, err) : output_end(err);
}

static int kubectl_why_run(const struct cli_args *args, struct error *err)
{
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_buf_ struct buf path = BUF_INIT(KUBE_URL_MAX);
	_cleanup_json_ json_t *pod = NULL, *answer = NULL;
	const char *phase;
	struct why_pod asked;
	int r = access_open(args, &a, err);

	r = r < 0 ? r : kubectl_why_read_name(args, a.space, &asked, err);
	r = r < 0
		? r
		: kube_path(&path,
			  &(struct kube_target){"v1", "pods", asked.space, asked.name, NULL}, err);
	if (r < 0)
		return r;
	r = access_get(&a, buf_text(&path), NULL, &pod, err);
	if (r == -ENOENT)
		return fail(err, ENOENT,
			"no pod '%.100s' in namespace '%.63s'; use -n for another namespace",
			asked.name, asked.space);
	if (r < 0)
		return r;
	answer = json_pack("{s:s, s:s}", "namespace", asked.space, "pod", asked.name);
	phase = kube_json_text_at(pod, "status", "phase", NULL);
	if (kube_json_is_over(pod))
		json_object_set_new(answer, "state", json_string(phase));
	else if (kube_json_text_at(pod, "spec", "nodeName", NULL))
		r = explain_running(&a, pod, answer, err);
	else
		r = explain_waiting(&a, args, pod, answer, err);
	r = r < 0 ? r : output_as_table(args, answer, err);
	return r == 1 ? kubectl_why_print_answer(answer, err) : r;
}

const struct cli_command cmd_why = {
	.name = "why",
	.operands = "[NAMESPACE/]POD",
	.summary = "Explain why a pod waits, or what limits a running pod",
	.text = TEXT_WHY_TEXT,
	.examples = "kubectl divvy why train-0\nkubectl divvy why team-a/train-0 -o json",
	.options = options,
	.operands_min = 1,
	.operands_max = 1,
	.run = kubectl_why_run,
};
