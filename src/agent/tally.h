/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each tenant has used, as of now: a mapped file in the runtime folder, of which a store is
 * all that writing takes and which is right after the daemon was killed. A slot is a tenant's from
 * its beginning until its sums are in the file of reports for good. Sums only grow, so that the
 * larger one of two is the later one.
 */
#ifndef AGENT_TALLY_H
#define AGENT_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/spec.h"

struct tally_slot {
	_Atomic uint32_t id; /* of the tenant; 0: the slot is free. Written last */
	uint32_t uid, request, limit;
	uint64_t first_s;
	_Atomic uint64_t last_s;
	_Atomic uint64_t gpu_ns, waited_ns, byte_s;
	_Atomic uint64_t used_ns[SPEC_DEVICES_MAX]; /* on each of its devices */
	char name[SPEC_NAME];
};

struct tally;

int tally_open(const char *runtime_dir, struct tally **ret_tally, struct error *err);
void tally_close(struct tally *tally);

/* One that is free, zeroed; NULL when there is no room for it. */
struct tally_slot *tally_take(struct tally *tally);
void tally_give(struct tally_slot *slot);

/* The slots in use, each once: NULL begins, NULL ends. */
struct tally_slot *tally_next(struct tally *tally, const struct tally_slot *slot);

#endif
