/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod, or a template of one, as spec/manifest.h sees it, out of JSON. Also of JSON that no API
 * server has looked at: what has another type than it should counts as missing, numbers are their
 * text. Any thread.
 */
#ifndef MANIFEST_MANIFEST_JSON_H
#define MANIFEST_MANIFEST_JSON_H

#include "base/error.h"
#include "kube/json.h"
#include "spec/manifest.h"

struct manifest_json {
	struct manifest pod;  /* borrows from the JSON and from this */
	struct str node_name; /* spec.nodeName; pod.node may also be a hostname that is selected */
	uint32_t n_init;      /* containers before it are those of initContainers */
	/* Behind the scenes. */
	struct manifest_container *container;
	struct manifest_entry *entry;
	json_t *texts;
	size_t n_entries, n_room;
};

/*
 * metadata and spec of a pod or a template; either may be NULL. The namespace is ns where metadata
 * has none. -EINVAL: more than spec/manifest.h takes; -ENOMEM. manifest_json_done also after a
 * failure.
 */
int manifest_json_read(const json_t *metadata, const json_t *spec, struct str ns,
	struct manifest_json *ret_pod, struct error *err);
void manifest_json_done(struct manifest_json *pod);
#define _cleanup_manifest_json_ __attribute__((cleanup(manifest_json_done)))

/* "/spec/initContainers/2"; the container's JSON; -ENOENT. */
int manifest_json_path(const struct manifest_json *pod, uint32_t container, struct buf *out);
const json_t *manifest_json_container(
	const struct manifest_json *pod, const json_t *spec, uint32_t container);

#endif
