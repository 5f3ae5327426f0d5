/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file grows an array by doubling its room, from 16 items on, until n items fit. The limit of
 * UINT32_MAX / 2 items keeps the doubling within 32 bits.
 */
#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST 16u

int array_grow(void *array, uint32_t *room, size_t n, size_t item)
{
	uint32_t wanted = *room ? *room : FIRST;
	void **items = array, *more;

	if (n <= *room)
		return 0;
	if (n > UINT32_MAX / 2)
		return -ENOMEM;
	while (wanted < n)
		wanted *= 2;
	more = reallocarray(*items, wanted, item);
	if (!more)
		return -ENOMEM;
	memset((char *)more + *room * item, 0, (wanted - *room) * item);
	*items = more;
	*room = wanted;
	return 0;
}
