/* SPDX-License-Identifier: Apache-2.0 */
/* Finds arithmetic by name, in the table that suits the processor. Any thread. */
#include <pthread.h>

#include "ptx/ptx-internal.h"

enum { SLOTS = 2048 };

extern const struct alu_table alu_table_0;
#ifdef PTX_HAS_LEVELS
extern const struct alu_table alu_table_2, alu_table_3;
#endif

static const struct alu_row *slots[SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t table_hash(const char *name, size_t n)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)name[i]) * 16777619u;
	return h;
}

static const struct alu_table *table_choose(void)
{
#ifdef PTX_HAS_LEVELS
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
		__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("fma"))
		return &alu_table_3;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &alu_table_2;
#endif
	return &alu_table_0;
}

static void table_fill(void)
{
	const struct alu_table *table = table_choose();

	_Static_assert(SLOTS >= 1024, "the table of names has room");
	for (uint32_t i = 0; i < table->n && i < SLOTS / 2; i++) {
		uint32_t at = table_hash(table->rows[i].name, strlen(table->rows[i].name));

		while (slots[at % SLOTS])
			at++;
		slots[at % SLOTS] = &table->rows[i];
	}
}

const struct alu_row *alu_find(struct str name)
{
	uint32_t at = table_hash(name.p, name.n);

	pthread_once(&once, table_fill);
	for (; slots[at % SLOTS]; at++)
		if (str_is(name, slots[at % SLOTS]->name))
			return slots[at % SLOTS];
	return NULL;
}
