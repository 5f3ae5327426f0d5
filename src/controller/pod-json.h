/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod, or a template of one, as core/pod.h sees it, out of JSON. Also of JSON that no API server
 * has looked at: what has another type than it should counts as missing, numbers are their text.
 * Any thread.
 */
#ifndef CONTROLLER_POD_JSON_H
#define CONTROLLER_POD_JSON_H

#include "base/error.h"
#include "core/pod.h"
#include "kube/json.h"

struct pod_json {
	struct pod pod;       /* borrows from the JSON and from this */
	struct str node_name; /* spec.nodeName; pod.node may also be a hostname that is selected */
	uint32_t n_init;      /* containers before it are those of initContainers */
	/* Behind the scenes. */
	struct pod_container *container;
	struct pod_entry *entry;
	json_t *texts;
	size_t n_entries, n_room;
};

/*
 * metadata and spec of a pod or a template; either may be NULL. The namespace is ns where metadata
 * has none. -EINVAL: more than core/pod.h takes; -ENOMEM. pod_json_done also after a failure.
 */
int pod_json_read(const json_t *metadata, const json_t *spec, struct str ns,
	struct pod_json *ret_pod, struct error *err);
void pod_json_done(struct pod_json *pod);
#define _cleanup_pod_json_ __attribute__((cleanup(pod_json_done)))

/* "/spec/initContainers/2"; the container's JSON; -ENOENT. */
int pod_json_path(const struct pod_json *pod, uint32_t container, struct buf *out);
const json_t *pod_json_container(
	const struct pod_json *pod, const json_t *spec, uint32_t container);

#endif
