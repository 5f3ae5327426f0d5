/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUPolicies speak of a namespace, and which dialects it has because of them. Pure. */
#ifndef MANIFEST_POLICY_H
#define MANIFEST_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "kube/json.h"

#define POLICY_DIALECTS_MAX 1024u

/* By name, by label, or because it names neither. A selector that is no such thing selects none. */
bool policy_selects(const json_t *spec, const char *ns, const json_t *ns_labels);

/* The selector's rules that the schema cannot say. -EINVAL. */
int policy_check_selector(const json_t *spec, struct error *err);

/*
 * spec.overcommit.memory of a GPUPolicy or a GPUNode in 1/1000, 1000 to 16000, from 1.5 or "1.5"; 0
 * where it says nothing, or no such value.
 */
#define POLICY_OVERCOMMIT_ONCE 1000u
#define POLICY_OVERCOMMIT_MAX 16000u
uint32_t policy_overcommit_memory(const json_t *spec);

/* Appends those of the policy to "a,b". */
void policy_add_dialects(const json_t *spec, struct buf *list);

#endif
