/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the status of GPUPolicies: the use of their namespaces and queues, and whether they are
 * valid.
 */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "kube/kube-json.h"
#include "kube/time.h"
#include "place/place-queue.h"

#define LISTED_MAX 1024u /* most namespaces and queues in a status, as in the schema of GPUPolicy */

/* A namespace with tenants. */
struct space {
	UT_hash_handle hh;
	const char *name;
	uint32_t n_tenants;
	uint64_t milli, bytes;
};

struct report {
	struct cluster *cluster;
	struct space *spaces; /* sorted: largest use first */
	uint32_t *n_waiting;  /* number of waiting pods of each queue */
};

static void report_done(struct report *r)
{
	struct space *s, *next;

	HASH_ITER(hh, r->spaces, s, next) {
		HASH_DEL(r->spaces, s);
		free(s);
	}
	free(r->n_waiting);
}

static int by_share(const struct space *a, const struct space *b)
{
	if (a->milli != b->milli)
		return a->milli > b->milli ? -1 : 1;
	return strcmp(a->name, b->name);
}

static struct space *get_space(struct report *r, const char *name)
{
	struct space *s;

	HASH_FIND_STR(r->spaces, name, s);
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->name = name;
	HASH_ADD_KEYPTR(hh, r->spaces, s->name, strlen(s->name), s);
	if (s->hh.tbl)
		return s;
	free(s);
	return NULL;
}

/* Adds each claim as a tenant of its namespace. */
static int cluster_report_count_claims(struct report *r)
{
	const void *at = NULL;
	struct usage usage;
	const char *ns;

	while (cluster_next_claim_usage(r->cluster, &at, &ns, &usage)) {
		struct space *s = get_space(r, ns);

		if (!s)
			return -ENOMEM;
		s->n_tenants++;
		s->milli += usage.milli;
		s->bytes += usage.bytes;
	}
	return cluster_count_claims(r->cluster);
}

static int cluster_report_count(struct report *r)
{
	const struct cluster *c = r->cluster;
	const struct cpod *pod;

	r->n_waiting = calloc(c->n_queues + 1ul, sizeof(*r->n_waiting));
	if (!r->n_waiting)
		return -ENOMEM;
	for (pod = c->pods; pod; pod = pod->hh.next) {
		struct usage its;
		struct space *s;

		if (pod->queue && (pod->state == CPOD_PENDING || pod->state == CPOD_EXTENDER))
			r->n_waiting[pod->queue - c->queues]++;
		if (!pod->assigned.n)
			continue;
		s = get_space(r, pod->ns);
		if (!s)
			return -ENOMEM;
		s->n_tenants += pod->assigned.n;
		its = cpod_usage(pod, &pod->assigned);
		s->milli += its.milli;
		s->bytes += its.bytes;
	}
	if (cluster_report_count_claims(r) < 0)
		return -ENOMEM;
	HASH_SORT(r->spaces, by_share);
	return 0;
}

static json_t *spaces_of(const struct report *r, const struct cpolicy *p)
{
	json_t *list = json_array();
	const struct space *s;

	for (s = r->spaces; s && json_array_size(list) < LISTED_MAX; s = s->hh.next)
		if (cpolicy_selects(r->cluster, p, s->name))
			json_array_append_new(list,
				json_pack("{ss, si, sI, sI}", "name", s->name, "tenants",
					(int)s->n_tenants, "share", (json_int_t)s->milli,
					"memoryBytes", (json_int_t)s->bytes));
	return list;
}

static json_t *queues_of(const struct report *r, const struct cpolicy *p)
{
	const struct cluster *c = r->cluster;
	json_t *list = json_array();

	for (uint32_t i = 0; i < c->n_queues && json_array_size(list) < LISTED_MAX; i++) {
		const struct cqueue *q = &c->queues[i];
		const uint64_t used = place_queue_used(c->place, q->number, PLACE_NONE);

		if (strcmp(q->policy, p->name) != 0)
			continue;
		json_array_append_new(list,
			json_pack("{ss, sI, sI, sI, si}", "name", q->name, "guaranteed",
				(json_int_t)q->terms.quota, "used", (json_int_t)used, "borrowed",
				(json_int_t)(used > q->terms.quota ? used - q->terms.quota : 0),
				"waiting", (int)r->n_waiting[i]));
	}
	return list;
}

struct selection {
	const struct cluster *cluster;
	const struct cpolicy *policy;
	int n;
};

static void selection_count(void *data, const struct object *space)
{
	struct selection *s = data;

	s->n += cpolicy_selects(s->cluster, s->policy, space->name);
}

static int n_selected(const struct cluster *c, const struct cpolicy *p)
{
	struct selection s = {.cluster = c, .policy = p};

	view_for_each(c->view, OBJECT_NAMESPACE, selection_count, &s);
	return s.n;
}

/* ---- validity ---- */

/*
 * Returns whether the policy names the queue without terms, or with the terms that the queue has.
 */
static bool cluster_report_agrees(const struct cpolicy *p, const struct cqueue *q)
{
	struct cqueue_terms nothing;

	cqueue_terms_read(NULL, &nothing);
	return memcmp(&p->terms, &nothing, sizeof(nothing)) == 0 ||
		memcmp(&p->terms, &q->terms, sizeof(q->terms)) == 0;
}

/*
 * A policy without effect is probably a mistake: the API server drops unknown fields, so a policy
 * whose only field is misspelt arrives empty.
 */
static bool is_empty(const struct cpolicy *p)
{
	static const char *const effects[] = {"classes", "highestPriority", "totalShare",
		"totalMemory", "queue", "overcommit", "remote", "models", "labelSpaces", "dialects",
		"deviceTaints"};

	for (size_t i = 0; i < ARRAY_SIZE(effects); i++) {
		const json_t *effect = json_object_get(p->spec, effects[i]);

		if (effect && !json_is_null(effect) &&
			!((json_is_array(effect) || json_is_object(effect)) &&
				!json_array_size(effect) && !json_object_size(effect)))
			return false;
	}
	return true;
}

static bool has_model(const struct cluster *c, const char *pattern)
{
	struct spec spec = {0};

	if (!pattern || str_copy(spec.model, sizeof(spec.model), str_from(pattern)) < 0)
		return true;
	for (const struct cnode *node = c->nodes; node; node = node->hh.next)
		for (uint32_t d = 0; d < node->gpus.n_devices; d++)
			if (spec_model_fits(&spec, node->gpus.device[d].model))
				return true;
	return false;
}

#define MODELS_SHOWN 8u

/* Lists models as "H200, T4"; returns false if the cluster has no device. */
static bool list_models(const struct cluster *c, struct buf *out)
{
	const char *shown[MODELS_SHOWN];
	size_t n = 0;

	for (const struct cnode *node = c->nodes; node; node = node->hh.next)
		for (uint32_t d = 0; d < node->gpus.n_devices && n < MODELS_SHOWN; d++) {
			const char *model = node->gpus.device[d].model;
			size_t k = 0;

			while (k < n && strcmp(shown[k], model) != 0)
				k++;
			if (k < n)
				continue;
			buf_addf(out, "%s%s", n ? ", " : "", model);
			shown[n++] = model;
		}
	return n > 0;
}

/*
 * Explains in `why` if no node has a model that the policy names. The policy stays valid, because a
 * node that joins later may have the model.
 */
static bool lacks_model(const struct cluster *c, const struct cpolicy *p, struct buf *why)
{
	const json_t *lists[] = {
		json_object_get(p->spec, "models"), kube_json_at(p->spec, "queue", "models", NULL)};
	_cleanup_buf_ struct buf known = BUF_INIT(1024);
	uint32_t n = 0;

	if (!list_models(c, &known))
		return false;
	for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
		for (size_t i = 0; i < json_array_size(lists[l]); i++) {
			const json_t *one = json_array_get(lists[l], i);
			const char *name = json_string_value(
				json_is_object(one) ? json_object_get(one, "model") : one);

			if (!has_model(c, name))
				buf_addf(why, "%s'%s'", n++ ? ", " : "no node has model ", name);
		}
	if (n)
		buf_addf(why, "; there are %s", buf_text(&known));
	return n > 0;
}

/* Reason of the condition, and whether the policy is valid. */
struct verdict {
	const char *reason;
	bool is_valid;
};

/* Returns why the policy is invalid, or NULL. */
static const char *reason_of(const struct cluster *c, const struct cpolicy *p, struct buf *why)
{
	if (p->refusal.code) {
		buf_add_text(why, p->refusal.msg);
		return "SelectorInvalid";
	}
	if (p->has_queue && !p->queue[0] && p->terms.quota > p->total_milli) {
		buf_addf(why, "queue.guaranteedShare %s is above totalShare, %s",
			format_share((uint32_t)p->terms.quota).s,
			format_share((uint32_t)p->total_milli).s);
		return "GuaranteedAboveTotal";
	}
	for (uint32_t i = 0; i < c->n_queues; i++) {
		const struct cqueue *q = &c->queues[i];
		const bool is_own = !strcmp(q->policy, p->name);

		if (is_own && q->refusal.code) {
			buf_add_text(why, q->refusal.msg);
			return "QueueInvalid";
		}
		if (is_own || !p->has_queue || !p->queue[0] || strcmp(q->name, p->queue) ||
			cluster_report_agrees(p, q))
			continue;
		buf_addf(why, "queue %s has other values in policy %s; give both policies the same",
			q->name, q->policy);
		return "QueueElsewhere";
	}
	return NULL;
}

static struct verdict cluster_report_judge(
	const struct cluster *c, const struct cpolicy *p, struct buf *why)
{
	const char *reason = reason_of(c, p, why);

	if (reason)
		return (struct verdict){reason, false};
	if (is_empty(p)) {
		buf_add_text(why,
			"the spec sets no limit; the API server drops unknown fields, kubectl "
			"explain gpupolicy.spec lists the known ones");
		return (struct verdict){"Empty", false};
	}
	return (struct verdict){lacks_model(c, p, why) ? "ModelMissing" : "Valid", true};
}

/* Returns the time of the condition's last transition, which is now if its status changes. */
static const char *cluster_report_since(
	const struct cpolicy *p, const char *status, struct kube_time *now)
{
	const json_t *was = kube_json_find(
		json_object_get(p->status, "conditions"), "type", "Valid");
	const char *time = kube_json_text_at(was, "lastTransitionTime", NULL);

	return time && !strcmp(kube_json_text(was, "status"), status) ? time : now->s;
}

static json_t *cluster_report_condition(const struct cluster *c, const struct cpolicy *p)
{
	_cleanup_buf_ struct buf why = BUF_INIT(1024);
	struct kube_time now = kube_time_format(c->real_ns);
	const struct verdict verdict = cluster_report_judge(c, p, &why);
	const char *status = verdict.is_valid ? "True" : "False";

	return json_pack("{ss, ss, ss, ss*, ss, sI}", "type", "Valid", "status", status, "reason",
		verdict.reason, "message", why.n ? buf_text(&why) : NULL, "lastTransitionTime",
		cluster_report_since(p, status, &now), "observedGeneration",
		(json_int_t)p->generation);
}

/*
 * Returns whether the policy has this status already. Only the fields that this file writes count.
 */
static bool says_so_already(const struct cpolicy *p, json_t *status)
{
	const char *key;
	json_t *value;

	json_object_foreach(status, key, value) {
		if (!json_equal(value, json_object_get(p->status, key)))
			return false;
	}
	return true;
}

int cluster_report(struct cluster *c, json_t **ret)
{
	_cleanup_(report_done) struct report report = {.cluster = c};
	_cleanup_json_ json_t *all = json_object();
	const struct cpolicy *p;
	int r = all ? 0 : -ENOMEM;

	if (r == 0 && c->policies)
		r = cluster_report_count(&report);
	for (p = c->policies; r == 0 && p; p = p->hh.next) {
		_cleanup_json_ json_t *status = json_pack("{sI, si, so, so, s[o]}",
			"observedGeneration", (json_int_t)p->generation, "namespaceCount",
			n_selected(c, p), "namespaces", spaces_of(&report, p), "queues",
			queues_of(&report, p), "conditions", cluster_report_condition(c, p));

		if (!status)
			r = -ENOMEM;
		else if (!says_so_already(p, status))
			r = json_object_set(all, p->name, status) < 0 ? -ENOMEM : 0;
	}
	if (r == 0)
		*ret = TAKE_PTR(all);
	return r;
}
