/* SPDX-License-Identifier: Apache-2.0 */
/*
 * String functions that call no other function. The start code of a sanitizer, an allocator or a
 * wrapper may call this library's dlopen and dlsym before its own strcmp or memcpy, which replace
 * libc's, can work. Files on that path use these functions. meson.build compiles them so that the
 * compiler does not turn the loops here into calls. Any thread.
 */
#ifndef HOOK_PLAIN_H
#define HOOK_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

static inline bool plain_equals(const char *a, const char *b)
{
	for (; *a && *a == *b; a++)
		b++;
	return *a == *b;
}

/* The rest of `text` after the prefix `start`; NULL if `text` has another prefix. */
static inline const char *plain_after(const char *text, const char *start)
{
	for (; *start; start++)
		if (*text++ != *start)
			return NULL;
	return text;
}

/* The part after the last slash. */
static inline const char *plain_base_name(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

static inline void plain_copy(void *to, const void *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
}

static inline void plain_clear(void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((unsigned char *)to)[i] = 0;
}

static inline bool plain_same(const void *a, const void *b, size_t n)
{
	size_t i = 0;

	while (i < n && ((const unsigned char *)a)[i] == ((const unsigned char *)b)[i])
		i++;
	return i == n;
}

#endif
