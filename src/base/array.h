/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays on the heap that grow. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Makes room for at least n items of `item` bytes in *array, a pointer of any type that is NULL
 * while *room is 0: doubling, so that one more each time costs little. New room is zero. -ENOMEM
 * leaves both as they were. The array stays the caller's, for free().
 */
int array_grow(void *array, uint32_t *room, size_t n, size_t item);

#endif
