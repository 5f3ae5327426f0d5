/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that several processes of one tenant may hold: exported, opened, imported. It is
 * charged to the tenant once, by the daemon itself, from the first holder's message until the last
 * holder has let it go or the device no longer lists that process. A process is a holder once,
 * however often it has the memory. Where a holder has ended, a descriptor that it exported may be
 * open in a process that is no holder, or on its way: without a holder such memory is `left`, and
 * charged until no descriptor of it is open.
 */
#ifndef AGENT_SHARE_H
#define AGENT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tenant.h"

/* Of a tenant on a device. */
#define SHARES_MAX 16384u
#define SHARE_HOLDERS_MAX 65536u /* of all of them */

struct open_locks;
struct process;

/*
 * The process holds `bytes` of memory `id`. is_held: the device has them already, so that the
 * quota is not asked. `seq` is the number of the daemon's last change of a counter. 1: the first
 * holder, it is charged now; 0: others hold it already; -ENOMEM: above the quota; -EINVAL: more
 * than the device has; -ENOSPC: SHARES_MAX or SHARE_HOLDERS_MAX.
 */
int share_add(struct tenant_device *td, struct process *p, uint64_t id, uint64_t bytes,
	bool is_held, uint32_t *seq);
void share_remove(struct tenant_device *td, struct process *p, uint64_t id, uint32_t *seq);
/* All that it held. ended: the number of questions to the devices that had begun when it ended. */
void share_remove_process(
	struct tenant_device *td, struct process *p, uint64_t ended, uint32_t *seq);
/* The answer to that question has come; what is left and has no open descriptor is given back. */
void share_look(
	struct tenant_device *td, const struct open_locks *open, uint64_t question, uint32_t *seq);
bool share_is_any(const struct tenant_device *td);
uint64_t share_left_bytes(const struct tenant_device *td);
/* Bytes of all that the process holds. */
uint64_t share_bytes(const struct tenant_device *td, const struct process *p);
/* What the daemon holds of the counter, as a process's slot; NULL: nothing. */
const struct page_memory *share_slot(const struct tenant_device *td);
/* The tenant ends. */
void share_done(struct tenant_device *td);

#endif
