/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods that the objects of a file would create. Objects are Pods, or have a template and the
 * number of pods at a time (Deployment, Job, StatefulSet, CronJob, SharePod, ...). Pure.
 */
#ifndef KUBECTL_PODS_H
#define KUBECTL_PODS_H

#include <jansson.h>

#include "base/error.h"

#define PODS_MAX 1000u /* of one file */

/*
 * [{"from": "Deployment web", "count": 3, "pod": {...}}], owned by the caller. -EINVAL: there is
 * none, or a document is no Kubernetes object; -E2BIG: more than PODS_MAX. where: for messages.
 */
int pods_read(const json_t *documents, const char *where, json_t **ret_list, struct error *err);

#endif
