/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership that ends with the block: `_cleanup_free_ char *p = NULL; _cleanup_close_ int fd = -1;`
 * Every such local is initialised where it is declared. TAKE_PTR and TAKE_FD return the value and
 * leave an empty value in the variable. The cleanup functions preserve errno.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

#define TAKE_PTR(p) TAKE(p, NULL)
#define TAKE_FD(fd) TAKE(fd, -1)
#define TAKE(var, empty) \
	({ \
		typeof(var) *_take = &(var); \
		typeof(var) _taken = *_take; \
		*_take = (empty); \
		_taken; \
	})

/* Defines `fn_p(type *)` for `_cleanup_` from `fn(type)`, which has to accept an empty value. */
#define DEFINE_CLEANUP(type, fn) \
	static inline void fn##_p(type *p) \
	{ \
		fn(*p); \
	}

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/*
 * MIN and MAX evaluate each argument once; __COUNTER__ keeps nested uses from shadowing variables.
 */
#define MIN(a, b) MIN_NAMED(a, b, __COUNTER__)
#define MIN_NAMED(a, b, id) MIN_OF(a, b, JOIN(_min_a, id), JOIN(_min_b, id))
#define MIN_OF(a, b, x, y) \
	({ \
		typeof(a) x = (a); \
		typeof(b) y = (b); \
		x < y ? x : y; \
	})
#define MAX(a, b) MAX_NAMED(a, b, __COUNTER__)
#define MAX_NAMED(a, b, id) MAX_OF(a, b, JOIN(_max_a, id), JOIN(_max_b, id))
#define MAX_OF(a, b, x, y) \
	({ \
		typeof(a) x = (a); \
		typeof(b) y = (b); \
		x > y ? x : y; \
	})
#define JOIN(a, b) JOIN_(a, b)
#define JOIN_(a, b) a##b

static inline void cleanup_free(void *p)
{
	int saved = errno;

	free(*(void **)p);
	errno = saved;
}

static inline void cleanup_close(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void cleanup_fclose(FILE **f)
{
	int saved = errno;

	if (*f)
		fclose(*f);
	errno = saved;
}

#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)

#endif
