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

struct usage_journal_slot {
	_Atomic uint32_t id; /* the tenant's id, stored last; 0: the slot is free */
	uint32_t uid, request, limit;
	uint64_t first_s;
	_Atomic uint64_t last_s;
	_Atomic uint64_t gpu_ns, waited_ns, byte_s;
	_Atomic uint64_t used_ns[SPEC_DEVICES_MAX]; /* on each device of the tenant */
	char name[SPEC_NAME];
};

struct usage_journal;

int usage_journal_open(
	const char *runtime_dir, struct usage_journal **ret_journal, struct error *err);
void usage_journal_close(struct usage_journal *journal);

/* Takes a free slot, zeroed; NULL when there is none. */
struct usage_journal_slot *usage_journal_take_slot(struct usage_journal *journal);
void usage_journal_give_slot(struct usage_journal_slot *slot);

/* Iterates over the used slots: pass NULL to begin; NULL is the end. */
struct usage_journal_slot *usage_journal_next_slot(
	struct usage_journal *journal, const struct usage_journal_slot *slot);

#endif
