/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's requests to prepare and unprepare claims. A request is a dra_op with one dra_step
 * for each claim; it is answered when no step is open any more. A step to prepare reads the
 * claim, makes its tenants, has the disk worker write files and checkpoint, and opens the
 * tenants' sockets. A step to unprepare ends the tenants, and then writes to the checkpoint that
 * the claim is unprepared. Both do nothing if it is done already. A claim has one step at a time; a
 * second one is refused, and the kubelet asks again.
 *
 * The identity of a claim comes from the kubelet, which has checked that the pod may use the claim.
 */
#include "node/node-dra.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent-state.h"
#include "agent/device.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "kube/kube-json.h"
#include "kubelet/cdi.h"
#include "kubelet/dra-plugin.h"

#define DRA_READ_NS (10 * NSEC_PER_SEC) /* less than the 45 s that the kubelet waits */
/* A leaving divvyd answers the requests that it has. The next divvyd waits for it up to 10 s. */
#define DRA_DRAIN_NS (2 * NSEC_PER_SEC)
#define DRA_DRAIN_LOOK_NS (20 * NSEC_PER_MSEC)

struct dra_step {
	struct dra_op *op;
	struct kube_call *call;
	struct dra_prepared *prepared; /* its claim, while this step works on the claim */
	bool is_done;
	struct error err; /* code 0: success */
};

struct dra_op {
	LIST_ENTRY(dra_op) link;
	struct dra *dra; /* NULL: the node agent has ended */
	struct dra_request *request;
	bool is_prepare;
	uint32_t n_open;
	struct dra_step steps[];
};

struct dra_prepared *dra_find(const struct dra *dra, const char *uid)
{
	struct dra_prepared *p;

	HASH_FIND_STR(dra->claims, uid, p);
	return p;
}

struct dra_prepared *dra_add(
	struct dra *dra, struct dra_claim *claim, enum dra_prepared_state state)
{
	struct dra_prepared *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->claim = claim;
	p->state = state;
	HASH_ADD_KEYPTR(hh, dra->claims, claim->uid, strlen(claim->uid), p);
	return p;
}

void dra_forget(struct dra *dra, struct dra_prepared *p)
{
	HASH_DEL(dra->claims, p);
	dra_claim_free(p->claim);
	free(p);
}

static const struct dra_claim_name *name_of(const struct dra_step *s)
{
	return &s->op->request->claims[s - s->op->steps];
}

/* ---- answers ---- */

/* The devices of a claim for the kubelet, with the CDI names of their tenants. */
struct answer {
	struct dra_device device[DRA_SHARES_MAX];
	char cdi[DRA_SHARES_MAX][CDI_NAME_SIZE];
};

static void dra_answer_fill(const struct dra_claim *claim, struct answer *a, struct dra_result *ret)
{
	for (uint32_t i = 0; i < claim->n_shares; i++) {
		const struct dra_share *s = &claim->shares[i];
		bool is_named = false;

		/* Several devices of a tenant have one CDI name, which a container needs once. */
		for (uint32_t k = 0; k < i; k++)
			is_named |= claim->shares[k].tenant == s->tenant;
		cdi_name(claim->tenants[s->tenant].slot, a->cdi[i]);
		/* Containers name a request, and never the subrequest that was chosen. */
		a->device[i] = (struct dra_device){.request = claim->tenants[s->tenant].request,
			.pool = s->pool,
			.device = s->device,
			.share_id = s->share_id,
			.cdi = is_named ? "" : a->cdi[i]};
	}
	*ret = (struct dra_result){.devices = a->device, .n_devices = claim->n_shares};
}

static void op_answer(struct dra_op *op)
{
	const size_t n = op->request->n_claims;
	_cleanup_free_ struct dra_result *results = calloc(n + 1, sizeof(*results));
	_cleanup_free_ struct answer *answers = calloc(n + 1, sizeof(*answers));

	LIST_REMOVE(op, link);
	for (size_t i = 0; results && answers && i < n; i++) {
		const struct dra_prepared *p = dra_find(op->dra, op->request->claims[i].uid);

		if (op->steps[i].err.code)
			results[i].error = op->steps[i].err.msg;
		else if (op->is_prepare && p)
			dra_answer_fill(p->claim, &answers[i], &results[i]);
		else if (op->is_prepare)
			results[i].error = "the claim was unprepared meanwhile";
	}
	if (results && answers)
		dra_answer(op->request, results);
	else
		dra_refuse(op->request, "out of memory");
	free(op);
}

static void op_close(struct dra_op *op)
{
	if (!--op->n_open)
		op_answer(op);
}

static void step_end(struct dra_step *s)
{
	const struct dra_claim_name *name = name_of(s);

	if (s->is_done)
		return;
	s->is_done = true;
	if (s->prepared)
		s->prepared->is_busy = false;
	s->prepared = NULL;
	if (s->err.code)
		log_info("claim %s/%s is not %s: %s", name->space, name->name,
			s->op->is_prepare ? "prepared" : "unprepared", s->err.msg);
	op_close(s->op);
}

/* ---- preparing ---- */

static void ignore_written(void *data, int result, const struct error *err)
{
	if (result < 0)
		log_error("checkpoint of the prepared claims: %s", err->msg);
}

/* The checkpoint may have the claim even if its write has failed. */
static void give_up(struct dra *dra, struct dra_step *s)
{
	struct error err;

	dra_tenants_end(dra, s->prepared->claim);
	dra->node->agent->n_refused_grants++;
	if (dra_write_unprepared(dra, s->prepared->claim->uid, ignore_written, NULL, &err) < 0)
		log_error("%s", err.msg);
	dra_forget(dra, TAKE_PTR(s->prepared));
}

static void on_prepared(void *data, int result, const struct error *err)
{
	struct dra_step *s = data;
	struct dra *dra = s->op->dra;

	s->prepared->is_busy = false;
	if (result >= 0)
		result = dra_tenants_open(dra, s->prepared->claim, &s->err);
	else
		s->err = *err;
	if (result < 0) {
		give_up(dra, s);
	} else {
		s->prepared->state = PREPARED_READY;
		dra_tenants_report(dra, s->prepared->claim);
		dra_live_look(dra, s->prepared);
	}
	node_status_touch(dra->node);
	step_end(s);
}

/* Has the files of the claim's tenants written. */
static int write_claim(struct dra_step *s)
{
	struct dra *dra = s->op->dra;
	struct dra_prepared *p = s->prepared;
	struct dra_files *files[DRA_SHARES_MAX];
	size_t n = 0;
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < p->claim->n_tenants; i++) {
		struct slot *slot = &dra->node->slots[p->claim->tenants[i].slot];

		r = dra_files_new(
			dra->node, slot, node_tenant(dra->node, slot), &files[n], &s->err);
		n += r >= 0;
	}
	if (r < 0) {
		while (n)
			dra_files_free(files[--n]);
		return r;
	}
	r = dra_write_prepared(dra, p->claim, files, n, on_prepared, s, &s->err);
	p->is_busy = r >= 0;
	return r;
}

static int check_node(const struct node *node, struct error *err)
{
	char text[NODE_CONFLICT_TEXT];

	if (node->is_pid_hidden)
		return fail(err, EPERM,
			"divvyd lacks the host's PID namespace; set hostPID in its DaemonSet");
	if (node->conflict[0])
		return fail(err, EBUSY, "%s", node_conflict_text(node, text));
	return 0;
}

/*
 * The claim was allocated anew since it was prepared, and the kubelet has forgotten to unprepare
 * it. The line of the new tenants replaces the line of the claim, and a failure to make these
 * tenants is followed by no line: so the old one is taken back here.
 */
static void end_replaced(struct dra *dra, struct dra_prepared *p)
{
	struct error err;

	log_info("claim %s/%s has other devices than when it was prepared: its tenants end",
		p->claim->space, p->claim->name);
	dra_tenants_end(dra, p->claim);
	if (dra_write_unprepared(dra, p->claim->uid, ignore_written, NULL, &err) < 0)
		log_error("%s", err.msg);
	dra_forget(dra, p);
}

/* Returns 0 if the step goes on or has ended. */
static int take_claim(struct dra_step *s, const json_t *object)
{
	struct dra *dra = s->op->dra;
	_cleanup_free_ struct dra_known *known = dra_known_devices(dra->node);
	const struct dra_inventory inventory = {
		dra->node->options.name, known, dra->node->agent->devices->n};
	struct dra_prepared *p;
	struct dra_claim *claim;
	int r;

	if (!known)
		return fail(&s->err, ENOMEM, "out of memory");
	p = dra_find(dra, name_of(s)->uid);
	if (p && (p->state != PREPARED_READY || p->is_busy))
		return fail(&s->err, EBUSY, "the claim is in use by an earlier request");
	r = dra_claim_read(object, name_of(s)->uid, &inventory, &claim, &s->err);
	if (r < 0)
		return r;
	if (p && dra_claim_has_same_devices(p->claim, claim)) {
		dra_claim_free(claim);
		step_end(s);
		return 0;
	}
	r = check_node(dra->node, &s->err);
	if (r < 0) {
		dra_claim_free(claim);
		return r;
	}
	if (p)
		end_replaced(dra, p);
	r = dra_tenants_make(dra, claim, &s->err);
	s->prepared = r < 0 ? NULL : dra_add(dra, claim, PREPARED_WRITING);
	if (r >= 0 && !s->prepared) {
		dra_tenants_end(dra, claim);
		r = fail(&s->err, ENOMEM, "out of memory");
	}
	if (r < 0) {
		dra_claim_free(claim);
		return r;
	}
	r = write_claim(s);
	if (r < 0)
		give_up(dra, s);
	return r;
}

static bool is_ready(const struct dra_step *s)
{
	const struct dra_prepared *p = dra_find(s->op->dra, name_of(s)->uid);

	return p && p->state == PREPARED_READY;
}

static void on_claim(void *data, const struct kube_answer *answer)
{
	struct dra_step *s = data;
	_cleanup_json_ json_t *object = NULL;
	int r;

	s->call = NULL;
	if (answer->result < 0 && answer->result != -ENOENT && is_ready(s)) {
		/* A prepared claim needs no API server, which may be away for long. */
		step_end(s);
		return;
	}
	if (answer->result < 0)
		r = kube_answer_explain(answer, "the claim cannot be read", &s->err);
	else
		r = kube_json_parse(answer->body, &object, &s->err);
	r = r < 0 ? r : take_claim(s, object);
	if (r < 0)
		step_end(s);
}

static void step_prepare(struct dra_step *s)
{
	struct node *node = s->op->dra->node;
	const struct dra_claim_name *name = name_of(s);
	const struct dra_prepared *p = dra_find(s->op->dra, name->uid);
	const struct kube_write read = {
		.target = {"resource.k8s.io/v1", "resourceclaims", name->space, name->name, NULL},
		.timeout_ns = DRA_READ_NS,
		.done = on_claim,
		.data = s,
		.ret_call = &s->call,
	};
	int r = 0;

	if (p && p->state != PREPARED_READY)
		r = fail(&s->err, EBUSY, "the claim is being %s by an earlier request",
			p->state == PREPARED_WRITING ? "prepared" : "unprepared");
	else if (!p)
		r = check_node(node, &s->err);
	r = r < 0 ? r : kube_read(node->client, &read, &s->err);
	if (r < 0)
		step_end(s);
}

/* ---- unpreparing ---- */

/*
 * Ends the steps that still read the claim. A kubelet that unprepares a claim has given them up,
 * for example because the pod was deleted. Such a step would make tenants that nobody unprepares.
 */
static void end_reads(struct dra *dra, const char *uid)
{
	struct dra_op *op, *next;

	for (op = LIST_FIRST(&dra->ops); op; op = next) {
		next = LIST_NEXT(op, link);
		op->n_open++; /* the op outlives its last step */
		for (size_t i = 0; i < op->request->n_claims; i++) {
			struct dra_step *s = &op->steps[i];

			if (!s->call || strcmp(name_of(s)->uid, uid) != 0)
				continue;
			kube_call_cancel(TAKE_PTR(s->call));
			fail(&s->err, ECANCELED, "the kubelet has unprepared the claim meanwhile");
			step_end(s);
		}
		op_close(op);
	}
}

static void on_unprepared(void *data, int result, const struct error *err)
{
	struct dra_step *s = data;

	if (result < 0)
		s->err = *err; /* the claim stays PREPARED_ENDING, and the kubelet asks again */
	else
		dra_forget(s->op->dra, TAKE_PTR(s->prepared));
	node_status_touch(s->op->dra->node);
	step_end(s);
}

static void step_unprepare(struct dra_step *s)
{
	struct dra *dra = s->op->dra;
	struct dra_prepared *p = dra_find(dra, name_of(s)->uid);

	end_reads(dra, name_of(s)->uid);
	if (p && p->is_busy)
		fail(&s->err, EBUSY, "the claim is in use by an earlier request");
	if (!p || p->is_busy) {
		step_end(s);
		return;
	}
	if (p->state == PREPARED_READY)
		dra_tenants_end(dra, p->claim);
	p->state = PREPARED_ENDING;
	s->prepared = p;
	p->is_busy = true;
	if (dra_write_unprepared(dra, p->claim->uid, on_unprepared, s, &s->err) < 0)
		step_end(s);
}

/* ---- requests ---- */

static void op_start(struct dra_request *request, bool is_prepare)
{
	struct dra *dra = dra_plugin_data(request->plugin);
	const uint32_t n = (uint32_t)request->n_claims;
	struct dra_op *op = calloc(1, sizeof(*op) + n * sizeof(op->steps[0]));

	if (!op) {
		dra_refuse(request, "out of memory");
		return;
	}
	op->dra = dra;
	op->request = request;
	op->is_prepare = is_prepare;
	op->n_open = n + 1; /* one for this function, since a step may end at once */
	LIST_INSERT_HEAD(&dra->ops, op, link);
	for (uint32_t i = 0; i < n; i++) {
		op->steps[i].op = op;
		if (is_prepare)
			step_prepare(&op->steps[i]);
		else
			step_unprepare(&op->steps[i]);
	}
	op_close(op);
}

static void on_prepare(struct dra_request *request)
{
	op_start(request, true);
}

static void on_unprepare(struct dra_request *request)
{
	op_start(request, false);
}

static void on_changed(struct dra_plugin *plugin, bool is_known, const char *reason)
{
	struct dra *dra = dra_plugin_data(plugin);

	if (is_known || reason[0])
		log_info("DRA driver: %s", is_known ? "registered" : reason);
	if (is_known || reason[0])
		snprintf(dra->reason, sizeof(dra->reason), "%.120s", is_known ? "" : reason);
	dra->node->is_kubelet_new = is_known;
	dra_slices_touch(dra);
	node_status_touch(dra->node);
}

/* ---- the driver as a part of the node ---- */

static const struct dra_ops ops = {
	.prepare = on_prepare,
	.unprepare = on_unprepare,
	.changed = on_changed,
};

/* Two pods share a tenant if both name the claim that the tenant is made of. */
static bool may_share(void *data, const struct tenant *t, const char *pod_uid)
{
	const struct node *node = data;
	const struct kube_entry *pod = kube_cache_find_uid(node->pods, pod_uid);

	return t->pod->claim[0] && pod && !strcmp(pod->namespace_name, t->pod->space) &&
		dra_pod_has_claim(pod->object, t->pod->claim);
}

void node_dra_pod_removed(struct node *node, struct slot *slot)
{
	struct tenant *t = node_tenant(node, slot);
	const struct kube_entry *pod = NULL;
	struct error err;

	while (t && (pod = kube_cache_next(node->pods, pod)))
		if (strcmp(pod->uid, t->pod->uid) != 0 && may_share(node, t, pod->uid) &&
			!node_is_over(pod->object, ""))
			break;
	if (!pod || str_copy(t->pod->uid, sizeof(t->pod->uid), str_from(pod->uid)) < 0 ||
		str_copy(t->pod->name, sizeof(t->pod->name), str_from(pod->name)) < 0)
		return;
	if (state_tenant(t, &err) < 0)
		log_warn("%s", err.msg);
	node_status_touch(node);
}

int node_dra_offer(struct loop *loop, const struct node_options *node,
	struct dra_plugin **ret_plugin, struct error *err)
{
	char registry[PATH_MAX], folder[PATH_MAX];
	const struct dra_options options = {
		.driver = CLAIM_DRIVER, .registry = registry, .folder = folder};

	if ((size_t)snprintf(registry, sizeof(registry), "%s/plugins_registry",
		    node->kubelet_dir) >= sizeof(registry) ||
		(size_t)snprintf(folder, sizeof(folder), "%s/plugins/" CLAIM_DRIVER,
			node->kubelet_dir) >= sizeof(folder))
		return fail(err, ENAMETOOLONG, "--kubelet-dir is too long");
	return dra_plugin_new(loop, &options, ret_plugin, err);
}

static int start_driver(struct dra *dra, struct error *err)
{
	struct node *node = dra->node;
	int r = 0;

	dra->plugin = TAKE_PTR(node->options.dra_plugin);
	if (!dra->plugin)
		r = node_dra_offer(node->agent->loop, &node->options, &dra->plugin, err);
	if (r >= 0)
		dra_plugin_take(dra->plugin, &ops, dra);
	return r;
}

int node_dra_new(struct node *node, struct error *err)
{
	struct dra *dra = calloc(1, sizeof(*dra));
	int r;

	if (!dra)
		return fail(err, ENOMEM, "out of memory");
	node->dra = dra;
	dra->node = node;
	LIST_INIT(&dra->ops);
	dra->since_s = clock_real_ns() / NSEC_PER_SEC;
	snprintf(dra->reason, sizeof(dra->reason), "the kubelet has not registered the driver yet");
	r = dra_journal_new(dra, err);
	if (r < 0)
		return r;
	dra_tenants_resume(dra);
	dra_files_warm(dra);
	node->agent->may_share = may_share;
	node->agent->may_share_data = node;
	r = dra_slices_new(dra, err);
	r = r < 0 ? r : dra_live_new(dra, err);
	return r < 0 ? r : start_driver(dra, err);
}

void node_dra_changed(struct node *node)
{
	if (node->dra->slices)
		dra_slices_touch(node->dra);
}

void node_dra_tick(struct node *node)
{
	dra_plugin_tick(node->dra->plugin);
	dra_sweep(node->dra, clock_now_ns());
}

const char *node_dra_reason(const struct node *node)
{
	return node->dra->plugin && dra_plugin_is_known(node->dra->plugin) ? NULL
									   : node->dra->reason;
}

static void ops_free(struct dra *dra)
{
	struct dra_op *op;

	while ((op = LIST_FIRST(&dra->ops))) {
		LIST_REMOVE(op, link);
		for (size_t i = 0; i < op->request->n_claims; i++)
			kube_call_cancel(op->steps[i].call);
		dra_refuse(op->request, "divvyd is shutting down");
		free(op);
	}
}

void node_dra_drain(struct node *node)
{
	const uint64_t until_ns = clock_now_ns() + DRA_DRAIN_NS;
	struct loop *loop = node->agent->loop;

	/* No new request comes: the kubelet knows the next divvyd, or has none. */
	while (node->dra && !LIST_EMPTY(&node->dra->ops) && clock_now_ns() < until_ns) {
		if (loop_run_once(loop, clock_now_ns() + DRA_DRAIN_LOOK_NS) < 0)
			return;
		agent_after_batch(node->agent);
	}
}

void node_dra_free(struct node *node)
{
	struct dra *dra = node->dra;
	struct dra_prepared *p;

	if (!dra)
		return;
	dra_journal_free(dra);
	dra_files_cool(dra);
	kube_call_cancel(dra->sweep_call);
	ops_free(dra);
	node->agent->may_share = NULL;
	dra_plugin_free(dra->plugin);
	dra_slices_free(dra->slices);
	dra_live_free(dra);
	while ((p = dra->claims))
		dra_forget(dra, p);
	free(dra);
	node->dra = NULL;
}
