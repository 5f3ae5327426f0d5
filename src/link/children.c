/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a listener's child processes in a shared mapping. A child publishes its heartbeat
 * and its peer's authentication there, so it needs no message. The listener alone writes `pid`,
 * `turn`, `since_ns` and `is_killed`; a child writes only to its own entry. An entry is free while
 * `pid` is 0, and `turn` orders the entries by arrival. A killed child keeps its entry until the
 * listener passes its exit to children_exited(), but does not count as unauthenticated.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

#include "link/children.h"

struct children *children_new(void)
{
	struct children *c = mmap(
		NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return c == MAP_FAILED ? NULL : c;
}

bool children_any(const struct children *c)
{
	for (unsigned i = 0; i < CHILDREN_MAX; i++)
		if (c->v[i].pid)
			return true;
	return false;
}

static void child_kill(struct child *one)
{
	kill(one->pid, SIGKILL);
	one->is_killed = true;
}

int children_take(struct children *c, uint64_t now_ns)
{
	struct child *oldest = NULL;
	unsigned unauthenticated = 0;
	int found = -EUSERS;

	for (unsigned i = 0; i < CHILDREN_MAX; i++) {
		struct child *one = &c->v[i];

		if (!one->pid) {
			found = (int)i;
			continue;
		}
		if (one->is_killed || atomic_load(&one->is_known))
			continue;
		unauthenticated++;
		if (!oldest || one->turn < oldest->turn)
			oldest = one;
	}
	if (unauthenticated >= UNMANAGED_MAX)
		child_kill(oldest);
	if (found < 0)
		return found;
	c->v[found].turn = c->turn++;
	c->v[found].since_ns = now_ns;
	c->v[found].is_killed = false;
	atomic_store(&c->v[found].is_known, false);
	atomic_store(&c->v[found].alive_ns, 0);
	return found;
}

void children_set(struct children *c, int at, pid_t pid)
{
	c->v[at].pid = pid > 0 ? pid : 0;
}

void children_known(struct children *c, int at)
{
	atomic_store(&c->v[at].is_known, true);
}

pid_t children_fork(struct children *c, int *ret_at)
{
	const int at = children_take(c, clock_now_ns());
	pid_t pid;

	if (at < 0)
		return -1;
	children_known(c, at);
	pid = fork();
	*ret_at = at;
	if (pid != 0)
		children_set(c, at, pid);
	return pid;
}

void children_watch(
	struct children *c, uint64_t now_ns, unsigned unauthenticated_ms, unsigned silent_ms)
{
	clock_look(&c->listener, now_ns);
	for (unsigned i = 0; i < CHILDREN_MAX; i++) {
		struct child *one = &c->v[i];
		const bool is_known = atomic_load(&one->is_known);
		const uint64_t last_ns = is_known ? atomic_load(&one->alive_ns) : one->since_ns;
		const unsigned most_ms = is_known ? silent_ms : unauthenticated_ms;

		if (one->pid && last_ns &&
			clock_silent_ns(&c->listener, last_ns) > most_ms * NSEC_PER_MSEC)
			child_kill(one);
	}
}

int children_exited(struct children *c, pid_t pid)
{
	int at = -1;

	for (int i = 0; i < (int)CHILDREN_MAX; i++) {
		if (c->v[i].pid != pid)
			continue;
		c->v[i].pid = 0;
		at = i;
	}
	return at;
}
