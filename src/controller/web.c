/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the cluster's objects into the dashboard's state; web-serve.c sends the state to viewers. */
#include "controller/web.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/rand.h"
#include "controller/web-internal.h"
#include "controller/web-view.h"
#include "kube/time.h"
#include "spec/measured.h"

#define PUSH_NS (250 * NSEC_PER_MSEC)
#define BEAT_NS (10 * NSEC_PER_SEC)
#define LEASE_DURATION_DEFAULT_S 40
#define SILENCE_NS (10 * NSEC_PER_SEC)
#define KEY_MAX 640u

/* A node name with its GPUNode, its Lease, or both. */
struct web_node {
	UT_hash_handle hh;
	json_t *gpu_node, *lease;
	/* when the last renewal of the Lease was seen, by this machine's clock */
	uint64_t renewed_ns;
	bool is_alive;
	size_t n_devices;
	char name[];
};

int web_new(struct loop *loop, struct web **ret_web, struct error *err)
{
	static const uint32_t max[WEB_N_KINDS] = {
		[WEB_NODES] = WEB_NODES_MAX,
		[WEB_USE] = WEB_NODES_MAX,
		[WEB_SUMMARY] = WEB_NODES_MAX,
		[WEB_WAITING] = WEB_WAITING_MAX,
		[WEB_TOTALS] = 1,
	};
	struct web *web = calloc(1, sizeof(*web));

	if (!web)
		return fail(err, ENOMEM, "out of memory");
	web->loop = loop;
	LIST_INIT(&web->viewers);
	if (random_bytes(&web->epoch, sizeof(web->epoch)) < 0 ||
		web_state_new(max, &web->state) < 0 ||
		web_history_new(WEB_TENANTS_MAX, &web->history) < 0 ||
		!(web->waiting = json_object())) {
		web_free(web);
		return fail(err, ENOMEM, "out of memory");
	}
	*ret_web = web;
	return 0;
}

static void web_node_free(struct web *web, struct web_node *node)
{
	HASH_DEL(web->nodes, node);
	web->n_devices -= node->n_devices;
	json_decref(node->gpu_node);
	json_decref(node->lease);
	free(node);
}

void web_free(struct web *web)
{
	struct web_node *node, *next;

	if (!web)
		return;
	if (web->is_ready) {
		loop_remove_timer(&web->push);
		loop_remove_timer(&web->beat);
	}
	HASH_ITER(hh, web->nodes, node, next)
		web_node_free(web, node);
	json_decref(web->waiting);
	web_history_free(web->history);
	web_state_free(web->state);
	free(web);
}

/* Sets the item. The change is sent after a short delay, together with others. */
static void web_put_item(struct web *web, enum web_kind kind, const char *key, const char *json)
{
	web_state_set(web->state, kind, key, json);
	if (web->is_ready && web_state_number(web->state) != web->sent &&
		!loop_timer_is_armed(&web->push))
		loop_set_timer(&web->push, clock_now_ns() + PUSH_NS);
}

/* ---- nodes ---- */

static struct web_node *web_find_node(struct web *web, const char *name, bool is_made)
{
	const size_t n = strlen(name);
	struct web_node *node;

	HASH_FIND_STR(web->nodes, name, node);
	if (node || !is_made || !(node = calloc(1, sizeof(*node) + n + 1)))
		return node;
	memcpy(node->name, name, n + 1);
	HASH_ADD_KEYPTR(hh, web->nodes, node->name, n, node);
	return node;
}

static uint64_t duration_ns(const struct web_node *node)
{
	const json_int_t s = json_integer_value(
		kube_json_at(node->lease, "spec", "leaseDurationSeconds", NULL));

	return (uint64_t)(s > 0 && s < 86400 ? s : LEASE_DURATION_DEFAULT_S) * NSEC_PER_SEC;
}

static bool web_is_node_alive(const struct web_node *node, uint64_t now)
{
	return node->lease && clock_since_ns(now, node->renewed_ns) <= duration_ns(node);
}

static struct str measured_in(const json_t *lease)
{
	return str_from(json_string_value(json_object_get(
		kube_json_at(lease, "metadata", "annotations", NULL), MEASURED_KEY)));
}

static struct str web_measured_of(const struct web_node *node)
{
	return measured_in(node->lease);
}

/*
 * Returns when the Lease of the node's divvyd was last renewed, in seconds since 1970; 1: no
 * renewal was ever seen.
 */
static uint64_t silent_since_s(const struct web_node *node)
{
	const uint64_t ago_ns = clock_since_ns(clock_now_ns(), node->renewed_ns);

	return node->lease && node->renewed_ns
		? MAX(clock_since_ns(clock_real_ns(), ago_ns) / NSEC_PER_SEC, UINT64_C(1))
		: 1;
}

struct str web_measured(const struct web *web, const char *name)
{
	struct web_node *node;

	HASH_FIND_STR(web->nodes, name, node);
	return node && web_is_node_alive(node, clock_now_ns()) ? web_measured_of(node) : STR_NONE;
}

static bool is_large(const struct web *web)
{
	return web->n_devices > WEB_DEVICES_SENT;
}

uint32_t web_kinds(const struct web *web)
{
	const uint32_t of_nodes = is_large(web) ? 1u << WEB_SUMMARY
						: 1u << WEB_NODES | 1u << WEB_USE;

	return of_nodes | 1u << WEB_WAITING | 1u << WEB_TOTALS;
}

static void show_summary(struct web *web, struct web_node *node)
{
	_cleanup_free_ char *summary = NULL;

	if (node->gpu_node && is_large(web))
		summary = web_view_summary(node->gpu_node,
			node->is_alive ? 0 : silent_since_s(node), web_measured_of(node));
	web_put_item(web, WEB_SUMMARY, node->name, summary);
}

/*
 * When the cluster becomes large, or small again, all viewers get the whole state in the other
 * form. The new epoch makes their event ids invalid.
 */
static void count_devices(struct web *web, struct web_node *node)
{
	const bool was_large = is_large(web);
	struct web_node *one, *next;

	web->n_devices -= node->n_devices;
	node->n_devices = web_view_count_devices(node->gpu_node);
	web->n_devices += node->n_devices;
	if (is_large(web) == was_large)
		return;
	web->epoch++;
	web->sent = 0;
	HASH_ITER(hh, web->nodes, one, next)
		show_summary(web, one);
}

static void show_use(struct web *web, struct web_node *node)
{
	_cleanup_free_ char *use = node->gpu_node
		? web_view_use(node->gpu_node, web_measured_of(node))
		: NULL;

	web_put_item(web, WEB_USE, node->name, use);
	show_summary(web, node);
}

static void show_node(struct web *web, struct web_node *node)
{
	_cleanup_free_ char *shown = NULL;

	node->is_alive = web_is_node_alive(node, clock_now_ns());
	if (node->gpu_node)
		shown = web_view_node(node->gpu_node, node->is_alive ? 0 : silent_since_s(node));
	web_put_item(web, WEB_NODES, node->name, shown);
	show_use(web, node);
}

static void forget_history(void *data, const char *key)
{
	struct web *web = data;

	web_history_forget(web->history, key);
}

static void web_replace_object(json_t **at, json_t *object)
{
	json_t *old = *at;

	*at = json_incref(object);
	json_decref(old);
}

void web_set_gpu_node(struct web *web, const char *name, json_t *object)
{
	struct web_node *node = web_find_node(web, name, object != NULL);

	if (!node)
		return;
	web_view_each_removed(node->gpu_node, object, forget_history, web);
	web_replace_object(&node->gpu_node, object);
	count_devices(web, node);
	show_node(web, node);
	if (!node->gpu_node && !node->lease)
		web_node_free(web, node);
}

static void add_history(void *data, const char *key, uint32_t share_permille, uint64_t bytes)
{
	struct web *web = data;

	web_history_add(web->history, key, share_permille, bytes, clock_now_ns() / NSEC_PER_SEC);
}

/*
 * Returns when the Lease was renewed, by this machine's clock. For the first Lease that is seen,
 * the time in the Lease counts.
 */
static uint64_t when_renewed(const struct web_node *node, const json_t *lease, uint64_t now)
{
	const char *before = kube_json_text_at(node->lease, "spec", "renewTime", NULL),
		   *after = kube_json_text_at(lease, "spec", "renewTime", NULL);
	uint64_t real_ns = 0, age_ns;

	if (before && after && !strcmp(before, after))
		return node->renewed_ns;
	if (node->lease || !after || kube_time_parse(str_from(after), &real_ns) < 0)
		return now;
	age_ns = clock_since_ns(clock_real_ns(), real_ns);
	return clock_since_ns(now, age_ns);
}

void web_set_lease(struct web *web, const char *name, json_t *object)
{
	struct web_node *node = web_find_node(web, name, object != NULL);
	const uint64_t now = clock_now_ns();
	bool is_new, is_same;

	if (!node)
		return;
	/* Most renewals of an idle node's Lease change nothing that a viewer sees. */
	is_same = object && node->lease && str_eq(measured_in(node->lease), measured_in(object));
	is_new = object && when_renewed(node, object, now) != node->renewed_ns;
	if (object)
		node->renewed_ns = when_renewed(node, object, now);
	web_replace_object(&node->lease, object);
	if (is_new && node->gpu_node)
		web_view_each_use(node->gpu_node, web_measured_of(node), add_history, web);
	if (node->is_alive != web_is_node_alive(node, now))
		show_node(web, node);
	else if (!is_same)
		show_use(web, node);
	if (!node->gpu_node && !node->lease)
		web_node_free(web, node);
}

/* ---- pods that wait ---- */

/*
 * If more pods wait than the page shows, pods that were not shown take the places that became free.
 */
static void fill_up(struct web *web)
{
	const char *key;
	json_t *text;
	void *next;

	json_object_foreach_safe(web->waiting, next, key, text)
	{
		if (web_state_count(web->state, WEB_WAITING) >= WEB_WAITING_MAX)
			return;
		web_put_item(web, WEB_WAITING, key, json_string_value(text));
		json_object_del(web->waiting, key);
	}
}

static void show_total(struct web *web)
{
	char total[64];

	web->n_waiting = web_state_count(web->state, WEB_WAITING) + json_object_size(web->waiting);
	snprintf(total, sizeof(total), "{\"n\":%" PRIu64 "}", web->n_waiting);
	web_put_item(web, WEB_TOTALS, "waiting", total);
}

void web_set_pod(struct web *web, const char *ns, const char *name, const json_t *object)
{
	_cleanup_free_ char *text = NULL;
	char key[KEY_MAX];

	snprintf(key, sizeof(key), "%s/%s", ns, name);
	if (object && web_view_is_waiting(object))
		text = web_view_waiting(object);
	json_object_del(web->waiting, key);
	if (text && !web_state_has(web->state, WEB_WAITING, key) &&
		web_state_count(web->state, WEB_WAITING) >= WEB_WAITING_MAX)
		json_object_set_new(web->waiting, key, json_string(text));
	else
		web_put_item(web, WEB_WAITING, key, text);
	fill_up(web);
	show_total(web);
}

/* ---- time ---- */

static void on_push(struct loop_timer *timer, uint64_t now)
{
	web_send(timer->data);
}

void web_set_silence(struct web *web, web_silence_fn *silence, void *data)
{
	web->silence = silence;
	web->silence_data = data;
}

uint64_t web_silence_ns(const struct web *web)
{
	const uint64_t ns = web->silence ? web->silence(web->silence_data) : 0;

	return ns < SILENCE_NS ? 0 : ns;
}

/*
 * Sends a heartbeat, and shows nodes whose divvyd has become silent. While the API server does not
 * answer, no divvyd counts as silent.
 */
static void web_on_beat(struct loop_timer *timer, uint64_t now)
{
	struct web *web = timer->data;
	struct web_node *node, *next;

	HASH_ITER(hh, web->nodes, node, next)
		if (node->is_alive && web_silence_ns(web))
			node->renewed_ns = now;
		else if (node->gpu_node && node->is_alive && !web_is_node_alive(node, now))
			show_node(web, node);
	web_beat(web, now);
	loop_set_timer(timer, now + BEAT_NS);
}

void web_set_ready(struct web *web)
{
	if (web->is_ready)
		return;
	web->push.data = web->beat.data = web;
	if (loop_add_timer(web->loop, &web->push, on_push) < 0)
		return;
	if (loop_add_timer(web->loop, &web->beat, web_on_beat) < 0) {
		loop_remove_timer(&web->push);
		return;
	}
	web->is_ready = true;
	loop_set_timer(&web->beat, clock_now_ns() + BEAT_NS);
}

static uint32_t count_silent(const struct web *web)
{
	const uint64_t now = clock_now_ns();
	struct web_node *node, *next;
	uint32_t n = 0;

	HASH_ITER(hh, web->nodes, node, next)
		n += node->gpu_node && !web_is_node_alive(node, now);
	return n;
}

struct web_counts web_counts(const struct web *web)
{
	return (struct web_counts){.n_viewers = web->n_viewers,
		.n_silent = count_silent(web),
		.n_nodes = web_state_count(web->state, WEB_NODES),
		.n_waiting = (uint32_t)web->n_waiting,
		.n_histories = web_history_count(web->history),
		.n_sent = web->n_sent};
}
