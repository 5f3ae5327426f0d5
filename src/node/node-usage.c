/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts of the device time that the cluster's tenants requested, were granted and used, by
 * namespace; and the time since when a tenant is idle. The state folder stores the accounts, so
 * that neither a restart nor an absent API server loses more than some seconds. If that folder is
 * new, GPUNode.status is the source.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/usage.h"
#include "base/fd.h"
#include "base/log.h"
#include "kube/time.h"
#include "node/node-internal.h"
#include "node/node-serve.h"
#include "threads/thread-worker.h"

#define SAVE_NS (10 * NSEC_PER_SEC)
#define TELL_NS (60 * NSEC_PER_SEC) /* least time between two changes of the status's accounts */
#define IDLE_NS (60 * NSEC_PER_SEC) /* shorter pauses are not reported */
#define FILE_MAX (1u << 20)

static void node_usage_file_path(const struct node *node, char *ret, size_t size)
{
	snprintf(ret, size, "%s/accounts.json", node->options.state_dir);
}

static uint64_t used_by(const struct tenant *t)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t->n; i++)
		sum += usage_used_ns(&t->devices[i]);
	return sum;
}

/* Time from the pod's creation to its tenant's: the pod has requested devices all that time. */
static uint64_t waited_ns(const struct node *node, const struct tenant *t)
{
	const struct kube_entry *pod = kube_cache_find_uid(node->pods, t->pod->uid);
	const json_t *object = pod ? pod->object : serve_pod(node, t->pod->uid);
	const char *created = kube_json_text_at(object, "metadata", "creationTimestamp", NULL);
	const uint64_t began_ns = t->created_s * NSEC_PER_SEC;
	uint64_t created_ns;

	if (!created || kube_time_parse(str_from(created), &created_ns) < 0)
		return 0;
	return began_ns > created_ns ? began_ns - created_ns : 0;
}

static uint64_t node_usage_share_time(const struct tenant *t, uint64_t ns)
{
	return ns / SPEC_SHARE_ONE * t->spec.request * t->n;
}

/* Begins the usage of a tenant that this slot has not had before. */
static void node_usage_begin_tenant(struct node *node, struct slot *slot, const struct tenant *t)
{
	struct slot_usage *u = &slot->usage;
	struct account waited = {.asked_ns = 0};

	*u = (struct slot_usage){
		.tenant = t->id, .used_ns = used_by(t), .last_use_ns = clock_real_ns()};
	/* The wait of a tenant that is older than this daemon is in the accounts already. */
	if (t->created_s * NSEC_PER_SEC < node->began_real_ns)
		return;
	waited.asked_ns = node_usage_share_time(t, waited_ns(node, t));
	accounts_add(&node->accounts, u->last_use_ns, t->pod->space, &waited);
}

/*
 * A tenant becomes idle only when the accounts change the status anyway (is_reported). Tenants that
 * came one after another would otherwise cause one patch of the status after another.
 */
static void node_usage_sample_tenant(struct node *node, struct slot *slot, const struct tenant *t,
	uint64_t passed_ns, bool is_reported)
{
	struct slot_usage *u = &slot->usage;
	const uint64_t used_ns = used_by(t), real_ns = clock_real_ns();
	const bool was_idle = u->is_idle;
	struct account more = {.granted_ns = node_usage_share_time(t, passed_ns)};

	if (u->tenant != t->id) {
		node_usage_begin_tenant(node, slot, t);
		return;
	}
	more.asked_ns = more.granted_ns;
	more.used_ns = clock_since_ns(used_ns, u->used_ns);
	if (more.used_ns)
		u->last_use_ns = real_ns;
	u->used_ns = used_ns;
	u->is_idle = clock_since_ns(real_ns, u->last_use_ns) >= IDLE_NS &&
		(was_idle || is_reported);
	if (u->is_idle != was_idle)
		node_status_touch(node);
	if (accounts_add(&node->accounts, real_ns, t->pod->space, &more) < 0)
		log_warn("no memory for the accounts of %s", t->pod->space);
	node->is_account_new = true;
}

/* A job of the disk worker, because file_replace() waits for the disk. */
struct save_job {
	struct worker_job job;
	struct node *node; /* the node, which waits for the end of this job; NULL: no node waits */
	char path[PATH_MAX];
	char *text;
	int r;
	struct error err;
};

static void run_save(struct worker_job *arg)
{
	struct save_job *job = (struct save_job *)arg;

	job->r = file_replace(job->path, str_from(job->text), 0600, &job->err);
}

static void save_done(struct worker_job *arg)
{
	struct save_job *job = (struct save_job *)arg;

	if (job->node)
		job->node->save_job = NULL;
	if (job->r < 0)
		log_warn("%s", job->err.msg);
	free(job->text);
	free(job);
}

static void node_usage_save_file(struct node *node)
{
	_cleanup_json_ json_t *list = accounts_json(&node->accounts);
	_cleanup_free_ char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
	struct save_job *job = text ? calloc(1, sizeof(*job)) : NULL;

	if (!job)
		return;
	node_usage_file_path(node, job->path, sizeof(job->path));
	job->job = (struct worker_job){.run = run_save, .done = save_done};
	job->node = node;
	job->text = TAKE_PTR(text);
	node->save_job = job;
	worker_submit(node->agent->disk, &job->job);
}

/* At the end a last save is queued even if a save is in progress: the worker runs jobs in order. */
static void save_detach(struct node *node)
{
	if (node->save_job)
		node->save_job->node = NULL;
	node->save_job = NULL;
}

static void node_usage_write_status(struct node *node)
{
	json_decref(node->accounts_reported);
	node->accounts_reported = accounts_json(&node->accounts);
	node_status_touch(node);
}

void node_usage_tick(struct node *node, uint64_t now)
{
	const uint64_t passed_ns = clock_since_ns(now, node->accounted_ns);
	const bool is_reported = now >= node->report_accounts_ns;
	/* There is one job at a time, because jobs would pile up on a disk that hangs. */
	const bool is_saving = node->save_job;

	node->accounted_ns = now;
	for (uint32_t i = 0; i < node->n_slots; i++) {
		const struct tenant *t = node_tenant(node, &node->slots[i]);

		if (t)
			node_usage_sample_tenant(node, &node->slots[i], t, passed_ns, is_reported);
	}
	if (!node->is_account_new)
		return;
	/*
	 * The disk worker writes the file while the status is being sent. If the daemon is killed
	 * in these milliseconds, the next daemon continues from smaller numbers than those in the
	 * status.
	 */
	if (!is_saving && (is_reported || now >= node->save_accounts_ns)) {
		node_usage_save_file(node);
		node->save_accounts_ns = now + SAVE_NS;
	}
	if (is_reported) {
		node_usage_write_status(node);
		node->report_accounts_ns = now + TELL_NS;
		node->is_account_new = is_saving; /* the present job lacks the newest changes */
	}
}

void node_usage_describe(const struct slot *slot, json_t *tenant)
{
	if (slot->usage.is_idle)
		json_object_set_new(tenant, "idleSince",
			json_string(kube_time_format(slot->usage.last_use_ns).s));
}

void node_usage_seen(struct node *node, const json_t *status)
{
	if (node->accounts.n || node->has_account_file)
		return;
	accounts_load(&node->accounts, json_object_get(status, "accounts"));
	node_usage_write_status(node);
}

void node_usage_load(struct node *node)
{
	_cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
	_cleanup_json_ json_t *list = NULL;
	char path[PATH_MAX];
	struct error err;

	node->began_real_ns = clock_real_ns();
	node->accounted_ns = clock_now_ns();
	node_usage_file_path(node, path, sizeof(path));
	if (file_read(path, &text, NULL) < 0)
		return;
	if (kube_json_parse(buf_str(&text), &list, &err) < 0) {
		log_warn("%s: %s: accounts continue from GPUNode.status", path, err.msg);
		return;
	}
	node->has_account_file = true;
	accounts_load(&node->accounts, list);
	node_usage_write_status(node);
}

void node_usage_free(struct node *node)
{
	save_detach(node);
	if (node->accounts.n)
		node_usage_save_file(node);
	save_detach(node);
	accounts_done(&node->accounts);
	json_decref(node->accounts_reported);
}
