/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that other processes have, or may get: exported descriptors and handles, imports. The
 * device keeps it as long as anybody holds it, so that no process can charge it alone. The daemon
 * charges it to the tenant once, by a number that all its holders know (docs/adr/0026). A process
 * is a holder while a handle or mapping of its own, or a copy of a descriptor that it exported,
 * lives.
 * Any thread; share_hold and share_drop wait for the daemon's answer.
 */
#ifndef HOOK_SHARE_H
#define HOOK_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "hook/hook.h"

enum share_charge {
	SHARE_NEW,     /* not charged here: the quota is asked */
	SHARE_CHARGED, /* charged here before: the charge goes over to the daemon */
	SHARE_ANYWAY,  /* as SHARE_NEW, beyond the quota too */
};

/* One more handle, mapping or descriptor in this process. 0, or -ENOMEM: nothing has changed. */
int share_hold(struct device *d, uint64_t id, uint64_t pages, enum share_charge charge);
void share_drop(struct device *d, uint64_t id);
/* Its pages; 0: this process does not hold it. */
uint64_t share_size(uint64_t id);
/* A number for new memory; the number of what a handle of 64 bytes names. Never 0. */
uint64_t share_id_new(void);
uint64_t share_id_of(const void *handle);

/*
 * Writes number and size on an exported descriptor, for processes that receive it, and holds
 * the memory until the last copy of the descriptor is closed.
 */
void share_export(struct device *d, uint64_t id, uint64_t pages, int fd);
/* What share_export wrote on a descriptor; false: nothing. */
bool share_read(int fd, uint64_t *ret_id, uint64_t *ret_pages);
/* Lets go what only closed descriptors held. Returns whether there was any. */
bool share_settle(void);
/* The same, by the helper thread, which must not wait for an answer. */
void share_look(struct hook *h);

/* Pages of the device that this process holds in this way. */
uint64_t share_pages(const struct device *d);
/* By the helper thread: another daemon has begun, and knows of nothing. */
void share_again(struct hook *h);

#endif
