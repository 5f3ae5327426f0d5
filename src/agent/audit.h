/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: what the devices say runs on them against the tenants: processes of no tenant
 * ("strangers") and tenants that use more than was counted. Reports; with --police a compute
 * process of no tenant is stopped after AUDIT_CONFIRM rounds, never pid 1, graphics or an allowed
 * name.
 */
#ifndef AGENT_AUDIT_H
#define AGENT_AUDIT_H

#include <jansson.h>

#include "agent/agent.h"

#define AUDIT_CONFIRM 3u

int audit_new(struct agent *agent, struct error *err);
void audit_free(struct agent *agent);

/* Once a second, while anything lives. */
void audit_tick(struct agent *agent, uint64_t now);

/* Members of the reply to `audit`; the caller's. */
json_t *audit_json(struct agent *agent);
/* The list of `doctor`; the caller's. */
json_t *audit_findings(struct agent *agent);

/* For the metrics. */
uint32_t audit_strangers(const struct agent *agent);

#endif
