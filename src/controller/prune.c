/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table has the members to remove: each row names the object or list that holds them, and the
 * members. A member that another file of the controller begins to read must leave the table. Pure;
 * any thread.
 */
#include "controller/prune.h"

#include "base/cleanup.h"

#define IN_MAX 3u
#define MEMBERS_MAX 16u

struct prune_row {
	enum prune_kind kind;
	const char *in[IN_MAX];
	const char *members[MEMBERS_MAX];
};

#define OF_CONTAINERS \
	{ \
		"args", "command", "env", "envFrom", "lifecycle", "livenessProbe", "ports", \
			"readinessProbe", "securityContext", "startupProbe", \
			"terminationMessagePath", "terminationMessagePolicy", "volumeDevices", \
			"volumeMounts", "workingDir" \
	}

static const struct prune_row rows[] = {
	{PRUNE_NODE, {"status"},
		{"addresses", "conditions", "config", "daemonEndpoints", "features", "images",
			"nodeInfo", "runtimeHandlers", "volumesAttached", "volumesInUse"}},
	{PRUNE_GPU_NODE, {"status"}, {"accounts", "network"}},
	{PRUNE_GPU_NODE, {"status", "devices"}, {"links", "numa"}},
	{PRUNE_TENANT, {"spec"},
		{"affinity", "dnsConfig", "hostAliases", "imagePullSecrets", "readinessGates",
			"securityContext", "tolerations", "topologySpreadConstraints", "volumes"}},
	{PRUNE_TENANT, {"spec", "containers"}, OF_CONTAINERS},
	{PRUNE_TENANT, {"spec", "initContainers"}, OF_CONTAINERS},
};

static void prune_members(json_t *object, const struct prune_row *row)
{
	for (size_t i = 0; i < MEMBERS_MAX && row->members[i]; i++)
		json_object_del(object, row->members[i]);
}

void prune_object(json_t *object, enum prune_kind kind)
{
	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		json_t *at = object, *item;
		size_t i;

		if (rows[r].kind != kind)
			continue;
		for (i = 0; i < IN_MAX && rows[r].in[i]; i++)
			at = json_object_get(at, rows[r].in[i]);
		if (json_is_object(at))
			prune_members(at, &rows[r]);
		json_array_foreach(at, i, item)
			prune_members(item, &rows[r]);
	}
}
