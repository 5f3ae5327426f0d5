/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON objects into structs, by tables of fields. A field that the table does not name, or
 * whose value has another type, is an error with its path ("spec: tolerations: 2: operator: ...").
 * The reader continues after an error and returns the first one, so the struct has every field that
 * could be read. Lists and texts have maximum sizes. The arena owns the results.
 *
 * null counts as absent. A field whose `read` is NULL is known and ignored.
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
#define READ_TEXT_MAX 4096 /* bytes of a text that a reader copies */
#define READ_NAME_MAX 127  /* bytes of a field's name in a file */

/* Reads value into *into, whose type the reader documents. -EINVAL, -ENOTSUP, -E2BIG, -ENOMEM. */
typedef int read_fn(struct arena *arena, json_t *value, void *into, struct error *err);

struct read_field {
	const char *name;
	read_fn *read; /* NULL: ignored */
	size_t offset; /* offset of the struct's member that `read` sets */
};

#define READ_FIELD(type, member, name, reader) \
	{ \
		name, reader, offsetof(type, member) \
	}
/* Passes the whole struct to the reader, for a field that sets several members. */
#define READ_WHOLE(name, reader) \
	{ \
		name, reader, 0 \
	}
#define READ_NOTHING(name) \
	{ \
		name, NULL, 0 \
	}

/* Returns 0 or the first error. */
int read_fields(struct arena *arena, json_t *object, const struct read_field *fields, size_t n,
	void *into, struct error *err);

/* As read_fields(), but ignores fields that the table does not name. */
int read_some(struct arena *arena, json_t *object, const struct read_field *fields, size_t n,
	void *into, struct error *err);

/*
 * A table for the objects of a file (yaml.h). The first error ends the reading, and its message
 * begins with the line: "line 3: cpu: 'x': ...". null is an ordinary value. `other` receives each
 * field that the table does not name, with `into`, and returns 0 or an error.
 */
struct read_table {
	const struct read_field *fields;
	size_t n;
	/* quotation mark around the field's name in messages */
	const char *quote;
	bool is_dash_taken; /* '_' in a name counts as '-' */
	int (*other)(const struct read_table *table, const char *name, json_t *value, void *into,
		struct error *err);
};

/*
 * As read_fields(), by a table for files. Readers receive NULL as arena. -EEXIST: the field occurs
 * twice.
 */
int read_lined(const struct yaml_file *file, json_t *object, const struct read_table *table,
	void *into, struct error *err);

/*
 * Reads an array of items of `item` bytes. *ret_items has json_array_size(value) items; a failed
 * item is zero. Returns 0 or the first error; -E2BIG for too many items.
 */
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

/* Defines a reader: `plain` extracts the text of a value, and `parse` converts the text to type. */
#define READ_PARSED(name, plain, type, parse) \
	static int name(struct arena *arena, json_t *value, void *into, struct error *err) \
	{ \
		struct str text = STR_NONE; \
		int r = plain(value, &text, err); \
\
		return r < 0 ? r : parse(text, (type *)into, err); \
	}

/* Defines a reader of objects into type by a table. */
#define READ_OBJECT(name, type, fields) \
	static int name(struct arena *arena, json_t *value, void *into, struct error *err) \
	{ \
		return read_fields(arena, value, fields, ARRAY_SIZE(fields), (type *)into, err); \
	}

/* As READ_OBJECT(), by read_some(). */
#define READ_SOME(name, type, fields) \
	static int name(struct arena *arena, json_t *value, void *into, struct error *err) \
	{ \
		return read_some(arena, value, fields, ARRAY_SIZE(fields), (type *)into, err); \
	}

/* Defines a reader of a text into the int that is its index in the array of words. */
#define READ_WORD(name, words) \
	static int name(struct arena *arena, json_t *value, void *into, struct error *err) \
	{ \
		return read_word(value, words, ARRAY_SIZE(words), into, err); \
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
	/* bool: true if the field is present */
	struct arena *arena, json_t *value, void *into, struct error *err);
int read_number(struct arena *arena, json_t *value, void *into, struct error *err); /* int64_t */

bool texts_has(const struct texts *texts, const char *text);

/*
 * Sets *ret_word to the index of the text in words. -ENOTSUP, not -EINVAL, for another word,
 * because a newer cluster may define that word.
 */
int read_word(json_t *value, const char *const *words, size_t n, int *ret_word, struct error *err);

#endif
