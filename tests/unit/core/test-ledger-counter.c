/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory counter equals the sum of the slots at every point of a change, also when other
 * processes interfere. Processes are killed at every point. Threads run at once, for
 * ThreadSanitizer.
 */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/rand.h"

static void at_point(int n);
#define LEDGER_KILLPOINT(n) at_point(n)
#include "core/ledger-counter.h"

#define POINTS 7 /* number of kill points of a change; points 8 and 9 are those of the recount */
#define PROCESSES 4u
#define QUOTA 1000u

struct shared {
	struct page_tenant tenant;
	struct page_memory slot[PROCESSES + 1]; /* by process index; slot 0 is unused */
	_Atomic uint32_t go;
	_Atomic uint64_t rounds[PROCESSES + 1];
};

static struct shared *shared;

static void *shared_new(void)
{
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	for (uint32_t i = 1; i <= PROCESSES; i++)
		ledger_slot_init(&shared->tenant, &shared->slot[i], i);
	return shared;
}

static void shared_free(void)
{
	munmap(shared, sizeof(*shared));
	shared = NULL;
}

static struct ledger_counter counter_of(uint32_t process)
{
	return (struct ledger_counter){&shared->tenant, &shared->slot[process], process};
}

static uint64_t sum_of_slots(uint64_t w)
{
	int64_t sum = 0, pages = 0;

	for (uint32_t i = 1; i <= PROCESSES; i++) {
		assert_ok(
			ledger_slot_contribution(&shared->tenant, &shared->slot[i], i, w, &pages));
		sum += pages;
	}
	assert_true(sum >= 0);
	return (uint64_t)sum;
}

/* ---- one thread, in which the test interleaves other processes ---- */

static struct {
	void (*visit)(int n);
	int depth;
	int die_at, die_after; /* this process kills itself at the die_after-th visit of die_at */
	uint64_t visits[10];
	uint32_t seq; /* sequence number of the recount */
	struct rand rand;
} points;

static void at_point(int n)
{
	if (points.die_at == n && --points.die_after == 0)
		kill(getpid(), SIGKILL);
	if (points.visit && points.depth++ == 0)
		points.visit(n);
	if (points.visit)
		points.depth--;
}

static void check_sum(int n)
{
	uint64_t w = atomic_load(&shared->tenant.word);

	points.visits[n]++;
	assert_int_equal(sum_of_slots(w), page_word_pages(w));
}

/* While one process is inside a change, others change the counter and the daemon recounts. */
static void check_and_interfere(int n)
{
	uint32_t other = 2 + (uint32_t)rand_below(&points.rand, PROCESSES - 1);
	struct ledger_counter counter = counter_of(other);
	struct ledger_slot slots[PROCESSES];
	int r = -1;

	check_sum(n);
	for (uint64_t i = rand_below(&points.rand, 3); i; i--) {
		if (rand_below(&points.rand, 2))
			ledger_counter_reserve(&counter, 1 + rand_below(&points.rand, 200), QUOTA);
		else
			ledger_counter_release(&counter, 1 + rand_below(&points.rand, 200));
		check_sum(n);
	}
	for (uint32_t i = 0; i < PROCESSES; i++)
		slots[i] = (struct ledger_slot){&shared->slot[i + 1], i + 1};
	assert_int_equal(
		ledger_counter_recount(&shared->tenant, slots, PROCESSES, &points.seq, 3, &r),
		0); /* there is never anything to correct */
	assert_ok(r);
}

static void the_counter_is_exact_at_every_point(void **state)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct ledger_counter counter;
		struct rand rand = rand_seeded(seed);

		shared_new();
		memset(&points, 0, sizeof(points));
		points.visit = seed < 10 ? check_sum : check_and_interfere;
		points.rand = rand_seeded(seed + 1000);
		counter = counter_of(1);
		for (int i = 0; i < 2000; i++) {
			if (rand_below(&rand, 2))
				ledger_counter_reserve(&counter, 1 + rand_below(&rand, 300), QUOTA);
			else
				ledger_counter_release(&counter, 1 + rand_below(&rand, 300));
			assert_true(ledger_counter_pages(&shared->tenant) <= QUOTA);
		}
		for (int n = 1; n <= POINTS; n++)
			assert_true(points.visits[n] > 10);
		points.visit = NULL;
		shared_free();
	}
}

/* Sequence numbers wrap, and a new process gets the index of an old one. */
static void numbers_wrap_and_indexes_are_reused(void **state)
{
	struct ledger_counter counter;

	shared_new();
	memset(&points, 0, sizeof(points));
	counter = counter_of(1);
	for (uint32_t i = 0; i <= PAGE_WORD_SEQ_MASK / 2 + 10; i++) {
		assert_ok(ledger_counter_reserve(&counter, 3, QUOTA));
		ledger_counter_release(&counter, 3);
	}
	assert_int_equal(ledger_counter_pages(&shared->tenant), 0);
	assert_ok(ledger_counter_reserve(&counter, 3, QUOTA));
	ledger_counter_release(&counter, 3);
	ledger_slot_init(&shared->tenant, &shared->slot[1], 1);
	points.visit = check_sum;
	assert_ok(ledger_counter_reserve(&counter, 5, QUOTA));
	assert_int_equal(ledger_counter_pages(&shared->tenant), 5);
	points.visit = NULL;
	shared_free();
}

static void quota_and_limits_are_enforced(void **state)
{
	struct ledger_counter counter;

	shared_new();
	counter = counter_of(1);
	assert_int_equal(ledger_counter_reserve(&counter, QUOTA + 1, QUOTA), -ENOMEM);
	assert_ok(ledger_counter_reserve(&counter, QUOTA, QUOTA));
	assert_int_equal(ledger_counter_reserve(&counter, 1, QUOTA), -ENOMEM);
	assert_int_equal(ledger_counter_reserve(&counter, 1, QUOTA / 2), -ENOMEM);
	assert_ok(ledger_counter_reserve(&counter, 0, QUOTA));
	assert_int_equal(ledger_counter_reserve(&counter, UINT64_MAX, UINT64_MAX), -ENOMEM);
	assert_int_equal(ledger_counter_reserve(&counter, LEDGER_PAGES_MAX, UINT64_MAX), -ENOMEM);
	ledger_counter_release(&counter, UINT64_MAX);
	assert_int_equal(ledger_counter_pages(&shared->tenant), 0);
	assert_int_equal(ledger_slot_pages(counter.slot), 0);
	assert_ok(ledger_counter_reserve(&counter, LEDGER_PAGES_MAX, UINT64_MAX));
	assert_int_equal(ledger_pages(1), 1);
	assert_int_equal(ledger_pages(2 << 20), 512);
	assert_int_equal(ledger_pages(UINT64_MAX), UINT64_MAX / PAGE_MEM_UNIT + 1);
	shared_free();
}

/* ---- processes that die ---- */

static void change_for_ever(uint32_t process, uint64_t seed)
{
	struct ledger_counter counter = counter_of(process);
	struct rand rand = rand_seeded(seed);

	while (!atomic_load(&shared->go))
		usleep(100);
	while (atomic_load(&shared->go) == 1) {
		if (rand_below(&rand, 2))
			ledger_counter_reserve(&counter, 1 + rand_below(&rand, 400), QUOTA);
		else
			ledger_counter_release(&counter, 1 + rand_below(&rand, 400));
		atomic_fetch_add(&shared->rounds[process], 1);
		if (rand_below(&rand, 64) == 0)
			usleep(1); /* lets other processes run at any point */
	}
	_exit(0);
}

static pid_t start(uint32_t process, uint64_t seed, int die_at, int die_after)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		points.die_at = die_at;
		points.die_after = die_after;
		change_for_ever(process, seed);
	}
	return pid;
}

static void recount_without(uint32_t dead)
{
	struct ledger_slot slots[PROCESSES];
	size_t n = 0;
	int r = -1;

	for (uint32_t i = 1; i <= PROCESSES; i++)
		if (i != dead)
			slots[n++] = (struct ledger_slot){&shared->slot[i], i};
	/* The other processes run on: a recount may need several attempts. */
	for (int i = 0; r < 0 && i < 100000; i++)
		ledger_counter_recount(&shared->tenant, slots, n, &points.seq, 16, &r);
	assert_ok(r);
}

static void kill_at(int point, int after, uint64_t seed)
{
	pid_t pid[PROCESSES + 1];
	int status = 0;
	uint64_t w;

	shared_new();
	memset(&points, 0, sizeof(points));
	for (uint32_t i = 1; i <= PROCESSES; i++)
		pid[i] = start(i, seed + i, i == 1 ? point : 0, after);
	atomic_store(&shared->go, 1);
	assert_int_equal(waitpid(pid[1], &status, 0), pid[1]);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	recount_without(1);
	for (uint32_t i = 2; i <= PROCESSES; i++) { /* the other processes still run */
		uint64_t before = atomic_load(&shared->rounds[i]);

		for (int k = 0; k < 10000 && atomic_load(&shared->rounds[i]) == before; k++)
			usleep(100);
		assert_true(atomic_load(&shared->rounds[i]) > before);
	}
	atomic_store(&shared->go, 2);
	for (uint32_t i = 2; i <= PROCESSES; i++)
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
	/*
	 * The counter is what the living processes hold: the recount has removed exactly the dead
	 * process's part.
	 */
	ledger_slot_init(&shared->tenant, &shared->slot[1], 1);
	w = atomic_load(&shared->tenant.word);
	assert_int_equal(sum_of_slots(w), page_word_pages(w));
	shared_free();
}

static void processes_may_be_killed_at_every_point(void **state)
{
	for (int point = 1; point <= POINTS; point++)
		for (int after = 1; after <= 40; after += 13)
			kill_at(point, after, (uint64_t)(point * 1000 + after));
}

/* The daemon dies in the middle of its recount: the next recount finishes that work. */
static void a_killed_recount_is_finished(void **state)
{
	for (int point = 8; point <= 9; point++) {
		struct ledger_counter counter;
		int status = 0;
		pid_t pid;

		shared_new();
		memset(&points, 0, sizeof(points));
		counter = counter_of(1);
		assert_ok(ledger_counter_reserve(&counter, 100, QUOTA));
		counter = counter_of(2);
		assert_ok(ledger_counter_reserve(&counter, 50, QUOTA));
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			points.die_at = point;
			points.die_after = 1;
			recount_without(1);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		recount_without(1);
		assert_int_equal(ledger_counter_pages(&shared->tenant), 50);
		shared_free();
	}
}

/* ---- threads ---- */

static void *thread_main(void *arg)
{
	uint32_t process = *(uint32_t *)arg;
	struct ledger_counter counter = counter_of(process);
	struct rand rand = rand_seeded(process);

	for (int i = 0; i < 20000; i++) {
		if (rand_below(&rand, 2))
			ledger_counter_reserve(&counter, 1 + rand_below(&rand, 400), QUOTA);
		else
			ledger_counter_release(&counter, 1 + rand_below(&rand, 400));
	}
	return NULL;
}

static void threads_count_exactly(void **state)
{
	pthread_t thread[PROCESSES];
	uint32_t process[PROCESSES];
	struct ledger_slot slots[PROCESSES];
	uint64_t sum = 0;

	shared_new();
	memset(&points, 0, sizeof(points));
	for (uint32_t i = 0; i < PROCESSES; i++) {
		process[i] = i + 1;
		slots[i] = (struct ledger_slot){&shared->slot[i + 1], i + 1};
		assert_ok(pthread_create(&thread[i], NULL, thread_main, &process[i]));
	}
	for (int i = 0; i < 2000; i++) {
		int r;

		/* No process died: there is nothing to correct. */
		assert_int_equal(ledger_counter_recount(
					 &shared->tenant, slots, PROCESSES, &points.seq, 4, &r),
			0);
	}
	for (uint32_t i = 0; i < PROCESSES; i++)
		assert_ok(pthread_join(thread[i], NULL));
	for (uint32_t i = 1; i <= PROCESSES; i++)
		sum += ledger_slot_pages(&shared->slot[i]);
	assert_int_equal(sum, ledger_counter_pages(&shared->tenant));
	assert_true(sum <= QUOTA);
	shared_free();
}

UNIT_MAIN(UNIT(quota_and_limits_are_enforced), UNIT(the_counter_is_exact_at_every_point),
	UNIT(numbers_wrap_and_indexes_are_reused), UNIT(processes_may_be_killed_at_every_point),
	UNIT(a_killed_recount_is_finished), UNIT(threads_count_exactly))
