/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy why`: explains why a pod or a ResourceClaim is pending, or why a running pod
 * gets no larger share. For a pod without a node, the command prints the condition PodScheduled and
 * asks the scheduler's engine on a cluster snapshot; a pod with claims may be one of another
 * scheduler, which places claims by the same rules. For a pod with a node, the command combines
 * container states, the pod's conditions and the measured values. All findings go into one JSON
 * object, which -o prints and kubectl_why_print_answer() formats. If a right is missing, the object
 * keeps what the pod itself shows, and `missing` holds the error.
 */
#include <errno.h>
#include <stdio.h>

#include "base/format.h"
#include "cmdline/json-member.h"
#include "kubectl/claim-report.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/report.h"
#include "kubectl/throttle.h"
#include "kubectl/cluster-snapshot.h"
#include "manifest/pod-condition.h"
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
	bool is_claim;
};

static int kubectl_why_read_name(
	const struct cli_args *args, const char *space, struct why_pod *ret, struct error *err)
{
	struct str rest = str_from(args->operand[0]), first;

	str_split(&rest, '/', &first);
	ret->is_claim = rest.p && str_is(first, "claim");
	if (ret->is_claim)
		first = str_from(space);
	if (rest.p &&
		(str_copy(ret->space, sizeof(ret->space), first) < 0 ||
			str_copy(ret->name, sizeof(ret->name), rest) < 0))
		return fail(err, EINVAL, "'%.80s': expected POD, NAMESPACE/POD or claim/NAME",
			args->operand[0]);
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

/* ---- ResourceClaims ---- */

struct why_claims {
	json_t *claims, *slices, *gpunodes, *events;
};

static void why_claims_done(struct why_claims *claims)
{
	json_decref(claims->claims);
	json_decref(claims->slices);
	json_decref(claims->gpunodes);
	json_decref(claims->events);
}

/* Lists the objects of one kind. The list stays NULL if the server has no such kind. */
static int why_list(struct access *a, enum kube_api api, const char *space, const char *query,
	json_t **ret, struct error *err)
{
	const struct kube_api_row *row = kube_discovery_find(a->discovery, api);
	struct kube_target target;

	if (!row)
		return 0;
	target = (struct kube_target){.group_version = row->group_version,
		.resource = row->resource,
		.namespace_name = space};
	return access_list(a, &target, query, ret, err);
}

static int why_load_claims(struct access *a, const struct why_pod *asked, const json_t *pod,
	struct why_claims *ret, struct error *err)
{
	char query[320];
	int r = access_discover(a, err);

	r = r < 0 ? r : why_list(a, KUBE_RESOURCE_CLAIMS, asked->space, NULL, &ret->claims, err);
	r = r < 0 ? r : why_list(a, KUBE_RESOURCE_SLICES, NULL, NULL, &ret->slices, err);
	r = r < 0 ? r : why_list(a, KUBE_GPU_NODES, NULL, NULL, &ret->gpunodes, err);
	if (r < 0 || !pod)
		return r;
	snprintf(query, sizeof(query), "fieldSelector=involvedObject.name=%s",
		json_text_or_empty(json_object_get(pod, "metadata"), "name"));
	return why_list(a, KUBE_EVENTS, asked->space, query, &ret->events, err);
}

/* Adds the member `claims` for a pod that has some. */
static int explain_claims(struct access *a, const struct why_pod *asked, const json_t *pod,
	json_t *answer, struct error *err)
{
	_cleanup_(why_claims_done) struct why_claims claims = {NULL};
	struct claim_facts facts;
	int r;

	if (!claim_report_has_claims(pod))
		return 0;
	r = note_rights(answer, why_load_claims(a, asked, pod, &claims, err), err);
	if (r < 0)
		return r;
	facts = (struct claim_facts){claims.claims, claims.slices, claims.gpunodes, claims.events};
	json_object_set_new(answer, "claims", claim_report(&facts, pod));
	return 0;
}

/* Finds the pod that uses the claim: one without a node, if there is any. */
static int why_find_user(
	struct access *a, const struct why_pod *asked, json_t **ret_pod, struct error *err)
{
	_cleanup_json_ json_t *pods = NULL;
	const json_t *found = NULL;
	int r = access_pods(a, asked->space, &pods, err);

	for (size_t i = 0; r >= 0 && i < json_array_size(pods); i++) {
		const json_t *pod = json_array_get(pods, i);

		if (kube_json_is_over(pod) || !claim_report_is_user(pod, asked->name))
			continue;
		if (!found || kube_json_text_at(found, "spec", "nodeName", NULL))
			found = pod;
	}
	*ret_pod = found ? json_incref((json_t *)found) : NULL;
	return MIN(r, 0);
}

/* Explains a claim that no pod uses. */
static int explain_lone_claim(struct access *a, const struct why_pod *asked, const json_t *claim,
	json_t *answer, struct error *err)
{
	_cleanup_(why_claims_done) struct why_claims claims = {NULL};
	json_t *row;
	int r = note_rights(answer, why_load_claims(a, asked, NULL, &claims, err), err);

	if (r < 0)
		return r;
	row = claim_report_one(
		&(struct claim_facts){claims.claims, claims.slices, claims.gpunodes, NULL}, NULL,
		claim);
	json_object_set(answer, "state", json_object_get(row, "state"));
	json_object_set_new(answer, "claims", json_pack("[o]", row));
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
	if (!scheduler ||
		(strcmp(scheduler, snapshot_scheduler_name(args)) && !claim_report_has_claims(pod)))
		return fail(err, EINVAL,
			"divvy does not place the pod: its schedulerName is '%.80s', not '%.80s'",
			scheduler ? scheduler : "", snapshot_scheduler_name(args));
	json_object_set_new(answer, "sentence",
		!told && strcmp(scheduler, snapshot_scheduler_name(args))
			? json_sprintf("the scheduler %.80s has not tried the pod yet", scheduler)
			: json_string(told ? json_text_or_empty(told, "message")
					   : "divvy-scheduler has not tried the pod yet; check "
					     "that it runs: kubectl -n divvy-system get pods"));
	r = snapshot_load_as(a, args, scheduler, &sched, err);
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
	const json_t *resize = kube_json_condition(pod, POD_CONDITION_GRANTED);
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
	if (claim_report_has_claims(pod))
		return 0;
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

/* Prints for example "claim a: Allocated: share-x on n1 (share 300, memory 8Gi)". */
static void kubectl_why_print_claim(const json_t *row)
{
	const json_t *devices = json_object_get(row, "devices");
	const char *name = json_text_or_empty(row, "claim");

	printf("claim %s: %s", *name ? name : json_text_or_empty(row, "entry"),
		json_text_or_empty(row, "state"));
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *one = json_array_get(devices, i);
		json_t *consumed = json_object_get(one, "consumed"), *amount;
		const char *key, *node = json_text_or_empty(one, "node");
		size_t n = 0;

		printf("%s %s%s%s", i ? "," : ":", json_text_or_empty(one, "device"),
			*node ? " on " : "", node);
		json_object_foreach(consumed, key, amount)
			printf("%s%s %s", n++ ? ", " : " (", key, json_string_value(amount));
		printf("%s", n ? ")" : "");
	}
	printf("\n");
	if (*json_text_or_empty(row, "sentence"))
		printf("  %s\n", json_text_or_empty(row, "sentence"));
}

static int kubectl_why_print_answer(const json_t *answer, struct error *err)
{
	const json_t *containers = json_object_get(answer, "containers"),
		     *nodes = json_object_get(answer, "nodes"),
		     *claims = json_object_get(answer, "claims");
	const char *pod = json_text_or_empty(answer, "pod");

	printf("%s/%s%s: %s%s%s\n", json_text_or_empty(answer, "namespace"), *pod ? "" : "claim ",
		*pod ? pod : json_text_or_empty(answer, "claim"),
		json_text_or_empty(answer, "state"),
		json_text_or_empty(answer, "node")[0] ? " on " : "",
		json_text_or_empty(answer, "node"));
	if (json_text_or_empty(answer, "sentence")[0])
		printf("%s\n", json_text_or_empty(answer, "sentence"));
	if (json_text_or_empty(answer, "missing")[0])
		printf("further details are missing: %s\n", json_text_or_empty(answer, "missing"));
	for (size_t i = 0; i < json_array_size(claims); i++)
		kubectl_why_print_claim(json_array_get(claims, i));
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

static int why_explain_pod(struct access *a, const struct cli_args *args,
	const struct why_pod *asked, const json_t *pod, json_t *answer, struct error *err)
{
	const char *phase = kube_json_text_at(pod, "status", "phase", NULL);
	int r = 0;

	if (kube_json_is_over(pod))
		json_object_set_new(answer, "state", json_string(phase));
	else if (kube_json_text_at(pod, "spec", "nodeName", NULL))
		r = explain_running(a, pod, answer, err);
	else
		r = explain_waiting(a, args, pod, answer, err);
	return r < 0 ? r : explain_claims(a, asked, pod, answer, err);
}

/* Gets the pod or claim. */
static int why_get(
	struct access *a, const struct why_pod *asked, json_t **ret_object, struct error *err)
{
	_cleanup_buf_ struct buf path = BUF_INIT(KUBE_URL_MAX);
	const struct kube_api_row *row = NULL;
	struct kube_target target = {"v1", "pods", asked->space, asked->name, NULL};
	int r = asked->is_claim ? access_discover(a, err) : 0;

	if (r == 0 && asked->is_claim) {
		row = kube_discovery_find(a->discovery, KUBE_RESOURCE_CLAIMS);
		if (!row)
			return fail(err, ENOTSUP,
				"the API server has no ResourceClaims of version v1; Kubernetes "
				"1.34 and later has them");
		target.group_version = row->group_version;
		target.resource = row->resource;
	}
	r = r < 0 ? r : kube_path(&path, &target, err);
	r = r < 0 ? r : access_get(a, buf_text(&path), NULL, ret_object, err);
	if (r == -ENOENT)
		return fail(err, ENOENT,
			"no %s '%.100s' in namespace '%.63s'; use -n for another namespace",
			asked->is_claim ? "claim" : "pod", asked->name, asked->space);
	return r;
}

static int kubectl_why_run(const struct cli_args *args, struct error *err)
{
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_json_ json_t *object = NULL, *user = NULL, *answer = NULL;
	struct why_pod asked;
	int r = access_open(args, &a, err);

	r = r < 0 ? r : kubectl_why_read_name(args, a.space, &asked, err);
	r = r < 0 ? r : why_get(&a, &asked, &object, err);
	if (r < 0)
		return r;
	answer = json_pack("{s:s}", "namespace", asked.space);
	if (asked.is_claim) {
		json_object_set_new(answer, "claim", json_string(asked.name));
		r = why_find_user(&a, &asked, &user, err);
	} else {
		user = json_incref(object);
	}
	if (r == 0 && user) {
		json_object_set(
			answer, "pod", json_object_get(json_object_get(user, "metadata"), "name"));
		r = why_explain_pod(&a, args, &asked, user, answer, err);
	} else if (r == 0) {
		r = explain_lone_claim(&a, &asked, object, answer, err);
	}
	r = r < 0 ? r : output_as_table(args, answer, err);
	return r == 1 ? kubectl_why_print_answer(answer, err) : r;
}

const struct cli_command cmd_why = {
	.name = "why",
	.operands = "[NAMESPACE/]POD | claim/NAME",
	.summary = "Explain why a pod or a claim waits, or what limits a running pod",
	.text = TEXT_WHY_TEXT,
	.examples = "kubectl divvy why train-0\nkubectl divvy why team-a/train-0 -o json\n"
		    "kubectl divvy why claim/third -n team-a",
	.options = options,
	.operands_min = 1,
	.operands_max = 1,
	.run = kubectl_why_run,
};
