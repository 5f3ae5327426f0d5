/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML as JSON, the way kubectl reads it: plain scalars that look like null, booleans (yes, off and
 * so on included) or numbers are those, all others are text. Aliases, tags and directives are
 * refused: a short text cannot stand for a huge one. JSON is YAML, too. Any thread.
 */
#ifndef KUBE_YAML_H
#define KUBE_YAML_H

#include "base/error.h"
#include "base/str.h"
#include "kube/json.h"

#define YAML_MAX_BYTES (4u << 20)
#define YAML_DEPTH_MAX 60u /* libfyaml itself stops a little later */

/* All documents, as an array; empty ones are left out. -EINVAL, -EMSGSIZE, -ENOMEM. */
int kube_yaml_parse(struct str text, json_t **ret_documents, struct error *err);

#endif
