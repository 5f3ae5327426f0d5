/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For libraries that divvy preloads into programs. The program's libc may be musl, whose loader
 * ends the program if such a library needs a symbol that musl lacks. Any thread.
 */
#ifndef BASE_PRELOADED_H
#define BASE_PRELOADED_H

#include <errno.h>

/*
 * pthread_atfork for both libcs. In glibc it is a static piece of each library that calls
 * __register_atfork of libc.so; in musl it is in libc.so itself.
 */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
	void *dso) __attribute__((weak));
extern int preloaded_musl_atfork(void (*prepare)(void), void (*parent)(void),
	void (*child)(void)) __asm__("pthread_atfork") __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static inline int preloaded_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	if (__register_atfork)
		return __register_atfork(prepare, parent, child, &__dso_handle);
	return preloaded_musl_atfork ? preloaded_musl_atfork(prepare, parent, child) : ENOSYS;
}

#endif
