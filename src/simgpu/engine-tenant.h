/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owners of computed kernels, which share the engine's memory and threads. The loop's thread
 * calls all functions. `memory` may be used in any thread, by users that hold a reference.
 */
#ifndef SIMGPU_ENGINE_TENANT_H
#define SIMGPU_ENGINE_TENANT_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "ptx/ptx.h"

struct tenant {
	uint32_t refs;
	char *cgroup;             /* NULL: the tenant is one process */
	struct ptx_memory memory; /* what the tenant may take for computing */
	_Atomic uint64_t bytes;   /* taken */
	/* of engine-pool.c, under its lock */
	uint64_t used_ns; /* processor time, compared between tenants that want more */
	uint32_t threads; /* that have work of the tenant */
	uint32_t wanting; /* tasks and threads that wait for a processor */
	LIST_ENTRY(tenant) link;
};

/* Memory that all tenants together may take for computing; 0: half of the machine's memory. */
void tenants_set_limit(uint64_t bytes);
uint64_t tenants_limit(void);
/* Returns the tenant of a process, with a reference for the caller; NULL: out of memory. */
struct tenant *tenant_get(pid_t pid);
struct tenant *tenant_ref(struct tenant *t);
void tenant_unref(struct tenant *t); /* accepts NULL */

#endif
