/* SPDX-License-Identifier: Apache-2.0 */
/* Heap arrays that grow. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Grows *array until it has room for at least n items of `item` bytes. `array` points to a pointer
 * of any type that is NULL while *room is 0. The room doubles, so appending an item costs O(1) on
 * average; new room is zeroed. Returns 0, or -ENOMEM and changes neither. The caller frees the
 * array with free().
 */
int array_grow(void *array, uint32_t *room, size_t n, size_t item);

#endif
