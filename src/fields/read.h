/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON objects into structs, by tables of fields. A field that the table does not name, or whose
 * value has another type, is an error with a sentence that says where ("spec: tolerations: 2:
 * operator: ..."); the fields after it are read all the same, so that what could be understood of
 * an object is there. Lists and texts have a most. What is read belongs to the arena.
 *
 * null is as good as absent. A field with no reader is known and of no concern.
 */
#ifndef FIELDS_READ_H
#define FIELDS_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "fields/yaml.h"

#define READ_LIST_MAX 4096 /* items of one list, members of one map */
#define READ_TEXT_MAX 4096 /* bytes of a text that is kept */
#define READ_NAME_MAX 127  /* bytes of a field's name in a file */

/* Reads value into *into, of the type that the reader says. -EINVAL, -ENOTSUP, -E2BIG, -ENOMEM. */
typedef int read_fn(struct arena *arena, json_t *value, void *into, struct error *err);

struct read_field {
	const char *name;
	read_fn *read; /* NULL: of no concern */
	size_t offset; /* of what it reads into */
};

#define READ_FIELD(type, member, name, reader) \
	{ \
		name, reader, offsetof(type, member) \
	}
/* The reader gets the struct itself, for what is more than one member. */
#define READ_WHOLE(name, reader) \
	{ \
		name, reader, 0 \
	}
#define READ_NOTHING(name) \
	{ \
		name, NULL, 0 \
	}

/* 0, or the first error. */
int read_fields(struct arena *arena, json_t *object, const struct read_field *fields, size_t n,
	void *into, struct error *err);

/* As read_fields, of an object whose other fields are of no concern. */
int read_some(struct arena *arena, json_t *object, const struct read_field *fields, size_t n,
	void *into, struct error *err);

/*
 * A table for the objects of a file (yaml.h), where the first error ends the reading and begins
 * with the line of its field: "line 3: cpu: 'x': ...". null is a value like others. `other` gets
 * what the table does not name, with `into`: 0 (it has been read) or the error.
 */
struct read_table {
	const struct read_field *fields;
	size_t n;
	const char *quote;  /* around a name that is there twice, or that `other` refuses */
	bool is_dash_taken; /* '_' in a name means '-' */
	int (*other)(const struct read_table *table, const char *name, json_t *value, void *into,
		struct error *err);
};

/*
 * As read_fields, by a table for files. A reader's sentence that begins with a blank follows the
 * field's name without a colon. The readers have no arena. -EEXIST: a field is there twice.
 */
int read_lined(const struct yaml_file *file, json_t *object, const struct read_table *table,
	void *into, struct error *err);

/* An array of items: *ret_items is of json_array_size(value), zero where an item failed. */
int read_list(struct arena *arena, json_t *value, size_t item, read_fn *read, void **ret_items,
	uint32_t *ret_n, struct error *err);

/* Defines a reader of lists into struct { type *v; uint32_t n; }. */
#define READ_LIST(name, type, item_reader) \
	static int name(struct arena *arena, json_t *value, void *into, struct error *err) \
	{ \
		struct { \
			type *v; \
			uint32_t n; \
		} *list = into; \
\
		return read_list(arena, value, sizeof(type), item_reader, (void **)&list->v, \
			&list->n, err); \
	}

/* Defines a reader that has `plain` give the text of a value, and `parse` read that into type. */
#define READ_PARSED(name, plain, type, parse) \
	static int name(struct arena *arena, json_t *value, void *into, struct error *err) \
	{ \
		struct str text = STR_NONE; \
		int r = plain(value, &text, err); \
\
		return r < 0 ? r : parse(text, (type *)into, err); \
	}

/* Defines a reader of objects into type by its table. */
#define READ_OBJECT(name, type, fields) \
	static int name(struct arena *arena, json_t *value, void *into, struct error *err) \
	{ \
		return read_fields(arena, value, fields, ARRAY_SIZE(fields), (type *)into, err); \
	}

struct texts {
	const char **v;
	uint32_t n;
};

int read_text(struct arena *arena, json_t *value, void *into, struct error *err); /* const char * */
int read_texts(
	struct arena *arena, json_t *value, void *into, struct error *err);       /* struct texts */
int read_bool(struct arena *arena, json_t *value, void *into, struct error *err); /* bool */
int read_true(
	struct arena *arena, json_t *value, void *into, struct error *err); /* bool: present */
int read_number(struct arena *arena, json_t *value, void *into, struct error *err); /* int64_t */

bool texts_has(const struct texts *texts, const char *text);

/*
 * One of the words into an int, its place in the list. A word that is not there is -ENOTSUP: it may
 * be right for a newer cluster, and is not understood here.
 */
int read_word(json_t *value, const char *const *words, size_t n, int *ret_word, struct error *err);

#endif
