/* SPDX-License-Identifier: Apache-2.0 */
/* Explains why a running tenant gets no more. Pure. */
#ifndef KUBECTL_THROTTLE_H
#define KUBECTL_THROTTLE_H

#include <jansson.h>

/*
 * Input: devices and tenants from report.h. Output: the tenants, each with `why`, a list of
 * sentences. The caller's; NULL: no memory.
 */
json_t *throttle_explain(const json_t *devices, const json_t *tenants);

#endif
