/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML as JSON, in two ways. As kubectl reads it: plain scalars that look like null, booleans (yes,
 * off and so on included) or numbers are those, all others are text. Or as a file whose values keep
 * text and line, for readers that say where a value is wrong. JSON is YAML, too. Any thread.
 *
 * Aliases stand for nothing and directives are refused: a short text cannot stand for a huge one.
 */
#ifndef FIELDS_YAML_H
#define FIELDS_YAML_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define YAML_MAX_BYTES (4u << 20)
#define YAML_DEPTH_MAX 60u /* libfyaml itself stops a little later */

/*
 * All documents, as an array; empty ones are left out. Tags, and keys that are there twice, are
 * refused. -EINVAL, -EMSGSIZE, -ENOMEM.
 */
int yaml_parse(struct str text, json_t **ret_documents, struct error *err);

struct yaml_file_params {
	size_t max_bytes;
	bool is_alone;     /* a second document is refused; otherwise only the first is read */
	bool ignores_tags; /* otherwise a scalar with a tag is as an alias */
};

/*
 * A file's first document. Its scalars are strings, as they stand there; one without text is null;
 * an alias is a number. Of keys that are there twice the first counts: see yaml_line_twice().
 */
struct yaml_file {
	json_t *root; /* NULL: the text is empty */
	struct yaml_line *line;
	uint32_t n_lines, lines_room;
};

/* -EINVAL, -EMSGSIZE, -ENOMEM. The file is the caller's, for yaml_file_done(). */
int yaml_file_parse(struct str text, const struct yaml_file_params *params,
	struct yaml_file *ret_file, struct error *err);
void yaml_file_done(struct yaml_file *file);

/*
 * Where it stands, from 1: a value, of a list or an object the first scalar in it, or a key, by the
 * pointer that json_object_foreach() gives. 0: nobody knows, as of null.
 */
unsigned int yaml_line(const struct yaml_file *file, const void *value_or_key);

/* Where that key stands a second time; 0: nowhere. */
unsigned int yaml_line_twice(const struct yaml_file *file, const char *key);

/* The line of the object's key of that name; 0: there is none. */
unsigned int yaml_line_of(const struct yaml_file *file, const json_t *object, const char *name);

#endif
