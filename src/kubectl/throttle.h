/* SPDX-License-Identifier: Apache-2.0 */
/* Explains why a running tenant gets no larger share of its devices. Pure. */
#ifndef KUBECTL_THROTTLE_H
#define KUBECTL_THROTTLE_H

#include <jansson.h>

/*
 * Takes the lists report_devices() and report_tenants() of report.h. Returns the tenants, each with
 * `why`, a list of sentences. The caller owns the result; NULL: no memory.
 */
json_t *throttle_explain(const json_t *devices, const json_t *tenants);

#endif
