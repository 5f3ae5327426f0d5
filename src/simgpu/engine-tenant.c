/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: the owners of computed kernels. The processes of a container have a cgroup of their own,
 * and are one tenant. Processes in the engine's own cgroup may belong to anyone, so each of them is
 * a tenant.
 *
 * A tenant may take memory for computing as long as that memory, and the memory that all tenants
 * have taken, together stay below the engine's limit. So one tenant gets half of the limit, two get
 * a third each, and however much some take, another tenant finds memory left.
 */
#include "simgpu/engine-tenant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/process.h"

enum { CGROUP_MAX = 4096 };

static struct {
	LIST_HEAD(, tenant) list;
	char *own_cgroup;
	_Atomic uint64_t bytes;
	uint64_t limit;
} tenants;

/* ---- memory ---- */

static bool tenant_take_memory(void *user, uint64_t bytes, bool is_spare)
{
	struct tenant *t = user;
	uint64_t own = atomic_fetch_add(&t->bytes, bytes) + bytes;
	uint64_t all = atomic_fetch_add(&tenants.bytes, bytes) + bytes;

	if (own <= tenants.limit && all <= (is_spare ? tenants.limit / 2 : tenants.limit) &&
		own + all <= (is_spare ? tenants.limit / 2 : tenants.limit))
		return true;
	atomic_fetch_sub(&t->bytes, bytes);
	atomic_fetch_sub(&tenants.bytes, bytes);
	return false;
}

static void tenant_give_memory(void *user, uint64_t bytes)
{
	struct tenant *t = user;

	atomic_fetch_sub(&t->bytes, bytes);
	atomic_fetch_sub(&tenants.bytes, bytes);
}

/* Half of the machine's memory, or of what the engine's container may have. */
static uint64_t default_limit(void)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	_cleanup_buf_ struct buf text = BUF_INIT(64);
	uint64_t max;

	if (file_read("/sys/fs/cgroup/memory.max", &text, NULL) >= 0 &&
		parse_uint(str_trim(buf_str(&text)), 1, UINT64_MAX, &max, NULL) >= 0)
		bytes = MIN(bytes, max);
	return bytes / 2;
}

void tenants_set_limit(uint64_t bytes)
{
	tenants.limit = bytes ? bytes : default_limit();
}

uint64_t tenants_limit(void)
{
	return tenants.limit;
}

/* ---- processes ---- */

/* Returns the text of the process's cgroup file, which the caller frees; NULL: not readable. */
static char *cgroup_of(pid_t pid)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CGROUP_MAX);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (file_read(path, &text, NULL) < 0 || buf_str(&text).n == 0)
		return NULL;
	return str_dup(buf_str(&text));
}

struct tenant *tenant_get(pid_t pid)
{
	_cleanup_free_ char *cgroup = cgroup_of(pid);
	struct tenant *t;

	if (!tenants.own_cgroup)
		tenants.own_cgroup = cgroup_of(getpid());
	if (cgroup && (!tenants.own_cgroup || strcmp(cgroup, tenants.own_cgroup) == 0)) {
		free(cgroup);
		cgroup = NULL;
	}
	LIST_FOREACH(t, &tenants.list, link)
		if (cgroup && t->cgroup && strcmp(t->cgroup, cgroup) == 0)
			return tenant_ref(t);
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->refs = 1;
	t->cgroup = TAKE_PTR(cgroup);
	t->memory = (struct ptx_memory){t, tenant_take_memory, tenant_give_memory};
	LIST_INSERT_HEAD(&tenants.list, t, link);
	return t;
}

struct tenant *tenant_ref(struct tenant *t)
{
	t->refs++;
	return t;
}

void tenant_unref(struct tenant *t)
{
	if (!t || --t->refs)
		return;
	LIST_REMOVE(t, link);
	free(t->cgroup);
	free(t);
}
