/* SPDX-License-Identifier: Apache-2.0 */
/* Checks which nodes a pod may use: see fit.h. Cheap checks come first. */
#include "kuberules/fit-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

void fit_free(struct fit *fit)
{
	if (!fit)
		return;
	if (fit->view)
		fit->view->n_fits--;
	if (fit->devices)
		fit->view->claims->end(fit->devices);
	free(fit->extra.v);
	free(fit->wanted.v);
	free(fit->attached.v);
	free(fit->near.v);
	free(fit->away.v);
	free(fit->repelling.v);
	arena_done(&fit->arena);
	free(fit);
}

static int check_pod(const struct pod *pod, struct error *err)
{
	if (pod->object.refusal.code) {
		*err = pod->object.refusal;
		return -pod->object.refusal.code;
	}
	if (pod->gates.n)
		return fail(err, EAGAIN, "waits for removal of the scheduling gate %s%s",
			pod->gates.v[0], pod->gates.n > 1 ? " and others" : "");
	return 0;
}

/* Prepares the checks of the pod's ResourceClaims, if the pod has any. */
static int fit_claims_prepare(struct fit *fit, struct error *err)
{
	const struct view_claims *claims = fit->view->claims;

	if (!fit->pod->claims.n)
		return 0;
	if (!claims)
		return fail(err, ENOTSUP,
			"spec: resourceClaims: the API server has no dynamic resource allocation "
			"of version v1; use divvy.gpu annotations");
	return claims->begin(claims->arg, fit->pod, &fit->devices, err);
}

void *fit_claims_search(const struct fit *fit)
{
	return fit->devices;
}

/* Checks the ResourceClaims last, because the search for devices takes the longest. */
static struct fit_answer fit_check_claims(struct fit *fit, const struct fit_candidate *candidate)
{
	const char *why;

	if (!fit->devices || fit->view->claims->fits(fit->devices, candidate->node->node, &why))
		return FIT_YES;
	return FIT_NO(CLAIM_DEVICES, why);
}

int fit_new(struct view *view, const struct pod *pod, struct fit **ret_fit, struct error *err)
{
	static const struct labels no_labels = {NULL, 0};
	_cleanup_(fit_free_p) struct fit *fit = calloc(1, sizeof(*fit));
	const struct object *ns = view_find(view, OBJECT_NAMESPACE, "", pod->object.ns);
	struct error ignored;
	int r;

	if (!fit)
		return fail(err, ENOMEM, "out of memory");
	r = check_pod(pod, err ? err : &ignored);
	if (r < 0)
		return r;
	view_trim(view);
	fit->view = view;
	view->n_fits++;
	fit->pod = pod;
	fit->ns_labels = ns ? &ns->labels : &no_labels;
	r = fit_volumes_prepare(fit, err);
	r = r < 0 ? r : fit_claims_prepare(fit, err);
	if (r < 0)
		return r;
	if (fit_attach_prepare(fit) < 0 || fit_affinity_prepare(fit) < 0 ||
		fit_spread_prepare(fit) < 0)
		return fail(err, ENOMEM, "out of memory");
	*ret_fit = TAKE_PTR(fit);
	return 0;
}

static struct fit_answer fit_check_candidate(struct fit *fit, const struct fit_candidate *candidate)
{
	static struct fit_answer (*const checks[])(struct fit *, const struct fit_candidate *) = {
		fit_check_node,
		fit_check_ports,
		fit_check_resources,
		fit_check_disks,
		fit_check_attach,
		fit_check_volumes,
		fit_check_zones,
		fit_check_spread,
		fit_check_affinity,
		fit_check_claims,
	};
	struct fit_answer answer = FIT_YES;

	for (size_t i = 0; !answer.why && i < ARRAY_SIZE(checks); i++)
		answer = checks[i](fit, candidate);
	return answer;
}

static bool is_same_pod(const struct pod *a, const struct pod *b)
{
	return !strcmp(a->object.name, b->object.name) && !strcmp(a->object.ns, b->object.ns);
}

/* Collects the pods that are nominated to the node and that this pod cannot preempt. */
static int find_extra(struct fit *fit, const struct view_node *node)
{
	struct pod_list *extra = &fit->extra;

	extra->n = 0;
	for (uint32_t i = 0; i < node->nominated.n; i++) {
		const struct pod *pod = node->nominated.v[i];

		if (pod->priority < fit->pod->priority || is_same_pod(pod, fit->pod))
			continue;
		if (array_grow(&extra->v, &extra->room, extra->n + 1, sizeof(*extra->v)) < 0)
			return -ENOMEM;
		extra->v[extra->n++] = pod;
	}
	return 0;
}

struct fit_answer fit_node(struct fit *fit, uint32_t node)
{
	struct fit_candidate candidate = {.node = fit->view->nodes[node]};
	struct fit_answer answer;

	if (find_extra(fit, candidate.node) < 0)
		return FIT_NO(NODE_UNCLEAR, "out of memory");
	answer = fit_check_candidate(fit, &candidate);
	if (answer.why || !fit->extra.n)
		return answer;
	candidate.extra = fit->extra.v;
	candidate.n_extra = fit->extra.n;
	return fit_check_candidate(fit, &candidate);
}

struct fit_answer fit_node_without(struct fit *fit, uint32_t node, const char *const *names)
{
	struct fit_answer answer;

	fit->skipped = names;
	answer = fit_node(fit, node);
	fit->skipped = NULL;
	return answer;
}

uint32_t fit_nodes(struct fit *fit, struct fit_answer *answers)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < fit->view->n_nodes; i++) {
		answers[i] = fit_node(fit, i);
		n += answers[i].why == FIT_OK;
	}
	return n;
}

static const char *const phrases[FIT_WHYS] = {
	[FIT_OK] = "fits",
#define WHY(name, phrase) [FIT_##name] = (phrase),
#include "kuberules/fit-why.def"
#undef WHY
};

void fit_format(struct fit_answer answer, struct buf *out)
{
	const char *phrase = phrases[answer.why], *gap = strstr(phrase, "%s");

	if (!gap) {
		buf_add_text(out, phrase);
		return;
	}
	buf_add(out, (struct str){phrase, (size_t)(gap - phrase)});
	buf_addf(out, "%.253s", answer.what ? answer.what : "?");
	buf_add_text(out, gap + 2);
}

struct reason {
	struct fit_answer answer;
	uint32_t n;
};

static bool is_same_answer(struct fit_answer a, struct fit_answer b)
{
	return a.why == b.why &&
		(a.what == b.what || (a.what && b.what && !strcmp(a.what, b.what)));
}

void fit_summarize(const struct fit_answer *answers, uint32_t n, struct buf *out)
{
	struct reason reasons[FIT_SUMMARY_REASONS_MAX] = {0};
	uint32_t n_reasons = 0, n_other = 0, n_fit = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = 0;

		if (answers[i].why == FIT_OK) {
			n_fit++;
			continue;
		}
		while (k < n_reasons && !is_same_answer(reasons[k].answer, answers[i]))
			k++;
		if (k == FIT_SUMMARY_REASONS_MAX) {
			n_other++;
			continue;
		}
		if (k == n_reasons)
			reasons[n_reasons++].answer = answers[i];
		reasons[k].n++;
	}
	buf_addf(out, "%u/%u nodes", n_fit, n);
	for (uint32_t done = 0; done < n_reasons; done++) {
		uint32_t most = 0;

		for (uint32_t k = 1; k < n_reasons; k++)
			if (reasons[k].n > reasons[most].n)
				most = k;
		buf_addf(out, "%s %u ", done ? "," : ":", reasons[most].n);
		fit_format(reasons[most].answer, out);
		reasons[most].n = 0;
	}
	if (n_other)
		buf_addf(out, ", %u for other reasons", n_other);
}
