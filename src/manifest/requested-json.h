/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the requested spec of a SharePod as annotations of its pod. Pure; any thread. */
#ifndef MANIFEST_REQUESTED_JSON_H
#define MANIFEST_REQUESTED_JSON_H

#include <jansson.h>

#include "base/error.h"
#include "spec/spec.h"

/*
 * Translates the fields that spec/spec.h has, and `containers`: spec.memoryPolicy "wait" becomes
 * {"divvy.gpu/memory-policy": "wait"}, spec.containers [a, b] becomes {"divvy.gpu/container":
 * "a,b"}. Ignores other fields. The caller owns the result. Returns 0; -EINVAL if a value is
 * neither text nor a number; -ENOMEM.
 */
int requested_json_read(const json_t *spec, json_t **ret_keys, struct error *err);

/* The name of a field in objects: "memory-policy" becomes "memoryPolicy". */
void requested_json_field(const char *name, char ret[static SPEC_FIELD]);

/*
 * The value as an annotation's text, owned by the caller; NULL if it is neither a number nor text
 * without a NUL.
 */
json_t *requested_json_text(const json_t *value);

#endif
