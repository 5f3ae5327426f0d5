/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out which GPUPolicies apply to a namespace, and which dialects they enable there. Pure; any
 * thread.
 */
#ifndef MANIFEST_POLICY_H
#define MANIFEST_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "kube/kube-json.h"

#define POLICY_DIALECTS_MAX 1024u

/*
 * Whether a policy applies to the namespace: by name, by label, or because the policy names
 * neither. An invalid selector selects no namespace.
 */
bool policy_selects(const json_t *spec, const char *ns, const json_t *ns_labels);

/* Checks the selector's rules that the schema cannot express. Returns 0 or -EINVAL. */
int policy_check_selector(const json_t *spec, struct error *err);

/*
 * spec.overcommit.memory of a GPUPolicy or a GPUNode, a number or text such as 1.5. Returns the
 * factor in 1/1000, limited to 1000..16000; 0 if the field is missing or faulty.
 */
#define POLICY_OVERCOMMIT_ONCE 1000u
#define POLICY_OVERCOMMIT_MAX 16000u
uint32_t policy_overcommit_memory(const json_t *spec);

/* Appends the policy's dialects to the list "a,b". */
void policy_add_dialects(const json_t *spec, struct buf *list);

#endif
