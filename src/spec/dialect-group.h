/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the keys by which users of other schedulers mark gangs. Applies to every pod, whatever
 * dialects the namespace enables.
 */
#ifndef SPEC_DIALECT_GROUP_H
#define SPEC_DIALECT_GROUP_H

#include "spec/dialect-internal.h"

struct dialect_group_key {
	const char *key;
	enum dialect_where where; /* annotation, label or field */
	/* annotation or label with the number of members that must fit; NULL: none */
	const char *least;
	/* API group of the PodGroup that gives this number of members; NULL: key `least` does */
	const char *object;
	const char *about;
};

/* Row i of the table; NULL after the last. */
const struct dialect_group_key *dialect_group_key_at(size_t i);

int dialect_read_groups(struct dialect_draft *draft, struct error *err);

#endif
