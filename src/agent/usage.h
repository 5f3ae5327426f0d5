/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage of devices. Each tenant-device has a history for plots (rings of 10 ms, 100 ms and 1 s).
 * Each tenant has sums for reports, which survive restarts and the end of the tenant.
 */
#ifndef AGENT_USAGE_H
#define AGENT_USAGE_H

#include <jansson.h>
#include <stdint.h>

#include "agent/tenant.h"
#include "base/str.h"

int usage_new(struct agent *agent, struct error *err);
void usage_free(struct agent *agent);

int usage_tenant_added(struct tenant *tenant);
/* Whether the reports have a tenant of that id, alive or ended. */
bool usage_has_record(const struct agent *agent, uint32_t id);
/* Call after a change of the tenant's request or limit: copies them to its record. */
void usage_tenant_changed(struct tenant *tenant);
void usage_tenant_removed(struct tenant *tenant);
/*
 * Keeps the histories of an ended tenant, which usage_history() shows for 15 more minutes. Must be
 * the last call for the tenant.
 */
void usage_tenant_freed(struct tenant *tenant);
/* Used time on this device before the restart, as the usage journal has it (usage-journal.h). */
uint64_t usage_used_before(const struct tenant_device *td);
/*
 * Call when the arbiter has the used time from before the restart: sampling continues from there.
 */
void usage_tenant_restored(struct tenant_device *td);
/* Adds the memory in use to the byte-seconds of the reports; called once a second. */
void usage_tick(struct agent *agent, uint64_t now);

/* Call when work begins to run: samples until no work runs. */
void usage_wake(struct agent *agent);

/* Used share of the last `span_ns` in permille; 0 without a history. */
uint32_t usage_permille(const struct tenant_device *td, uint64_t span_ns, uint64_t now);
/* Used time since the tenant was made, also before restarts of the daemon. */
uint64_t usage_used_ns(const struct tenant_device *td);

/*
 * Appends the members of a reply to the control protocol as JSON text. -EMSGSIZE: beyond the
 * buffer's maximum.
 */
int usage_history(struct agent *agent, const struct tenant *only, uid_t uid, uint64_t last_ms,
	uint64_t step_ms, bool has_ended, struct buf *out);
/* Returns a reply of the control protocol; the caller owns it. NULL: out of memory. */
json_t *usage_report(struct agent *agent, uid_t uid, uint64_t since_s);

/*
 * Reads the stored records; call before state_load(). An unreadable file is kept under another
 * name, and the daemon logs this.
 */
void usage_load(struct agent *agent);
/*
 * Has the disk worker append changed records. After a failed write the records are marked as
 * changed again.
 */
void usage_flush(struct agent *agent);

#endif
