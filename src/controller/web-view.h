/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the dashboard's items from API objects: only the fields that the dashboard shows, with the
 * names that web.js reads. Invalid or missing fields are left out. Pure; any thread.
 */
#ifndef CONTROLLER_WEB_VIEW_H
#define CONTROLLER_WEB_VIEW_H

#include <stdbool.h>

#include "base/str.h"
#include "kube/kube-json.h"

/*
 * The item of a GPUNode: {"alive", "simulated", "version",
 * "devices":[{"uuid","index","model","bytes","health","why","owner","cordoned"}],
 * "tenants":[{"uid","namespace","pod","container","devices":[indices into devices],"request",
 * "limit","bytes":[...],"class","priority","mode","note"}],
 * "trouble":[{"what","reason","message"}]}. silent_since_s: when the node's divvyd became silent,
 * in seconds since 1970; "alive" is then false, and "since" has this time. 0: divvyd is not silent.
 * The caller owns this text and those below; NULL: no memory.
 */
char *web_view_node(const json_t *gpu_node, uint64_t silent_since_s);

/*
 * The item of a GPUNode in a large cluster, whose devices a viewer gets on demand: "alive",
 * "since", "simulated" and "trouble" as in web_view_node(); "model" if all devices have the same;
 * numbers of devices: "n", "closed" to new tenants, "idle" without tenants, with "room", "bad" with
 * a fault; "tenants"; sums over the devices: "granted" and "used" in 1/1000, "given" and "bytes".
 * "used" is absent if no tenant was measured.
 */
char *web_view_summary(const json_t *gpu_node, uint64_t silent_since_s, struct str measured);

/* Number of devices in GPUNode.status. */
size_t web_view_count_devices(const json_t *gpu_node);

/*
 * The use of the node's tenants, in the order of GPUNode.status.tenants:
 * [[share,bytes,share,bytes],null], a pair for each device; null: not measured. measured: the
 * annotation of the Lease (spec/measured.h).
 */
char *web_view_use(const json_t *gpu_node, struct str measured);

/* Calls `fn` for each measured tenant, with sums over its devices. The key is "UID/CONTAINER". */
typedef void web_use_fn(void *data, const char *key, uint32_t share_permille, uint64_t bytes);
void web_view_each_use(const json_t *gpu_node, struct str measured, web_use_fn *fn, void *data);

/*
 * Calls `fn` for each tenant of the GPUNode `before` that is not in `now`; now NULL: the GPUNode
 * was deleted.
 */
typedef void web_removed_fn(void *data, const char *key);
void web_view_each_removed(const json_t *before, const json_t *now, web_removed_fn *fn, void *data);

/* Whether the pod is a tenant and waits for a place or its start. */
bool web_view_is_waiting(const json_t *pod);

/*
 * The request of all containers together, in 1/1000 of a device; 0: no share, or the pod has ended.
 */
uint64_t web_view_requested_milli(const json_t *pod);

/*
 * The item of a waiting pod: {"since": seconds since 1970, "milli", "mib", "node", "reason",
 * "why"}.
 */
char *web_view_waiting(const json_t *pod);

#endif
