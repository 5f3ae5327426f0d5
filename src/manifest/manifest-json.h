/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a pod, or a template of a pod, from JSON into spec/manifest.h. The JSON need not have
 * passed an API server: a value of the wrong type counts as missing, and numbers become text. Any
 * thread.
 */
#ifndef MANIFEST_MANIFEST_JSON_H
#define MANIFEST_MANIFEST_JSON_H

#include "base/error.h"
#include "kube/kube-json.h"
#include "spec/manifest.h"

struct manifest_json {
	struct manifest pod; /* borrows from the JSON and from this struct */
	/* spec.nodeName; without it, pod.node is the hostname of the nodeSelector */
	struct str node_name;
	uint32_t n_init; /* the first n_init containers come from initContainers */
	/* Private. */
	struct manifest_container *container;
	struct manifest_entry *entry;
	json_t *texts;
	size_t n_entries, n_room;
};

/*
 * metadata and spec are those of a pod or a template; either may be NULL. A pod without a namespace
 * gets `ns`. Returns 0; -EINVAL if the pod exceeds the limits of spec/manifest.h; -ENOMEM. Call
 * manifest_json_done also after a failure.
 */
int manifest_json_read(const json_t *metadata, const json_t *spec, struct str ns,
	struct manifest_json *ret_pod, struct error *err);
void manifest_json_done(struct manifest_json *pod);
#define _cleanup_manifest_json_ __attribute__((cleanup(manifest_json_done)))

/*
 * Appends the container's path, "/spec/initContainers/2". Returns 0, -ENOENT or the buf's error.
 * The second function borrows the container's JSON from spec.
 */
int manifest_json_path(const struct manifest_json *pod, uint32_t container, struct buf *out);
const json_t *manifest_json_container(
	const struct manifest_json *pod, const json_t *spec, uint32_t container);

/*
 * The amount of a resource that a pod from the API server needs: the larger of two amounts. One is
 * the sum over all containers that run together, the other the most that a step of the pod's start
 * needs. field: "requests" or "limits". A quantity that cannot be parsed counts as 0, and each
 * counts as at most MANIFEST_JSON_AMOUNT_MAX.
 */
#define MANIFEST_JSON_AMOUNT_MAX (UINT64_C(1) << 32)
uint64_t manifest_json_amount(const json_t *pod, const char *field, const char *resource);

#endif
