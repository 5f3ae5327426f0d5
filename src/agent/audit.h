/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit compares the processes that the devices list with the tenants. It reports unmanaged
 * processes, and tenants that use more memory than was counted. With --police an unmanaged compute
 * process gets SIGTERM after AUDIT_CONFIRM rounds, and SIGKILL one round later. The audit never
 * signals pid 1, graphics processes, or processes that --police-allow names by executable or user.
 * It skips devices that another device plugin shares out.
 */
#ifndef AGENT_AUDIT_H
#define AGENT_AUDIT_H

#include <jansson.h>

#include "agent/agent.h"
#include "base/process.h"

#define AUDIT_CONFIRM 3u

int audit_new(struct agent *agent, struct error *err);
void audit_free(struct agent *agent);

/* The caller calls this once a second while there is a tenant, process or connection. */
void audit_tick(struct agent *agent, uint64_t now);

/* Returns the members of the reply to `audit`; the caller owns them. */
json_t *audit_json(struct agent *agent);
/* Returns the findings for `divvy doctor` that the user may see; the caller owns them. */
json_t *audit_findings(struct agent *agent, uid_t uid);

/* Number of unmanaged processes, for the metrics. */
uint32_t audit_n_unmanaged(const struct agent *agent);
/* Number of tenants that use more of a device than was counted, for the metrics. */
uint32_t audit_excesses(struct agent *agent);
/*
 * Bytes that the device lists beyond the counted ones in AUDIT_REPORTED rounds in a row; 0: none.
 */
struct tenant_device;
uint64_t audit_excess(const struct tenant_device *td);

/*
 * Takes one unmanaged process that was seen in AUDIT_REPORTED rounds and not taken before. Returns
 * false when there is none.
 */
#define AUDIT_REPORTED 2u
struct audit_unmanaged {
	pid_t pid;
	uint32_t device;
	char name[PROCESS_NAME_SIZE];
};
bool audit_take_unmanaged(struct agent *agent, struct audit_unmanaged *ret);

#endif
