/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sharing schemes that a placement simulation compares: every policy of the placement model
 * with enforced shares, and common alternatives without divvy. Pure.
 */
#ifndef REPLAY_SCHEME_H
#define REPLAY_SCHEME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "place/place-policy.h"
#include "replay/replay-cluster.h"

struct replay_scheme {
	const char *name, *about;
	const struct place_policy *policy;
	/* Changes the task's request to the request under this scheme; NULL: no change. */
	void (*adapt)(const struct cluster *cluster, struct place_spec *spec);
	/*
	 * true: each task on a device gets its request. false: all tasks on a device get equal
	 * shares.
	 */
	bool has_limits;
	/*
	 * FGD: the placement model knows the mix of the whole trace from the start, as in the
	 * publication.
	 */
	bool knows_mix;
};

/*
 * `name`, which is borrowed, is a policy's name, "whole", "replicas", "memory-only" or "random".
 * Returns -EINVAL, with all names, for another name.
 */
int replay_scheme_find(const char *name, struct replay_scheme *ret_scheme, struct error *err);
/* The name of scheme i, or NULL after the last; and its description. */
const char *replay_scheme_name(size_t i);
const char *replay_scheme_about(size_t i);

#endif
