/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is another process of the same tenant? By what the daemon goes by: the secret that it was started
 * with, and without one its user, group and cgroup. Asks /proc, and takes for a stranger what it
 * may not look into. Any thread; errno may change.
 */
#ifndef HOOK_OWN_H
#define HOOK_OWN_H

#include <stdbool.h>

struct own {
	char secret[33]; /* "": none */
	unsigned int uid, gid;
	char cgroup[1024];
};

/* This process. False: it cannot be known; then own_has() is true of it alone. */
bool own_init(struct own *ret_own);

/* pid: as /proc here has it. */
bool own_has(const struct own *own, unsigned int pid);

#endif
