/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes count as the tenant's own. The test makes cgroups where it may. With cgroups v1
 * the paths of all controllers together exceed 1 KiB in usual containers.
 */
#include "hook/own-tenant.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#define DEPTH 6
#define NAME 200

static char folder[4096];

/* A child that waits until it is killed, or until this process ends. */
static pid_t sleeper(void)
{
	const pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Makes a chain of cgroups with a path of more than 1 KiB. False: not permitted here. */
static bool make_cgroups(void)
{
	static const char *const roots[] = {"/sys/fs/cgroup/pids", "/sys/fs/cgroup"};

	for (size_t i = 0; i < 2; i++) {
		size_t n = (size_t)snprintf(folder, sizeof(folder), "%s", roots[i]);
		int depth = 0;

		for (; depth < DEPTH; depth++) {
			snprintf(folder + n, sizeof(folder) - n, "/divvy-%d-%0*d", (int)getpid(),
				NAME, depth);
			if (mkdir(folder, 0755) < 0)
				break;
			n += strlen(folder + n);
		}
		folder[n] = '\0';
		if (depth == DEPTH)
			return true;
	}
	return false;
}

static void remove_cgroups(void)
{
	for (int depth = 0; depth < DEPTH; depth++) {
		assert_ok(rmdir(folder));
		*strrchr(folder, '/') = '\0';
	}
}

/* Moves this process. */
static bool enter(const char *path)
{
	char file[sizeof(folder) + 16];
	FILE *f;
	bool is_in;

	snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	f = fopen(file, "we");
	is_in = f && fprintf(f, "%d\n", (int)getpid()) > 0;
	if (f && fclose(f) != 0)
		is_in = false;
	return is_in;
}

static void processes_of_one_cgroup_belong_together(void **state)
{
	const pid_t other = sleeper();
	struct own own;

	unsetenv("DIVVY_TENANT");
	assert_true(own_init(&own));
	assert_true(own_has(&own, (unsigned int)getpid()));
	assert_true(own_has(&own, (unsigned int)other));
	end(other);
	assert_false(own_has(&own, (unsigned int)other));
	assert_false(own_has(&own, 0));
}

/*
 * Runs in a child, so that only the child enters the cgroup. Returns 0, or the number of the failed
 * check; 77: the child may not enter the cgroup.
 */
static int check_long_cgroup(pid_t outside)
{
	struct own own;
	pid_t beside;
	bool is_same, is_other;

	if (!enter(folder))
		return 77;
	beside = sleeper();
	if (!own_init(&own))
		return 1;
	is_same = own_has(&own, (unsigned int)beside);
	is_other = !own_has(&own, (unsigned int)outside);
	end(beside);
	return !is_same ? 2 : !is_other ? 3 : 0;
}

static void cgroups_may_have_long_names(void **state)
{
	const pid_t outside = sleeper();
	int status = 77 << 8;
	pid_t pid;

	if (make_cgroups()) {
		pid = fork();
		if (pid == 0)
			_exit(check_long_cgroup(outside));
		waitpid(pid, &status, 0);
		remove_cgroups();
	}
	end(outside);
	if (status == 77 << 8) {
		print_message("# no cgroups can be made here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

UNIT_MAIN(UNIT(processes_of_one_cgroup_belong_together), UNIT(cgroups_may_have_long_names))
