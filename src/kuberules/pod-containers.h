/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a pod's containers, summed up; for pod.c. */
#ifndef KUBERULES_POD_CONTAINERS_H
#define KUBERULES_POD_CONTAINERS_H

#include <jansson.h>

#include "kuberules/pod.h"

/*
 * Reads spec.containers, initContainers, overhead and resources into pod->request and pod->ports.
 * Containers that run together add up. Init containers run one after the other, beside the sidecars
 * (restartPolicy Always) started before them. If the status of a running container reports more,
 * that amount counts.
 */
int pod_containers_read(struct pod *pod, json_t *spec, json_t *status, struct error *err);

#endif
