/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a tenant that runs from getting more. Pure. */
#ifndef KUBECTL_THROTTLE_H
#define KUBECTL_THROTTLE_H

#include <jansson.h>

/*
 * devices and tenants as report.h makes them: the tenants, each with `why`, a list of sentences.
 * The caller's; NULL: out of memory.
 */
json_t *throttle_explain(const json_t *devices, const json_t *tenants);

#endif
