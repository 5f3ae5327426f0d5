/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads YAML as JSON, in two ways. yaml_parse() follows kubectl: plain scalars that look like null,
 * a boolean (also yes, no, on, off) or a number become null, booleans and numbers. All other
 * scalars become text. yaml_file_parse() keeps text and line of each value, for readers whose
 * errors name the line. JSON is valid YAML. Any thread.
 *
 * Aliases are not expanded and directives are refused, so a short text cannot expand to a huge one.
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
#define YAML_DEPTH_MAX 60u /* libfyaml's own limit is a little higher */

/*
 * Returns an array of all documents that are not empty. Tags, aliases and repeated keys are errors.
 * -EINVAL, -EMSGSIZE, -ENOMEM.
 */
int yaml_parse(struct str text, json_t **ret_documents, struct error *err);

struct yaml_file_params {
	size_t max_bytes;
	bool is_alone;     /* true: a second document is an error; false: it is ignored */
	bool ignores_tags; /* false: a scalar with a tag reads as an alias */
};

/*
 * The first document of a file. Scalars are strings, in the file's spelling. An empty scalar is
 * null, and an alias is the number 0. The first of repeated keys counts: see yaml_line_twice().
 */
struct yaml_file {
	json_t *root; /* NULL: the file is empty */
	struct yaml_line *line;
	uint32_t n_lines, lines_room;
};

/* -EINVAL, -EMSGSIZE, -ENOMEM. The caller owns the file and ends it with yaml_file_done(). */
int yaml_file_parse(struct str text, const struct yaml_file_params *params,
	struct yaml_file *ret_file, struct error *err);
void yaml_file_done(struct yaml_file *file);

/*
 * The line, from 1, of a value or of a key; a key is the pointer from json_object_foreach(). For a
 * list or an object it is the line of the first scalar inside. 0: unknown, as for null.
 */
unsigned int yaml_line(const struct yaml_file *file, const void *value_or_key);

/* The line where the key occurs a second time; 0: the key occurs once. */
unsigned int yaml_line_twice(const struct yaml_file *file, const char *key);

/* The line of the object's key `name`; 0: the object has no such key. */
unsigned int yaml_line_of(const struct yaml_file *file, const json_t *object, const char *name);

#endif
