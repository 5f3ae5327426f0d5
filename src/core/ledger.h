/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records which tenant holds device memory. The ledger has two halves, both pure:
 *
 * 1. The counter of a tenant on a device (struct page_tenant.word): each process of the tenant
 * reserves by itself, without a lock, and exactly even if it is killed at any instant. The counter
 * has a header of its own (ledger-counter.h), so that the hook library needs no other code of
 * src/core.
 *
 * 2. The device's ledger (this file), in the daemon. The quotas of fail tenants sum to at most the
 * usable memory. wait and swap tenants share the rest, with a queue, deadlock detection and
 * overcommit.
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

struct ledger_verdict { /* the answer to a request that waited */
	ledger_request request;
	/*
	 * 0: granted; -ENOMEM: chosen to break a deadlock, or the quota has shrunk; -ECANCELED: the
	 * tenant was removed or the process exited
	 */
	int status;
};

/*
 * usable_bytes: the device's memory without the driver's part. oversubscribe_permille: 1500 lets
 * the quotas of wait and swap tenants sum to 1.5 times what the fail tenants leave; at least 1000.
 * Returns 0 or -ENOMEM.
 */
int ledger_new(uint64_t usable_bytes, uint32_t oversubscribe_permille, struct ledger **ret_ledger);
void ledger_free(struct ledger *ledger);
/* Sets the overcommit for later additions and changes; existing quotas stay. */
void ledger_set_oversubscribe(struct ledger *ledger, uint32_t oversubscribe_permille);

/* Adds a tenant. Returns 0; -ENOSPC, with the possible quota in the message; -EEXIST; -ENOMEM. */
int ledger_add(struct ledger *ledger, uint32_t tenant, uint64_t quota_bytes,
	enum spec_memory_policy policy, struct error *err);
/*
 * Changes a quota. A quota below the memory in use is accepted: new reservations fail until they
 * fit. Returns 0, -ENOENT or -ENOSPC.
 */
int ledger_change(struct ledger *ledger, uint32_t tenant, uint64_t quota_bytes, struct error *err);
/*
 * Call before ledger_remove(), for fail tenants: the process still holds `bytes` on the device.
 * Together the processes withhold at most the tenant's quota from other tenants, because the
 * numbers are the processes' own claims. Ignored for other policies: wait tenants' reservations are
 * known, and swap tenants' memory can move away.
 */
void ledger_leave_held(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes);
/*
 * Ends the tenant's quota. Memory that its processes hold stays occupied until
 * ledger_process_exited() for each of them, with the same tenant number.
 */
void ledger_remove(struct ledger *ledger, uint32_t tenant);

/* The largest quota that ledger_add() would accept now under that policy. */
uint64_t ledger_room(const struct ledger *ledger, enum spec_memory_policy policy);

/*
 * Reserves physical memory, for wait tenants. Returns 0 if granted; -EINPROGRESS if queued, with a
 * verdict later; -ENOMEM if the request exceeds the quota or all shared memory, or if too many
 * requests wait; -ENOENT. `process` groups what ledger_process_exited() releases.
 */
int ledger_reserve(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes,
	ledger_request request, uint64_t now);
void ledger_release(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes);
/*
 * Moves up to `bytes` of the reservation from process `from` to process `to`; waiting requests get
 * none of these bytes. When out of memory, the reservation stays with `from`.
 */
void ledger_move(
	struct ledger *ledger, uint32_t tenant, uint32_t from, uint32_t to, uint64_t bytes);
void ledger_process_exited(struct ledger *ledger, uint32_t tenant, uint32_t process);
size_t ledger_verdicts(struct ledger *ledger, struct ledger_verdict *ret_verdicts, size_t max);

uint64_t ledger_used(const struct ledger *ledger, uint32_t tenant);
uint64_t ledger_quota(const struct ledger *ledger, uint32_t tenant);

#endif
