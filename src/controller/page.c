/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of objects, put into the state; page-serve.c tells it to viewers. */
#include "controller/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "controller/page-internal.h"
#include "controller/page-view.h"
#include "core/measured.h"
#include "kube/hash.h"
#include "kube/time.h"

#define PUSH_NS (250 * NSEC_PER_MSEC)
#define BEAT_NS (10 * NSEC_PER_SEC)
#define LEASE_DURATION_DEFAULT_S 40
#define KEY_MAX 640u

/* What is known under the name of a node: its GPUNode, its Lease, or both. */
struct page_node {
	UT_hash_handle hh;
	json_t *gpu_node, *lease;
	uint64_t renewed_ns; /* seen to be renewed then, by our own clock */
	bool is_alive;
	char name[];
};

int page_new(struct loop *loop, struct page **ret_page, struct error *err)
{
	static const uint32_t max[PAGE_N_KINDS] = {
		[PAGE_NODES] = PAGE_NODES_MAX,
		[PAGE_USE] = PAGE_NODES_MAX,
		[PAGE_WAITING] = PAGE_WAITING_MAX,
		[PAGE_TOTALS] = 1,
	};
	struct page *page = calloc(1, sizeof(*page));

	if (!page)
		return fail(err, ENOMEM, "out of memory");
	page->loop = loop;
	LIST_INIT(&page->viewers);
	if (random_bytes(&page->epoch, sizeof(page->epoch)) < 0 ||
		page_state_new(max, &page->state) < 0 ||
		page_history_new(PAGE_TENANTS_MAX, &page->history) < 0 ||
		!(page->waiting = json_object())) {
		page_free(page);
		return fail(err, ENOMEM, "out of memory");
	}
	*ret_page = page;
	return 0;
}

static void node_free(struct page *page, struct page_node *node)
{
	HASH_DEL(page->nodes, node);
	json_decref(node->gpu_node);
	json_decref(node->lease);
	free(node);
}

void page_free(struct page *page)
{
	struct page_node *node, *next;

	if (!page)
		return;
	if (page->is_ready) {
		loop_remove_timer(&page->push);
		loop_remove_timer(&page->beat);
	}
	HASH_ITER(hh, page->nodes, node, next)
		node_free(page, node);
	json_decref(page->waiting);
	page_history_free(page->history);
	page_state_free(page->state);
	free(page);
}

/* What has changed is told soon, with what else changes until then. */
static void put(struct page *page, enum page_kind kind, const char *key, const char *json)
{
	page_state_set(page->state, kind, key, json);
	if (page->is_ready && page_state_number(page->state) != page->told &&
		!loop_timer_is_armed(&page->push))
		loop_set_timer(&page->push, clock_now_ns() + PUSH_NS);
}

/* ---- nodes ---- */

static struct page_node *node_of(struct page *page, const char *name, bool is_made)
{
	const size_t n = strlen(name);
	struct page_node *node;

	HASH_FIND_STR(page->nodes, name, node);
	if (node || !is_made || !(node = calloc(1, sizeof(*node) + n + 1)))
		return node;
	memcpy(node->name, name, n + 1);
	HASH_ADD_KEYPTR(hh, page->nodes, node->name, n, node);
	return node;
}

static uint64_t duration_ns(const struct page_node *node)
{
	const json_int_t s = json_integer_value(
		kube_json_at(node->lease, "spec", "leaseDurationSeconds", NULL));

	return (uint64_t)(s > 0 && s < 86400 ? s : LEASE_DURATION_DEFAULT_S) * NSEC_PER_SEC;
}

static bool is_alive(const struct page_node *node, uint64_t now)
{
	return node->lease && clock_since_ns(now, node->renewed_ns) <= duration_ns(node);
}

static struct str measured_of(const struct page_node *node)
{
	return str_from(json_string_value(json_object_get(
		kube_json_at(node->lease, "metadata", "annotations", NULL), MEASURED_KEY)));
}

static void show_use(struct page *page, struct page_node *node)
{
	_cleanup_free_ char *use = node->gpu_node ? page_view_use(node->gpu_node, measured_of(node))
						  : NULL;

	put(page, PAGE_USE, node->name, use);
}

static void show_node(struct page *page, struct page_node *node)
{
	_cleanup_free_ char *shown = NULL;

	node->is_alive = is_alive(node, clock_now_ns());
	if (node->gpu_node)
		shown = page_view_node(node->gpu_node, node->is_alive);
	put(page, PAGE_NODES, node->name, shown);
	show_use(page, node);
}

static void forget_history(void *data, const char *key)
{
	struct page *page = data;

	page_history_forget(page->history, key);
}

static void replace(json_t **at, json_t *object)
{
	json_t *old = *at;

	*at = json_incref(object);
	json_decref(old);
}

void page_set_gpu_node(struct page *page, const char *name, json_t *object)
{
	struct page_node *node = node_of(page, name, object != NULL);

	if (!node)
		return;
	page_view_each_gone(node->gpu_node, object, forget_history, page);
	replace(&node->gpu_node, object);
	show_node(page, node);
	if (!node->gpu_node && !node->lease)
		node_free(page, node);
}

static void add_history(void *data, const char *key, uint32_t share_permille, uint64_t bytes)
{
	struct page *page = data;

	page_history_add(page->history, key, share_permille, bytes, clock_now_ns() / NSEC_PER_SEC);
}

/* When it was renewed, by our clock; the first time its own word has to do. */
static uint64_t when_renewed(const struct page_node *node, const json_t *lease, uint64_t now)
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

void page_set_lease(struct page *page, const char *name, json_t *object)
{
	struct page_node *node = node_of(page, name, object != NULL);
	const uint64_t now = clock_now_ns();
	bool is_new;

	if (!node)
		return;
	is_new = object && when_renewed(node, object, now) != node->renewed_ns;
	if (object)
		node->renewed_ns = when_renewed(node, object, now);
	replace(&node->lease, object);
	if (is_new && node->gpu_node)
		page_view_each_use(node->gpu_node, measured_of(node), add_history, page);
	if (node->is_alive != is_alive(node, now))
		show_node(page, node);
	else
		show_use(page, node);
	if (!node->gpu_node && !node->lease)
		node_free(page, node);
}

/* ---- pods that wait ---- */

/* There are more than are shown: those take the places that become free. */
static void fill_up(struct page *page)
{
	const char *key;
	json_t *text;
	void *next;

	json_object_foreach_safe(page->waiting, next, key, text)
	{
		if (page_state_count(page->state, PAGE_WAITING) >= PAGE_WAITING_MAX)
			return;
		put(page, PAGE_WAITING, key, json_string_value(text));
		json_object_del(page->waiting, key);
	}
}

static void show_total(struct page *page)
{
	char total[64];

	page->n_waiting = page_state_count(page->state, PAGE_WAITING) +
		json_object_size(page->waiting);
	snprintf(total, sizeof(total), "{\"n\":%" PRIu64 "}", page->n_waiting);
	put(page, PAGE_TOTALS, "waiting", total);
}

void page_set_pod(struct page *page, const char *ns, const char *name, const json_t *object)
{
	_cleanup_free_ char *text = NULL;
	char key[KEY_MAX];

	snprintf(key, sizeof(key), "%s/%s", ns, name);
	if (object && page_view_is_waiting(object))
		text = page_view_waiting(object);
	json_object_del(page->waiting, key);
	if (text && !page_state_has(page->state, PAGE_WAITING, key) &&
		page_state_count(page->state, PAGE_WAITING) >= PAGE_WAITING_MAX)
		json_object_set_new(page->waiting, key, json_string(text));
	else
		put(page, PAGE_WAITING, key, text);
	fill_up(page);
	show_total(page);
}

/* ---- time ---- */

static void on_push(struct loop_timer *timer, uint64_t now)
{
	page_tell(timer->data);
}

/* Those that have become silent. */
static void on_beat(struct loop_timer *timer, uint64_t now)
{
	struct page *page = timer->data;
	struct page_node *node, *next;

	HASH_ITER(hh, page->nodes, node, next)
		if (node->gpu_node && node->is_alive && !is_alive(node, now))
			show_node(page, node);
	page_beat(page, now);
	loop_set_timer(timer, now + BEAT_NS);
}

void page_set_ready(struct page *page)
{
	if (page->is_ready)
		return;
	page->push.data = page->beat.data = page;
	if (loop_add_timer(page->loop, &page->push, on_push) < 0)
		return;
	if (loop_add_timer(page->loop, &page->beat, on_beat) < 0) {
		loop_remove_timer(&page->push);
		return;
	}
	page->is_ready = true;
	loop_set_timer(&page->beat, clock_now_ns() + BEAT_NS);
}

static uint32_t count_silent(const struct page *page)
{
	const uint64_t now = clock_now_ns();
	struct page_node *node, *next;
	uint32_t n = 0;

	HASH_ITER(hh, page->nodes, node, next)
		n += node->gpu_node && !is_alive(node, now);
	return n;
}

struct page_counts page_counts(const struct page *page)
{
	return (struct page_counts){.n_viewers = page->n_viewers,
		.n_silent = count_silent(page),
		.n_nodes = page_state_count(page->state, PAGE_NODES),
		.n_waiting = (uint32_t)page->n_waiting,
		.n_histories = page_history_count(page->history),
		.n_told = page->n_told};
}
