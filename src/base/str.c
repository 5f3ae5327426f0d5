/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file implements str and buf: see str.h. Invariants of a buf: n <= max; p is NULL, or has cap
 * > n bytes with p[n] == 0. A failed append changes only `error`. One thread per buf.
 */
#include "base/str.h"

#include <errno.h>
#include <stdio.h>

static bool str_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool str_has_prefix(struct str s, struct str prefix)
{
	return s.n >= prefix.n && str_eq((struct str){s.p, prefix.n}, prefix);
}

bool str_has_suffix(struct str s, struct str suffix)
{
	return s.n >= suffix.n &&
		str_eq((struct str){s.p ? s.p + s.n - suffix.n : NULL, suffix.n}, suffix);
}

bool str_skip_prefix(struct str *s, struct str prefix)
{
	if (!str_has_prefix(*s, prefix))
		return false;
	if (prefix.n)
		*s = (struct str){s->p + prefix.n, s->n - prefix.n};
	return true;
}

bool str_skip_suffix(struct str *s, struct str suffix)
{
	if (!str_has_suffix(*s, suffix))
		return false;
	s->n -= suffix.n;
	return true;
}

int str_compare(struct str a, struct str b)
{
	size_t n = MIN(a.n, b.n);
	int r = n ? memcmp(a.p, b.p, n) : 0;

	if (r)
		return r;
	return a.n < b.n ? -1 : a.n > b.n;
}

size_t str_find(struct str s, char c)
{
	const char *hit = s.n ? memchr(s.p, c, s.n) : NULL;

	return hit ? (size_t)(hit - s.p) : s.n;
}

struct str str_trim(struct str s)
{
	while (s.n && str_is_space(s.p[s.n - 1]))
		s.n--;
	while (s.n && str_is_space(s.p[0])) {
		s.p++;
		s.n--;
	}
	return s;
}

bool str_split(struct str *rest, char sep, struct str *ret_piece)
{
	size_t at;

	if (!rest->p)
		return false;
	at = str_find(*rest, sep);
	*ret_piece = (struct str){rest->p, at};
	if (at == rest->n)
		*rest = STR_NONE;
	else
		*rest = (struct str){rest->p + at + 1, rest->n - at - 1};
	return true;
}

struct str str_last_line(struct str text)
{
	struct str line, last = STR_NONE;

	while (str_split(&text, '\n', &line))
		if (str_trim(line).n)
			last = str_trim(line);
	return last;
}

bool str_word(struct str *rest, struct str *ret_word)
{
	struct str s = *rest;
	size_t n = 0;

	while (s.n && str_is_space(s.p[0])) {
		s.p++;
		s.n--;
	}
	while (n < s.n && !str_is_space(s.p[n]))
		n++;
	if (!n)
		return false;
	*ret_word = (struct str){s.p, n};
	*rest = (struct str){s.p + n, s.n - n};
	return true;
}

size_t str_distance(struct str a, struct str b)
{
	size_t row[STR_DISTANCE_MAX + 1];

	if (a.n > STR_DISTANCE_MAX || b.n > STR_DISTANCE_MAX)
		return STR_DISTANCE_MAX;
	for (size_t j = 0; j <= b.n; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.n; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b.n; j++) {
			size_t best = diagonal + (a.p[i - 1] != b.p[j - 1]);

			best = MIN(best, row[j] + 1);
			best = MIN(best, row[j - 1] + 1);
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[b.n];
}

size_t str_utf8(struct str s)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *p = (const unsigned char *)s.p;
	uint32_t c;
	size_t n;

	if (s.n == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	n = p[0] >> 5 == 0x06 ? 2 : p[0] >> 4 == 0x0e ? 3 : p[0] >> 3 == 0x1e ? 4 : 0;
	if (n == 0 || n > s.n)
		return 0;
	c = p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

char *str_dup(struct str s)
{
	char *copy = malloc(s.n + 1);

	if (!copy)
		return NULL;
	if (s.n)
		memcpy(copy, s.p, s.n);
	copy[s.n] = 0;
	return copy;
}

int str_copy(char *dst, size_t size, struct str s)
{
	dst[0] = 0;
	if (s.n >= size)
		return -ENAMETOOLONG;
	if (s.n)
		memcpy(dst, s.p, s.n);
	dst[s.n] = 0;
	return 0;
}

void str_blank_controls(char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)p[i] < 0x20 || p[i] == 0x7f)
			p[i] = '?';
}

void str_wipe(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

uint64_t str_hash(struct str s)
{
	return str_hash_append(STR_HASH_START, s);
}

uint64_t str_hash_append(uint64_t hash, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		hash = (hash ^ (unsigned char)s.p[i]) * UINT64_C(0x100000001b3);
	return hash;
}

uint64_t str_hash_text(uint64_t hash, const char *text)
{
	text = text ? text : "";
	return str_hash_append(hash, (struct str){text, strlen(text) + 1});
}

void buf_init(struct buf *b, size_t max_bytes)
{
	*b = BUF_INIT(max_bytes);
}

void buf_wipe(struct buf *b)
{
	if (b->p)
		explicit_bzero(b->p, b->cap);
	buf_done(b);
}

void buf_done(struct buf *b)
{
	int saved = errno;

	free(b->p);
	*b = BUF_INIT(b->max);
	errno = saved;
}

void buf_clear(struct buf *b)
{
	b->n = 0;
	b->error = 0;
	if (b->p)
		b->p[0] = 0;
}

int buf_reserve(struct buf *b, size_t extra)
{
	size_t need, cap;
	char *p;

	if (b->error)
		return b->error;
	if (extra > b->max - b->n)
		return b->error = -EMSGSIZE;
	need = b->n + extra + 1;
	if (need <= b->cap)
		return 0;
	cap = MAX(need, MIN(MAX(b->cap * 2, (size_t)64), b->max + 1));
	p = realloc(b->p, cap);
	if (!p)
		return b->error = -ENOMEM;
	b->p = p;
	b->cap = cap;
	b->p[b->n] = 0;
	return 0;
}

int buf_add(struct buf *b, struct str s)
{
	int r = buf_reserve(b, s.n);

	if (r < 0)
		return r;
	if (s.n)
		memcpy(b->p + b->n, s.p, s.n);
	b->n += s.n;
	b->p[b->n] = 0;
	return 0;
}

int buf_add_byte(struct buf *b, char c)
{
	return buf_add(b, (struct str){&c, 1});
}

int buf_add_text(struct buf *b, const char *text)
{
	return buf_add(b, str_from(text));
}

int buf_addv(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int wanted, r;

	va_copy(again, ap);
	wanted = vsnprintf(NULL, 0, fmt, ap);
	r = wanted < 0 ? -EINVAL : buf_reserve(b, (size_t)wanted);
	if (r == 0) {
		vsnprintf(b->p + b->n, (size_t)wanted + 1, fmt, again);
		b->n += (size_t)wanted;
	}
	va_end(again);
	return r;
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_addv(b, fmt, ap);
	va_end(ap);
	return r;
}

void buf_consume(struct buf *b, size_t n)
{
	if (!b->p)
		return;
	n = MIN(n, b->n);
	memmove(b->p, b->p + n, b->n - n + 1);
	b->n -= n;
}

void buf_truncate(struct buf *b, size_t n)
{
	if (n >= b->n)
		return;
	b->n = n;
	b->p[n] = 0;
}

char *buf_take(struct buf *b)
{
	char *p;

	if (buf_reserve(b, 0) < 0)
		return NULL;
	p = TAKE_PTR(b->p);
	b->n = b->cap = 0;
	return p;
}
