/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places for the processes of connections. Only few places are for unauthenticated connections, and
 * no place is taken twice.
 */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../patience.h"
#include "link/children.h"

static pid_t sleeper(void)
{
	const pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void the_oldest_unauthenticated_connection_is_ended(void **state)
{
	struct children *c = calloc(1, sizeof(*c));
	pid_t pid[UNMANAGED_MAX], known = sleeper();
	int status, at = children_take(c, 1);

	assert_non_null(c);
	children_set(c, at, known);
	children_known(c, at);
	for (unsigned i = 0; i < UNMANAGED_MAX; i++) {
		at = children_take(c, 1);
		assert_true(at >= 0);
		pid[i] = sleeper();
		children_set(c, at, pid[i]);
		assert_int_equal(waitpid(-1, &status, WNOHANG), 0);
	}
	assert_true(children_take(c, 1) >= 0);
	assert_int_equal(waitpid(-1, &status, 0), pid[0]);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	children_exited(c, pid[0]);
	for (unsigned i = 1; i < UNMANAGED_MAX; i++)
		kill(pid[i], SIGKILL);
	kill(known, SIGKILL);
	while (wait(NULL) > 0)
		;
	free(c);
}

/*
 * A killed child keeps its place until it is reaped. Even so, the next connection ends another
 * child.
 */
static void each_further_connection_ends_another_one(void **state)
{
	struct children *c = calloc(1, sizeof(*c));
	pid_t pid[UNMANAGED_MAX];

	assert_non_null(c);
	for (unsigned i = 0; i < UNMANAGED_MAX; i++) {
		pid[i] = sleeper();
		children_set(c, children_take(c, 1), pid[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		children_set(c, children_take(c, 1), sleeper());
	for (unsigned i = 0; i < 3; i++) {
		int status = 0;

		/* A child that was not killed would sleep for ever, so this wait has a bound. */
		for (unsigned k = 0; k < 10 * patience_percent() && !status; k++) {
			if (waitpid(pid[i], &status, WNOHANG) == 0)
				usleep(10000);
		}
		assert_int_equal(WTERMSIG(status), SIGKILL);
		children_exited(c, pid[i]);
	}
	for (unsigned i = 0; i < CHILDREN_MAX; i++)
		if (c->v[i].pid)
			kill(c->v[i].pid, SIGKILL);
	while (wait(NULL) > 0)
		;
	free(c);
}

static void the_number_of_places_is_limited(void **state)
{
	struct children *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	for (unsigned i = 0; i < CHILDREN_MAX; i++) {
		const int at = children_take(c, 1);

		assert_true(at >= 0);
		children_set(c, at, (pid_t)(1 << 22) + (pid_t)i); /* no process has such a number */
		children_known(c, at);
	}
	assert_int_equal(children_take(c, 1), -EUSERS);
	children_exited(c, (1 << 22) + 7);
	assert_true(children_take(c, 1) >= 0);
	/* A child that could not be started takes no place. */
	children_set(c, children_take(c, 1), -1);
	assert_true(children_take(c, 1) >= 0);
	free(c);
}

static void a_stopped_child_is_ended(void **state)
{
	struct children *c = calloc(1, sizeof(*c));
	pid_t pid[3];
	int status;

	assert_non_null(c);
	for (int i = 0; i < 3; i++) {
		const int at = children_take(c, 1);

		pid[i] = sleeper();
		children_set(c, at, pid[i]);
		children_known(c, at);
		/*
		 * The first child has reported no progress yet, and has no time limit before that.
		 */
		atomic_store(&c->v[at].alive_ns, (uint64_t)i * 1000000000);
	}
	/* A watcher that itself has not run for longer than the limits ends no child. */
	children_watch(c, 1000000000, 10000, 10000);
	children_watch(c, 20000000000, 10000, 10000);
	assert_int_equal(waitpid(-1, &status, WNOHANG), 0);
	c->listener = (struct clock_listener){0};
	children_watch(c, 11000000000, 1000, 10000);
	assert_int_equal(waitpid(-1, &status, WNOHANG), 0);
	children_watch(c, 11000000001, 1000, 10000);
	assert_int_equal(waitpid(-1, &status, 0), pid[1]);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	children_exited(c, pid[1]);
	children_watch(c, 12000000000, 10000, 10000);
	assert_int_equal(waitpid(-1, &status, WNOHANG), 0);
	for (int i = 0; i < 3; i += 2)
		kill(pid[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	free(c);
}

/* The machine stands still right after a child has started, before its listener has looked. */
static void a_pause_at_the_start_ends_no_child(void **state)
{
	struct children *c = calloc(1, sizeof(*c));
	const pid_t pid = sleeper();
	int status, at = children_take(c, 1);

	assert_non_null(c);
	children_set(c, at, pid);
	children_known(c, at);
	children_watch(c, 1000000000, 10000, 10000);
	atomic_store(&c->v[at].alive_ns, 1050000000);
	children_watch(c, 29000000000, 10000, 10000);
	/* If the watcher had sent a SIGKILL, that signal would have come first. */
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WTERMSIG(status), SIGTERM);
	free(c);
}

static void an_unauthenticated_connection_has_a_time_limit(void **state)
{
	struct children *c = calloc(1, sizeof(*c));
	const pid_t pid[] = {sleeper(), sleeper()};
	int status, at = children_take(c, 1);

	assert_non_null(c);
	children_set(c, at, pid[0]);
	children_known(c, at);
	children_set(c, children_take(c, 2000000000), pid[1]);
	children_watch(c, 12000000000, 10000, 1000);
	assert_int_equal(waitpid(-1, &status, WNOHANG), 0);
	children_watch(c, 12000000001, 10000, 1000);
	assert_int_equal(waitpid(-1, &status, 0), pid[1]);
	kill(pid[0], SIGKILL);
	wait(NULL);
	free(c);
}

UNIT_MAIN(UNIT(the_oldest_unauthenticated_connection_is_ended),
	UNIT(each_further_connection_ends_another_one),
	UNIT(an_unauthenticated_connection_has_a_time_limit),
	UNIT(a_pause_at_the_start_ends_no_child), UNIT(the_number_of_places_is_limited),
	UNIT(a_stopped_child_is_ended))
