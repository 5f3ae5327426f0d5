/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text. `struct str` is a borrowed piece, passed by value, for parsing; it is not terminated.
 * `struct buf` is an owned, terminated, growing text with a maximum set at init. Functions on str
 * neither allocate nor fail.
 *
 * A buf keeps its first failure: append as often as you like and check buf_error() once at the end.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

struct str {
	const char *p;
	size_t n;
};

#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_NONE ((struct str){NULL, 0})
/* printf("%" STR_FMT, STR_ARG(s)) */
#define STR_FMT ".*s"
#define STR_ARG(s) (int)((s).n > 4096 ? 4096 : (s).n), (s).p ? (s).p : ""

/* The text of a terminated string; empty for NULL. */
static inline struct str str_from(const char *text)
{
	return (struct str){text, text ? strlen(text) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}

static inline bool str_is(struct str a, const char *text)
{
	return str_eq(a, str_from(text));
}

bool str_has_prefix(struct str s, struct str prefix);
bool str_has_suffix(struct str s, struct str suffix);

/* Removes the prefix and returns true, or returns false and leaves s unchanged. */
bool str_skip_prefix(struct str *s, struct str prefix);
bool str_skip_suffix(struct str *s, struct str suffix);

/* Compares by bytes, as strcmp. */
int str_compare(struct str a, struct str b);

/* The index of the first c in s, or s.n. */
size_t str_find(struct str s, char c);

/* s without white space (space, tab, CR, LF) at both ends. */
struct str str_trim(struct str s);

/* The last line that is not blank, trimmed; STR_NONE if all lines are blank. */
struct str str_last_line(struct str text);

/*
 * Cuts the piece before the next sep off *rest. Returns false when *rest is used up (its p is
 * NULL): "a,,b" has three pieces, "a," two, "" one, STR_NONE none.
 */
bool str_split(struct str *rest, char sep, struct str *ret_piece);

/* Cuts the next run of bytes that are not white space off *rest; false if none is left. */
bool str_word(struct str *rest, struct str *ret_word);

/*
 * Edit distance: the number of letters to change, add or remove to turn one text into the other,
 * for "did you mean". STR_DISTANCE_MAX if a text is longer than that.
 */
#define STR_DISTANCE_MAX 64u
size_t str_distance(struct str a, struct str b);

/*
 * The length in bytes of the UTF-8 character at the start of s (RFC 3629); 0 if s is empty or does
 * not begin with a valid one.
 */
size_t str_utf8(struct str s);

/* A terminated heap copy that the caller frees; NULL when out of memory. */
char *str_dup(struct str s);

/* A terminated copy in dst; -ENAMETOOLONG and an empty dst if it does not fit (size > 0). */
int str_copy(char *dst, size_t size, struct str s);

/*
 * Replaces each control character by '?', so that text of a peer or a file name cannot control a
 * terminal.
 */
void str_blank_controls(char *p, size_t n);

/* Overwrites, frees and sets *text to NULL: for secrets. *text may be NULL. */
void str_wipe(char **text);

/* FNV-1a. Use base/hash.h for tables whose keys users choose. */
#define STR_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t str_hash(struct str s);
/* Continues the hash of the text before s. */
uint64_t str_hash_append(uint64_t hash, struct str s);
/*
 * Continues the hash over a terminated text and its final 0, which separates it from the next text.
 * NULL counts as "".
 */
uint64_t str_hash_text(uint64_t hash, const char *text);

struct buf {
	char *p; /* n bytes and a final 0; NULL while nothing was ever added */
	size_t n;
	size_t cap;
	size_t max; /* limit of n */
	int error;  /* the first failure: 0, -ENOMEM, -EMSGSIZE (more than max) */
};

/* For `_cleanup_(buf_done) struct buf b = BUF_INIT(max);` */
#define BUF_INIT(max_bytes) ((struct buf){.max = (max_bytes)})

void buf_init(struct buf *b, size_t max_bytes);
void buf_done(struct buf *b);

/* buf_done() for secrets: overwrites the memory first, but not memory that a growth has freed. */
void buf_wipe(struct buf *b);

/* Empties the buf and resets its failure; keeps the memory. */
void buf_clear(struct buf *b);

/* Return 0 or the buf's failure. A failed append changes nothing. */
int buf_add(struct buf *b, struct str s);
int buf_add_byte(struct buf *b, char c);
int buf_add_text(struct buf *b, const char *text);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_addv(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* Makes room for `extra` more bytes at p + n. The caller writes there and adds the number to n. */
int buf_reserve(struct buf *b, size_t extra);

/* Removes the first n bytes. */
void buf_consume(struct buf *b, size_t n);

/* Keeps the first n bytes, or all if there are fewer; keeps the failure. */
void buf_truncate(struct buf *b, size_t n);

/*
 * Returns the memory, terminated, and empties the buf; NULL if the buf has failed. The caller frees
 * it.
 */
char *buf_take(struct buf *b);

static inline int buf_error(const struct buf *b)
{
	return b->error;
}

static inline struct str buf_str(const struct buf *b)
{
	return (struct str){b->p ? b->p : "", b->n};
}

static inline const char *buf_text(const struct buf *b)
{
	return b->p ? b->p : "";
}

#define _cleanup_buf_ _cleanup_(buf_done)

#endif
