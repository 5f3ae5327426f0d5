/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that one CUDA context takes on a device, learnt from what the device says of processes
 * that claim to hold nothing else. A claim is the process's own word, and the device's figure
 * contains memory of other APIs. The loop's thread only; nothing blocks. All sizes are bytes.
 */
#ifndef AGENT_CONTEXT_COST_H
#define AGENT_CONTEXT_COST_H

#include <stdint.h>

struct device;
struct tenant;
struct tenant_device;

/* The most that a context is believed to take: so many guesses, and so much (large ones: 1 GiB). */
#define CONTEXT_COST_GUESSES_MAX 4u
#define CONTEXT_COST_MAX_BYTES (UINT64_C(2) << 30)

/* What the next context of that tenant is expected to take. */
uint64_t context_cost_expected(const struct tenant_device *td);

/*
 * A process of the tenant uses `bytes` of the device and claims to hold its context alone. 0 and
 * more than the most above change nothing. Otherwise td expects that from now on, and the pages of
 * all the device's tenants show what they expect.
 */
void context_cost_learn(struct tenant_device *td, uint64_t bytes);

/* The tenant ends: it counts no more on any of its devices. */
void context_cost_tenant_gone(struct tenant *tenant);

#endif
