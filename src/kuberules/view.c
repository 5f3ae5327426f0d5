/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The known state of a cluster: see view.h. Each kind of object has a table. A bound pod is also in
 * the list of its node, and its request counts in the node's use. A nominated pod is only in a list
 * of its node.
 */
#include "kuberules/view-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/str.h"

int view_new(unsigned minor, struct view **ret_view, struct error *err)
{
	struct view *view;

	if (minor < VIEW_MINOR_OLDEST)
		return fail(err, ENOTSUP, "Kubernetes 1.%u: the oldest supported is 1.%d", minor,
			VIEW_MINOR_OLDEST);
	view = calloc(1, sizeof(*view));
	if (!view)
		return fail(err, ENOMEM, "out of memory");
	view->minor = minor;
	*ret_view = view;
	return 0;
}

void view_set_claims(struct view *view, const struct view_claims *claims)
{
	view->claims = claims;
}

void view_set_minor(struct view *view, unsigned minor)
{
	view->minor = minor;
}

static void topology_free(struct topology *topology)
{
	free(topology->key);
	free(topology->domains);
	free(topology);
}

static void forget_topologies(struct view *view)
{
	struct topology *topology, *next;

	HASH_ITER(hh, view->topologies, topology, next) {
		HASH_DEL(view->topologies, topology);
		topology_free(topology);
	}
}

void view_trim(struct view *view)
{
	if (!view->n_fits && HASH_COUNT(view->topologies) > VIEW_TOPOLOGIES_MAX)
		forget_topologies(view);
}

static void view_node_free(struct view_node *node)
{
	arena_done(&node->used_arena);
	free(node->pods.v);
	free(node->nominated.v);
	free(node->attachments.v);
	free(node->name);
	free(node);
}

void view_free(struct view *view)
{
	struct view_entry *entry, *next_entry;
	struct view_node *node, *next_node;

	if (!view)
		return;
	forget_topologies(view);
	HASH_ITER(hh, view->by_name, node, next_node) {
		HASH_DEL(view->by_name, node);
		view_node_free(node);
	}
	for (int i = 0; i < OBJECT_KINDS; i++) {
		HASH_ITER(hh, view->tables[i], entry, next_entry) {
			HASH_DEL(view->tables[i], entry);
			object_free(entry->object);
			free(entry);
		}
	}
	free(view->nodes);
	free(view->repelling.v);
	free(view);
}

static int pods_add(struct pod_list *list, const struct pod *pod)
{
	int r = array_grow(&list->v, &list->room, list->n + 1, sizeof(*list->v));

	if (r < 0)
		return r;
	list->v[list->n++] = pod;
	list->n_unclear += pod->is_anti_affinity_unclear;
	return 0;
}

static void pods_remove(struct pod_list *list, const struct pod *pod)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (list->v[i] == pod) {
			list->v[i] = list->v[--list->n];
			list->n_unclear -= pod->is_anti_affinity_unclear;
			return;
		}
}

/*
 * Returns the entry for that node name, and makes one if the name is new; NULL if memory is
 * exhausted.
 */
static struct view_node *want_node(struct view *view, const char *name)
{
	struct view_node *node;

	HASH_FIND_STR(view->by_name, name, node);
	if (node)
		return node;
	node = calloc(1, sizeof(*node));
	if (!node)
		return NULL;
	node->name = str_dup(str_from(name));
	if (node->name)
		HASH_ADD_KEYPTR(hh, view->by_name, node->name, strlen(node->name), node);
	if (!node->name || !node->hh.tbl) {
		view_node_free(node);
		return NULL;
	}
	return node;
}

/* Removes the entry if the Node is unknown and no pod or attachment names it. */
static void release_node(struct view *view, struct view_node *node)
{
	if (node->node || node->pods.n || node->nominated.n || node->attachments.n)
		return;
	HASH_DEL(view->by_name, node);
	view_node_free(node);
}

static int sum_used(struct view_node *node)
{
	arena_done(&node->used_arena);
	node->used = (struct resources){0};
	for (uint32_t i = 0; i < node->pods.n; i++) {
		int r = resources_add(&node->used_arena, &node->used, &node->pods.v[i]->request);

		if (r < 0)
			return r;
	}
	return 0;
}

static int link_pod(struct view *view, const struct pod *pod)
{
	const char *name = *pod->node ? pod->node : pod->nominated_node;
	struct view_node *node;
	int r;

	if (pod->is_over || pod->is_hidden || !*name)
		return 0;
	node = want_node(view, name);
	if (!node)
		return -ENOMEM;
	r = pods_add(*pod->node ? &node->pods : &node->nominated, pod);
	if (r == 0 && *pod->node && (pod->anti_affinity.n || pod->is_anti_affinity_unclear)) {
		r = pods_add(&view->repelling, pod);
		if (r < 0)
			pods_remove(&node->pods, pod);
	}
	if (r == 0 && *pod->node)
		r = resources_add(&node->used_arena, &node->used, &pod->request);
	if (r < 0)
		release_node(view, node);
	return r;
}

static void unlink_pod(struct view *view, const struct pod *pod)
{
	struct view_node *node;

	if (pod->is_over || pod->is_hidden || (!*pod->node && !*pod->nominated_node))
		return;
	HASH_FIND_STR(view->by_name, *pod->node ? pod->node : pod->nominated_node, node);
	if (!node)
		return;
	pods_remove(*pod->node ? &node->pods : &node->nominated, pod);
	if (*pod->node) {
		if (pod->anti_affinity.n || pod->is_anti_affinity_unclear)
			pods_remove(&view->repelling, pod);
		/*
		 * If memory is exhausted, the node counts as full, because an incomplete sum would
		 * be too small.
		 */
		if (sum_used(node) < 0)
			node->used = (struct resources){INT64_MAX, INT64_MAX, INT64_MAX};
	}
	release_node(view, node);
}

static int link_node(struct view *view, const struct node *node)
{
	struct view_node *slot = want_node(view, node->object.name);
	int r;

	if (!slot)
		return -ENOMEM;
	r = array_grow(&view->nodes, &view->room_nodes, view->n_nodes + 1, sizeof(*view->nodes));
	if (r < 0) {
		release_node(view, slot);
		return r;
	}
	forget_topologies(view);
	slot->node = node;
	slot->index = view->n_nodes;
	view->nodes[view->n_nodes++] = slot;
	return 0;
}

static void unlink_node(struct view *view, const struct node *node)
{
	struct view_node *slot;

	HASH_FIND_STR(view->by_name, node->object.name, slot);
	if (!slot || slot->node != node)
		return;
	forget_topologies(view);
	view->n_nodes--;
	view->nodes[slot->index] = view->nodes[view->n_nodes];
	view->nodes[slot->index]->index = slot->index;
	slot->node = NULL;
	release_node(view, slot);
}

static int link_attachment(struct view *view, const struct attachment *attachment)
{
	struct view_node *node;
	struct attachment_list *list;
	int r;

	if (!*attachment->node || !*attachment->volume)
		return 0;
	node = want_node(view, attachment->node);
	if (!node)
		return -ENOMEM;
	list = &node->attachments;
	r = array_grow(&list->v, &list->room, list->n + 1, sizeof(*list->v));
	if (r == 0)
		list->v[list->n++] = attachment;
	else
		release_node(view, node);
	return r;
}

static void unlink_attachment(struct view *view, const struct attachment *attachment)
{
	struct attachment_list *list;
	struct view_node *node;

	HASH_FIND_STR(view->by_name, attachment->node, node);
	if (!node)
		return;
	list = &node->attachments;
	for (uint32_t i = 0; i < list->n; i++)
		if (list->v[i] == attachment) {
			list->v[i] = list->v[--list->n];
			break;
		}
	release_node(view, node);
}

static int link_object(struct view *view, const struct object *object)
{
	if (object->kind == OBJECT_POD)
		return link_pod(view, (const struct pod *)object);
	if (object->kind == OBJECT_NODE)
		return link_node(view, (const struct node *)object);
	if (object->kind == OBJECT_ATTACHMENT)
		return link_attachment(view, (const struct attachment *)object);
	return 0;
}

static void unlink_object(struct view *view, const struct object *object)
{
	if (object->kind == OBJECT_POD)
		unlink_pod(view, (const struct pod *)object);
	else if (object->kind == OBJECT_NODE)
		unlink_node(view, (const struct node *)object);
	else if (object->kind == OBJECT_ATTACHMENT)
		unlink_attachment(view, (const struct attachment *)object);
}

/*
 * Replaces a changed node in its entry, so that its number stays; returns false for other objects.
 */
static bool swap_node(struct view *view, const struct object *old, const struct object *new)
{
	struct view_node *slot;

	if (new->kind != OBJECT_NODE)
		return false;
	HASH_FIND_STR(view->by_name, old->name, slot);
	slot->node = (const struct node *)new;
	forget_topologies(view);
	return true;
}

static struct view_entry *view_find_entry(
	const struct view *view, enum object_kind kind, const char *ns, const char *name)
{
	_cleanup_buf_ struct buf key = BUF_INIT(2 * READ_TEXT_MAX + 2);
	struct view_entry *entry = NULL;
	char small[256];
	int n;

	if (!object_types[kind].is_namespaced)
		ns = "";
	n = snprintf(small, sizeof(small), "%s/%s", ns, name);
	if ((size_t)n < sizeof(small))
		HASH_FIND(hh, view->tables[kind], small, (size_t)n, entry);
	else if (buf_addf(&key, "%s/%s", ns, name) == 0)
		HASH_FIND(hh, view->tables[kind], key.p, key.n, entry);
	return entry;
}

static int view_add_entry(struct view *view, struct object *object)
{
	size_t n = strlen(object->ns) + strlen(object->name) + 1;
	struct view_entry *entry = calloc(1, sizeof(*entry) + n + 1);

	if (!entry)
		return -ENOMEM;
	snprintf(entry->key, n + 1, "%s/%s", object->ns, object->name);
	entry->object = object;
	HASH_ADD_KEYPTR(hh, view->tables[object->kind], entry->key, n, entry);
	if (entry->hh.tbl)
		return 0;
	free(entry);
	return -ENOMEM;
}

int view_set(struct view *view, enum object_kind kind, json_t *json, struct error *err)
{
	_cleanup_(object_free_p) struct object *object = NULL;
	struct view_entry *entry;
	struct object *old;
	int r;

	r = object_new(kind, view->minor, json, &object, err);
	if (r < 0)
		return r;
	entry = view_find_entry(view, kind, object->ns, object->name);
	if (!entry) {
		r = link_object(view, object);
		if (r == 0) {
			r = view_add_entry(view, object);
			if (r < 0)
				unlink_object(view, object);
		}
		if (r < 0)
			return fail(err, -r, "%s %s: out of memory", object_kind_name(kind),
				object->name);
		(void)TAKE_PTR(object);
		return 0;
	}
	old = entry->object;
	if (!swap_node(view, old, object)) {
		/* Link the new object first: if that fails, the old object is still linked. */
		r = link_object(view, object);
		if (r < 0)
			return fail(err, -r, "%s %s: out of memory", object_kind_name(kind),
				object->name);
		unlink_object(view, old);
	}
	entry->object = TAKE_PTR(object);
	object_free(old);
	return 0;
}

int view_remove(struct view *view, enum object_kind kind, const char *ns, const char *name)
{
	struct view_entry *entry = view_find_entry(view, kind, ns, name);

	if (!entry)
		return -ENOENT;
	unlink_object(view, entry->object);
	HASH_DEL(view->tables[kind], entry);
	object_free(entry->object);
	free(entry);
	return 0;
}

static struct pod *view_find_pod(struct view *view, const char *ns, const char *name)
{
	struct view_entry *entry = view_find_entry(view, OBJECT_POD, ns, name);

	return entry ? (struct pod *)entry->object : NULL;
}

int view_assume(struct view *view, const char *ns, const char *name, const char *node)
{
	struct pod *pod = view_find_pod(view, ns, name);
	char *copy;

	if (!pod)
		return -ENOENT;
	copy = arena_dup(&pod->object.arena, str_from(node));
	if (!copy)
		return -ENOMEM;
	unlink_pod(view, pod);
	pod->node = copy;
	return link_pod(view, pod);
}

void view_void_nomination(struct view *view, const char *ns, const char *name)
{
	struct pod *pod = view_find_pod(view, ns, name);

	if (!pod)
		return;
	if (!*pod->node)
		unlink_pod(view, pod);
	pod->nominated_node = "";
}

int view_hide(struct view *view, const char *ns, const char *name, bool is_hidden)
{
	struct pod *pod = view_find_pod(view, ns, name);

	if (!pod)
		return -ENOENT;
	if (pod->is_hidden == is_hidden)
		return 0;
	pod->is_hidden = is_hidden;
	if (!is_hidden)
		return link_pod(view, pod);
	pod->is_hidden = false;
	unlink_pod(view, pod);
	pod->is_hidden = true;
	return 0;
}

const struct object *view_find(
	const struct view *view, enum object_kind kind, const char *ns, const char *name)
{
	struct view_entry *entry = view_find_entry(view, kind, ns, name);

	return entry ? entry->object : NULL;
}

uint32_t view_n_nodes(const struct view *view)
{
	return view->n_nodes;
}

const struct node *view_node(const struct view *view, uint32_t node)
{
	return view->nodes[node]->node;
}

int view_find_node(const struct view *view, const char *name)
{
	struct view_node *node;

	HASH_FIND_STR(view->by_name, name, node);
	return node && node->node ? (int)node->index : -ENOENT;
}

const struct resources *view_node_used(const struct view *view, uint32_t node)
{
	return &view->nodes[node]->used;
}

void view_for_each(const struct view *view, enum object_kind kind,
	void (*visit)(void *data, const struct object *object), void *data)
{
	const struct view_entry *entry;

	for (entry = view->tables[kind]; entry; entry = entry->hh.next)
		visit(data, entry->object);
}

struct domain {
	uint32_t number;
	UT_hash_handle hh;
};

/* Numbers the values of the topology's label, in the order of the nodes. */
static int number_domains(const struct view *view, struct topology *topology)
{
	_cleanup_free_ struct domain *domains = calloc(MAX(view->n_nodes, 1u), sizeof(*domains));
	struct domain *by_value = NULL, *domain;
	int r = domains ? 0 : -ENOMEM;

	topology->empty_domain = TOPOLOGY_NONE;
	for (uint32_t i = 0; r == 0 && i < view->n_nodes; i++) {
		const char *value = labels_get(&view->nodes[i]->node->object.labels, topology->key);

		topology->domains[i] = TOPOLOGY_NONE;
		if (!value)
			continue;
		HASH_FIND_STR(by_value, value, domain);
		if (!domain) {
			domain = &domains[topology->n_domains];
			domain->number = topology->n_domains++;
			if (!*value)
				topology->empty_domain = domain->number;
			HASH_ADD_KEYPTR(hh, by_value, value, strlen(value), domain);
			if (!domain->hh.tbl) {
				r = -ENOMEM;
				break;
			}
		}
		topology->domains[i] = domain->number;
	}
	HASH_CLEAR(hh, by_value);
	return r;
}

const struct topology *view_topology(struct view *view, const char *key)
{
	struct topology *topology;

	HASH_FIND_STR(view->topologies, key, topology);
	if (topology)
		return topology;
	topology = calloc(1, sizeof(*topology));
	if (!topology)
		return NULL;
	topology->key = str_dup(str_from(key));
	topology->domains = calloc(MAX(view->n_nodes, 1u), sizeof(*topology->domains));
	if (topology->key && topology->domains && number_domains(view, topology) == 0)
		HASH_ADD_KEYPTR(
			hh, view->topologies, topology->key, strlen(topology->key), topology);
	if (topology->hh.tbl)
		return topology;
	topology_free(topology);
	return NULL;
}
