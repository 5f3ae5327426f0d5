/* SPDX-License-Identifier: Apache-2.0 */
/* What the containers of a pod ask for together; for pod.c alone. */
#ifndef KUBERULES_POD_CONTAINERS_H
#define KUBERULES_POD_CONTAINERS_H

#include <jansson.h>

#include "kuberules/pod.h"

/*
 * Reads spec.containers, initContainers, overhead and resources into pod->request and pod->ports.
 * Containers that run together add up; init containers run one after the other, beside the
 * sidecars (restartPolicy Always) started before them. What the status says that a container of a
 * running pod holds counts where it is more.
 */
int pod_containers_read(struct pod *pod, json_t *spec, json_t *status, struct error *err);

#endif
