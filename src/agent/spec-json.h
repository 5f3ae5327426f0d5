/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A spec as JSON: in the numeric form of answers and of the state, and from the textual form of
 * requests. The caller owns what is returned.
 */
#ifndef AGENT_SPEC_JSON_H
#define AGENT_SPEC_JSON_H

#include <jansson.h>

#include "base/error.h"
#include "spec/spec.h"

/* NULL: out of memory. */
json_t *spec_to_json(const struct spec *spec);

/* The numeric form, as written by spec_to_json. -EINVAL. */
int spec_from_json(const json_t *json, struct spec *ret_spec, struct error *err);

/* A value of any kind as a sentence shows it, cut where it is long. Returns ret. */
#define SPEC_JSON_SHOWN 52u
const char *spec_json_show(const json_t *value, char ret[static SPEC_JSON_SHOWN]);

/* {"request": "0.3", ...}: sets each field named; texts or numbers. Does not finish the spec. */
int spec_set_json(struct spec *spec, const json_t *fields, struct error *err);

#endif
