/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading of trace and account, from files written here by hand: unions, windows, handovers,
 * account sums, lost records, and files that are no traces.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "simgpu/simgpu-proto.h"
#include "simgpu/trace.h"
#include "unit.h"

#define CAPACITY 16

struct files {
	char dir[64];
	struct simgpu_ring_head *trace, *account;
};

static struct simgpu_ring_head *make(
	const char *dir, const char *name, uint64_t magic, uint32_t bytes)
{
	struct simgpu_ring_head *head;
	char path[128];
	size_t size = 4096 + CAPACITY * bytes;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_ok(ftruncate(fd, (off_t)size));
	head = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(head != MAP_FAILED);
	close(fd);
	head->magic = magic;
	head->abi = SIMGPU_TRACE_ABI;
	head->record_bytes = bytes;
	head->capacity = CAPACITY;
	return head;
}

static int setup(void **state)
{
	struct files *f = calloc(1, sizeof(*f));

	snprintf(f->dir, sizeof(f->dir), "/tmp/divvy-trace-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->trace = make(
		f->dir, SIMGPU_FILE_TRACE, SIMGPU_TRACE_MAGIC, sizeof(struct simgpu_trace_record));
	f->account = make(f->dir, SIMGPU_FILE_ACCOUNT, SIMGPU_ACCOUNT_MAGIC,
		sizeof(struct simgpu_account_record));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct files *f = *state;
	char path[128];

	munmap(f->trace, 4096 + CAPACITY * sizeof(struct simgpu_trace_record));
	munmap(f->account, 4096 + CAPACITY * sizeof(struct simgpu_account_record));
	snprintf(path, sizeof(path), "%s/%s", f->dir, SIMGPU_FILE_TRACE);
	unlink(path);
	snprintf(path, sizeof(path), "%s/%s", f->dir, SIMGPU_FILE_ACCOUNT);
	unlink(path);
	assert_ok(rmdir(f->dir));
	free(f);
	return 0;
}

static void put(
	struct files *f, pid_t pid, enum simgpu_trace_kind kind, uint64_t start, uint64_t end)
{
	uint64_t n = f->trace->written;
	struct simgpu_trace_record *r = (struct simgpu_trace_record *)((char *)f->trace + 4096);

	r[n % CAPACITY] = (struct simgpu_trace_record){
		.start_ns = start, .end_ns = end, .pid = (uint32_t)pid, .kind = (uint8_t)kind};
	f->trace->written = n + 1;
}

static void account(struct files *f, pid_t pid, uint64_t t, uint64_t bytes)
{
	uint64_t n = f->account->written;
	struct simgpu_account_record *r = (struct simgpu_account_record *)((char *)f->account +
		4096);

	r[n % CAPACITY] = (struct simgpu_account_record){
		.t_ns = t, .bytes = bytes, .pid = (uint32_t)pid};
	f->account->written = n + 1;
}

static struct simgpu_trace *open_trace(struct files *f)
{
	struct simgpu_trace *t = NULL;

	assert_ok(simgpu_trace_open(f->dir, &t, NULL));
	return t;
}

static void test_union(void **state)
{
	struct files *f = *state;
	struct simgpu_trace *t = open_trace(f);
	struct simgpu_busy b;
	pid_t one = 1;

	put(f, 1, SIMGPU_TRACE_KERNEL, 100, 200);
	put(f, 1, SIMGPU_TRACE_KERNEL, 150, 300); /* overlaps the kernel before */
	put(f, 2, SIMGPU_TRACE_SWITCH, 300, 350);
	put(f, 2, SIMGPU_TRACE_KERNEL, 350, 400);
	put(f, 1, SIMGPU_TRACE_MEMSET, 500, 600);
	put(f, 1, SIMGPU_TRACE_KERNEL, 600, 650);
	assert_ok(simgpu_busy_load(t, &one, 1, 0, SIMGPU_ENGINE_COMPUTE, 0, 1000, &b));
	assert_int_equal(b.n, 2);
	assert_int_equal(simgpu_busy_ns(&b, 0, 1000), 350);
	assert_int_equal(simgpu_busy_ns(&b, 150, 550), 200);
	assert_int_equal(simgpu_busy_ns(&b, 250, 250), 0);
	assert_int_equal(simgpu_busy_ns(&b, 310, 490), 0);
	simgpu_busy_done(&b);
	assert_ok(simgpu_busy_load(t, NULL, 0, -1, SIMGPU_ENGINE_COMPUTE, 160, 620, &b));
	assert_int_equal(simgpu_busy_ns(&b, 0, 1000), 140 + 50 + 120);
	simgpu_busy_done(&b);
	assert_ok(simgpu_busy_load(t, &one, 1, 1, SIMGPU_ENGINE_COMPUTE, 0, 1000, &b));
	assert_int_equal(b.n, 0);
	assert_int_equal(simgpu_busy_ns(&b, 0, 1000), 0);
	simgpu_busy_done(&b);
	simgpu_trace_close(t);
}

static void test_windows(void **state)
{
	struct files *f = *state;
	struct simgpu_trace *t = open_trace(f);
	struct simgpu_busy b;
	uint64_t at;

	/* Each window of 100 is busy for 50, except that the third is busy for 80. */
	put(f, 1, SIMGPU_TRACE_KERNEL, 0, 50);
	put(f, 1, SIMGPU_TRACE_KERNEL, 100, 150);
	put(f, 1, SIMGPU_TRACE_KERNEL, 200, 280);
	put(f, 1, SIMGPU_TRACE_KERNEL, 300, 350);
	assert_ok(simgpu_busy_load(t, NULL, 0, 0, SIMGPU_ENGINE_COMPUTE, 0, 400, &b));
	assert_int_equal(simgpu_busy_worst_window(&b, 0, 400, 100, 100, 500000, &at), 300000);
	assert_int_equal(at, 200);
	assert_int_equal(simgpu_busy_worst_window(&b, 0, 200, 100, 10, 500000, NULL), 0);
	assert_int_equal(simgpu_busy_max_window(&b, 0, 400, 100, 10), 80);
	assert_int_equal(simgpu_busy_max_window(&b, 0, 400, 80, 10), 80);
	assert_int_equal(simgpu_busy_worst_window(&b, 0, 400, 500, 10, 500000, NULL), 0);
	simgpu_busy_done(&b);
	simgpu_trace_close(t);
}

static void test_handovers(void **state)
{
	struct files *f = *state;
	struct simgpu_trace *t = open_trace(f);
	struct simgpu_handover *v;
	size_t n;

	put(f, 1, SIMGPU_TRACE_KERNEL, 0, 100);
	put(f, 1, SIMGPU_TRACE_KERNEL, 150, 200); /* a gap within one process is no handover */
	put(f, 2, SIMGPU_TRACE_SWITCH, 210, 260);
	put(f, 2, SIMGPU_TRACE_KERNEL, 270, 300);
	put(f, 1, SIMGPU_TRACE_KERNEL, 300, 310);
	assert_ok(simgpu_trace_handovers(t, 0, 0, 1000, &v, &n));
	assert_int_equal(n, 2);
	assert_int_equal(v[0].at_ns, 200);
	assert_int_equal(v[0].gap_ns, 70);
	assert_int_equal(v[0].switch_ns, 50);
	assert_int_equal(v[0].from, 1);
	assert_int_equal(v[0].to, 2);
	assert_int_equal(v[1].gap_ns, 0);
	assert_int_equal(v[1].switch_ns, 0);
	free(v);
	assert_ok(simgpu_trace_handovers(t, 0, 280, 1000, &v, &n));
	assert_int_equal(n, 1);
	free(v);
	simgpu_trace_close(t);
}

static void test_account(void **state)
{
	struct files *f = *state;
	struct simgpu_trace *t = open_trace(f);
	pid_t both[] = {1, 2};
	uint64_t max, at, n;

	account(f, 1, 10, 100);
	account(f, 2, 20, 50);
	account(f, 3, 25, 1000);
	account(f, 1, 30, 0);
	account(f, 2, 40, 120);
	account(f, 2, 50, 0);
	assert_ok(simgpu_account_max(t, both, 2, 0, 0, UINT64_MAX, &max, &at));
	assert_int_equal(max, 150);
	assert_int_equal(at, 20);
	assert_ok(simgpu_account_max(t, both, 1, 0, 0, UINT64_MAX, &max, NULL));
	assert_int_equal(max, 100);
	/* The maximum includes memory that was held when the interval began. */
	assert_ok(simgpu_account_max(t, both, 2, 0, 26, 29, &max, NULL));
	assert_int_equal(max, 150);
	assert_ok(simgpu_account_max(t, both, 2, 0, 45, UINT64_MAX, &max, NULL));
	assert_int_equal(max, 120);
	assert_ok(simgpu_account_breaches(t, both, 2, 0, 119, &n));
	assert_int_equal(n, 2);
	assert_ok(simgpu_account_breaches(t, both, 2, 0, 150, &n));
	assert_int_equal(n, 0);
	simgpu_trace_close(t);
}

static void test_lost_records(void **state)
{
	struct files *f = *state;
	struct simgpu_trace *t = open_trace(f);
	struct simgpu_trace_record r;

	assert_int_equal(simgpu_trace_get(t, 0, &r), -ENOENT);
	for (uint64_t i = 0; i < CAPACITY + 5; i++)
		put(f, 1, SIMGPU_TRACE_KERNEL, i, i + 1);
	assert_int_equal(simgpu_trace_written(t), CAPACITY + 5);
	/*
	 * Five records are overwritten. One more is lost, because the writer may be filling its
	 * slot.
	 */
	assert_int_equal(simgpu_trace_lost(t), 6);
	assert_int_equal(simgpu_trace_get(t, 5, &r), -ESTALE);
	assert_ok(simgpu_trace_get(t, 6, &r));
	assert_int_equal(r.start_ns, 6);
	assert_int_equal(simgpu_trace_get(t, CAPACITY + 5, &r), -ENOENT);
	simgpu_trace_close(t);
}

static void test_lost_changes(void **state)
{
	struct files *f = *state;
	struct simgpu_trace *t = open_trace(f);
	pid_t one = 1;
	uint64_t n;

	for (uint64_t i = 0; i < CAPACITY - 1; i++)
		account(f, 1, i, i == 0 ? 1000 : 10);
	assert_int_equal(simgpu_account_lost(t), 0);
	assert_ok(simgpu_account_breaches(t, &one, 1, 0, 100, &n));
	assert_int_equal(n, 1);
	/*
	 * The breach is overwritten and cannot be found, but simgpu_account_lost() shows that
	 * changes are missing.
	 */
	for (uint64_t i = CAPACITY; i < CAPACITY + 5; i++)
		account(f, 1, i, 10);
	assert_int_equal(simgpu_account_lost(t), 5);
	assert_ok(simgpu_account_breaches(t, &one, 1, 0, 100, &n));
	assert_int_equal(n, 0);
	simgpu_trace_close(t);
}

static void test_no_trace(void **state)
{
	struct files *f = *state;
	struct simgpu_trace *t = NULL;
	struct error err = {0};

	assert_int_equal(simgpu_trace_open("/tmp/there-is-no-such-folder", &t, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "there-is-no-such-folder"));
	f->trace->capacity = UINT64_MAX / 2;
	assert_int_equal(simgpu_trace_open(f->dir, &t, &err), -EBADMSG);
	f->trace->capacity = CAPACITY;
	f->trace->abi++;
	assert_int_equal(simgpu_trace_open(f->dir, &t, &err), -EBADMSG);
	assert_null(t);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_union),
		TEST(test_windows),
		TEST(test_handovers),
		TEST(test_account),
		TEST(test_lost_records),
		TEST(test_lost_changes),
		TEST(test_no_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
