/* SPDX-License-Identifier: Apache-2.0 */
/* Groups as other schedulers' users mark them; read of every pod, whatever dialects are on. */
#ifndef SPEC_DIALECT_GROUP_H
#define SPEC_DIALECT_GROUP_H

#include "spec/dialect-internal.h"

struct dialect_group_key {
	const char *key;
	enum dialect_where where; /* annotation or label */
	const char *least;        /* key, in the same place, of the members needed; NULL */
	const char *object;       /* API group of the PodGroup that says it; NULL: least does */
	const char *about;
};

/* NULL behind the last. */
const struct dialect_group_key *dialect_group_key_at(size_t i);

int dialect_read_groups(struct dialect_draft *draft, struct error *err);

#endif
