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

/* Row i of the table; NULL after the last. */
const struct dialect_group_by *dialect_group_by_at(size_t i);

/*
 * Sets the gang by the value of divvy.gpu/group-by. threshold: part of the members, in permille.
 * -EINVAL if no row has the value, or if the pod lacks the labels of the row's system.
 */
int dialect_read_group_by(
	struct dialect_draft *draft, struct str value, uint32_t threshold, struct error *err);

#endif
