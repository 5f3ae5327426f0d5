/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"

#define N 1000u

struct entry {
	UT_hash_handle hh;
	char key[16];
	uint32_t i;
};

static void a_table_finds_its_entries(void **state)
{
	struct entry *table = NULL, *e, *next;
	uint32_t n = 0;
	char key[16];

	for (uint32_t i = 0; i < N; i++) {
		e = calloc(1, sizeof(*e));
		assert_non_null(e);
		snprintf(e->key, sizeof(e->key), "entry-%u", i);
		e->i = i;
		HASH_ADD_STR(table, key, e);
	}
	assert_int_equal(HASH_COUNT(table), N);
	for (uint32_t i = 0; i < N; i++) {
		snprintf(key, sizeof(key), "entry-%u", i);
		HASH_FIND_STR(table, key, e);
		assert_non_null(e);
		assert_int_equal(e->i, i);
	}
	HASH_FIND_STR(table, "entry-", e);
	assert_null(e);
	/* Iteration follows the order of insertion, whatever the seed is. */
	for (e = table; e; e = e->hh.next)
		assert_int_equal(e->i, n++);
	HASH_ITER(hh, table, e, next) {
		HASH_DEL(table, e);
		free(e);
	}
}

static uint32_t hash_in_child(void)
{
	uint32_t hash = 0;
	int ends[2];
	pid_t pid;

	assert_ok(pipe(ends));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		hash = hash_seeded("abc", 3);
		_exit(write(ends[1], &hash, sizeof(hash)) != sizeof(hash));
	}
	assert_int_equal(read(ends[0], &hash, sizeof(hash)), sizeof(hash));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ends[0]);
	close(ends[1]);
	return hash;
}

/* Runs first: a child inherits a seed that its parent has already drawn. */
static void processes_differ_in_their_seed(void **state)
{
	assert_int_not_equal(hash_in_child(), hash_in_child());
}

static void a_process_keeps_its_seed(void **state)
{
	const uint32_t hash = hash_seeded("abc", 3);

	assert_int_equal(hash_seeded("abc", 3), hash);
	assert_int_equal(hash_in_child(), hash);
	assert_int_not_equal(hash_seeded("abd", 3), hash);
}

UNIT_MAIN(UNIT(processes_differ_in_their_seed), UNIT(a_process_keeps_its_seed),
	UNIT(a_table_finds_its_entries))
