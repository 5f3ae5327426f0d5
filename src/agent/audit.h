/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: what the devices say runs on them against the tenants: processes of no tenant
 * ("strangers") and tenants that use more than was counted. Reports both. With --police a compute
 * process of no tenant gets SIGTERM after AUDIT_CONFIRM rounds, and SIGKILL a round later if it
 * goes on; never pid 1, graphics, or what --police-allow names by executable or user. Of devices
 * that are another device plugin's nothing is said, and nobody there gets a signal.
 */
#ifndef AGENT_AUDIT_H
#define AGENT_AUDIT_H

#include <jansson.h>

#include "agent/agent.h"
#include "base/process.h"

#define AUDIT_CONFIRM 3u

int audit_new(struct agent *agent, struct error *err);
void audit_free(struct agent *agent);

/* Once a second, while anything lives. */
void audit_tick(struct agent *agent, uint64_t now);

/* Members of the reply to `audit`; the caller's. */
json_t *audit_json(struct agent *agent);
/* The list of `doctor` as that user may see it; the caller's. */
json_t *audit_findings(struct agent *agent, uid_t uid);

/* For the metrics. */
uint32_t audit_strangers(const struct agent *agent);
/* Tenants that use more of a device than was counted. */
uint32_t audit_excesses(struct agent *agent);
/* Bytes of the device beyond what was counted, after AUDIT_TOLD rounds; 0: none. */
struct tenant_device;
uint64_t audit_excess(const struct tenant_device *td);

/* One that was seen AUDIT_TOLD rounds long and was not taken before; true if there is one. */
#define AUDIT_TOLD 2u
struct audit_stranger {
	pid_t pid;
	uint32_t device;
	char name[PROCESS_NAME_SIZE];
};
bool audit_take_stranger(struct agent *agent, struct audit_stranger *ret);

#endif
