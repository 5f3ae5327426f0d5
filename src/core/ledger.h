/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may take how much device memory. Two halves, both pure:
 *
 * 1. The counter of a tenant on a device (struct page_tenant.word): a lock-free reserve that any
 *    process of the tenant makes by itself, exact under SIGKILL at every instant. Header-only so
 *    that the hook library has no more than this of core (ledger-counter.h).
 * 2. The device's book (this file), in the daemon: quotas of fail tenants sum to what is usable at
 *    most; wait and swap tenants share the rest, with a queue, deadlock detection and
 *    oversubscription.
 */
#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/spec.h"

struct ledger; /* one device */

typedef uint64_t ledger_request;

struct ledger_verdict { /* of a request that waited */
	ledger_request request;
	int status; /* 0 granted, -ENOMEM: broken deadlock, -ECANCELED: tenant or process gone */
};

/*
 * usable_bytes: device memory less the driver's own; oversubscribe_permille: 1500 lets wait and
 * swap tenants' quotas sum to 1.5 x what fail tenants leave.
 */
int ledger_new(uint64_t usable_bytes, uint32_t oversubscribe_permille, struct ledger **ret_ledger);
void ledger_free(struct ledger *ledger);
/* Another oversubscription for who comes or changes from now on; what was promised stays. */
void ledger_set_oversubscribe(struct ledger *ledger, uint32_t oversubscribe_permille);

/* Admission: -ENOSPC with a sentence of what is possible now; nothing is changed then. */
int ledger_add(struct ledger *ledger, uint32_t tenant, uint64_t quota_bytes,
	enum spec_memory_policy policy, struct error *err);
/* A quota below what is in use is accepted: new allocations fail until it fits. */
int ledger_change(struct ledger *ledger, uint32_t tenant, uint64_t quota_bytes, struct error *err);
/*
 * Before ledger_remove(), for tenants that do not wait: the process goes on holding that much. All
 * processes together keep the tenant's quota at most from others, since the numbers are their word.
 * Nothing for swap tenants, whose memory moves out of the way.
 */
void ledger_leave_held(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes);
/*
 * Its promise ends at once. What its processes hold takes room until each of them is
 * ledger_process_gone(), with the same number of the tenant.
 */
void ledger_remove(struct ledger *ledger, uint32_t tenant);

/* Largest quota that could be added now under that policy. */
uint64_t ledger_room(const struct ledger *ledger, enum spec_memory_policy policy);

/*
 * wait tenants: reserve physical room. 0: granted; -EINPROGRESS: queued, a verdict will come;
 * -ENOMEM: above its quota, or it would close a cycle of waiters and is the youngest.
 * `process` groups what is given back together when a process dies.
 */
int ledger_reserve(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes,
	ledger_request request, uint64_t now);
void ledger_release(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes);
/*
 * Process `to` has from now on what `from` had reserved, at most that much; who waits gets nothing
 * of it. Out of memory, it stays with `from`.
 */
void ledger_move(
	struct ledger *ledger, uint32_t tenant, uint32_t from, uint32_t to, uint64_t bytes);
void ledger_process_gone(struct ledger *ledger, uint32_t tenant, uint32_t process);
size_t ledger_verdicts(struct ledger *ledger, struct ledger_verdict *ret_verdicts, size_t max);

uint64_t ledger_used(const struct ledger *ledger, uint32_t tenant);
uint64_t ledger_quota(const struct ledger *ledger, uint32_t tenant);

#endif
