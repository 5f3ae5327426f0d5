/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that one CUDA context takes on a device, learnt from what the device says of processes
 * that claim to hold nothing else. A process may lie, and the device's figure contains memory of
 * other APIs. So a tenant's figure counts for other tenants only by this rule:
 * - A tenant that has measured expects its own last figure.
 * - Other tenants expect the least figure of the device's tenants, if two owners have measured. An
 *   owner is the namespace of a pod, or else a uid.
 * - Tenants of the only owner that has measured expect its least figure, if two of its tenants have
 *   measured.
 * - All other tenants expect the device's guess. Figures of processes in one cgroup count as those
 *   of one owner, because a container's root may take any uid. So only two owners together can
 *   raise the size that a third owner expects.
 *
 * The loop's thread only; nothing blocks. All sizes are bytes. Nothing is kept over a restart.
 */
#ifndef AGENT_CONTEXT_COST_H
#define AGENT_CONTEXT_COST_H

#include <stdint.h>

struct device;
struct tenant;
struct tenant_device;

/*
 * A measured value above this many times the guess, or above this many bytes, is ignored. Large
 * contexts take 1 GiB.
 */
#define CONTEXT_COST_GUESSES_MAX 4u
#define CONTEXT_COST_MAX_BYTES (UINT64_C(2) << 30)

/* Returns the bytes that the next context of that tenant is expected to take. */
uint64_t context_cost_expected(const struct tenant_device *td);

/*
 * Call when a process of the tenant uses `bytes` of the device and claims to hold nothing but its
 * context. 0, and values above the limit, change nothing. Otherwise td expects this value from now
 * on, and the pages of all the device's tenants get new values. cgroup: that of the process, as
 * conf_cgroup() reads it; "" and "/" are no cgroup that processes could share.
 */
void context_cost_learn(struct tenant_device *td, const char *cgroup, uint64_t bytes);

/* Call when the tenant ends: its figures no longer affect other tenants. */
void context_cost_tenant_gone(struct tenant *tenant);

#endif
