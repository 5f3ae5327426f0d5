/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthash with a hash whose seed is this process's own: names are chosen by strangers, who are not
 * to find out which of them land in one bucket. Include this instead of uthash.h. One thread.
 */
#ifndef KUBE_HASH_H
#define KUBE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

uint32_t kube_hash(const void *p, size_t n);

#define HASH_FUNCTION(key, n, ret) \
	do { \
		(ret) = kube_hash(key, n); \
	} while (0)
#define uthash_fatal(message) abort()
#include <uthash.h>

#endif
