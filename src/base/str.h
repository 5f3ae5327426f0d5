/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text: `struct str`, a borrowed piece by value, for parsing; `struct buf`, an owned growing one
 * with a maximum set at init. A str is not terminated; a buf always is. Functions on str neither
 * allocate nor fail.
 *
 * A buf remembers its first failure: append as often as you like, ask buf_error() once at the end.
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

/* The text of a terminated string; of NULL, the empty one. */
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

/* Takes the prefix off and returns true, or leaves s alone. */
bool str_skip_prefix(struct str *s, struct str prefix);
bool str_skip_suffix(struct str *s, struct str suffix);

/* Order by bytes, as strcmp. */
int str_compare(struct str a, struct str b);

/* The place of the first c in s, or s.n. */
size_t str_find(struct str s, char c);

/* Without the white space (space, tab, CR, LF) at both ends. */
struct str str_trim(struct str s);

/* The last line that is not blank, trimmed; STR_NONE if all are. */
struct str str_last_line(struct str text);

/*
 * Takes the piece before the next sep off *rest. False when *rest is used up (its p is NULL):
 * "a,,b" has three pieces, "a," two, "" one, STR_NONE none.
 */
bool str_split(struct str *rest, char sep, struct str *ret_piece);

/* The next run of bytes that are not white space; false when there is none left. */
bool str_word(struct str *rest, struct str *ret_word);

/*
 * How many letters to change, add or leave out make one of the other: for "did you mean". Longer
 * ones than STR_DISTANCE_MAX count as that far apart.
 */
#define STR_DISTANCE_MAX 64u
size_t str_distance(struct str a, struct str b);

/* Bytes of the character of UTF-8 that s begins with (RFC 3629); 0 if with none, or s is empty. */
size_t str_utf8(struct str s);

/* A terminated copy on the heap, the caller's; NULL when out of memory. */
char *str_dup(struct str s);

/* A terminated copy in dst; -ENAMETOOLONG and an empty dst when it does not fit (size > 0). */
int str_copy(char *dst, size_t size, struct str s);

/* A '?' for each control character, so that a peer or a file's name cannot play with a terminal. */
void str_blank_controls(char *p, size_t n);

/* Overwrites what is there, frees it and leaves NULL: for secrets. Of NULL, nothing. */
void str_wipe(char **text);

/* FNV-1a. For tables whose keys users choose there is base/hash.h. */
#define STR_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t str_hash(struct str s);
/* Goes on from the hash of what precedes s. */
uint64_t str_hash_append(uint64_t hash, struct str s);
/* The same over a terminated text and its 0, which parts it from the next; NULL is "". */
uint64_t str_hash_text(uint64_t hash, const char *text);

struct buf {
	char *p; /* n bytes and a 0; NULL while empty and never grown */
	size_t n;
	size_t cap;
	size_t max; /* of n */
	int error;  /* sticky: 0, -ENOMEM or -EMSGSIZE (beyond max) */
};

/* For `_cleanup_(buf_done) struct buf b = BUF_INIT(max);` */
#define BUF_INIT(max_bytes) ((struct buf){.max = (max_bytes)})

void buf_init(struct buf *b, size_t max_bytes);
void buf_done(struct buf *b);

/* Empties it and forgets its failure; keeps the memory. */
void buf_clear(struct buf *b);

/* 0 or the sticky error. A failed append leaves what was there before. */
int buf_add(struct buf *b, struct str s);
int buf_add_byte(struct buf *b, char c);
int buf_add_text(struct buf *b, const char *text);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_addv(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* Room for `extra` bytes more at p + n; the caller then adds to n what it has written there. */
int buf_reserve(struct buf *b, size_t extra);

/* Removes the first n bytes. */
void buf_consume(struct buf *b, size_t n);

/* Keeps the first n bytes, of what may be fewer; its failure stays. */
void buf_truncate(struct buf *b, size_t n);

/* Hands the memory over, terminated, and leaves it empty; NULL if it has failed. */
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
