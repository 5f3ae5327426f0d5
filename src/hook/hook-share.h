/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that other processes have or may get: exported descriptors and handles, and imports. The
 * device keeps such memory while any process holds it, so no single process can charge it. The
 * daemon charges it to the tenant once, under a number that all holders know (docs/adr/0026). A
 * process is a holder while it has a handle or mapping, or while a copy of a descriptor that it
 * exported is open.
 *
 * Any thread may call these functions. share_hold and share_drop wait for the daemon's answer.
 */
#ifndef HOOK_HOOK_SHARE_H
#define HOOK_HOOK_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "hook/hook.h"

enum share_charge {
	SHARE_NEW,     /* not charged yet: the quota applies */
	SHARE_CHARGED, /* charged by this process: the charge moves to the daemon */
	SHARE_ANYWAY,  /* like SHARE_NEW, even beyond the quota */
};

/*
 * Adds one hold: a handle, mapping or descriptor of this process. Returns 0, or -ENOMEM without any
 * change.
 */
int share_hold(struct device *d, uint64_t id, uint64_t pages, enum share_charge charge);
void share_drop(struct device *d, uint64_t id);
/* Pages of the memory with this number; 0: this process does not hold it. */
uint64_t share_size(uint64_t id);
/* Moves the descriptor out of the way of a program's own ones, if possible; accepts -1. */
int share_raise_fd(int fd);

/*
 * share_id_new() makes a number for new memory, and share_id_of() the number for a handle of 64
 * bytes. Never 0.
 */
uint64_t share_id_new(void);
uint64_t share_id_of(const void *handle);

/*
 * Writes number and size to an exported descriptor, for processes that receive it. Holds the memory
 * until the last copy of the descriptor is closed.
 */
void share_export(struct device *d, uint64_t id, uint64_t pages, int fd);
/* Reads number and size that share_export() wrote to a descriptor. False: there are none. */
bool share_read(int fd, uint64_t *ret_id, uint64_t *ret_pages);
/* Releases memory that only closed descriptors held. Returns whether any memory was released. */
bool share_settle(void);
/* Does the work of share_settle() for the helper thread, which must not wait for an answer. */
void share_look(struct hook *h);

/* Pages of the device that this process holds as shared memory. */
uint64_t share_pages(const struct device *d);
/*
 * Called by the helper thread: reports all shared memory of this process to a new daemon, which
 * knows none.
 */
void share_again(struct hook *h);

#endif
