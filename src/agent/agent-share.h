/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that several processes of one tenant may hold: exported, opened, imported. The
 * daemon charges this memory to the tenant once. The charge begins with the first holder's message.
 * The charge ends when the last holder has released the memory, or when the device no longer lists
 * the last holder. A process is one holder, even if it has opened the memory several times.
 *
 * When a holder ends, a descriptor that it exported may be open in another process, or may be on
 * its way there. Memory without a holder is then `left`: its charge ends when no descriptor of it
 * is open.
 */
#ifndef AGENT_AGENT_SHARE_H
#define AGENT_AGENT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/tenant.h"

/* Limits for one tenant on one device: number of shares, and of holders of all these shares. */
#define SHARES_MAX 16384u
#define SHARE_HOLDERS_MAX 65536u

struct open_locks;
struct process;

/*
 * Records that the process holds `bytes` of memory `id`. is_held: the device has allocated the
 * bytes already, so the quota is not checked. *seq is the number of the daemon's last change of a
 * counter. Returns 1 for the first holder (charged now) and 0 for a further holder. -ENOMEM: above
 * the quota; -EINVAL: more than the device has; -ENOSPC: SHARES_MAX, SHARE_HOLDERS_MAX, or out of
 * memory.
 */
int share_add(struct tenant_device *td, struct process *p, uint64_t id, uint64_t bytes,
	bool is_held, uint32_t *seq);
void share_remove(struct tenant_device *td, struct process *p, uint64_t id, uint32_t *seq);
/* Releases all shares of an ended process. ended: number of device queries begun before its end. */
void share_remove_process(
	struct tenant_device *td, struct process *p, uint64_t ended, uint32_t *seq);
/*
 * Handles the answer to device query number `question`. Frees memory that is `left` and to which no
 * open descriptor refers.
 */
void share_look(
	struct tenant_device *td, const struct open_locks *open, uint64_t question, uint32_t *seq);
bool share_is_any(const struct tenant_device *td);
uint64_t share_left_bytes(const struct tenant_device *td);
/* Bytes of all shares that the process holds. */
uint64_t share_bytes(const struct tenant_device *td, const struct process *p);
/* The daemon's part of the counter, in the form of a process's slot; NULL: the daemon has none. */
const struct page_memory *share_slot(const struct tenant_device *td);
/* Frees the table when the tenant ends. */
void share_done(struct tenant_device *td);

#endif
