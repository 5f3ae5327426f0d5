/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that does not answer delays the files of slots, and nothing else. */
#include "unit.h"

#include <ftw.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "base/str.h"
#include "node/node-files.h"
#include "node/node-library.h"
#include "threads/thread-worker.h"

#define SLOTS 3u

/* The simulated disk: while the test holds this lock, every fsync(2) waits. */
static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(uint32_t) n_synced;
static pthread_t loop_thread;

int fsync(int fd)
{
	assert_false(pthread_equal(pthread_self(), loop_thread));
	pthread_mutex_lock(&disk);
	pthread_mutex_unlock(&disk);
	n_synced++;
	return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

static struct loop *loop;
static struct worker *worker;
static char top[64], folder[SLOTS][80];
static uint32_t n_done;
static int result;

static int begin(void **state)
{
	loop_thread = pthread_self();
	n_done = 0;
	snprintf(top, sizeof(top), "/tmp/divvy-files-XXXXXX");
	assert_non_null(mkdtemp(top));
	for (uint32_t i = 0; i < SLOTS; i++)
		snprintf(folder[i], sizeof(folder[i]), "%s/%u", top, i);
	assert_ok(loop_new(&loop));
	assert_ok(worker_new(loop, &worker));
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
	return remove(path);
}

static int end(void **state)
{
	worker_free(worker);
	loop_free(loop);
	return nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void on_done(void *data, int r, const struct error *err)
{
	n_done++;
	result = r;
}

static struct slot_files *write_slot(uint32_t slot, bool is_remote)
{
	const struct slot_files_params params = {.folder = folder[slot],
		.is_remote = is_remote,
		.state_dir = top,
		.slot = "7",
		.library = "/lib/1"};
	struct slot_files *files;

	assert_ok(slot_files_write(worker, &params, on_done, NULL, &files));
	return files;
}

static void await_done(uint32_t n)
{
	while (n_done < n)
		assert_true(loop_run_once(loop, CLOCK_NEVER) >= 0);
}

static bool is_list(uint32_t slot, const char *text)
{
	_cleanup_buf_ struct buf list = BUF_INIT(4096);
	char path[96];

	snprintf(path, sizeof(path), "%s.preload", folder[slot]);
	return file_read(path, &list, NULL) >= 0 && strstr(buf_text(&list), text);
}

static void on_timer(struct loop_timer *timer, uint64_t now)
{
	*(bool *)timer->data = true;
}

static void the_loop_runs_while_the_disk_hangs(void **state)
{
	bool has_fired = false;
	struct loop_timer timer = {.data = &has_fired};

	assert_ok(loop_add_timer(loop, &timer, on_timer));
	pthread_mutex_lock(&disk);
	write_slot(0, false);
	loop_set_timer(&timer, clock_now_ns() + 50 * NSEC_PER_MSEC);
	while (!has_fired)
		assert_true(loop_run_once(loop, CLOCK_NEVER) >= 0);
	assert_int_equal(n_done, 0);
	assert_false(library_is_noted(top, "7"));
	pthread_mutex_unlock(&disk);
	await_done(1);
	assert_ok(result);
	loop_remove_timer(&timer);
}

/* Each file and its folder are synced before `done` is called, so they survive a loss of power. */
static void files_are_synced_before_the_callback(void **state)
{
	struct stat st;

	n_synced = 0;
	write_slot(0, false);
	await_done(1);
	assert_ok(result);
	assert_int_equal(n_synced, 4);
	assert_ok(stat(folder[0], &st));
	assert_true(is_list(0, "libdivvy-cuda.so"));
	assert_true(library_is_noted(top, "7"));
	/* The files exist already. The caller still does not wait for the disk. */
	write_slot(0, false);
	await_done(2);
	assert_int_equal(n_synced, 4);
}

static void the_last_request_counts(void **state)
{
	write_slot(0, false);
	write_slot(1, true);
	write_slot(0, true);
	await_done(3);
	assert_true(is_list(0, "libdivvy-remote.so"));
	assert_true(is_list(1, "libdivvy-remote.so"));
}

static void forgotten_files_are_written_without_a_callback(void **state)
{
	slot_files_forget(write_slot(0, false));
	slot_files_forget(NULL);
	write_slot(1, false);
	await_done(1);
	assert_true(is_list(0, "libdivvy-cuda.so"));
	assert_int_equal(n_done, 1);
}

static void the_callback_gets_the_error(void **state)
{
	_cleanup_close_ int fd = open(folder[2], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	char below[sizeof(folder[2]) + 8];
	const struct slot_files_params params = {.folder = below};
	struct slot_files *files;

	assert_true(fd >= 0);
	snprintf(below, sizeof(below), "%s/2", folder[2]);
	assert_ok(slot_files_write(worker, &params, on_done, NULL, &files));
	await_done(1);
	assert_int_equal(result, -ENOTDIR);
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(the_loop_runs_while_the_disk_hangs, begin, end),
	cmocka_unit_test_setup_teardown(files_are_synced_before_the_callback, begin, end),
	cmocka_unit_test_setup_teardown(the_last_request_counts, begin, end),
	cmocka_unit_test_setup_teardown(forgotten_files_are_written_without_a_callback, begin, end),
	cmocka_unit_test_setup_teardown(the_callback_gets_the_error, begin, end))
