/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated driver and the libraries of remote programs go into containers of older systems, as
 * the interception libraries do. glibc 2.32 to 2.34 moved these functions into libc under new
 * versions. The libraries ask for the old versions, which all later glibc have too. The build
 * includes this file in front of every file of these libraries, and links libpthread.so.0.
 */
#ifndef BASE_OLD_GLIBC_H
#define BASE_OLD_GLIBC_H

#include <features.h>

#ifdef __GLIBC__
#if defined(__x86_64__)
#define OLD_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLD_GLIBC "GLIBC_2.17"
#endif
#endif

#ifdef OLD_GLIBC
#define OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@" OLD_GLIBC)
OLD_SYMBOL(dladdr);
OLD_SYMBOL(dlerror);
OLD_SYMBOL(dlopen);
OLD_SYMBOL(dlsym);
OLD_SYMBOL(pthread_create);
OLD_SYMBOL(pthread_detach);
OLD_SYMBOL(pthread_getspecific);
OLD_SYMBOL(pthread_key_create);
OLD_SYMBOL(pthread_once);
OLD_SYMBOL(pthread_rwlock_rdlock);
OLD_SYMBOL(pthread_rwlock_unlock);
OLD_SYMBOL(pthread_rwlock_wrlock);
OLD_SYMBOL(pthread_setspecific);
OLD_SYMBOL(pthread_sigmask);
#undef OLD_SYMBOL
#endif

#endif
