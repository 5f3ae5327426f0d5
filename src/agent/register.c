/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration: see register.h. A new process gets, in this order: tenant, index, pages, line in
 * the state file, list, gates, WELCOME. The state file has the process before the program has its
 * pages, so the next daemon knows every program with pages.
 */
#include "agent/register.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/conf.h"
#include "agent/device.h"
#include "agent/tenant-socket.h"
#include "agent/agent-memory.h"
#include "agent/agent-state.h"
#include "agent/token.h"
#include "agent/xid-watch.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/process.h"
#include "core/ledger-counter.h"

#define UP_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Descriptors of the pages for the program. */
struct page_fds {
	int fd[FD_PASS_MAX];
	size_t n;
};
_Static_assert(FD_PASS_MAX >= 3 * MSG_DEVICES, "a WELCOME takes all pages along");

static void page_fds_done(struct page_fds *fds)
{
	/* Every third descriptor is that of the tenant's own page, which stays open. */
	for (size_t i = 0; i < fds->n; i++)
		if (i % 3 != 2)
			fd_close(fds->fd[i]);
}

static void register_unmap_page(void *p, size_t n)
{
	struct map map = {p, n};

	map_done(&map);
}

/* ---- pages ---- */

/* Maps the page writable for the daemon, then seals it, so that no other process ever writes it. */
static int make_down(struct process *p, uint32_t at, int *ret_fd)
{
	struct map map = MAP_NONE;
	_cleanup_close_ int fd = memfd_new("divvy-down", sizeof(struct page_down));
	int r = fd;

	if (r < 0)
		return r;
	r = map_fd(fd, sizeof(struct page_down), PROT_READ | PROT_WRITE, &map);
	if (r < 0)
		return r;
	r = memfd_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
	if (r < 0) {
		map_done(&map);
		return r;
	}
	register_unmap_page(p->devices[at].down, sizeof(struct page_down));
	p->devices[at].down = map.p;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int make_up(struct process *p, uint32_t at, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_new("divvy-up", sizeof(struct page_up));
	struct map map = MAP_NONE;
	struct stat st;
	int r = fd;

	if (r < 0)
		return r;
	r = map_fd(fd, sizeof(struct page_up), PROT_READ | PROT_WRITE, &map);
	if (r < 0)
		return r;
	r = memfd_seal(fd, UP_SEALS | F_SEAL_SEAL);
	if (r < 0 || fstat(fd, &st) < 0) {
		map_done(&map);
		return r < 0 ? r : -errno;
	}
	p->devices[at].up = map.p;
	p->devices[at].up_inode = st.st_ino;
	ledger_slot_init(p->tenant->devices[at].page, &p->devices[at].up->memory, p->index);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/*
 * Takes a page that a process hands back. The page must be a memfd of the right size that cannot
 * shrink, and must have the recorded inode.
 */
static int register_reuse_up(
	struct process *p, uint32_t at, int handed, int *ret_fd, struct error *err)
{
	_cleanup_close_ int fd = -1;
	struct map map = MAP_NONE;
	struct stat st;
	int r;

	/* Checks the seals first: only a memfd has seals, and fstat() of another file may block. */
	if (!memfd_has_seals(handed, UP_SEALS) || fstat(handed, &st) < 0 ||
		st.st_size != sizeof(struct page_up))
		return fail(err, EINVAL, "the returned page is not a page of divvy");
	if (st.st_ino != p->devices[at].up_inode)
		return fail(
			err, ESTALE, "the returned page is not the page of pid %d", (int)p->pid);
	fd = fcntl(handed, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return fail_errno(err, errno, "duplicate the page of pid %d", (int)p->pid);
	r = map_fd(fd, sizeof(struct page_up), PROT_READ | PROT_WRITE, &map);
	if (r < 0)
		return fail_errno(err, -r, "map the page of pid %d", (int)p->pid);
	register_unmap_page(p->devices[at].up, sizeof(struct page_up));
	p->devices[at].up = map.p;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int make_pages(struct process *p, struct page_fds *fds, struct error *err)
{
	for (uint32_t i = 0; i < p->tenant->n; i++) {
		struct tenant_device *td = &p->tenant->devices[i];
		const bool is_new = !td->page;
		int down = -1, up = -1, r;

		r = tenant_page(td, err);
		if (r >= 0 && is_new) /* the next daemon recognises the page by its inode */
			r = state_tenant(p->tenant, err);
		if (r < 0)
			return r;
		r = make_down(p, i, &down);
		if (r >= 0)
			r = make_up(p, i, &up);
		if (r < 0) {
			fd_close(down);
			return fail_errno(err, -r, "create the pages of pid %d", (int)p->pid);
		}
		fds->fd[fds->n++] = down;
		fds->fd[fds->n++] = up;
		fds->fd[fds->n++] = td->fd;
		memory_fill_down(p, i);
	}
	return 0;
}

static int register_reuse_pages(struct process *p, const int *handed, size_t n_handed,
	struct page_fds *fds, struct error *err)
{
	if (n_handed != 2 * p->tenant->n)
		return fail(err, EINVAL, "the program returned %zu pages; expected %u", n_handed,
			2 * p->tenant->n);
	for (uint32_t i = 0; i < p->tenant->n; i++) {
		struct tenant_device *td = &p->tenant->devices[i];
		int down = -1, up = -1, r;

		r = register_reuse_up(p, i, handed[2 * i], &up, err);
		if (r < 0)
			return r;
		r = tenant_page_reuse(td, handed[2 * i + 1], err);
		if (r >= 0) {
			r = make_down(p, i, &down);
			if (r < 0)
				fail_errno(err, -r, "create the pages of pid %d", (int)p->pid);
		}
		if (r < 0) {
			fd_close(up);
			return r;
		}
		fds->fd[fds->n++] = down;
		fds->fd[fds->n++] = up;
		fds->fd[fds->n++] = td->fd;
		memory_fill_down(p, i);
	}
	return 0;
}

/* ---- processes ---- */

static void register_on_process_exit(struct loop_io *io, uint32_t events)
{
	process_kill(io->data);
}

static int process_new(struct tenant *t, pid_t pid, uint64_t start, int pidfd, struct process **ret)
{
	struct process *p = calloc(1, sizeof(*p) + t->n * sizeof(p->devices[0]));
	int r;

	if (!p)
		return -ENOMEM;
	p->agent = t->agent;
	p->tenant = t;
	p->pid = pid;
	p->start = start;
	p->pidfd = -1;
	p->pid_io.data = p;
	r = loop_add_io(t->agent->loop, &p->pid_io, pidfd, EPOLLIN, register_on_process_exit);
	if (r < 0) {
		free(p);
		return r;
	}
	p->pidfd = pidfd;
	*ret = p;
	return 0;
}

static void process_join(struct process *p)
{
	struct tenant *t = p->tenant;

	LIST_INSERT_HEAD(&p->agent->processes, p, link);
	LIST_INSERT_HEAD(&t->processes, p, of_tenant);
	p->agent->n_processes++;
	t->n_processes++;
	t->alone_ns = 0;
	if (t->source == TENANT_DEFAULT)
		tenant_update_defaults(p->agent);
}

void process_free(struct process *p)
{
	if (!p)
		return;
	loop_remove_io(&p->pid_io);
	fd_close(p->pidfd);
	for (uint32_t i = 0; i < p->tenant->n; i++) {
		register_unmap_page(p->devices[i].down, sizeof(struct page_down));
		register_unmap_page(p->devices[i].up, sizeof(struct page_up));
	}
	free(p);
}

void process_let_run(struct process *p)
{
	for (uint32_t i = 0; i < p->tenant->n; i++) {
		struct page_down *down = p->devices[i].down;

		if (!down)
			continue;
		atomic_store_explicit(&down->turn_ends_ns, 0, memory_order_relaxed);
		atomic_store_explicit(&down->gate, GATE_OPEN, memory_order_seq_cst);
		syscall(SYS_futex, &down->gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
}

void process_kill(struct process *p)
{
	struct tenant *t = p->tenant;

	if (p->is_dead)
		return;
	p->is_dead = true;
	p->agent->has_dead = true;
	loop_remove_io(&p->pid_io);
	LIST_REMOVE(p, of_tenant);
	p->agent->n_processes--;
	t->n_processes--;
	if (!t->n_processes)
		t->alone_ns = loop_now_ns(p->agent->loop);
	for (uint32_t i = 0; i < t->n; i++)
		if (p->devices[i].down)
			atomic_store_explicit(
				&p->devices[i].down->gate, GATE_CLOSED, memory_order_seq_cst);
	token_process_exited(p);
	state_process_exited(p);
	memory_process_exited(p);
	xid_watch_process_exited(p);
	if (p->conn) {
		p->conn->process = NULL;
		conn_close(p->conn);
		p->conn = NULL;
	}
	if (tenant_has_ended(t, t->alone_ns))
		tenant_end(t);
}

int process_restore(struct tenant *t, pid_t pid, uint64_t start, uint32_t index, uint64_t up_inode,
	const char *command)
{
	int pidfd = process_open(pid, start), r;
	struct process *p;

	if (pidfd < 0)
		return pidfd;
	if (!index || index >= PAGE_PROCESSES || t->slots[index / 64] & 1ull << index % 64) {
		fd_close(pidfd);
		return -EINVAL;
	}
	r = process_new(t, pid, start, pidfd, &p);
	if (r < 0) {
		fd_close(pidfd);
		return r;
	}
	t->slots[index / 64] |= 1ull << index % 64;
	p->index = index;
	p->is_awaited = true;
	p->uid = t->uid;
	/* The state file has only the inode of the first page. */
	p->devices[0].up_inode = up_inode;
	snprintf(p->command, sizeof(p->command), "%s", command);
	process_join(p);
	return 0;
}

/* ---- HELLO ---- */

static int peer_start(struct conn *c, uint64_t *ret_start, int *ret_pidfd, struct error *err)
{
	int r;

	if (c->pid <= 0)
		return fail(err, EPERM,
			"the daemon cannot see this process; run the daemon in the host's pid "
			"namespace (hostPID)");
	r = process_start_ticks(c->pid, ret_start);
	if (r < 0)
		return fail(err, ESRCH, "pid %d has exited", (int)c->pid);
	if (c->pidfd >= 0) {
		/* A pidfd from the socket cannot belong to another process with the same pid. */
		*ret_pidfd = TAKE_FD(c->pidfd);
		return 0;
	}
	r = process_open(c->pid, *ret_start);
	if (r < 0)
		return fail(err, ESRCH, "pid %d has exited", (int)c->pid);
	*ret_pidfd = r;
	return 0;
}

/* Whether the cgroup is `top` or below it. */
static bool register_is_cgroup_within(const char *cgroup, const char *top)
{
	size_t n = strlen(top);

	return !strncmp(cgroup, top, n) && (cgroup[n] == '\0' || cgroup[n] == '/');
}

/*
 * A container's user ids mean nothing outside it. The first process that shows the container's
 * secret, and is in another cgroup than the requesting process, binds the tenant to its cgroup.
 * From then on this cgroup identifies the container's processes.
 */
static int register_check_container(
	struct conn *c, struct tenant *t, bool *ret_is_it, struct error *err)
{
	char cgroup[CONF_CGROUP];
	int r;

	*ret_is_it = false;
	if (t->container == TENANT_NO_CONTAINER)
		return 0;
	r = conf_cgroup(c->pid, cgroup, err);
	if (r < 0)
		return r;
	if (t->container == TENANT_CONTAINER_BOUND) {
		*ret_is_it = cgroup[0] && register_is_cgroup_within(cgroup, t->cgroup);
		return *ret_is_it
			? 0
			: fail(err, EACCES,
				  "tenant %u belongs to the container in cgroup '%s'; this "
				  "process is in '%s'",
				  t->id, t->cgroup, cgroup);
	}
	if (!cgroup[0] || !cgroup[1] || !t->cgroup[0] ||
		register_is_cgroup_within(t->cgroup, cgroup))
		return 0; /* no container: the process is treated like any other program */
	t->container = TENANT_CONTAINER_BOUND;
	memcpy(t->cgroup, cgroup, sizeof(t->cgroup));
	*ret_is_it = true;
	return state_tenant(t, err);
}

/* The process's tenant from before a restart: a process stays with its tenant for life. */
static struct tenant *former_tenant(const struct conn *c)
{
	const struct process *p;
	uint64_t start;

	if (process_start_ticks(c->pid, &start) < 0)
		return NULL;
	LIST_FOREACH(p, &c->agent->processes, link)
		if (!p->is_dead && !p->tenant->is_ending && p->pid == c->pid && p->start == start)
			return p->tenant;
	return NULL;
}

static int choose_tenant(struct conn *c, const struct msg_hello *hello, struct tenant **ret_tenant,
	struct error *err)
{
	static const uint8_t none[sizeof(hello->secret)];
	struct tenant *t;
	bool is_it;
	int r;

	/* On a tenant socket the secret does not count, because the pod may have set any. */
	if (c->tenant)
		return tenant_socket_tenant(c, ret_tenant, err);
	if (!memcmp(hello->secret, none, sizeof(none))) {
		*ret_tenant = hello->flags & MSG_HELLO_AGAIN ? former_tenant(c) : NULL;
		if (*ret_tenant)
			return 0;
		return conf_tenant(c->agent, c->pid, c->uid, c->gid, ret_tenant, err);
	}
	t = tenant_by_secret(c->agent, hello->secret);
	if (!t)
		return fail(err, ENOENT,
			"no tenant has the secret in DIVVY_TENANT: it was removed, or belongs "
			"to another daemon");
	r = register_check_container(c, t, &is_it, err);
	if (r < 0)
		return r;
	if (!is_it && c->uid != t->uid && c->uid != 0)
		return fail(err, EACCES, "tenant %u belongs to user %u and this process to user %u",
			t->id, (unsigned int)t->uid, (unsigned int)c->uid);
	*ret_tenant = t;
	return 0;
}

static bool has_hung_up(const struct conn *c)
{
	struct pollfd pfd = {.fd = c->fd, .events = POLLRDHUP};

	return c->fd < 0 || (poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLHUP | POLLRDHUP)));
}

/*
 * Handles earlier registrations of this very process. A registration whose connection has closed is
 * from before an exec: its pages are unused and released. A registration with an open connection
 * belongs to a second copy of the library and stays. -EPERM: the process belongs to another tenant.
 */
static int settle_former(struct conn *c, uint64_t start, struct tenant *t, struct error *err)
{
	struct process *p, *next;

	for (p = LIST_FIRST(&c->agent->processes); p; p = next) {
		next = LIST_NEXT(p, link);
		if (p->is_dead || p->pid != c->pid || p->start != start)
			continue;
		if (p->tenant != t)
			return fail(err, EPERM,
				"pid %d belongs to tenant %u already and cannot change its tenant",
				(int)c->pid, p->tenant->id);
		if (!p->conn || has_hung_up(p->conn))
			process_kill(p);
	}
	return 0;
}

static void send_welcome(
	struct conn *c, uint32_t request, const struct process *p, const struct page_fds *fds)
{
	const struct tenant *t = p->tenant;
	struct msg_welcome welcome = {.tenant = t->id, .devices = t->n};

	msg_head_init(&welcome.head, MSG_WELCOME, sizeof(welcome), request);
	welcome.head.abi = c->abi;
	if (c->agent->devices->is_simulated)
		welcome.flags |= MSG_WELCOME_SIMULATED;
	if (msg_is_in(MSG_MEM_SHARE, c->abi))
		welcome.flags |= MSG_WELCOME_SHARES;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct device *d = t->devices[i].device;

		memcpy(welcome.device[i].uuid, d->uuid, sizeof(welcome.device[i].uuid));
		welcome.device[i].device = d->index;
		welcome.device[i].quota_bytes = t->devices[i].quota_bytes;
		welcome.device[i].device_bytes = d->info.memory_bytes;
	}
	if (fd_send(c->fd, &welcome, sizeof(welcome), fds->fd, fds->n, MSG_DONTWAIT) < 0)
		conn_close(c);
	else
		client_refuse_rights(c);
}

/* For display only: removes characters that could disturb a terminal. */
static void take_command(struct process *p, const struct msg_hello *hello)
{
	memcpy(p->command, hello->command, MSG_COMMAND);
	str_blank_controls(p->command, strlen(p->command));
}

static int register_new(
	struct conn *c, const struct msg_hello *hello, struct tenant *t, struct error *err)
{
	_cleanup_(page_fds_done) struct page_fds fds = {.n = 0};
	struct process *p = NULL;
	uint64_t start = 0;
	int pidfd = -1, r;

	r = peer_start(c, &start, &pidfd, err);
	if (r < 0)
		return r;
	r = settle_former(c, start, t, err);
	if (r >= 0) {
		r = process_new(t, c->pid, start, pidfd, &p);
		if (r < 0)
			fail_errno(err, -r, "register pid %d", (int)c->pid);
	}
	if (r < 0) {
		fd_close(pidfd);
		return r;
	}
	p->uid = c->uid;
	p->has_membarrier = hello->flags & MSG_HELLO_MEMBARRIER;
	take_command(p, hello);
	r = tenant_take_slot(t, &p->index);
	if (r < 0)
		fail(err, EUSERS, "tenant %u has %u processes, the maximum", t->id,
			PAGE_PROCESSES - 1);
	if (r >= 0)
		r = make_pages(p, &fds, err);
	if (r >= 0) {
		r = state_process_added(p);
		if (r < 0)
			fail_errno(err, -r, "write pid %d to the state file", (int)c->pid);
	}
	if (r < 0) {
		tenant_give_slot(t, p->index);
		process_free(p);
		return r;
	}
	process_join(p);
	p->conn = c;
	c->process = p;
	token_process_added(p);
	send_welcome(c, hello->head.request, p, &fds);
	return 0;
}

static struct process *find_former(
	struct conn *c, const struct tenant *t, uint64_t start, uint64_t inode)
{
	struct process *p;

	LIST_FOREACH(p, &t->processes, of_tenant)
		if (p->pid == c->pid && p->start == start && p->devices[0].up_inode == inode)
			return p;
	return NULL;
}

static void check_recounted(struct tenant *t)
{
	struct process *p;

	LIST_FOREACH(p, &t->processes, of_tenant)
		if (p->is_awaited)
			return;
	t->hold_ns = 0;
	memory_recount(t);
}

static int register_again(struct conn *c, const struct msg_hello *hello, struct tenant *t,
	const int *handed, size_t n_handed, struct error *err)
{
	_cleanup_(page_fds_done) struct page_fds fds = {.n = 0};
	struct process *p;
	struct stat st;
	uint64_t start = 0;
	int r;

	r = process_start_ticks(c->pid, &start);
	if (r < 0)
		return fail(err, ESRCH, "pid %d has exited", (int)c->pid);
	for (size_t i = 0; i < n_handed; i++)
		if (!memfd_has_seals(handed[i], UP_SEALS))
			return fail(err, EINVAL, "a returned page is not a page of divvy");
	if (!n_handed || fstat(handed[0], &st) < 0)
		return fail(err, EINVAL, "the program returned no pages");
	p = find_former(c, t, start, st.st_ino);
	if (!p)
		return fail(err, ESTALE,
			"this daemon has no process %d of tenant %u with this page", (int)c->pid,
			t->id);
	if (p->is_awaited) /* the state has only the first inode: seals check the rest */
		for (uint32_t i = 1; i < t->n && 2 * i < n_handed; i++)
			if (!fstat(handed[2 * i], &st))
				p->devices[i].up_inode = st.st_ino;
	r = register_reuse_pages(p, handed, n_handed, &fds, err);
	if (r < 0)
		return r;
	if (p->conn) {
		p->conn->process = NULL;
		conn_close(p->conn);
	}
	p->conn = c;
	c->process = p;
	p->uid = c->uid;
	p->has_membarrier = hello->flags & MSG_HELLO_MEMBARRIER;
	take_command(p, hello);
	if (p->is_awaited)
		memory_process_back(p);
	p->is_awaited = false;
	token_process_added(p);
	send_welcome(c, hello->head.request, p, &fds);
	if (t->hold_ns)
		check_recounted(t);
	memory_look_at_held(c->agent);
	return 0;
}

/*
 * Whether a HELLO must wait. After a restart only earlier processes have the counter's page, so one
 * of them must hand the page back first.
 */
static bool must_wait(const struct tenant *t)
{
	if (!t->hold_ns)
		return false;
	for (uint32_t i = 0; i < t->n; i++)
		if (!t->devices[i].page)
			return true;
	return false;
}

/* A refused program may try again at once and for ever, so log lines are limited. */
static void log_refusal(struct conn *c, const char *why)
{
	uint32_t unsaid;

	if (!log_may(&c->agent->refusals, clock_now_ns(), &unsaid))
		return;
	if (unsaid)
		log_info("refused %u more processes, which the log leaves out", unsaid);
	log_info("refused pid %d: %s", (int)c->pid, why);
}

void register_hello(struct conn *c, const struct msg_hello *hello, const int *fds, size_t n_fds)
{
	struct tenant *t = NULL;
	struct error err;
	int r;

	if (c->process) {
		client_refuse(
			c, hello->head.request, EEXIST, "this connection is registered already");
		return;
	}
	if (hello->page_abi != PAGE_ABI) {
		fail(&err, EPROTO,
			"page ABI %u: this daemon has %u; install library and daemon of one "
			"version",
			hello->page_abi, PAGE_ABI);
		client_refuse(c, hello->head.request, EPROTO, err.msg);
		return;
	}
	r = choose_tenant(c, hello, &t, &err);
	if (!(hello->flags & MSG_HELLO_AGAIN) && (r == -EAGAIN || (r >= 0 && must_wait(t)))) {
		if (!c->deferred)
			c->deferred = malloc(sizeof(*hello));
		if (c->deferred)
			*c->deferred = *hello;
		return;
	}
	if (r == -EAGAIN)
		r = fail(&err, ESTALE, "this daemon has no process %d", (int)c->pid);
	if (r >= 0 && hello->flags & MSG_HELLO_AGAIN) {
		r = register_again(c, hello, t, fds, n_fds, &err);
		if (r >= 0)
			register_deferred(c->agent);
	} else if (r >= 0) {
		r = register_new(c, hello, t, &err);
	}
	if (r < 0) {
		log_refusal(c, err.msg);
		client_refuse(c, hello->head.request, -r, err.msg);
	}
}

void register_deferred(struct agent *agent)
{
	struct conn *c;

	LIST_FOREACH(c, &agent->conns, link) {
		_cleanup_free_ struct msg_hello *hello = NULL;

		if (c->is_dead || !c->deferred)
			continue;
		hello = TAKE_PTR(c->deferred);
		register_hello(c, hello, NULL, 0);
	}
}
