/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices that this daemon shares out: the machine's, or simulated ones. The list is made once
 * at the start; a device's index in it is its number in messages, pages and the arbiter.
 */
#ifndef AGENT_DEVICE_H
#define AGENT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/lock.h"
#include "agent/nvml.h"
#include "base/error.h"
#include "core/arbiter.h"
#include "core/ledger.h"

#define PATH_SIZE_MAX 1024

struct device {
	uint32_t index;
	uint8_t uuid[16];
	struct nvml_info info;
	struct ledger *ledger; /* the device's book */
	struct lock lock;
	uint64_t context_guess_bytes; /* what one context takes, before anything was measured */
	uint64_t context_bytes;       /* what a new tenant's is expected to take: memory.c */
	uint64_t used_bytes;          /* as the device said last, for display */
	uint32_t n_silent;            /* questions without any answer, since the last one with */
	bool is_lost;                 /* the driver says that it is there no more */
	uint64_t xid;    /* the first that was none of a program's; 0: none since the start */
	uint64_t n_xids; /* all that the driver has told */
	char xid_note[64];
	bool is_native; /* another device plugin's: who uses it is that one's business */
	char note[160]; /* what limits sharing, in words */
};

/* "HMM" or "ATS", where kernels reach ordinary memory of their process; NULL: they do not. */
const char *device_host_access(const struct device *device);

/*
 * Nobody new comes to an ill one: the driver has lost it, has told of an error, or, so often in a
 * row, says nothing.
 */
#define DEVICE_SILENT_MAX 2u
static inline bool device_is_ill(const struct device *device)
{
	return device->is_lost || device->xid || device->n_silent >= DEVICE_SILENT_MAX;
}

/* What ails it, as words behind its name; NULL: nothing. */
const char *device_ailment(const struct device *device);

/* That, else what limits sharing; "" where nothing does. */
const char *device_note(const struct device *device);

struct device_set {
	struct nvml *nvml;
	struct device *devices;
	uint32_t n;
	uint8_t *link; /* n x n of enum nvml_link */
	bool is_simulated;
	char sim_dir[PATH_SIZE_MAX];  /* the simulated machine; "" for real devices */
	char sim_libs[PATH_SIZE_MAX]; /* the simulated driver's folder */
};

struct device_wish {
	/* NULL: what the machine has; else a simulated one of that specification in runtime_dir/sim
	 */
	const char *simulate;
	const char *runtime_dir;
	uint32_t oversubscribe_permille;
	bool may_be_none; /* without any device there is none; else one is simulated */
};

/* Blocks. */
int device_set_open(const struct device_wish *wish, struct device_set **ret_set, struct error *err);
/* Locks all devices. -EBUSY names the owner; is_forced as in lock_take(). */
int device_set_lock(struct device_set *set, const char *socket, bool is_forced,
	struct lock_owner *ret_owner, struct error *err);
void device_set_close(struct device_set *set);

/* One that programs cause on a device that is well: NVIDIA's device plugin passes over the same. */
bool device_is_xid_of_program(uint64_t xid);
/*
 * Notes it on the devices that it is of: ill from then on, until the daemon is restarted, unless
 * it is a program's. A bit for each device that has become ill by it.
 */
uint64_t device_note_xid(struct device_set *set, const struct nvml_xid *xid);

enum nvml_link device_link(const struct device_set *set, uint32_t a, uint32_t b);

/* By "GPU-..." in full; NULL: none. */
struct device *device_find(const struct device_set *set, const char *uuid);

/* 16 bytes of "GPU-" or "MIG-" and a UUID; other texts are hashed. */
void device_parse_uuid(const char *text, uint8_t ret_uuid[static 16]);

#endif
