/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the ResourceClaimTemplate that a pod names after the webhook has replaced the pod's
 * resources by a claim (claim-template.h). Kubernetes tries to make the pod's claim again until the
 * template exists. A claim outlives its template, so a template that no pod waits for is removed
 * after a while. A pod that comes during the removal gets the template again, since the watch of
 * templates shows each removal.
 */
#include <errno.h>
#include <string.h>

#include "controller/claim-template.h"
#include "controller/controller.h"
#include "kube/kube-json.h"

static void job_claim_template_on_created(void *data, const struct kube_answer *answer)
{
	struct job *job = data;
	/* a namespace that is being deleted takes no objects any more */
	const bool is_done = answer->result == -EEXIST || answer->result == -ENOENT;

	job_end(job, is_done ? 0 : answer->result, answer->error.msg);
}

void job_claim_template(struct job *job)
{
	const struct kube_write write = job_write(job,
		&(struct kube_target){.group_version = CLAIM_TEMPLATE_API,
			.resource = "resourceclaimtemplates",
			.namespace_name = job->ns},
		job_claim_template_on_created);
	struct error err;
	int r;

	job->stash = claim_template_make(job->name);
	if (!job->stash)
		r = fail(&err, ENOMEM, "out of memory");
	else
		r = kube_create(job->c->client, &write, job->stash, &err);
	if (r < 0)
		job_end(job, r, err.msg);
}

/* ---- removal ---- */

static void job_claim_template_on_deleted(void *data, const struct kube_answer *answer)
{
	struct job *job = data;

	job_end(job, answer->result == -ENOENT ? 0 : answer->result, answer->error.msg);
}

static bool is_awaited(const struct job *job)
{
	const struct kube_entry *pod = NULL;

	while ((pod = controller_next(job->c, CACHE_PODS, pod))) {
		const char *name;
		size_t at = 0;

		while (!strcmp(pod->namespace_name, job->ns) &&
			(name = claim_template_next(pod->object, &at)))
			if (!strcmp(name, job->name))
				return true;
	}
	return false;
}

void job_claim_template_end(struct job *job)
{
	const json_t *template = controller_find(job->c, CACHE_CLAIM_TEMPLATES, job->ns, job->name);
	const struct kube_write write = job_write(job,
		&(struct kube_target){.group_version = CLAIM_TEMPLATE_API,
			.resource = "resourceclaimtemplates",
			.namespace_name = job->ns,
			.name = job->name},
		job_claim_template_on_deleted);
	_cleanup_json_ json_t *made = claim_template_make(job->name);
	struct error err;

	/* Somebody else's template may have the label. */
	if (!template || !made || !controller_is_synced(job->c, CACHE_PODS)) {
		job_end(job, 0, "");
		return;
	}
	if (is_awaited(job)) {
		controller_end_template_later(job->c, job->ns, job->name);
		job_end(job, 0, "");
		return;
	}
	if (kube_delete(job->c->client, &write,
		    &(struct kube_delete){
			    .uid = kube_json_text_at(template, "metadata", "uid", NULL),
			    .grace_s = -1},
		    &err) < 0)
		job_end(job, -err.code, err.msg);
}
