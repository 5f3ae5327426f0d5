/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy-sim-engine simulates the hardware in one thread with one loop. Each turn reads the rings,
 * advances the timeline to the current time, publishes completions and then chooses its sleep. The
 * sleep ends at the next moment that a client could notice (tl_next_visible()), at a poll of host
 * memory, or when the trace must catch up. The engine computes the events in between later, with
 * exact times.
 *
 * Exactly one engine serves a folder, because the engine holds a lock file for its life. With
 * --daemon, the caller's process returns only when an engine listens: this engine, or another
 * engine that started first.
 */
#include "simgpu/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/program.h"
#include "simgpu/engine-pool.h"

#define TAG_SIGNAL 3u
#define TAG_EXPORTS 5u
#define TAG_COMPUTED 6u
#define BATCH 64
#define BACKOFF_MIN_NS (20 * NSEC_PER_USEC)
#define BACKOFF_MAX_NS (200 * NSEC_PER_USEC)

/* ---- faults ---- */

int engine_set_faults(struct engine *e, struct str text, struct error *err)
{
	struct simgpu_faults faults;
	int r = simgpu_config_parse_faults(&faults, text, err);

	r = r < 0 ? r : simgpu_faults_check(&faults, e->config.n, err);
	if (r < 0)
		return r;
	e->faults = faults;
	e->faults_since_ns = clock_now_ns();
	return 0;
}

bool engine_fault_oom(struct engine *e, uint32_t device)
{
	bool hit = false;

	for (uint32_t i = 0; i < e->faults.n; i++) {
		struct simgpu_fault *f = &e->faults.v[i];

		if (f->kind != SIMGPU_FAULT_OOM || f->device != device || f->done)
			continue;
		if (f->after) {
			f->after--;
			continue;
		}
		hit = true;
		f->done = !--f->count;
	}
	return hit;
}

void engine_device_error(struct engine *e, uint32_t device, uint32_t error)
{
	for (struct proc *p = e->procs; p; p = p->next)
		for (uint32_t i = 0; i < SIMGPU_MAX_CONTEXTS; i++)
			if (p->ctx[i] && p->ctx[i]->device == device)
				submit_fail(p->ctx[i], error);
}

/* Writes the line that the real driver writes to the kernel log. pid 0: it names no process. */
static void engine_log_xid(
	struct engine *e, const struct simgpu_state_device *d, uint64_t xid, uint32_t pid)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", e->dir, SIMGPU_FILE_KMSG);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	if (pid)
		dprintf(fd, "NVRM: Xid (PCI:%04x:%02x:%02x): %" PRIu64 ", pid=%u, name=simulated\n",
			d->pci_domain, d->pci_bus, d->pci_device, xid, pid);
	else
		dprintf(fd,
			"NVRM: Xid (PCI:%04x:%02x:%02x): %" PRIu64
			", pid='<unknown>', name=<unknown>\n",
			d->pci_domain, d->pci_bus, d->pci_device, xid);
}

/* pid: the process whose kernel came before the fault; 0: the fault came by time. */
static void device_fault(struct engine *e, struct simgpu_fault *f, uint32_t pid)
{
	struct simgpu_state_device *d = &e->state->devices[f->device];

	f->done = true;
	if (f->device >= e->config.n)
		return;
	if (f->kind == SIMGPU_FAULT_RESET) {
		atomic_store(&d->recovery, 0);
		d->lost = 0;
		return;
	}
	if (f->kind == SIMGPU_FAULT_XID) {
		engine_log_xid(e, d, f->count, f->pid ? f->pid : pid);
		if (f->action)
			atomic_store(&d->recovery, f->action);
		__atomic_store_n((uint64_t *)&d->xids, ((d->xids >> 16) + 1) << 16 | f->count,
			__ATOMIC_RELEASE);
		return;
	}
	if (f->kind == SIMGPU_FAULT_LOST)
		d->lost = 1;
	else
		__atomic_add_fetch((uint64_t *)&d->ecc_uncorrected, 1, __ATOMIC_RELAXED);
	engine_device_error(e, f->device,
		f->kind == SIMGPU_FAULT_LOST ? SIMGPU_DEVICE_UNAVAILABLE
					     : SIMGPU_ECC_UNCORRECTABLE);
}

uint64_t engine_fault_kernel(struct engine *e, uint32_t device, uint32_t pid)
{
	uint64_t factor = 1;

	for (uint32_t i = 0; i < e->faults.n; i++) {
		struct simgpu_fault *f = &e->faults.v[i];

		if (f->device != device || f->done || f->at_ns || f->kind == SIMGPU_FAULT_OOM)
			continue;
		if (f->after) {
			f->after--;
			continue;
		}
		if (f->kind == SIMGPU_FAULT_SLOW) {
			factor = MAX(factor, f->count);
		} else if (f->kind == SIMGPU_FAULT_HANG) {
			f->done = true;
			return UINT64_MAX;
		} else {
			device_fault(e, f, pid);
		}
	}
	return factor;
}

/* Applies the faults that are due. Returns the time of the next fault. */
static uint64_t timed_faults(struct engine *e, uint64_t now)
{
	uint64_t next = CLOCK_NEVER;

	for (uint32_t i = 0; i < e->faults.n; i++) {
		struct simgpu_fault *f = &e->faults.v[i];
		uint64_t at = clock_add_ns(e->faults_since_ns, f->at_ns);

		if (f->done || !f->at_ns)
			continue;
		if (at <= now)
			device_fault(e, f, 0);
		else
			next = MIN(next, at);
	}
	return next;
}

/* ---- a turn ---- */

static bool ingest_all(struct engine *e)
{
	bool visible = false;

	for (struct proc *p = e->active; p; p = p->active_next)
		visible |= submit_ingest(p);
	return visible;
}

/*
 * Returns whether a throttled process has room again. Such a process left work in its ring because
 * the device had enough work.
 */
static bool has_room_again(const struct engine *e)
{
	for (const struct proc *p = e->active; p; p = p->active_next)
		if (p->throttled && p->pending <= e->config.costs.queue_ops / 2)
			return true;
	return false;
}

static bool is_throttled(const struct engine *e)
{
	for (const struct proc *p = e->active; p; p = p->active_next)
		if (p->throttled)
			return true;
	return false;
}

uint64_t engine_catch_up(struct engine *e)
{
	uint64_t now = clock_now_ns();

	ingest_all(e);
	/*
	 * While work waits in rings, the engine advances event by event and takes more entries as
	 * soon as there is room, so the device never runs dry.
	 */
	while (is_throttled(e) && tl_next_event(e->tl) <= now) {
		tl_advance(e->tl, tl_next_event(e->tl));
		if (has_room_again(e))
			ingest_all(e);
	}
	tl_advance(e->tl, now);
	return now;
}

static void wake_clients(struct engine *e)
{
	for (struct proc *p = e->active; p; p = p->active_next) {
		struct simgpu_shm *shm = p->shm;

		if (!p->wake || p->dead)
			continue;
		p->wake = false;
		__atomic_add_fetch((uint32_t *)&shm->engine.wake_seq, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n((uint32_t *)&shm->client.waiters, __ATOMIC_SEQ_CST) ||
			__atomic_load_n((uint32_t *)&shm->client.ring_waiters, __ATOMIC_SEQ_CST))
			syscall(SYS_futex, (uint32_t *)&shm->engine.wake_seq, FUTEX_WAKE, INT32_MAX,
				NULL, NULL, 0);
	}
}

static bool is_quiet(const struct proc *p)
{
	return !p->pending && p->cb_given == p->cb_done && !p->throttled && !p->wake;
}

static void engine_set_doorbell(struct proc *p, enum simgpu_doorbell doorbell)
{
	__atomic_store_n((uint32_t *)&p->shm->engine.doorbell, doorbell, __ATOMIC_SEQ_CST);
}

static void engine_silence_doorbells(struct engine *e)
{
	for (struct proc *p = e->active; p; p = p->active_next)
		if (!p->dead)
			engine_set_doorbell(p, SIMGPU_DOORBELL_NONE);
}

/* Publishes the end of the engine's sleep. Work that cannot end before then needs no doorbell. */
static void publish_bounds(struct engine *e, uint64_t wake)
{
	bool waiting = tl_is_waiting(e->tl);

	e->turns++;
	for (struct tl_op *op = tl_visible(e->tl, NULL); op; op = tl_visible(e->tl, op)) {
		struct eop *o = CONTAINER_OF(op, struct eop, tl);

		if (!o->stream || o->stream->turn == e->turns)
			continue;
		o->stream->turn = e->turns;
		__atomic_store_n((uint64_t *)&o->proc->shm->streams[o->stream->slot].busy_until_ns,
			tl_stream_bound(e->tl, &o->stream->tl), __ATOMIC_RELAXED);
	}
	for (struct proc *p = e->active; p; p = p->active_next) {
		if (p->dead)
			continue;
		__atomic_store_n(
			(uint64_t *)&p->shm->engine.now_ns, tl_now(e->tl), __ATOMIC_RELAXED);
		__atomic_store_n((uint64_t *)&p->shm->engine.wake_at_ns, wake, __ATOMIC_RELEASE);
		/*
		 * The engine returns to a throttled process by itself, so the process must not
		 * ring.
		 */
		engine_set_doorbell(p,
			p->throttled                     ? SIMGPU_DOORBELL_NONE
				: waiting || !p->pending ? SIMGPU_DOORBELL_ALL
							 : SIMGPU_DOORBELL_VISIBLE);
	}
}

/*
 * A process that leaves the active list must ring for every submission. The function sets the
 * doorbell before its second look at the ring, so it misses no entry.
 */
static bool may_be_dropped(struct proc *p)
{
	if (p->dead)
		return true;
	if (!is_quiet(p) || !submit_ring_is_empty(p))
		return false;
	engine_set_doorbell(p, SIMGPU_DOORBELL_ALL);
	return submit_ring_is_empty(p);
}

static void drop_inactive(struct engine *e)
{
	struct proc **at = &e->active;

	while (*at) {
		struct proc *p = *at;

		if (!may_be_dropped(p)) {
			at = &p->active_next;
			continue;
		}
		*at = p->active_next;
		p->active = false;
	}
}

static uint64_t choose_wake(struct engine *e, uint64_t now, bool progress)
{
	const struct simgpu_costs *costs = &e->config.costs;
	uint64_t t, wait;
	bool exact;

	t = tl_next_visible(e->tl, &exact);
	if (t != TL_NEVER && !exact) {
		/*
		 * t may be too early, and then a turn finds nothing to do. The back-off limits such
		 * turns, and grows until a turn makes progress.
		 */
		e->backoff_ns = progress ? BACKOFF_MIN_NS : MIN(e->backoff_ns * 2, BACKOFF_MAX_NS);
		t = MAX(t, now + e->backoff_ns);
	}
	if (!tl_is_idle(e->tl))
		t = MIN(t, now + costs->catch_up_ns);
	if (is_throttled(e))
		t = MIN(t, now + NSEC_PER_MSEC);
	if (e->host_wait) {
		/*
		 * The longer a wait lasts, the less its precision matters. So the engine polls
		 * again after 1/32 of the time that the wait has lasted, at most 1 ms.
		 */
		wait = (now - e->host_wait_since) / 32;
		t = MIN(t, now + MIN(MAX(costs->poll_ns, wait), NSEC_PER_MSEC));
	}
	return MIN(t, timed_faults(e, now));
}

/* Processes everything up to now. Returns the time of the next turn. */
static uint64_t engine_turn(struct engine *e)
{
	uint64_t now, wake;
	bool progress = false, again;
	bool waited = e->host_wait;

	engine_silence_doorbells(e);
	do {
		now = engine_catch_up(e);
		for (struct proc *p = e->active; p; p = p->active_next)
			if (!p->dead)
				submit_look(p);
		e->host_wait = false;
		if (tl_is_waiting(e->tl))
			tl_recheck(e->tl);
		if (e->host_wait && !waited)
			e->host_wait_since = now;
		waited = e->host_wait;
		for (struct proc *p = e->active; p; p = p->active_next)
			progress |= p->wake;
		wake_clients(e);
		wake = choose_wake(e, now, progress);
		publish_bounds(e, wake);
		drop_inactive(e);
		/* Takes the entries for which the clients did not have to ring the doorbell. */
		again = ingest_all(e);
		for (struct proc *p = e->active; p; p = p->active_next)
			again |= p->pending &&
				*(uint32_t *)&p->shm->engine.doorbell == SIMGPU_DOORBELL_ALL &&
				!tl_is_waiting(e->tl);
	} while (again);
	record_now(e, now);
	return wake;
}

/* ---- the loop ---- */

static void engine_dispatch_event(struct engine *e, const struct epoll_event *ev, int signals)
{
	uint64_t tag = ev->data.u64;
	struct signalfd_siginfo info;

	if (tag == ENGINE_TAG_LISTEN) {
		serve_accept(e);
	} else if (tag == TAG_EXPORTS) {
		compute_stop();
		mem_phys_settle(e->mem);
		compute_resume();
	} else if (tag == TAG_COMPUTED) {
		uint64_t n;

		if (read(pool_wake_fd(), &n, sizeof(n)) < 0)
			log_debug("computed: %m");
		code_settle();
		pool_reap();
	} else if (tag == TAG_SIGNAL) {
		while (read(signals, &info, sizeof(info)) == sizeof(info)) {
			struct simgpu_config c;
			struct error err = {0};

			if (info.ssi_signo != SIGHUP) {
				e->stopping = true;
				continue;
			}
			if (simgpu_config_load(&c, e->dir, e->devices, &err) < 0) {
				log_warn("the former faults stay in force: %s", err.msg);
				continue;
			}
			e->faults = c.faults;
			e->faults_since_ns = clock_now_ns();
		}
	} else {
		serve_ready((struct proc *)(uintptr_t)(tag & ~UINT64_C(7)), (uint32_t)(tag & 7));
	}
}

static bool engine_is_over(struct engine *e, uint64_t now, uint64_t *wake)
{
	uint64_t end;

	if (e->stopping)
		return true;
	if (e->clients) {
		e->empty_since_ns = 0;
		return false;
	}
	if (e->config.stay)
		return false;
	if (!e->empty_since_ns)
		e->empty_since_ns = now;
	/* Before its first client, the engine waits at least 5 s. */
	end = clock_add_ns(e->empty_since_ns,
		e->clients_ever ? e->config.linger_ns : MAX(e->config.linger_ns, 5 * NSEC_PER_SEC));
	*wake = MIN(*wake, end);
	return now >= end;
}

static int engine_loop(struct engine *e, int signals)
{
	struct epoll_event events[BATCH];

	for (;;) {
		uint64_t wake = engine_turn(e), now = clock_now_ns();
		struct timespec timeout;
		int n;

		if (engine_is_over(e, now, &wake))
			return 0;
		serve_end_rest(e, now, &wake);
		wake = MIN(wake, now + 3600 * NSEC_PER_SEC);
		wake = wake > now ? wake - now : 0;
		timeout = (struct timespec){
			(time_t)(wake / NSEC_PER_SEC), (long)(wake % NSEC_PER_SEC)};
		n = epoll_pwait2(e->epoll, events, BATCH, &timeout, NULL);
		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++)
			engine_dispatch_event(e, &events[i], signals);
		drop_inactive(e);
		serve_reap(e);
	}
}

/* ---- start and end ---- */

struct options {
	const char *dir, *devices;
	bool daemon, stay;
};

static int default_dir(char *buf, size_t size)
{
	return simgpu_dir(buf, size);
}

static int make_dir(struct engine *e, const struct options *o, struct error *err)
{
	_cleanup_free_ char *real = NULL;
	char path[sizeof(e->dir)];

	if (o->dir ? snprintf(path, sizeof(path), "%s", o->dir) >= (int)sizeof(path)
		   : default_dir(path, sizeof(path)) < 0)
		return fail(err, ENAMETOOLONG, "the folder's path is too long");
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return fail_errno(err, errno, "create folder '%s'", path);
	real = realpath(path, NULL);
	if (!real)
		return fail_errno(err, errno, "folder '%s'", path);
	if (str_copy(e->dir, sizeof(e->dir), str_from(real)) < 0)
		return fail(err, ENAMETOOLONG, "folder '%s': its real path is too long", path);
	return 0;
}

/*
 * Returns whether the held lock file is still the one in the folder. An ending engine may have
 * removed the file, or a user may have removed the folder.
 */
static bool engine_is_folder_there(const struct engine *e, int lock)
{
	char path[4096];
	struct stat held, there;

	snprintf(path, sizeof(path), "%s/%s", e->dir, SIMGPU_FILE_LOCK);
	return !fstat(lock, &held) && !stat(path, &there) && held.st_dev == there.st_dev &&
		held.st_ino == there.st_ino;
}

/* Returns 1 if another engine holds the lock. Children inherit the lock with the descriptor. */
static int take_lock(const struct engine *e, int *ret_fd, struct error *err)
{
	char path[4096];
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", e->dir, SIMGPU_FILE_LOCK);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return 1;
		return fail_errno(err, errno, "lock '%s'", path);
	}
	if (!engine_is_folder_there(e, fd))
		return 1;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static bool can_connect(const struct engine *e)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	return fd >= 0 &&
		snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", e->dir,
			SIMGPU_FILE_SOCKET) < (int)sizeof(addr.sun_path) &&
		!connect(fd, (struct sockaddr *)&addr, sizeof(addr));
}

/*
 * Another engine holds the lock. That engine will soon listen, or is ending and will release the
 * lock.
 */
static int wait_for_other(const struct engine *e, int *ret_fd, struct error *err)
{
	uint64_t deadline = clock_now_ns() + 10 * NSEC_PER_SEC;

	while (clock_now_ns() < deadline) {
		int r;

		if (can_connect(e))
			return 1;
		r = take_lock(e, ret_fd, err);
		if (r <= 0)
			return r;
		clock_sleep_until_ns(clock_now_ns() + 2 * NSEC_PER_MSEC);
	}
	return fail(err, ETIMEDOUT, "another engine holds '%s/%s' and does not answer", e->dir,
		SIMGPU_FILE_LOCK);
}

static int tl_start(struct engine *e, struct error *err)
{
	struct tl_params params = {
		.devices = e->config.n,
		.slice_ns = e->config.costs.slice_ns,
		.switch_ns = e->config.costs.switch_ns,
		.launch_ns = e->config.costs.launch_ns,
	};
	struct tl_hooks hooks = submit_make_hooks(e);
	int r = tl_new(&params, &hooks, e->start_ns, &e->tl);

	return r < 0 ? fail(err, -r, "timeline") : 0;
}

static int engine_start(struct engine *e, const struct options *o, int signals, struct error *err)
{
	struct epoll_event listen_ev = {.events = EPOLLIN, .data.u64 = ENGINE_TAG_LISTEN};
	struct epoll_event signal_ev = {.events = EPOLLIN, .data.u64 = TAG_SIGNAL};
	struct epoll_event exports_ev = {.events = EPOLLIN, .data.u64 = TAG_EXPORTS};
	struct epoll_event computed_ev = {.events = EPOLLIN, .data.u64 = TAG_COMPUTED};
	uint64_t totals[SIMGPU_MAX_DEVICES];
	int r;

	e->start_ns = e->sample_ns = e->faults_since_ns = clock_now_ns();
	e->backoff_ns = BACKOFF_MIN_NS;
	e->config.stay |= o->stay;
	e->faults = e->config.faults;
	tenants_set_limit(e->config.costs.compute_bytes);
	for (uint32_t i = 0; i < e->config.n; i++)
		totals[i] = e->config.devices[i].mem_bytes;
	r = mem_new(totals, e->config.n, record_account, e, &e->mem);
	if (r < 0)
		return fail(err, -r, "reserve the address range 0x%llx",
			(unsigned long long)SIMGPU_VA_BASE);
	r = tl_start(e, err);
	if (r >= 0)
		r = record_open(e, err);
	if (r < 0)
		return r;
	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll < 0)
		return fail_errno(err, errno, "epoll");
	r = serve_listen(e, err);
	if (r < 0)
		return r;
	if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->listen, &listen_ev) < 0 ||
		epoll_ctl(e->epoll, EPOLL_CTL_ADD, signals, &signal_ev) < 0 ||
		epoll_ctl(e->epoll, EPOLL_CTL_ADD, mem_exports_fd(e->mem), &exports_ev) < 0 ||
		epoll_ctl(e->epoll, EPOLL_CTL_ADD, pool_wake_fd(), &computed_ev) < 0)
		return fail_errno(err, errno, "epoll");
	return 0;
}

static void remove_file(const struct engine *e, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", e->dir, name);
	unlink(path);
}

/*
 * Removes the folder's files, but keeps the trace in a folder that the user chose. The socket is
 * the first and the lock the last, so that a new engine either finds a listener or can take the
 * lock. If the lock file has changed, another engine may own the folder, so nothing is removed.
 */
static void engine_end(struct engine *e, int lock, bool keep)
{
	const bool is_ours = engine_is_folder_there(e, lock);

	if (is_ours)
		remove_file(e, SIMGPU_FILE_SOCKET);
	for (struct proc *p = e->procs; p; p = p->next) {
		if (p->shm) {
			__atomic_store_n((uint32_t *)&p->shm->engine.dead, 1, __ATOMIC_SEQ_CST);
			p->wake = true;
			submit_activate(p);
		}
	}
	wake_clients(e);
	for (struct proc *p = e->procs; p; p = p->next)
		serve_drop(p);
	drop_inactive(e);
	serve_reap(e);
	pool_end();
	code_settle();
	pool_reap();
	record_now(e, tl_now(e->tl));
	fd_close(e->listen);
	fd_close(e->epoll);
	tl_free(e->tl);
	record_close(e);
	mem_free_all(e->mem);
	if (!is_ours)
		return;
	remove_file(e, SIMGPU_FILE_STATE);
	if (keep)
		return;
	remove_file(e, SIMGPU_FILE_TRACE);
	remove_file(e, SIMGPU_FILE_ACCOUNT);
	remove_file(e, SIMGPU_FILE_LOG);
	remove_file(e, SIMGPU_FILE_KMSG);
	remove_file(e, SIMGPU_FILE_LOCK);
	rmdir(e->dir); /* fails if the folder has other files, a config for example */
}

static void engine_set_priority(void)
{
	struct sched_param rr = {.sched_priority = 1};
	struct rlimit files;

	clock_set_slack_ns(1);
	/*
	 * Hardware does not wait for a CPU, so the engine asks for a real-time priority. Without
	 * the right to set it, the engine keeps its normal priority.
	 */
	sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &rr);
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

/* The parent exits when the child reports that it listens or has failed. */
static int to_background(const struct engine *e, int *ret_ready, struct error *err)
{
	char path[4096], said[1 + sizeof(err->msg)] = {1};
	int pipes[2], status = 0;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return fail_errno(err, errno, "pipe");
	pid = fork();
	if (pid < 0)
		return fail_errno(err, errno, "fork");
	if (pid) {
		close(pipes[1]);
		/*
		 * Reaps the intermediate child, because an init in a container may reap no zombies.
		 */
		waitpid(pid, NULL, 0);
		if (read(pipes[0], said, sizeof(said) - 1) > 1)
			log_error("%s", said + 1);
		_exit(said[0]);
	}
	close(pipes[0]);
	setsid();
	pid = fork();
	if (pid)
		_exit(status);
	snprintf(path, sizeof(path), "%s/%s", e->dir, SIMGPU_FILE_LOG);
	status = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (status >= 0) {
		dup2(status, 1);
		dup2(status, 2);
		close(status);
	}
	status = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (status >= 0) {
		dup2(status, 0);
		close(status);
	}
	if (chdir("/") < 0)
		log_debug("chdir: %m");
	*ret_ready = pipes[1];
	return 0;
}

/*
 * Reports the failure to the process that started the engine, because the log's folder may be full
 * and few users look there.
 */
static void tell_failure(int ready, const struct error *err)
{
	char said[1 + sizeof(err->msg)] = {1};

	snprintf(said + 1, sizeof(said) - 1, "%s", err->msg);
	if (ready >= 0 && write(ready, said, 1 + strlen(said + 1)) < 0)
		log_debug("the program that started this engine has exited");
}

static int engine_run(const struct options *o, struct error *err)
{
	static struct engine e = {
		.epoll = -1, .listen = -1, .trace_file.fd = -1, .account_file.fd = -1};
	_cleanup_close_ int lock = -1, signals = -1, ready = -1;
	char chosen[sizeof(e.dir)], ok = 0;
	bool keep;
	sigset_t set;
	int r;

	r = make_dir(&e, o, err);
	if (r < 0)
		return r;
	keep = !(snprintf(chosen, sizeof(chosen), "/dev/shm/divvy-sim-%u", getuid()) > 0 &&
		!strcmp(chosen, e.dir));
	r = take_lock(&e, &lock, err);
	if (r == 1 && o->daemon)
		r = wait_for_other(&e, &lock, err);
	if (r == 1)
		return o->daemon ? 0 : fail(err, EBUSY, "an engine already serves '%s'", e.dir);
	if (r < 0)
		return r;
	e.devices = o->devices;
	r = simgpu_config_load(&e.config, e.dir, e.devices, err);
	if (r < 0)
		return r;
	if (o->daemon) {
		r = to_background(&e, &ready, err);
		if (r < 0)
			return r;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signals = signal_fd_new(&set);
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	engine_set_priority();
	if (signals < 0)
		return fail_errno(err, -signals, "signals");
	r = engine_start(&e, o, signals, err);
	if (r < 0) {
		tell_failure(ready, err);
		return r;
	}
	if (ready >= 0 && write(ready, &ok, 1) != 1)
		log_debug("the program that started this engine has exited");
	ready = fd_close(ready);
	log_info("simulating %u device(s) in %s", e.config.n, e.dir);
	r = engine_loop(&e, signals);
	engine_end(&e, lock, keep);
	return r < 0 ? fail(err, -r, "loop") : 0;
}

static int set_foreground(void *data, const char *value, struct error *err)
{
	((struct options *)data)->daemon = false;
	return 0;
}

static const struct option_row table[] = {
	{"dir", "DIR", "the machine's folder (default: $DIVVY_SIM, or /dev/shm/divvy-sim-UID)",
		offsetof(struct options, dir)},
	{"devices", "SPEC", "the devices, such as 2xH200-141Gi", offsetof(struct options, devices)},
	{"stay", NULL, "stay when the last program has left", offsetof(struct options, stay)},
	{"foreground", NULL, "stay in the foreground (default)", .set = set_foreground},
	{"daemon", NULL, "return when an engine serves the folder, and serve in the background",
		offsetof(struct options, daemon)},
	{0},
};

static const struct program program = {
	.name = "divvy-sim-engine",
	.sentence = "Simulates GPUs for the programs that use the folder.",
	.options = table,
	.is_tool = true,
};

int main(int argc, char **argv)
{
	struct options o = {.daemon = false};
	sigset_t none;
	struct error err = {0};
	int r;

	log_init("divvy-sim-engine");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	r = program_parse(&program, &o, argc, argv, &err);
	if (r > 0)
		return 0;
	if (r < 0) {
		log_error("%s", err.msg);
		return 2;
	}
	/* Descriptors of the program that started the engine must not stay open here. */
	if (o.daemon)
		close_range(3, ~0u, 0);
	if (engine_run(&o, &err) < 0) {
		log_error("%s", err.msg);
		return 1;
	}
	return 0;
}
