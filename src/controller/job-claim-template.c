/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the ResourceClaimTemplate that a pod names after the webhook has replaced the pod's
 * resources by a claim (claim-template.h). Kubernetes tries to make the pod's claim again until the
 * template exists. Templates stay, since later pods of the namespace use them again.
 */
#include <errno.h>

#include "controller/claim-template.h"
#include "controller/controller.h"

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
