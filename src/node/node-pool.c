/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node of the pool (GPUNode.spec.pool). Its devices belong to another device plugin. divvy has
 * the devices that the kubelet (pod-resources API) lists for a placeholder pod. A placeholder that
 * is being deleted admits no new tenants and waits for its last tenant. If the placeholder ends
 * earlier, the tenants' processes are killed at once, because the device may belong to another pod
 * a moment later.
 */
#include <errno.h>
#include <string.h>

#include "agent/device.h"
#include "base/log.h"
#include "manifest/placeholder.h"
#include "node/node-internal.h"

#define POOL_LOOK_NS NSEC_PER_SEC
#define POOL_SOON_NS (50 * NSEC_PER_MSEC)
/*
 * Time for which divvyd asks often while a placeholder waits. A longer wait is not due to the
 * kubelet.
 */
#define POOL_SOON_FOR_NS (30 * NSEC_PER_SEC)
/*
 * A kubelet that has just started may list nothing yet. So a device counts as free only after this
 * time.
 */
#define POOL_MISSED_NS (10 * NSEC_PER_SEC)

bool node_is_gpu(const char *resource)
{
	static const char *const gpu[] = {"nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu",
		"gpu.intel.com/", "aliyun.com/gpu"};

	for (size_t i = 0; i < ARRAY_SIZE(gpu); i++)
		if (str_has_prefix(str_from(resource), str_from(gpu[i])))
			return true;
	return false;
}

/* ---- placeholders ---- */

static const json_t *find_placeholder(const struct node *node, const char *space, const char *name)
{
	const struct kube_entry *pod = kube_cache_find(node->pods, space, name);

	return pod && placeholder_is_one(pod->object, node->options.space) ? pod->object : NULL;
}

bool node_pool_is_open(const struct node *node, const struct device *d)
{
	const struct pool_device *p = &node->pool.device[d->index];
	const json_t *pod;

	if (!node->pool.is_on)
		return true;
	pod = p->placeholder[0] ? find_placeholder(node, node->options.space, p->placeholder)
				: NULL;
	return pod && node->pool.is_wanted && !node_is_terminating(pod) && !node_is_over(pod, "");
}

bool node_pool_is_native(const struct node *node, const struct device *d)
{
	return node->conflict[0] || !kube_cache_is_synced(node->gpunodes) ||
		(node->pool.is_on && !node_pool_placeholder(node, d));
}

const char *node_pool_placeholder(const struct node *node, const struct device *d)
{
	const struct pool_device *p = &node->pool.device[d->index];

	return node->pool.is_on && p->placeholder[0] ? p->placeholder : NULL;
}

/* ---- a device that divvy has lost ---- */

static bool has_tenants(struct node *node, const struct device *d)
{
	for (uint32_t i = 0; i < node->n_slots; i++)
		if (node_is_tenant_on(node_tenant(node, &node->slots[i]), d))
			return true;
	return false;
}

static void node_pool_lose_device(struct node *node, const struct device *d)
{
	struct pool_device *p = &node->pool.device[d->index];
	const char *name = p->placeholder[0] ? p->placeholder : "of an earlier divvyd";
	bool is_used = false;

	for (uint32_t i = 0; i < node->n_slots; i++) {
		struct slot *slot = &node->slots[i];
		const struct tenant *t = node_tenant(node, slot);

		if (!node_is_tenant_on(t, d))
			continue;
		is_used = true;
		node_pod_event(node, t->pod, true, "PlaceholderLost",
			"device %s returned to another device plugin; divvyd ended the processes "
			"on it",
			d->info.uuid);
		node_slot_clear(node, slot);
	}
	if (is_used) {
		log_warn("device %s: placeholder %s has ended before its tenants", d->info.uuid,
			name);
		node_event(node, true, "PlaceholderLost",
			"placeholder %s of device %s ended before its tenants; divvyd ended their "
			"processes",
			name, d->info.uuid);
	} else {
		log_info("device %s: placeholder %s has returned it to the other device plugin",
			d->info.uuid, name);
	}
	*p = (struct pool_device){.is_known = true};
	node->pool.has_changed = true;
}

/*
 * Whether the placeholder pod was deleted or has ended. Then the kubelet may have given the device
 * to another pod.
 */
static bool node_pool_has_ended(const struct node *node, const struct pool_device *p)
{
	const json_t *pod;

	if (!kube_cache_is_synced(node->pods))
		return false;
	pod = find_placeholder(node, node->options.space, p->placeholder);
	return !pod || node_is_over(pod, "");
}

static void offer_if_changed(struct node *node)
{
	if (!node->pool.has_changed)
		return;
	node->pool.has_changed = false;
	node_offer(node);
}

static bool node_pool_has_device(const struct node *node, const char *placeholder)
{
	for (uint32_t i = 0; i < node->agent->devices->n; i++)
		if (!strcmp(node->pool.device[i].placeholder, placeholder))
			return true;
	return false;
}

/* The next placeholder that has not ended; NULL: none after e. */
static const struct kube_entry *next_placeholder(
	const struct node *node, const struct kube_entry *e)
{
	while ((e = kube_cache_next(node->pods, e)))
		if (placeholder_is_one(e->object, node->options.space) &&
			!node_is_over(e->object, ""))
			break;
	return e;
}

static bool awaits_device(const struct node *node)
{
	const struct kube_entry *e = NULL;

	while (node->pool.is_on && (e = next_placeholder(node, e)))
		if (!node_is_terminating(e->object) && !node_pool_has_device(node, e->name))
			return true;
	return false;
}

/*
 * The kubelet does not announce which device it gives to a placeholder. So divvyd asks often while
 * a placeholder waits for its device.
 */
static void look_soon(struct node *node)
{
	const uint64_t now = clock_now_ns();

	if (!awaits_device(node)) {
		node->pool.awaited_ns = 0;
		return;
	}
	if (!node->pool.awaited_ns)
		node->pool.awaited_ns = now;
	if (now - node->pool.awaited_ns < POOL_SOON_FOR_NS &&
		!loop_timer_is_armed(&node->pool.soon))
		loop_set_timer(&node->pool.soon, now + POOL_SOON_NS);
}

static void on_soon(struct loop_timer *timer, uint64_t now)
{
	struct node *node = timer->data;

	node->pool.next_ns = 0;
	node_pool_look(node, now);
}

void node_pool_pod_changed(struct node *node)
{
	const struct device_set *set = node->agent->devices;

	for (uint32_t i = 0; node->pool.is_on && i < set->n; i++)
		if (node->pool.device[i].placeholder[0] &&
			node_pool_has_ended(node, &node->pool.device[i]))
			node_pool_lose_device(node, &set->devices[i]);
	node->pool.next_ns = 0;
	offer_if_changed(node);
	look_soon(node);
}

/* ---- the kubelet's answer ---- */

static void node_pool_note_device(
	struct node *node, const struct device *d, const struct podres_container *holder)
{
	struct pool_device *p = &node->pool.device[d->index];
	const bool is_ours = holder && find_placeholder(node, holder->space, holder->pod);

	if (holder)
		p->missed_ns = 0;
	if (is_ours && !strcmp(p->placeholder, holder->pod))
		return;
	if (!holder && !(p->placeholder[0] && node_pool_has_ended(node, p))) {
		if (!p->missed_ns)
			p->missed_ns = clock_now_ns();
		if (clock_now_ns() - p->missed_ns < POOL_MISSED_NS)
			return;
	}
	p->is_known = true;
	/*
	 * A tenant may be older than this daemon, and its device may have changed owner while no
	 * daemon ran.
	 */
	if (p->placeholder[0] || (!is_ours && has_tenants(node, d)))
		node_pool_lose_device(node, d);
	if (is_ours &&
		str_copy(p->placeholder, sizeof(p->placeholder), str_from(holder->pod)) >= 0) {
		log_info("device %s: placeholder %s holds it", d->info.uuid, p->placeholder);
		node->pool.has_changed = true;
	}
}

/* Returns the container that has the device; NULL: none. */
static const struct podres_container *holder_of(
	const struct podres_list *list, const struct device *d)
{
	for (size_t i = 0; i < list->n_containers; i++) {
		const struct podres_container *c = &list->containers[i];

		for (size_t k = 0; k < c->n_devices; k++)
			if (node_is_gpu(c->devices[k].resource) &&
				!strcmp(c->devices[k].id, d->info.uuid))
				return c;
	}
	return NULL;
}

static void node_pool_on_list(void *data, const struct podres_list *list, const struct error *err)
{
	struct node *node = data;
	const struct device_set *set = node->agent->devices;

	node->pool.question = NULL;
	/* Without the kubelet's list, or without the pods that the list names, nothing changes. */
	if (list && kube_cache_is_synced(node->pods)) {
		for (uint32_t i = 0; i < set->n; i++)
			node_pool_note_device(
				node, &set->devices[i], holder_of(list, &set->devices[i]));
		offer_if_changed(node);
	}
	look_soon(node);
}

/*
 * While placeholders are left the node stays in the pool, so that removing spec.pool takes no
 * device from running tenants.
 */
static bool has_placeholders(const struct node *node)
{
	if (!kube_cache_is_synced(node->pods))
		return !strcmp(kube_json_text(node->status_seen, "owner"), "pool");
	return next_placeholder(node, NULL);
}

void node_pool_look(struct node *node, uint64_t now)
{
	const json_t *gpunode = node_gpunode(node);

	/* The last known value holds while the API server is away. */
	if (gpunode) {
		node->pool.is_wanted = kube_json_at(gpunode, "spec", "pool", NULL);
		node->pool.is_on = node->pool.is_wanted || has_placeholders(node);
	}
	if (!node->pool.is_on || node->pool.question || now < node->pool.next_ns)
		return;
	node->pool.next_ns = now + POOL_LOOK_NS;
	if (podres_ask(node->podres, node_pool_on_list, node, &node->pool.question) < 0)
		node->pool.question = NULL;
}

int node_pool_new(struct node *node)
{
	node->pool.soon.data = node;
	return loop_add_timer(node->agent->loop, &node->pool.soon, on_soon);
}

void node_pool_free(struct node *node)
{
	loop_remove_timer(&node->pool.soon);
}
