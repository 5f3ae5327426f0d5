/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page's items, made of the cluster's objects: only what is shown of them, under the words that
 * web.js knows. What an object says wrongly or not at all is left out. Pure; any thread.
 */
#ifndef CONTROLLER_WEB_VIEW_H
#define CONTROLLER_WEB_VIEW_H

#include <stdbool.h>

#include "base/str.h"
#include "kube/json.h"

/*
 * Of a GPUNode: {"alive", "simulated", "version",
 *  "devices":[{"uuid","index","model","bytes","health","why","owner","cordoned"}],
 *  "tenants":[{"uid","namespace","pod","container","devices":[indices into devices],"request",
 *   "limit","bytes":[...],"class","priority","mode","note"}],
 *  "trouble":[{"what","reason","message"}]}.
 * silent_since_s: since 1970, its daemon is silent: "alive" is false, "since" says it. 0: not.
 * The caller's, as all of these; NULL: out of memory.
 */
char *web_view_node(const json_t *gpu_node, uint64_t silent_since_s);

/*
 * What its tenants use, in the order of the node's: [[share,bytes,share,bytes],null]: a pair for
 * each of its devices; null: not measured. `measured` is the Lease's annotation, see
 * spec/measured.h.
 */
char *web_view_use(const json_t *gpu_node, struct str measured);

/* The same told one by one, with sums over the devices. The key is "UID/CONTAINER". */
typedef void web_use_fn(void *data, const char *key, uint32_t share_permille, uint64_t bytes);
void web_view_each_use(const json_t *gpu_node, struct str measured, web_use_fn *fn, void *data);

/* For each tenant of `before` that is not in `now` (NULL: there is none). */
typedef void web_gone_fn(void *data, const char *key);
void web_view_each_gone(const json_t *before, const json_t *now, web_gone_fn *fn, void *data);

/* Does this pod of ours wait, for a place or for its start? */
bool web_view_is_waiting(const json_t *pod);

/* In 1/1000 of a device, all containers together; 0: nothing, or it has ended. */
uint64_t web_view_asked_milli(const json_t *pod);

/* {"since": seconds since 1970, "milli", "mib", "node", "reason", "why"} */
char *web_view_waiting(const json_t *pod);

#endif
