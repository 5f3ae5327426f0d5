/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML as JSON, the way kubectl reads it: plain scalars that look like null, booleans (yes, off and
 * so on included) or numbers are those, all others are text. Aliases, tags and directives are
 * refused: a short text cannot stand for a huge one. JSON is YAML, too. Any thread.
 */
#ifndef FIELDS_YAML_H
#define FIELDS_YAML_H

#include <jansson.h>

#include "base/error.h"
#include "base/str.h"

#define YAML_MAX_BYTES (4u << 20)
#define YAML_DEPTH_MAX 60u /* libfyaml itself stops a little later */

struct fy_diag;

/*
 * What libfyaml must not be given: directives ("%..." at the beginning of a line), for nobody needs
 * them, it keeps what it has been told by one for all that follow, and 0.7.12 never comes back from
 * some that end where the text ends; and what is no UTF-8, in which it loses memory. -EINVAL.
 */
int yaml_check_text(struct str text, struct error *err);

/* The first of what libfyaml has collected, as a sentence; returns -EINVAL. */
int yaml_fail(struct fy_diag *diag, struct error *err);

/* All documents, as an array; empty ones are left out. -EINVAL, -EMSGSIZE, -ENOMEM. */
int yaml_parse(struct str text, json_t **ret_documents, struct error *err);

#endif
