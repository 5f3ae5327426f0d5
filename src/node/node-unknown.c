/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers that the kubelet wants to start with a slot that this node does not have, for example
 * because it has fewer devices now. The kubelet retries for ever and shows the reason only in the
 * container's status, so the pod gets an Event. The kubelet says which pod has the slot.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "node/node-internal.h"

#define UNKNOWN_MAX 64u /* questions at a time; the kubelet tries each container again */

struct unknown_slot {
	LIST_ENTRY(unknown_slot) link;
	struct node *node;
	struct podres_question *question;
	char *id, *why;
};

static void unknown_free(struct unknown_slot *u)
{
	LIST_REMOVE(u, link);
	podres_forget(u->question);
	free(u->id);
	free(u->why);
	free(u);
}

void unknown_free_all(struct node *node)
{
	struct unknown_slot *u;

	while ((u = LIST_FIRST(&node->unknown_slots)))
		unknown_free(u);
}

static void unknown_slot_report(const struct unknown_slot *u, const struct podres_container *c,
	const struct kube_entry *pod)
{
	struct tenant_pod of = {0};

	if (str_copy(of.uid, sizeof(of.uid), str_from(pod->uid)) < 0 ||
		str_copy(of.space, sizeof(of.space), str_from(c->space)) < 0 ||
		str_copy(of.name, sizeof(of.name), str_from(c->pod)) < 0)
		return;
	node_pod_event(u->node, &of, true, "GrantRefused",
		"container %s: %s: node %s has no such slot; delete the pod so that its "
		"controller creates it again",
		c->name, u->why, u->node->options.name);
}

static void unknown_on_list(void *data, const struct podres_list *list, const struct error *err)
{
	struct unknown_slot *u = data;
	const struct podres_container *c;
	const struct kube_entry *pod;

	u->question = NULL;
	if (list && podres_find(list, STR(NODE_RESOURCE), str_from(u->id), &c) == 0 &&
		(pod = kube_cache_find(u->node->pods, c->space, c->pod)))
		unknown_slot_report(u, c, pod);
	unknown_free(u);
}

void unknown_slot(struct plugin *plugin, const char *id, const char *why)
{
	struct node *node = plugin_data(plugin);
	struct unknown_slot *u;
	uint32_t n = 0;

	log_info("the kubelet asks for slot %s: %s", id, why);
	node->agent->n_refused_grants++;
	LIST_FOREACH(u, &node->unknown_slots, link)
		n++;
	u = n < UNKNOWN_MAX ? calloc(1, sizeof(*u)) : NULL;
	if (!u)
		return;
	u->node = node;
	u->id = str_dup(str_from(id));
	u->why = str_dup(str_from(why));
	LIST_INSERT_HEAD(&node->unknown_slots, u, link);
	if (!u->id || !u->why || podres_ask(node->podres, unknown_on_list, u, &u->question) < 0)
		unknown_free(u);
}
