/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For libraries that programs have preloaded: the program's libc may be musl, which ends the
 * program if such a library lacks a symbol. Any thread.
 */
#ifndef BASE_PRELOADED_H
#define BASE_PRELOADED_H

#include <errno.h>

/*
 * pthread_atfork, as both libcs have it. glibc's is a piece of each library that calls the first
 * function, which is in libc.so; musl's is in its libc.so itself.
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
