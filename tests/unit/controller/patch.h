/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies a JSON Patch as an API server does: add, remove, replace in objects and lists.
 */
#ifndef TESTS_UNIT_CONTROLLER_PATCH_H
#define TESTS_UNIT_CONTROLLER_PATCH_H

#include <jansson.h>
#include <stdbool.h>

/* False: the patch does not fit the object. */
bool patch_apply(json_t *object, const json_t *patch);
/* That of an AdmissionReview with a response; NULL: it has none. The caller's. */
json_t *patch_of_review(const json_t *review);

#endif
