/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usage journal: the current usage of each tenant in a mapped file of the runtime folder.
 * Writing is a store into memory, so the file is correct even after a kill of the daemon. A tenant
 * keeps its slot from its start until its final sums are in the file of reports. Sums only grow, so
 * the larger of two values is the later one.
 */
#ifndef AGENT_USAGE_JOURNAL_H
#define AGENT_USAGE_JOURNAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/spec.h"

struct tally_slot {
	_Atomic uint32_t id; /* the tenant's id, stored last; 0: the slot is free */
	uint32_t uid, request, limit;
	uint64_t first_s;
	_Atomic uint64_t last_s;
	_Atomic uint64_t gpu_ns, waited_ns, byte_s;
	_Atomic uint64_t used_ns[SPEC_DEVICES_MAX]; /* on each device of the tenant */
	char name[SPEC_NAME];
};

struct tally;

int tally_open(const char *runtime_dir, struct tally **ret_tally, struct error *err);
void tally_close(struct tally *tally);

/* Takes a free slot, zeroed; NULL when there is none. */
struct tally_slot *tally_take(struct tally *tally);
void tally_give(struct tally_slot *slot);

/* Iterates over the used slots: pass NULL to begin; NULL is the end. */
struct tally_slot *tally_next(struct tally *tally, const struct tally_slot *slot);

#endif
