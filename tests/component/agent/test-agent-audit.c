/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: unmanaged processes with --police, and tenants that use more memory than divvy counts.
 * A file has the devices' answers (fake-nvml.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/fd.h"
#include "fake-client.h"
#include "rig.h"
/* cmocka.h comes after our headers, because its fail() is a macro */
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 180000
#define USER 60002
/* Less than three rounds of audits, one each 10 s, because a round may come a little early. */
#define LEAST_NS (25 * NSEC_PER_SEC)

/* ---- unmanaged processes ---- */

enum habit { OBEDIENT, STUBBORN };

/*
 * Executes sleep(1) at `path`, with argv[0] `name` if given. If `path` is NULL, makes a child
 * process of that name instead.
 */
static pid_t start_program(const char *path, enum habit habit, uid_t uid, const char *name)
{
	int fds[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		sigset_t term;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigemptyset(&term);
		sigaddset(&term, SIGTERM);
		if (habit == STUBBORN)
			sigprocmask(SIG_BLOCK, &term, NULL);
		if (uid && setuid(uid) < 0)
			_exit(1);
		if (path) {
			execl(path, name ? name : path, "1000", (char *)NULL);
			_exit(127);
		}
		prctl(PR_SET_NAME, name);
		if (write(fds[1], "", 1) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	/* The child is ready, or has executed the program. */
	assert_true(read(fds[0], &byte, 1) >= 0);
	close(fds[0]);
	return pid;
}

static void list(struct rig *rig, const pid_t *pids, size_t n)
{
	_cleanup_buf_ struct buf text = BUF_INIT(4096);

	for (size_t i = 0; i < n; i++)
		buf_addf(&text, "%d 0 1048576\n", (int)pids[i]);
	assert_int_equal(file_replace(rig->processes, buf_str(&text), 0600, NULL), 0);
}

struct dying {
	struct rig *rig;
	pid_t pid;
	int status;
	bool does_ask; /* the test requests audits, which must add no rounds */
};

static bool has_ended(void *data)
{
	struct dying *d = data;

	if (d->does_ask)
		json_decref(rig_do(d->rig, "{s:s}", "cmd", "audit"));
	return waitpid(d->pid, &d->status, WNOHANG) == d->pid;
}

static void kill_all(const pid_t *pids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

/* No tenant exists, and no program is connected. */
static void police_ends_an_unmanaged_process_on_an_unused_device(void **state)
{
	const char *args[] = {"--police", NULL};
	struct dying d = {0};
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", args);
	d.pid = start_program(NULL, OBEDIENT, 0, "stranger");
	list(&rig, &d.pid, 1);
	assert_true(rig_until(has_ended, &d, LONG_MS));
	assert_true(WIFSIGNALED(d.status));
	assert_int_equal(WTERMSIG(d.status), SIGTERM);
	rig_stop(&rig);
}

/*
 * The daemon sends SIGTERM after two rounds, and SIGKILL after a third. Audits on request do not
 * count as rounds.
 */
static void police_kills_a_process_that_ignores_sigterm(void **state)
{
	const char *args[] = {"--police", NULL};
	struct dying d = {.does_ask = true};
	uint64_t since_ns;
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", args);
	d.rig = &rig;
	d.pid = start_program(NULL, STUBBORN, 0, "stranger");
	since_ns = clock_now_ns();
	list(&rig, &d.pid, 1);
	assert_true(rig_until(has_ended, &d, LONG_MS));
	assert_true(WIFSIGNALED(d.status));
	assert_int_equal(WTERMSIG(d.status), SIGKILL);
	assert_true(clock_since_ns(clock_now_ns(), since_ns) > LEAST_NS);
	rig_stop(&rig);
}

static void copy_sleep(const char *path)
{
	_cleanup_buf_ struct buf program = BUF_INIT(16u << 20);
	char real[PATH_MAX];

	assert_non_null(realpath("/bin/sleep", real));
	assert_int_equal(file_read(real, &program, NULL), 0);
	assert_int_equal(file_replace(path, buf_str(&program), 0755, NULL), 0);
}

/*
 * --police-allow matches executables and users, not a process's own name, nor the file name of a
 * copy.
 */
static void police_allow_does_not_match_forged_names(void **state)
{
	const char *args[] = {"--police", "--police-allow", NULL, NULL};
	char allow[400], by_path[96], folder[96], forged[112];
	struct dying d = {.does_ask = true};
	pid_t ended[2], spared[3];
	struct rig rig;

	if (getuid() != 0)
		skip();
	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_kill(&rig);
	assert_int_equal(chmod(rig.folder, 0755), 0);
	d.rig = &rig;
	snprintf(by_path, sizeof(by_path), "%s/test-path", rig.folder);
	snprintf(folder, sizeof(folder), "%s/test-folder", rig.folder);
	snprintf(forged, sizeof(forged), "%s/sleep", folder);
	snprintf(allow, sizeof(allow), "sleep, %s,uid:%d,comm", by_path, USER);
	assert_return_code(mkdir(folder, 0755), errno);
	args[2] = allow;
	copy_sleep(by_path);
	copy_sleep(forged);
	rig_restart(&rig, "1xTest-80Gi", args);
	spared[0] = start_program(by_path, OBEDIENT, 0, NULL);
	spared[1] = start_program("/bin/sleep", OBEDIENT, 0, NULL);
	spared[2] = start_program(NULL, OBEDIENT, USER, "any");
	ended[0] = start_program(NULL, OBEDIENT, 0, "comm");
	ended[1] = start_program(forged, OBEDIENT, 0, NULL);
	list(&rig, (pid_t[]){spared[0], spared[1], spared[2], ended[0], ended[1]}, 5);
	for (int i = 0; i < 2; i++) {
		d.pid = ended[i];
		assert_true(rig_until(has_ended, &d, LONG_MS));
		assert_int_equal(WTERMSIG(d.status), SIGTERM);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(waitpid(spared[i], NULL, WNOHANG), 0);
	kill_all(spared, 3);
	rig_stop(&rig);
}

static void police_allow_refuses_an_invalid_user(void **state)
{
	const char *args[] = {"--police", "--police-allow", "uid:all", NULL};
	struct rig rig;
	pid_t pid;

	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_kill(&rig);
	assert_true(rig_another(&rig, "1xTest-80Gi", args, &pid) > 0);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	rig_stop(&rig);
}

/* ---- tenants ---- */

struct excess {
	struct rig *rig;
	int id;
	bool is_wanted;
};

static bool is_in_findings(struct rig *rig)
{
	json_t *a = rig_do(rig, "{s:s}", "cmd", "doctor"), *one;
	bool is = false;
	size_t i;

	json_array_foreach(rig_get(a, "findings"), i, one)
		is |= strstr(rig_text(one, "what"), "but divvy counts") != NULL;
	json_decref(a);
	return is;
}

static bool is_told(void *data)
{
	const struct excess *e = data;
	json_t *why = rig_do(e->rig, "{s:s, s:i}", "cmd", "why", "tenant", e->id);
	json_t *list_ = rig_do(e->rig, "{s:s, s:i}", "cmd", "list", "tenant", e->id);
	long long in_why = rig_number(why, "why.0.excess_bytes"),
		  in_list = rig_number(list_, "tenants.0.devices.0.excess_bytes");

	json_decref(why);
	json_decref(list_);
	if (in_why)
		assert_true(in_why > 9ll << 30 && in_why <= 10ll << 30);
	return (in_why > 0) == e->is_wanted && (in_list > 0) == e->is_wanted &&
		is_in_findings(e->rig) == e->is_wanted;
}

static void excess_memory_is_reported_until_it_ends(void **state)
{
	struct fake_client c;
	char secret[33], text[64];
	struct rig rig;
	struct excess e = {.rig = &rig, .is_wanted = true};

	rig_start(&rig, "1xTest-80Gi", NULL);
	e.id = rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, rig.socket, secret, false), 0);
	assert_true(fake_reserve(&c, 512 << 20));
	snprintf(text, sizeof(text), "%d 0 %llu\n", (int)c.pid, 10ull << 30);
	assert_int_equal(file_replace(rig.processes, str_from(text), 0600, NULL), 0);
	assert_true(rig_until(is_told, &e, LONG_MS));
	snprintf(text, sizeof(text), "%d 0 %llu\n", (int)c.pid, 520ull << 20);
	assert_int_equal(file_replace(rig.processes, str_from(text), 0600, NULL), 0);
	e.is_wanted = false;
	assert_true(rig_until(is_told, &e, LONG_MS));
	fake_end(&c);
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(police_ends_an_unmanaged_process_on_an_unused_device),
		cmocka_unit_test(police_kills_a_process_that_ignores_sigterm),
		cmocka_unit_test(police_allow_does_not_match_forged_names),
		cmocka_unit_test(police_allow_refuses_an_invalid_user),
		cmocka_unit_test(excess_memory_is_reported_until_it_ends),
	};

	return cmocka_run_group_tests_name("agent-audit", tests, NULL, NULL);
}
