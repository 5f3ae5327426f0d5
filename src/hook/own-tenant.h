/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether another process belongs to the same tenant, by the daemon's criteria: the secret
 * in the initial environment, or without one the user, group and cgroup. Reads /proc. A process
 * that cannot be read counts as another tenant's. Any thread; errno may change.
 */
#ifndef HOOK_OWN_TENANT_H
#define HOOK_OWN_TENANT_H

#include <stdbool.h>

struct own {
	char secret[33]; /* "": none */
	unsigned int uid, gid;
	bool is_read;
};

/*
 * Describes this process. False: /proc could not be read, and own_has() is then true only for this
 * process.
 */
bool own_init(struct own *ret_own);

/* pid: in this process's pid namespace. */
bool own_has(const struct own *own, unsigned int pid);

#endif
