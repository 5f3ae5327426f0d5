/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated driver goes with programs into containers of older systems (as the interception
 * libraries do): what moved into libc with new versions in glibc 2.32 to 2.34 is bound to its old
 * ones, which all later glibc have too. Included into every file of the two libraries by the build.
 */
#pragma once

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
OLD_SYMBOL(pthread_create);
OLD_SYMBOL(pthread_getspecific);
OLD_SYMBOL(pthread_key_create);
OLD_SYMBOL(pthread_once);
OLD_SYMBOL(pthread_setspecific);
OLD_SYMBOL(pthread_sigmask);
#undef OLD_SYMBOL
#endif
