/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy fit`: prints whether the pods of a file would start now. The API server first
 * completes the pods in a dry run, with defaults, webhooks and quotas. Then the scheduler's engine
 * decides on them, in its normal order together with all waiting pods.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "cmdline/json-member.h"
#include "fields/yaml.h"
#include "kube/kube-json.h"
#include "kube/time.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/pods.h"
#include "kubectl/report.h"
#include "kubectl/cluster-snapshot.h"
#include "scheduler/decide.h"
#include "spec/dialect.h"

#define FILE_MAX (4u << 20)
#define STEPS_MAX 100000u

static const struct option_row options[] = {
	{"filename", "FILE", "YAML or JSON with pods or templates; - is stdin", .letter = 'f'},
	ACCESS_NAMESPACE_OPTION,
	CLI_OUTPUT_OPTION,
	SNAPSHOT_OPTIONS,
	ACCESS_OPTIONS,
	{0},
};

/* ---- the pods ---- */

static int kubectl_fit_read_file(const char *name, json_t **ret, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
	_cleanup_json_ json_t *documents = NULL;
	int r = strcmp(name, "-") ? file_read(name, &text, err) : fd_read_all(STDIN_FILENO, &text);

	if (r < 0 && !strcmp(name, "-"))
		return fail_errno(err, -r, "read stdin");
	r = r < 0 ? r : yaml_parse(buf_str(&text), &documents, err);
	if (r < 0)
		return fail_within(err, r, "%s", name);
	return pods_read(documents, name, ret, err);
}

static void kubectl_fit_set_text(json_t *object, const char *key, const char *text)
{
	json_object_set_new(object, key, json_string(text));
}

/* Gives the pod a name and UID that no pod of the cluster has. */
static void rename_pod(json_t *pod, const char *from, uint32_t number)
{
	static struct rand rand;
	static bool is_seeded;
	char name[256], uid[64];

	if (!is_seeded)
		rand = rand_seeded(clock_real_ns());
	is_seeded = true;
	snprintf(uid, sizeof(uid), "fit-%016llx", (unsigned long long)rand_u64(&rand));
	snprintf(name, sizeof(name), "%.200s-%u-%.12s", from, number, uid + 4);
	kubectl_fit_set_text(json_object_get(pod, "metadata"), "name", name);
	kubectl_fit_set_text(json_object_get(pod, "metadata"), "uid", uid);
}

/*
 * Adds fields that the API server would set and the scheduler's engine needs, for a user who may
 * not create pods.
 */
static void kubectl_fit_complete_pod(json_t *pod)
{
	json_t *metadata = json_object_get(pod, "metadata");
	const struct kube_time now = kube_time_format(clock_real_ns());

	kubectl_fit_set_text(metadata, "creationTimestamp", now.s);
	if (!json_object_get(pod, "status"))
		json_object_set_new(pod, "status", json_pack("{s:s}", "phase", "Pending"));
}

/*
 * Replaces `pod` by the server's version from a dry run. Returns 1, or 0 if the user may not create
 * pods.
 */
static int ask_server(struct access *a, json_t **pod, struct error *err)
{
	struct kube_ask answer = {.is_done = false};
	const char *space = kube_json_text_at(*pod, "metadata", "namespace", NULL);
	const struct kube_write write = {.target = {"v1", "pods", space, NULL, NULL},
		.field_manager = "kubectl-divvy",
		.is_dry_run = true,
		.done = kube_ask_done,
		.data = &answer};
	json_t *made = NULL;
	int r = kube_create(a->client, &write, *pod, err);

	r = r < 0 ? r : access_await(a, &answer, &made, err);
	if (answer.is_right_missing) {
		fprintf(stderr,
			"note: you may not create pods in %s; the file is used without defaults "
			"and webhook changes\n",
			space);
		return 0;
	}
	if (r < 0)
		return r;
	json_decref(*pod);
	*pod = made;
	return 1;
}

/*
 * Sets divvy-scheduler as the pod's scheduler, like the webhook. was_asked false: the server did
 * not complete the pod, so the webhook's label is added too. Otherwise a missing label means that
 * the webhook did not see the pod; the scheduler's engine then refuses the pod if it requests a
 * share.
 */
static void kubectl_fit_set_scheduler(json_t *pod, const char *scheduler, bool was_asked)
{
	json_t *spec = json_object_get(pod, "spec");
	json_t *metadata = json_object_get(pod, "metadata"),
	       *labels = json_object_get(metadata, "labels");
	const char *its = json_text_or_empty(spec, "schedulerName");

	if (!json_is_object(labels)) {
		labels = json_object();
		json_object_set_new(metadata, "labels", labels);
	}
	if (!was_asked)
		kubectl_fit_set_text(labels, DIALECT_TENANT_LABEL, "true");
	json_object_del(spec, "nodeName");
	if (!its[0] || !strcmp(its, "default-scheduler"))
		kubectl_fit_set_text(spec, "schedulerName", scheduler);
}

static int kubectl_fit_prepare_pod(struct access *a, const char *scheduler, const json_t *item,
	json_t **ret, struct error *err)
{
	_cleanup_json_ json_t *pod = json_deep_copy(json_object_get(item, "pod"));
	json_t *metadata = json_object_get(pod, "metadata");
	char from[254], space[64];
	int r;

	if (!json_is_object(metadata) || !json_is_object(json_object_get(pod, "spec")))
		return fail(err, EINVAL, "%s: a pod has metadata and a spec",
			json_text_or_empty(item, "from"));
	if (!json_text_or_empty(metadata, "name")[0] &&
		!json_text_or_empty(metadata, "generateName")[0])
		return fail(err, EINVAL, "%s: a pod has a name: metadata.name, or generateName",
			json_text_or_empty(item, "from"));
	if (!json_text_or_empty(metadata, "namespace")[0])
		kubectl_fit_set_text(metadata, "namespace", a->space);
	snprintf(from, sizeof(from), "%s",
		json_text_or_empty(metadata, "name")[0]
			? json_text_or_empty(metadata, "name")
			: json_text_or_empty(metadata, "generateName"));
	json_object_del(metadata, "generateName");
	rename_pod(pod, from, 0);
	json_object_del(metadata, "uid");
	snprintf(space, sizeof(space), "%s", json_text_or_empty(metadata, "namespace"));
	r = ask_server(a, &pod, err);
	if (r < 0)
		return fail_within(err, r, "%s would be refused", json_text_or_empty(item, "from"));
	kubectl_fit_set_text(json_object_get(pod, "metadata"), "namespace", space);
	kubectl_fit_complete_pod(pod);
	kubectl_fit_set_scheduler(pod, scheduler, r == 1);
	*ret = TAKE_PTR(pod);
	return 0;
}

/* ---- the decision ---- */

static json_t *kubectl_fit_find_row(json_t *rows, const char *ns, const char *name)
{
	for (size_t i = 0; i < json_array_size(rows); i++) {
		json_t *row = json_array_get(rows, i);

		if (!strcmp(json_text_or_empty(row, "name"), name) &&
			!strcmp(json_text_or_empty(row, "namespace"), ns))
			return row;
	}
	return NULL;
}

static void note_place(json_t *row, const struct cpod *pod)
{
	const struct assigned *assigned = cpod_assigned(pod);
	json_t *devices = json_array();

	kubectl_fit_set_text(row, "node", cpod_node(pod));
	for (uint32_t i = 0; i < assigned->n; i++) {
		const struct assigned_container *g = &assigned->v[i];
		_cleanup_buf_ struct buf text = BUF_INIT(
			SPEC_DEVICES_MAX * SPEC_LABEL + ASSIGNED_NAME);

		buf_addf(&text, "%s=", g->name);
		for (uint32_t k = 0; k < g->n; k++)
			buf_addf(&text, "%s%s", k ? "," : "", g->device[k]);
		json_array_append_new(devices, json_string(buf_text(&text)));
	}
	json_object_set_new(row, "devices", devices);
}

/* Adds the victim to the row of its preemptor; row NULL: the preemptor is not a pod of the file. */
static void note_victim(json_t *row, const struct cpod *victim)
{
	if (!row)
		return;
	if (!json_object_get(row, "evicts"))
		json_object_set_new(row, "evicts", json_array());
	json_array_append_new(json_object_get(row, "evicts"),
		json_sprintf("%s/%s", cpod_ns(victim), cpod_name(victim)));
}

/* Writes the node, and the pod's claims that need volumes there, for example "n1 data cache". */
static void note_claims(json_t *row, const struct decide_claims *claims)
{
	_cleanup_buf_ struct buf text = BUF_INIT(OUTPUT_MAX);

	buf_add_text(&text, claims->node);
	for (uint32_t i = 0; i < claims->n; i++)
		buf_addf(&text, " %s", claims->name[i]);
	kubectl_fit_set_text(row, "why", buf_text(&text));
}

static void kubectl_fit_note_action(json_t *rows, const struct sched_action *action)
{
	json_t *row = kubectl_fit_find_row(rows, cpod_ns(action->pod), cpod_name(action->pod));

	if (action->act == SCHED_EVICT && action->preemptor)
		note_victim(
			kubectl_fit_find_row(rows, action->preemptor->ns, action->preemptor->name),
			action->pod);
	if (!row)
		return;
	switch (action->act) {
	case SCHED_BIND:
		kubectl_fit_set_text(row, "answer", "yes");
		kubectl_fit_set_text(row, "why", cpod_why(action->pod));
		note_place(row, action->pod);
		break;
	case SCHED_NOMINATE:
		kubectl_fit_set_text(row, "answer", "after evictions");
		kubectl_fit_set_text(row, "why", action->sentence);
		note_place(row, action->pod);
		break;
	case SCHED_CLAIM:
		kubectl_fit_set_text(row, "answer", "after its volumes");
		note_claims(row, action->claims);
		break;
	case SCHED_CONDITION:
		kubectl_fit_set_text(row, "answer", "no");
		/*
		 * The label is missing only if the server completed the pod and the webhook did not
		 * label it (kubectl_fit_set_scheduler()).
		 */
		if (report_is_tenant(cpod_json(action->pod)))
			kubectl_fit_set_text(row, "why", action->sentence);
		else
			json_object_set_new(row, "why",
				json_sprintf("divvy's webhook did not process the pod: it does "
					     "not run, or namespace %s is labelled "
					     "" DIALECT_ADMISSION_LABEL
					     "=ignore; created now, the pod would run without a "
					     "share",
					json_text_or_empty(row, "namespace")));
		break;
	default: break;
	}
}

static int kubectl_fit_decide_pods(struct sched *sched, json_t *rows, struct error *err)
{
	struct sched_action action;
	int r = 1;

	for (uint32_t i = 0; r > 0 && i < STEPS_MAX; i++) {
		r = sched_next(sched, &action, err);
		if (r <= 0)
			break;
		kubectl_fit_note_action(rows, &action);
		if (action.act == SCHED_BIND)
			sched_bound(sched, cpod_ns(action.pod), cpod_name(action.pod),
				cpod_uid(action.pod), true);
	}
	return MIN(r, 0);
}

/* Adds the reasons of all nodes to the row of the first pod without a place. */
static int add_reasons(struct sched *sched, json_t *rows, struct error *err)
{
	for (size_t i = 0; i < json_array_size(rows); i++) {
		json_t *row = json_array_get(rows, i), *reasons = NULL;
		struct cpod *pod = cluster_pod(sched_cluster(sched),
			json_text_or_empty(row, "namespace"), json_text_or_empty(row, "name"));
		int r;

		if (!pod || strcmp(json_text_or_empty(row, "answer"), "no"))
			continue;
		r = snapshot_reasons(sched, pod, &reasons, err);
		if (r < 0)
			return r;
		json_object_set_new(row, "nodes", reasons);
		break;
	}
	return 0;
}

static int kubectl_fit_add_pods(struct access *a, const struct cli_args *args, struct sched *sched,
	const json_t *items, json_t *rows, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(items); i++) {
		const json_t *item = json_array_get(items, i);
		const char *own = kube_json_text_at(item, "pod", "metadata", "name", NULL);
		_cleanup_json_ json_t *pod = NULL;

		r = kubectl_fit_prepare_pod(a, snapshot_scheduler_name(args), item, &pod, err);
		for (uint32_t k = 0; r == 0 && k < (uint32_t)json_int_or_zero(item, "count"); k++) {
			_cleanup_json_ json_t *copy = json_deep_copy(pod);

			rename_pod(copy, own ? own : "pod", k);
			json_array_append_new(rows,
				json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "from",
					json_text_or_empty(item, "from"), "namespace",
					kube_json_text_at(copy, "metadata", "namespace", NULL),
					"name", kube_json_text_at(copy, "metadata", "name", NULL),
					"answer", "no", "node", "", "why",
					"its schedulerName selects another scheduler than "
					"divvy's"));
			r = sched_set(sched, OBJECT_POD, copy, err);
		}
	}
	return MIN(r, 0);
}

/* ---- output ---- */

static void kubectl_fit_add_list(struct buf *out, const char *before, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		buf_addf(out, "%s%s", i ? " " : before, json_string_value(json_array_get(list, i)));
}

static int kubectl_fit_print_rows(const json_t *rows, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
	const json_t *reasons = NULL;
	int r;

	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		buf_addf(&out, "%s: %s", json_text_or_empty(row, "from"),
			json_text_or_empty(row, "answer"));
		if (json_text_or_empty(row, "node")[0])
			buf_addf(&out, ", on %s", json_text_or_empty(row, "node"));
		kubectl_fit_add_list(&out, ": ", json_object_get(row, "devices"));
		if (json_text_or_empty(row, "why")[0])
			buf_addf(&out, ": %s", json_text_or_empty(row, "why"));
		kubectl_fit_add_list(&out, "; evicts ", json_object_get(row, "evicts"));
		buf_add_byte(&out, '\n');
		if (!reasons)
			reasons = json_object_get(row, "nodes");
	}
	r = output_buf(&out, err);
	return r < 0 || !reasons ? r : snapshot_print_reasons(reasons, err);
}

static bool do_all_run(const json_t *rows)
{
	for (size_t i = 0; i < json_array_size(rows); i++)
		if (strcmp(json_text_or_empty(json_array_get(rows, i), "answer"), "yes"))
			return false;
	return true;
}

static int kubectl_fit_run(const struct cli_args *args, struct error *err)
{
	_cleanup_(sched_free_p) struct sched *sched = NULL;
	_cleanup_json_ json_t *items = NULL, *rows = json_array();
	_cleanup_access_ struct access a = {.loop = NULL};
	int r = kubectl_fit_read_file(cli_get(args, "filename"), &items, err);

	r = r < 0 ? r : access_open(args, &a, err);
	r = r < 0 ? r : snapshot_load(&a, args, &sched, err);
	r = r < 0 ? r : kubectl_fit_add_pods(&a, args, sched, items, rows, err);
	r = r < 0 ? r : kubectl_fit_decide_pods(sched, rows, err);
	r = r < 0 ? r : add_reasons(sched, rows, err);
	r = r < 0 ? r : output_as_table(args, rows, err);
	r = r == 1 ? kubectl_fit_print_rows(rows, err) : r;
	return r < 0 ? r : do_all_run(rows) ? 0 : KUBECTL_EXIT_NO;
}

static int kubectl_fit_check(const struct cli_args *args, struct error *err)
{
	if (!cli_has(args, "filename"))
		return fail(err, EINVAL, "no pods given; use -f FILE or -f - for stdin");
	return 0;
}

const struct cli_command cmd_fit = {
	.name = "fit",
	.operands = "",
	.summary = "Show whether and where the pods of a file would run now, or why not",
	.text = TEXT_FIT_TEXT,
	.examples = "kubectl divvy fit -f pod.yaml\nkubectl divvy fit -n team-a -f - <job.yaml",
	.exit_status = TEXT_FIT_EXIT_STATUS,
	.options = options,
	.check = kubectl_fit_check,
	.run = kubectl_fit_run,
};
