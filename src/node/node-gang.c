/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups whose members start together. If a container of a group waits to start here, divvyd
 * watches the group's members in the whole cluster, until no container has asked for a while. A
 * member counts as present if it is bound and not deleted, even if it has ended: a member that
 * finishes early must not block the other members.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "kube/kube-json.h"
#include "node/node-internal.h"
#include "spec/dialect.h"

#define GANG_IDLE_NS (60 * NSEC_PER_SEC)
#define GANGS_MAX 256u
#define TENANTS DIALECT_TENANT_LABEL "=true"

struct gang {
	LIST_ENTRY(gang) link;
	char space[64]; /* "": the group spans namespaces */
	char name[SPEC_GROUP];
	struct kube_cache *members; /* the bound members */
	uint64_t asked_ns;
};

static bool gang_is_shared(const char *name)
{
	return strchr(name, '/') != NULL;
}

static int gang_project_pod(
	void *data, const struct kube_object *object, void **ret, struct error *err)
{
	const struct gang *gang = data;
	const char *node = kube_json_text_at(object->json, "spec", "nodeName", NULL);
	struct assigned_group group;

	if (!node || !*node || node_assigned_group(object->json, &group, NULL) < 0 ||
		strcmp(group.name, gang->name) != 0)
		return -ENOENT;
	*ret = NULL; /* only the member's existence matters */
	return 0;
}

static void gang_release_pod(void *own)
{
}

static void gang_on_trouble(void *data, const struct error *err)
{
	const struct gang *gang = data;

	log_warn("group %s: %s", gang->name, err->msg);
}

static void gang_free(struct gang *gang)
{
	LIST_REMOVE(gang, link);
	kube_cache_free(gang->members);
	free(gang);
}

static struct gang *gang_find(struct node *node, const char *space, const char *name)
{
	struct gang *gang;

	LIST_FOREACH(gang, &node->gangs, link)
		if (!strcmp(gang->space, space) && !strcmp(gang->name, name))
			return gang;
	return NULL;
}

static int gang_watch_pods(struct node *node, const char *space, const char *name,
	struct gang **ret_gang, struct error *err)
{
	struct gang *gang = calloc(1, sizeof(*gang)), *other;
	const struct kube_cache_handler handler = {.project = gang_project_pod,
		.release = gang_release_pod,
		.trouble = gang_on_trouble,
		.data = gang};
	char path[128];
	const struct kube_reflect_options options = {
		.path = path, .label_selector = TENANTS, .max_pause_ns = 5 * NSEC_PER_SEC};
	uint32_t n = 0;
	int r;

	LIST_FOREACH(other, &node->gangs, link)
		n++;
	if (!gang || n == GANGS_MAX) {
		free(gang);
		return fail(err, EAGAIN, "this node starts %u groups already; retry", n);
	}
	snprintf(gang->space, sizeof(gang->space), "%s", space);
	snprintf(gang->name, sizeof(gang->name), "%s", name);
	if (space[0])
		snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods", space);
	else
		snprintf(path, sizeof(path), "/api/v1/pods");
	LIST_INSERT_HEAD(&node->gangs, gang, link);
	r = kube_cache_new(node->client, &options, &handler, &gang->members, err);
	if (r < 0) {
		gang_free(gang);
		return r;
	}
	*ret_gang = gang;
	return 0;
}

int gang_may_start(
	struct node *node, const char *space, const struct assigned_group *group, struct error *err)
{
	struct gang *gang;
	size_t n;
	int r;

	if (!group->name[0])
		return 0;
	if (gang_is_shared(group->name))
		space = "";
	gang = gang_find(node, space, group->name);
	r = gang ? 0 : gang_watch_pods(node, space, group->name, &gang, err);
	if (r < 0)
		return r;
	gang->asked_ns = clock_now_ns();
	n = kube_cache_count(gang->members);
	if (n >= group->least)
		return 0;
	if (!kube_cache_is_synced(gang->members))
		return fail(err, EAGAIN, "group %s: divvyd has not read its pods yet", group->name);
	return fail(err, EAGAIN, "group %s: %zu of its pods are bound, %u must be bound first",
		group->name, n, group->least);
}

void gang_tick(struct node *node, uint64_t now)
{
	struct gang *gang = LIST_FIRST(&node->gangs), *next;

	for (; gang; gang = next) {
		next = LIST_NEXT(gang, link);
		if (clock_since_ns(now, gang->asked_ns) > GANG_IDLE_NS)
			gang_free(gang);
	}
}

void gang_free_all(struct node *node)
{
	while (LIST_FIRST(&node->gangs))
		gang_free(LIST_FIRST(&node->gangs));
}
