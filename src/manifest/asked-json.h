/* SPDX-License-Identifier: Apache-2.0 */
/* What a SharePod's spec asks for, as the annotations of its pod. Pure. Any thread. */
#ifndef MANIFEST_ASKED_JSON_H
#define MANIFEST_ASKED_JSON_H

#include <jansson.h>

#include "base/error.h"

/*
 * spec.memoryPolicy: wait is {"divvy.gpu/memory-policy": "wait"}, spec.containers: [a, b] is
 * {"divvy.gpu/container": "a,b"}; what is no field of spec/spec.h is left out. The caller's.
 * -EINVAL: a value is neither text nor a number; -ENOMEM.
 */
int asked_json_read(const json_t *spec, json_t **ret_keys, struct error *err);

#endif
