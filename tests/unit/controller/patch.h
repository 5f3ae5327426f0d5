/* SPDX-License-Identifier: Apache-2.0 */
/* Applies a JSON Patch like an API server: add, remove and replace, in objects and lists. */
#ifndef TESTS_UNIT_CONTROLLER_PATCH_H
#define TESTS_UNIT_CONTROLLER_PATCH_H

#include <jansson.h>
#include <stdbool.h>

/* Returns false if the patch does not fit the object. */
bool patch_apply(json_t *object, const json_t *patch);
/* Returns the patch in the response of an AdmissionReview, owned by the caller; NULL: none. */
json_t *patch_of_review(const json_t *review);

#endif
