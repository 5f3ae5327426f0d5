/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A spec as JSON: a numeric form for answers and the state, and a textual form for requests. The
 * caller owns returned objects.
 */
#ifndef AGENT_SPEC_JSON_H
#define AGENT_SPEC_JSON_H

#include <jansson.h>

#include "base/error.h"
#include "spec/spec.h"

/* Writes the numeric form. NULL: out of memory. */
json_t *spec_to_json(const struct spec *spec);

/* Reads the numeric form of spec_to_json(). Returns 0 or -EINVAL. */
int spec_from_json(const json_t *json, struct spec *ret_spec, struct error *err);

/* Formats a value of any kind for an error message, cut where it is long. Returns ret. */
#define SPEC_JSON_SHOWN 52u
const char *spec_json_show(const json_t *value, char ret[static SPEC_JSON_SHOWN]);

/* Sets fields from texts or numbers: {"request": "0.3", ...}. The caller calls spec_finish(). */
int spec_set_json(struct spec *spec, const json_t *fields, struct error *err);

#endif
