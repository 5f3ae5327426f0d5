/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for the Xid errors that the driver reports, and finds the tenant whose program caused one.
 * Only the loop's thread calls these functions.
 */
#ifndef AGENT_XID_WATCH_H
#define AGENT_XID_WATCH_H

#include <stdint.h>

#include "agent/agent.h"
#include "agent/tenant.h"

int xid_watch_new(struct agent *agent, struct error *err);
void xid_watch_free(struct agent *agent);
/* Call once, when the process is marked as dead. */
void xid_watch_process_exited(const struct process *process);

/* An Xid that a program can cause. */
struct xid_report {
	uint64_t xid;
	uint32_t device; /* index of the first device that the Xid names */
	pid_t pid;       /* 0: not known */
	/* No program but the pod's is known to have used the device within the last seconds. */
	bool is_probable;
	/* The pod whose process caused the Xid; uid "": no pod, or not known. */
	struct tenant_pod pod;
};
/*
 * Takes the oldest report. Returns false when there is none. The daemon keeps the latest
 * XID_REPORTS_MAX reports.
 */
#define XID_REPORTS_MAX 32u
bool xid_watch_take(struct agent *agent, struct xid_report *ret_report);

#endif
