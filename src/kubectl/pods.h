/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the pods that the objects of a file would create. An object is a Pod, or has a template and
 * a number of pods that run at a time (Deployment, Job, StatefulSet, CronJob, SharePod, ...). Pure.
 */
#ifndef KUBECTL_PODS_H
#define KUBECTL_PODS_H

#include <jansson.h>

#include "base/error.h"

#define PODS_MAX 1000u /* most pods of one file */

/*
 * Returns [{"from": "Deployment web", "count": 3, "pod": {...}}], owned by the caller. where: name
 * of the file for messages. -EINVAL: the file has no pods, or a document is no Kubernetes object.
 * -E2BIG: more than PODS_MAX pods.
 */
int pods_read(const json_t *documents, const char *where, json_t **ret_list, struct error *err);

#endif
