/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was used: per tenant and device a history for plots (rings of 10 ms, 100 ms and 1 s) and
 * sums for reports, which are kept in the state over restarts and after the tenant has gone.
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
/* A tenant of that id is in the reports, alive or not. */
bool usage_has_record(const struct agent *agent, uint32_t id);
/* Its share has changed. */
void usage_tenant_changed(struct tenant *tenant);
void usage_tenant_gone(struct tenant *tenant);
/*
 * Takes its histories, which usage_history shows for 15 minutes more. The last call for a
 * tenant.
 */
void usage_tenant_freed(struct tenant *tenant);
/* On this device before the restart, as far as is known at once: see tally.h. */
uint64_t usage_used_before(const struct tenant_device *td);
/* The arbiter has been told what was used before the restart. */
void usage_tenant_restored(struct tenant_device *td);
/* Once a second: byte-seconds. */
void usage_tick(struct agent *agent, uint64_t now);

/* Something runs: sample until nothing does. */
void usage_wake(struct agent *agent);

/* Share of the last `span_ns`, in permille; 0 with no history. */
uint32_t usage_permille(const struct tenant_device *td, uint64_t span_ns, uint64_t now);
/* Used since the tenant was made, over restarts. */
uint64_t usage_used_ns(const struct tenant_device *td);

/*
 * The members of a reply of the control protocol, as JSON text that is appended. -EMSGSIZE: beyond
 * the buffer's maximum.
 */
int usage_history(struct agent *agent, const struct tenant *only, uid_t uid, uint64_t last_ms,
	uint64_t step_ms, bool has_ended, struct buf *out);
/* The reply of the control protocol; the caller owns it. NULL: out of memory. */
json_t *usage_report(struct agent *agent, uid_t uid, uint64_t since_s);

/*
 * Reads what was kept, before the tenants of the state come. A file that cannot be read is kept
 * under another name, with a line in the log.
 */
void usage_load(struct agent *agent);
/* The disk worker appends changed records; a failure makes them changed again. */
void usage_flush(struct agent *agent);

#endif
