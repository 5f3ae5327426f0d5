/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to share that a replay compares: the engine's policies with shares that are kept, and what
 * clusters do without them. Pure.
 */
#ifndef REPLAY_SCHEME_H
#define REPLAY_SCHEME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "place/place-policy.h"
#include "replay/cluster.h"

struct replay_scheme {
	const char *name, *about;
	const struct place_policy *policy;
	/* How it asks for what the task asks for; NULL: just so. */
	void (*adapt)(const struct cluster *cluster, struct place_spec *spec);
	/* Tenants of a device get their requests; else each gets the same as long as it uses it. */
	bool has_limits;
	/* FGD: the whole trace's mix is known from the start, as published. */
	bool knows_mix;
};

/*
 * A policy's name, or "whole", "replicas", "memory-only", "random". `name` is borrowed. -EINVAL
 * with all the names there are.
 */
int replay_scheme_find(const char *name, struct replay_scheme *ret_scheme, struct error *err);
/* The i-th name, NULL behind the last, and what it does. */
const char *replay_scheme_name(size_t i);
const char *replay_scheme_about(size_t i);

#endif
