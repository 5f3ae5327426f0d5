/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes the node's devices as ResourceSlices, and their health to the kubelet. A cache follows
 * the slices of this node and driver. Every event leads to slices_step(), which compares the cache
 * with what the slices should be, and begins a round if they differ: the new slices one after
 * another, all with the next generation of the pool, and then the removal of slices that the pool
 * does not have. A round ends when the cache has seen it. An unchanged node writes nothing.
 *
 * A kubelet removes the slices of its node when it starts and when it misses the driver. The cache
 * sees that, and the slices come again once the kubelet has registered the driver.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"
#include "base/log.h"
#include "dra/dra-slice.h"
#include "kube/kube-json.h"
#include "kubelet/dra-plugin.h"
#include "manifest/cordon.h"
#include "node/node-dra.h"

#define SLICE_DELAY_NS (20 * NSEC_PER_MSEC)
#define SLICE_AGAIN_NS (1 * NSEC_PER_SEC)
/* The cache follows the API server within this time, or the slices are compared once more. */
#define SLICE_SEEN_NS (10 * NSEC_PER_SEC)
#define SLICES_REMOVED_MAX 64u /* in a round */
#define SLICE_PATH "/apis/" SLICE_API "/resourceslices"

struct dra_slices {
	struct dra *dra;
	struct kube_cache *cache;
	struct kube_call *call;
	struct loop_timer timer;
	char *node_uid; /* NULL: the Node has to be read */
	/* The round: slices that are being written; NULL: no round. */
	json_t *round;
	size_t next, n_removed;
	int64_t generation;  /* of the last round */
	uint64_t seen_by_ns; /* end of the wait for the cache after a round; 0: no wait */
	char fault[256];     /* last logged reason for not being published */
	char *left_out;      /* the devices that were logged as left out; NULL: none yet */
};

static void slices_step(struct dra_slices *s);

static void step_after(struct dra_slices *s, uint64_t delay_ns)
{
	const uint64_t at_ns = clock_now_ns() + delay_ns;

	if (!loop_timer_is_armed(&s->timer) || at_ns < s->timer.deadline_ns)
		loop_set_timer(&s->timer, at_ns);
}

static void slices_fault(struct dra_slices *s, const char *why)
{
	if (strcmp(s->fault, why) != 0)
		log_warn("ResourceSlices: %s", why);
	snprintf(s->fault, sizeof(s->fault), "%s", why);
	step_after(s, SLICE_AGAIN_NS);
}

/* ---- devices ---- */

struct dra_known *dra_known_devices(const struct node *node)
{
	const struct device_set *set = node->agent->devices;
	struct dra_known *known = calloc(set->n + 1, sizeof(*known));

	for (uint32_t i = 0; known && i < set->n; i++)
		known[i] = (struct dra_known){
			set->devices[i].info.uuid, set->devices[i].info.usable_bytes};
	return known;
}

/*
 * The lowest index among the devices that NVLink connects with this one, directly or through other
 * devices; -1: none. So two devices have the same number exactly if they are connected.
 */
static int32_t nvlink_group(const struct device_set *set, uint32_t of)
{
	uint32_t found[ARBITER_DEVICES] = {of}, n = 1, lowest = of;
	bool is_found[ARBITER_DEVICES] = {false};

	is_found[of] = true;
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t i = 0; i < set->n; i++) {
			if (is_found[i] || device_link(set, found[k], i) != NVML_LINK_NVLINK)
				continue;
			is_found[i] = true;
			found[n++] = i;
			lowest = MIN(lowest, i);
		}
	return n > 1 ? (int32_t)lowest : -1;
}

/* NVML's address of a PCI device has a domain of 8 digits, and Kubernetes' attribute one of 4. */
static const char *short_pci(const char *pci)
{
	return strlen(pci) == strlen("00000000:65:00.0") && !strncmp(pci, "0000", 4) ? pci + 4
										     : pci;
}

/* `values` has the texts of the taints, which the device borrows. */
static void fill_taints(const struct node *node, const struct device *d,
	struct device_taint values[static DEVICE_FAULTS], struct slice_device *ret)
{
	for (enum device_fault fault = 0; fault < DEVICE_FAULTS; fault++)
		if (device_taint(d, fault, &values[fault]))
			ret->taints[ret->n_taints++] = (struct slice_taint){values[fault].key,
				values[fault].value, values[fault].is_no_execute,
				values[fault].since_ns};
	if (cordon_has(node_gpunode(node), d->info.uuid))
		ret->taints[ret->n_taints++] = (struct slice_taint){
			"divvy.gpu/cordoned", "", false, 0};
}

/* Logs the devices that no slice can have, when they change. */
static void log_left_out(struct dra_slices *s, const struct slice_node *all)
{
	_cleanup_buf_ struct buf list = BUF_INIT(4096);
	const char *why;

	for (size_t i = 0; i < all->n_devices; i++)
		if (!slice_admits(&all->devices[i], &why))
			buf_addf(&list, "%s%.95s: %s", list.n ? "; " : "", all->devices[i].uuid,
				why);
	if (!s->left_out || strcmp(s->left_out, buf_text(&list)) != 0) {
		free(s->left_out);
		s->left_out = str_dup(buf_str(&list));
		if (list.n)
			log_warn("ResourceSlices: devices that claims cannot get: %s",
				buf_text(&list));
	}
}

/* The slices as they should be now. NULL: out of memory. */
static json_t *wanted(struct dra_slices *s, int64_t generation)
{
	const struct node *node = s->dra->node;
	const struct device_set *set = node->agent->devices;
	const bool is_closed = node->conflict[0] || node->is_pid_hidden;
	_cleanup_free_ struct slice_device *devices = calloc(set->n + 1, sizeof(*devices));
	_cleanup_free_ struct device_taint(*taints)[DEVICE_FAULTS] = calloc(
		set->n + 1, sizeof(*taints));
	struct slice_node all = {.name = node->options.name,
		.uid = s->node_uid,
		.driver = set->nvml ? nvml_driver_version(set->nvml) : NULL,
		.cuda_version = nvml_cuda_version(set->nvml),
		.is_simulated = set->is_simulated,
		.tenants_max = node->n_regular,
		.devices = devices,
		.n_devices = is_closed ? 0 : set->n};

	if (!devices || !taints)
		return NULL;
	for (uint32_t i = 0; i < set->n; i++) {
		const struct device *d = &set->devices[i];

		devices[i] = (struct slice_device){.uuid = d->info.uuid,
			.model = d->info.model,
			.architecture = d->info.architecture,
			.compute_major = d->info.compute_major,
			.compute_minor = d->info.compute_minor,
			.pci = short_pci(d->info.pci),
			.parent = d->info.parent,
			.usable_bytes = d->info.usable_bytes,
			.numa = d->info.numa,
			.nvlink_group = nvlink_group(set, i)};
		fill_taints(node, d, taints[i], &devices[i]);
	}
	log_left_out(s, &all);
	return slice_build(&all, generation);
}

/* ---- health ---- */

static void report_health(struct dra *dra)
{
	const struct device_set *set = dra->node->agent->devices;
	_cleanup_free_ struct dra_health *all = calloc(2 * set->n + 1, sizeof(*all));
	_cleanup_free_ char(*names)[DRA_DEVICE] = calloc(2 * set->n + 1, sizeof(*names));
	struct error err;
	size_t n = 0;

	if (!all || !names || !dra->plugin)
		return;
	for (uint32_t i = 0; i < set->n; i++)
		for (enum dra_kind kind = DRA_WHOLE; kind <= DRA_SHARED; kind++) {
			const struct device *d = &set->devices[i];
			const char *fault = device_fault_text(d);

			if (!dra_device_name(kind, d->info.uuid, names[n]))
				continue;
			all[n] = (struct dra_health){.pool = dra->node->options.name,
				.device = names[n],
				.is_healthy = !device_is_faulty(d),
				.since_s = (int64_t)dra->since_s,
				.message = fault ? fault : ""};
			n++;
		}
	if (dra_plugin_report(dra->plugin, all, n, &err) < 0)
		log_warn("health of the devices: %s", err.msg);
}

/* ---- the Node's UID ---- */

static void on_node(void *data, const struct kube_answer *answer)
{
	struct dra_slices *s = data;
	_cleanup_json_ json_t *object = NULL;
	struct error err = {0};
	const char *uid;

	s->call = NULL;
	if (answer->result < 0)
		kube_answer_explain(answer, "the Node cannot be read", &err);
	else
		kube_json_parse(answer->body, &object, &err);
	uid = kube_json_text_at(object, "metadata", "uid", NULL);
	s->node_uid = uid ? str_dup(str_from(uid)) : NULL;
	if (s->node_uid)
		step_after(s, 0);
	else
		slices_fault(s, err.code ? err.msg : "the Node has no UID");
}

static void read_node(struct dra_slices *s)
{
	const struct kube_write read = {
		.target = {"v1", "nodes", NULL, s->dra->node->options.name, NULL},
		.done = on_node,
		.data = s,
		.ret_call = &s->call,
	};
	struct error err;

	if (kube_read(s->dra->node->client, &read, &err) < 0)
		slices_fault(s, err.msg);
}

/* ---- a round ---- */

static const char *slice_name(const json_t *slice)
{
	return kube_json_text_at(slice, "metadata", "name", NULL);
}

/* A slice of this node and driver that the pool does not have; NULL: none. */
static const struct kube_entry *find_extra(const struct dra_slices *s, const json_t *slices)
{
	const struct kube_entry *entry = NULL;

	while ((entry = kube_cache_next(s->cache, entry))) {
		bool is_ours = false;

		for (size_t i = 0; i < json_array_size(slices); i++)
			is_ours |= !strcmp(slice_name(json_array_get(slices, i)), entry->name);
		if (!is_ours)
			return entry;
	}
	return NULL;
}

static void end_round(struct dra_slices *s)
{
	json_decref(TAKE_PTR(s->round));
	s->seen_by_ns = clock_now_ns() + SLICE_SEEN_NS;
	step_after(s, SLICE_DELAY_NS);
}

static void on_written(void *data, const struct kube_answer *answer)
{
	struct dra_slices *s = data;
	struct error err;

	s->call = NULL;
	if (answer->result < 0 && answer->result != -ENOENT) {
		json_decref(TAKE_PTR(s->round));
		kube_answer_explain(answer, "cannot be written", &err);
		slices_fault(s, err.msg);
		return;
	}
	step_after(s, 0);
}

/* Sends the next request of the round. Returns 0 if there is none. */
static int write_next(struct dra_slices *s, struct error *err)
{
	struct kube_write write = {
		.target = {SLICE_API, "resourceslices", NULL, NULL, NULL},
		.field_manager = NODE_FIELD_MANAGER,
		.is_forced = true,
		.done = on_written,
		.data = s,
		.ret_call = &s->call,
	};
	const json_t *slice = json_array_get(s->round, s->next);
	const struct kube_entry *extra;
	int r;

	if (slice) {
		s->next++;
		write.target.name = slice_name(slice);
		r = kube_patch(s->dra->node->client, &write, KUBE_PATCH_APPLY, slice, err);
		return r < 0 ? r : 1;
	}
	extra = find_extra(s, s->round);
	if (!extra || s->n_removed >= SLICES_REMOVED_MAX)
		return 0;
	s->n_removed++;
	write.target.name = extra->name;
	r = kube_delete(s->dra->node->client, &write,
		&(struct kube_delete){.uid = extra->uid, .grace_s = -1}, err);
	return r < 0 ? r : 1;
}

static void go_on(struct dra_slices *s)
{
	struct error err;
	int r = write_next(s, &err);

	if (r == 0) {
		end_round(s);
	} else if (r < 0) {
		json_decref(TAKE_PTR(s->round));
		slices_fault(s, err.msg);
	}
}

/* Whether the cache has the slices, all with one generation, which is written to ret_newest. */
static bool is_published(const struct dra_slices *s, const json_t *slices, int64_t *ret_newest)
{
	const struct kube_entry *entry = NULL;
	bool is_same = !find_extra(s, slices);
	int64_t newest = 0;

	while ((entry = kube_cache_next(s->cache, entry)))
		newest = MAX(newest, slice_generation(entry->object));
	for (size_t i = 0; i < json_array_size(slices); i++) {
		const json_t *slice = json_array_get(slices, i);

		entry = kube_cache_find(s->cache, NULL, slice_name(slice));
		is_same &= entry && slice_generation(entry->object) == newest &&
			slice_is_as(entry->object, slice);
	}
	*ret_newest = newest;
	return is_same;
}

static void slices_step(struct dra_slices *s)
{
	const uint64_t now = clock_now_ns();
	_cleanup_json_ json_t *slices = NULL;
	int64_t newest;

	if (s->call || !kube_cache_is_synced(s->cache) || !dra_plugin_is_known(s->dra->plugin))
		return;
	if (!s->node_uid) {
		read_node(s);
		return;
	}
	if (s->round) {
		go_on(s);
		return;
	}
	slices = wanted(s, 0);
	if (!slices) {
		slices_fault(s, "out of memory");
		return;
	}
	if (is_published(s, slices, &newest)) {
		s->seen_by_ns = 0;
		s->fault[0] = '\0';
		s->generation = MAX(s->generation, newest);
		return;
	}
	/* The cache has not seen the last round yet. */
	if (now < s->seen_by_ns && newest <= s->generation) {
		loop_set_timer(&s->timer, s->seen_by_ns);
		return;
	}
	s->generation = MAX(s->generation, newest) + 1;
	s->round = wanted(s, s->generation);
	s->next = s->n_removed = 0;
	log_info("ResourceSlices: %zu slices of generation %lld", json_array_size(s->round),
		(long long)s->generation);
	go_on(s);
}

/* ---- events ---- */

static void on_timer(struct loop_timer *timer, uint64_t now)
{
	struct dra_slices *s = timer->data;

	report_health(s->dra);
	slices_step(s);
}

void dra_slices_touch(struct dra *dra)
{
	step_after(dra->slices, SLICE_DELAY_NS);
}

static void on_slice(void *data, const struct kube_entry *entry)
{
	step_after(data, SLICE_DELAY_NS);
}

static void on_slice_updated(void *data, const struct kube_entry *entry, void *old)
{
	step_after(data, SLICE_DELAY_NS);
}

static void on_slice_deleted(void *data, const struct kube_entry *entry)
{
	struct dra_slices *s = data;

	/* A wait for the cache would miss slices that the kubelet has removed right after. */
	s->seen_by_ns = 0;
	/* Kubernetes also removes slices whose Node is gone. A Node of that name may have come. */
	free(TAKE_PTR(s->node_uid));
	step_after(s, SLICE_DELAY_NS);
}

static void on_slices_synced(void *data)
{
	step_after(data, 0);
}

static int project_slice(
	void *data, const struct kube_object *object, void **ret, struct error *err)
{
	*ret = json_incref(object->json);
	return 0;
}

static void release_slice(void *own)
{
	json_decref(own);
}

static void on_trouble(void *data, const struct error *err)
{
	log_warn("%s", err->msg);
}

int dra_slices_new(struct dra *dra, struct error *err)
{
	struct dra_slices *s = calloc(1, sizeof(*s));
	char selector[400];
	const struct kube_reflect_options options = {
		.path = SLICE_PATH, .field_selector = selector, .max_pause_ns = 5 * NSEC_PER_SEC};
	const struct kube_cache_handler handler = {
		.project = project_slice,
		.release = release_slice,
		.added = on_slice,
		.updated = on_slice_updated,
		.deleted = on_slice_deleted,
		.synced = on_slices_synced,
		.trouble = on_trouble,
		.data = s,
	};

	if (!s)
		return fail(err, ENOMEM, "out of memory");
	dra->slices = s;
	s->dra = dra;
	s->timer.data = s;
	if (loop_add_timer(dra->node->agent->loop, &s->timer, on_timer) < 0)
		return fail(err, ENOMEM, "out of memory");
	snprintf(selector, sizeof(selector), "spec.nodeName=%s,spec.driver=" CLAIM_DRIVER,
		dra->node->options.name);
	return kube_cache_new(dra->node->client, &options, &handler, &s->cache, err);
}

void dra_slices_free(struct dra_slices *s)
{
	if (!s)
		return;
	kube_call_cancel(s->call);
	loop_remove_timer(&s->timer);
	kube_cache_free(s->cache);
	json_decref(s->round);
	free(s->node_uid);
	free(s->left_out);
	free(s);
}
