/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The restricted profile of the Pod Security Standards, including the baseline profile, as in
 * Kubernetes 1.34. Each control has a function that returns the field that violates it.
 */
#ifndef TESTS_UNIT_CONTROLLER_RESTRICTED_H
#define TESTS_UNIT_CONTROLLER_RESTRICTED_H

#include <jansson.h>
#include <stddef.h>

struct restricted_rule {
	const char *control;
	/* Returns the path of a field that violates the control; NULL: no violation. */
	const char *(*broken)(const json_t *pod);
};

extern const struct restricted_rule restricted_rules[];
extern const size_t restricted_n_rules;

#endif
