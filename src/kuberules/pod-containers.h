/* SPDX-License-Identifier: Apache-2.0 */
/* Sums up the requests of a pod's containers, for pod.c. */
#ifndef KUBERULES_POD_CONTAINERS_H
#define KUBERULES_POD_CONTAINERS_H

#include <jansson.h>

#include "kuberules/pod.h"

/*
 * Reads spec.containers, initContainers, overhead and resources into pod->request and pod->ports.
 * Containers that run together add up. Init containers run one after the other, together with the
 * sidecars (init containers with restartPolicy Always) that started before them. While a container
 * or the pod is resized, its status reports the amounts that are allocated and in force: the
 * largest amount counts, by the rules of the release pod->object.minor (releases.h).
 */
int pod_containers_read(struct pod *pod, json_t *spec, json_t *status, struct error *err);

/* Reads the claims of a pod or of a container. -ENOTSUP: there are any. */
int pod_containers_read_claims(struct arena *arena, json_t *value, void *into, struct error *err);

#endif
