/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods that would come of what stands in a file: Pods as they are, and the templates of
 * everything that has one (Deployment, Job, StatefulSet, CronJob, SharePod, ...), as many as it
 * wants at a time. Pure.
 */
#ifndef KUBECTL_PODS_H
#define KUBECTL_PODS_H

#include <jansson.h>

#include "base/error.h"

#define PODS_MAX 1000u /* of one file */

/*
 * [{"from": "Deployment web", "count": 3, "pod": {...}}]; the caller's. -EINVAL: there is none, or
 * a document is no object of Kubernetes'; -E2BIG: more than PODS_MAX. where: for messages.
 */
int pods_read(const json_t *documents, const char *where, json_t **ret_list, struct error *err);

#endif
