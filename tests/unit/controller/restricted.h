/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Pod Security Standards' restricted profile, with all of the baseline's rules, as Kubernetes
 * 1.34 has it: for each control a function that says which field breaks it.
 */
#ifndef TESTS_UNIT_CONTROLLER_RESTRICTED_H
#define TESTS_UNIT_CONTROLLER_RESTRICTED_H

#include <jansson.h>
#include <stddef.h>

struct restricted_rule {
	const char *control;
	/* The path of a field that breaks it; NULL: none does. */
	const char *(*broken)(const json_t *pod);
};

extern const struct restricted_rule restricted_rules[];
extern const size_t restricted_n_rules;

#endif
