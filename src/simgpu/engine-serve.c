/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections and control calls. The engine answers each request at once, except that the
 * translation of code takes a thread, and the client waits for its end. Before a request, the
 * engine advances to the current time and takes the entries in the client's ring. So the call takes
 * effect after everything that the client has submitted before. The engine drops a connection that
 * ends. The engine also drops a connection whose process has died, since a forked child may hold
 * the socket open. The engine frees the client's objects at once, and its struct proc after the
 * current batch of epoll events, which may still refer to the struct.
 */
#include "simgpu/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/listener.h"
#include "base/log.h"
#include "base/process.h"
#include "simgpu/engine-heap.h"

struct call {
	struct proc *p;
	const struct simgpu_request *q;
	struct simgpu_reply *a;
	int fd;      /* descriptor that came with the request, or -1 */
	int send[2]; /* descriptors for the reply; closed after the reply if close_sent is set */
	uint32_t nsend;
	bool close_sent;
	bool is_later; /* the reply follows by serve_reply() */
};

/* ---- connections ---- */

static struct host_memory *host_memory_new(pid_t pid)
{
	struct host_memory *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	host->refs = 1;
	host->pid = pid;
	host->fd = -1;
	pthread_mutex_init(&host->lock, NULL);
	return host;
}

int serve_listen(struct engine *e, struct error *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int r = snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", e->dir, SIMGPU_FILE_SOCKET);

	if (r >= (int)sizeof(addr.sun_path))
		return fail(err, ENAMETOOLONG, "folder '%s': its path may have at most %zu bytes",
			e->dir, sizeof(addr.sun_path) - sizeof(SIMGPU_FILE_SOCKET) - 1);
	unlink(addr.sun_path);
	e->listen = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (e->listen < 0)
		return fail_errno(err, errno, "socket");
	if (bind(e->listen, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
		listen(e->listen, 4096) < 0)
		return fail_errno(err, errno, "listen on '%s'", addr.sun_path);
	return 0;
}

static int serve_watch_fd(struct engine *e, int fd, uint64_t tag)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = tag};

	return epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/*
 * A struct proc is aligned, so the low bits of its address are free for `which`, the number of one
 * of the process's descriptors.
 */
static int watch_proc(struct proc *p, int fd, unsigned int which)
{
	return serve_watch_fd(p->engine, fd, (uint64_t)(uintptr_t)p | which);
}

static void listen_for(struct engine *e, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.u64 = ENGINE_TAG_LISTEN};

	epoll_ctl(e->epoll, EPOLL_CTL_MOD, e->listen, &ev);
}

void serve_end_rest(struct engine *e, uint64_t now, uint64_t *wake)
{
	if (!e->listen_rests_ns)
		return;
	if (now < e->listen_rests_ns) {
		*wake = MIN(*wake, e->listen_rests_ns);
		return;
	}
	e->listen_rests_ns = 0;
	listen_for(e, EPOLLIN);
}

void serve_accept(struct engine *e)
{
	for (;;) {
		struct ucred cred;
		socklen_t len = sizeof(cred);
		struct proc *p;
		int fd = accept4(e->listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && listener_is_short(errno)) {
			e->listen_rests_ns = clock_now_ns() + LISTENER_REST_NS;
			listen_for(e, 0);
		}
		if (fd < 0)
			return;
		p = calloc(1, sizeof(*p));
		if (!p || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
			free(p);
			close(fd);
			continue;
		}
		p->engine = e;
		p->id = ++e->next_proc;
		p->sock = fd;
		p->doorbell = -1;
		p->host = host_memory_new(cred.pid);
		p->tenant = tenant_get(cred.pid);
		p->pid = cred.pid;
		p->mem.pid = (uint32_t)cred.pid;
		p->mem.user = p;
		TAILQ_INIT(&p->cb_wait);
		for (int i = 0; i < SIMGPU_MAX_DEVICES; i++)
			p->state_slot[i] = -1;
		process_start_ticks(cred.pid, &p->start_time);
		p->pidfd = pidfd_new(cred.pid);
		p->next = e->procs;
		e->procs = p;
		e->clients++;
		e->clients_ever = true;
		if (!p->host || !p->tenant || watch_proc(p, fd, 0) < 0 ||
			(p->pidfd >= 0 && watch_proc(p, p->pidfd, 1) < 0))
			serve_drop(p);
	}
}

static void ctx_free(struct ectx *ctx)
{
	struct proc *p = ctx->proc;
	struct engine *e = p->engine;
	struct module *m;

	submit_fail(ctx, SIMGPU_INVALID_CONTEXT);
	submit_drop_streams(p, ctx);
	tl_ctx_remove(e->tl, &ctx->tl);
	mem_free_ctx(e->mem, &p->mem, ctx->slot);
	mem_uncharge(e->mem, &p->mem, ctx->device, ctx->code_bytes, SIMGPU_ACCOUNT_MODULE);
	mem_uncharge(e->mem, &p->mem, ctx->device, ctx->reserve_bytes, SIMGPU_ACCOUNT_CONTEXT);
	mem_uncharge(e->mem, &p->mem, ctx->device, ctx->context_bytes, SIMGPU_ACCOUNT_CONTEXT);
	while ((m = LIST_FIRST(&ctx->modules))) {
		LIST_REMOVE(m, link);
		code_unref(m->code);
		free(m);
	}
	heap_free(ctx->heap);
	compute_drop_printed(ctx);
	record_contexts(p, ctx->device, -1);
	p->ctx[ctx->slot] = NULL;
	free(ctx);
}

void serve_drop(struct proc *p)
{
	struct engine *e = p->engine;

	if (p->dead)
		return;
	log_debug("process %d has exited or closed its connection", p->pid);
	p->dead = true;
	code_cancel(p);
	compute_stop();
	for (int i = 0; i < SIMGPU_MAX_CONTEXTS; i++)
		if (p->ctx[i])
			ctx_free(p->ctx[i]);
	for (uint32_t i = 0; p->events && i < SIMGPU_MAX_EVENTS; i++)
		submit_event_unbind(p, i);
	for (uint32_t i = 0; i < SIMGPU_MAX_GRAPHS; i++)
		submit_graph_unref(p->graphs[i]);
	mem_free_owner(e->mem, &p->mem);
	compute_resume();
	record_exited(p);
	fd_close(p->sock);
	fd_close(p->pidfd);
	fd_close(p->doorbell);
	e->clients--;
}

void serve_reap(struct engine *e)
{
	struct proc **at = &e->procs;

	while (*at) {
		struct proc *p = *at;

		if (!p->dead || p->active) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		if (p->shm)
			munmap(p->shm, sizeof(*p->shm));
		if (p->streams)
			munmap(p->streams, SIMGPU_MAX_STREAMS * sizeof(*p->streams));
		if (p->events)
			munmap(p->events, SIMGPU_MAX_EVENTS * sizeof(*p->events));
		host_memory_unref(p->host);
		tenant_unref(p->tenant);
		free(p);
	}
}

/* ---- calls ---- */

static uint32_t serve_errno_status(int r)
{
	switch (r) {
	case -ENOMEM: return SIMGPU_OUT_OF_MEMORY;
	case -EPERM:
	case -EINVAL:
	case -ENOENT: return SIMGPU_INVALID_VALUE;
	default: return r < 0 ? SIMGPU_UNKNOWN : SIMGPU_OK;
	}
}

static struct ectx *serve_call_ctx(const struct call *c)
{
	return c->q->context < SIMGPU_MAX_CONTEXTS ? c->p->ctx[c->q->context] : NULL;
}

static bool is_device(const struct call *c)
{
	return c->q->device >= 0 && (uint32_t)c->q->device < c->p->engine->config.n;
}

/* Maps a large, mostly empty table. The kernel commits its pages when they are touched. */
static void *serve_map_table(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int make_shm(struct proc *p, int *ret_fd)
{
	_cleanup_close_ int fd = memfd_new("divvy-sim-client", sizeof(struct simgpu_shm));
	struct map map;
	int r;

	if (fd < 0)
		return fd;
	r = memfd_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW);
	if (r >= 0)
		r = map_fd(fd, sizeof(struct simgpu_shm), PROT_READ | PROT_WRITE, &map);
	if (r < 0)
		return r;
	p->shm = map.p;
	p->shm->magic = SIMGPU_MAGIC;
	p->shm->abi = SIMGPU_ABI;
	p->shm->ring_bytes = SIMGPU_RING_BYTES;
	p->shm->bytes = sizeof(struct simgpu_shm);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static uint32_t do_hello(struct call *c)
{
	struct proc *p = c->p;
	int fd;

	if (c->q->arg[0] != SIMGPU_ABI) {
		snprintf(c->a->text, sizeof(c->a->text), "the engine speaks version %u, not %llu",
			SIMGPU_ABI, (unsigned long long)c->q->arg[0]);
		return SIMGPU_NOT_SUPPORTED;
	}
	if (p->greeted || c->q->arg[1] > SIMGPU_ROLE_ADMIN)
		return SIMGPU_INVALID_VALUE;
	p->role = (enum simgpu_role)c->q->arg[1];
	p->greeted = true;
	c->a->arg[0] = (uint64_t)getpid();
	c->a->arg[1] = p->engine->config.n;
	if (p->role != SIMGPU_ROLE_CUDA)
		return SIMGPU_OK;
	p->host->fd = c->fd < 0 ? -1 : fcntl(c->fd, F_DUPFD_CLOEXEC, 3);
	p->streams = serve_map_table(SIMGPU_MAX_STREAMS * sizeof(*p->streams));
	p->events = serve_map_table(SIMGPU_MAX_EVENTS * sizeof(*p->events));
	p->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!p->streams || !p->events || p->doorbell < 0 || watch_proc(p, p->doorbell, 2) < 0 ||
		make_shm(p, &fd) < 0)
		return SIMGPU_OUT_OF_MEMORY;
	c->send[0] = fd;
	c->send[1] = fcntl(p->doorbell, F_DUPFD_CLOEXEC, 3);
	c->nsend = 2;
	c->close_sent = true;
	return SIMGPU_OK;
}

static uint32_t do_sync(struct call *c)
{
	c->a->arg[0] = tl_now(c->p->engine->tl);
	return SIMGPU_OK;
}

static uint64_t serve_context_bytes(const struct engine *e, uint32_t device)
{
	uint64_t bytes = e->config.costs.context_bytes;

	if (!e->config.costs.context_fixed)
		bytes = MIN(bytes, mem_total(e->mem, device) / 64);
	return (bytes + SIMGPU_GRANULE - 1) / SIMGPU_GRANULE * SIMGPU_GRANULE;
}

static uint32_t do_ctx_create(struct call *c)
{
	struct proc *p = c->p;
	struct engine *e = p->engine;
	uint32_t device = (uint32_t)c->q->device;
	struct ectx *ctx;
	uint64_t bytes;

	if (!is_device(c))
		return SIMGPU_INVALID_DEVICE;
	if (c->q->context >= SIMGPU_MAX_CONTEXTS || p->ctx[c->q->context] || !p->shm)
		return SIMGPU_INVALID_VALUE;
	if (e->state->devices[device].lost)
		return SIMGPU_DEVICE_UNAVAILABLE;
	bytes = serve_context_bytes(e, device);
	if (engine_fault_oom(e, device) ||
		mem_charge(e->mem, &p->mem, device, bytes, SIMGPU_ACCOUNT_CONTEXT) < 0)
		return SIMGPU_OUT_OF_MEMORY;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx) {
		mem_uncharge(e->mem, &p->mem, device, bytes, SIMGPU_ACCOUNT_CONTEXT);
		return SIMGPU_OUT_OF_MEMORY;
	}
	ctx->proc = p;
	ctx->slot = c->q->context;
	ctx->id = ++e->next_ctx;
	ctx->device = device;
	ctx->context_bytes = bytes;
	tl_ctx_add(e->tl, &ctx->tl, (uint16_t)device);
	__atomic_store_n((uint32_t *)&p->shm->contexts[ctx->slot].error, 0, __ATOMIC_RELEASE);
	p->ctx[ctx->slot] = ctx;
	record_contexts(p, device, 1);
	return SIMGPU_OK;
}

static uint32_t do_ctx_destroy(struct call *c)
{
	struct ectx *ctx = serve_call_ctx(c);

	if (!ctx)
		return SIMGPU_INVALID_CONTEXT;
	ctx_free(ctx);
	return SIMGPU_OK;
}

/* Changes the charge from *bytes to `to`. Only a larger charge may fail. */
static uint32_t serve_recharge(
	struct ectx *ctx, uint64_t *bytes, uint64_t to, enum simgpu_account_reason reason)
{
	struct engine *e = ctx->proc->engine;
	uint64_t a = (*bytes + SIMGPU_GRANULE - 1) / SIMGPU_GRANULE * SIMGPU_GRANULE;
	uint64_t b = (to + SIMGPU_GRANULE - 1) / SIMGPU_GRANULE * SIMGPU_GRANULE;

	if (to > mem_total(e->mem, ctx->device))
		return SIMGPU_OUT_OF_MEMORY;
	if (b > a) {
		if (engine_fault_oom(e, ctx->device) ||
			mem_charge(e->mem, &ctx->proc->mem, ctx->device, b - a, reason) < 0)
			return SIMGPU_OUT_OF_MEMORY;
	} else {
		mem_uncharge(e->mem, &ctx->proc->mem, ctx->device, a - b, reason);
	}
	*bytes = to;
	return SIMGPU_OK;
}

static uint32_t do_ctx_reserve(struct call *c)
{
	struct ectx *ctx = serve_call_ctx(c);

	if (!ctx)
		return SIMGPU_INVALID_CONTEXT;
	return serve_recharge(ctx, &ctx->reserve_bytes, c->q->arg[0], SIMGPU_ACCOUNT_CONTEXT);
}

static uint32_t do_module_load(struct call *c)
{
	struct ectx *ctx = serve_call_ctx(c);
	struct module *m;
	uint32_t status;

	if (!ctx)
		return SIMGPU_INVALID_CONTEXT;
	if (c->q->arg[0] > mem_total(c->p->engine->mem, ctx->device))
		return SIMGPU_OUT_OF_MEMORY;
	m = calloc(1, sizeof(*m));
	if (!m)
		return SIMGPU_OUT_OF_MEMORY;
	status = serve_recharge(
		ctx, &ctx->code_bytes, ctx->code_bytes + c->q->arg[0], SIMGPU_ACCOUNT_MODULE);
	if (status != SIMGPU_OK) {
		free(m);
		return status;
	}
	m->bytes = c->q->arg[0];
	m->id = c->a->id = ++c->p->engine->next_id;
	LIST_INSERT_HEAD(&ctx->modules, m, link);
	return SIMGPU_OK;
}

static uint32_t do_module_unload(struct call *c)
{
	struct ectx *ctx = serve_call_ctx(c);
	struct module *m;

	if (!ctx)
		return SIMGPU_INVALID_CONTEXT;
	LIST_FOREACH(m, &ctx->modules, link) {
		if (m->id != c->q->id)
			continue;
		LIST_REMOVE(m, link);
		code_unref(m->code);
		serve_recharge(
			ctx, &ctx->code_bytes, ctx->code_bytes - m->bytes, SIMGPU_ACCOUNT_MODULE);
		free(m);
		return SIMGPU_OK;
	}
	return SIMGPU_INVALID_VALUE;
}

static uint32_t do_module_code(struct call *c)
{
	struct ectx *ctx = serve_call_ctx(c);
	struct module *m;
	uint32_t status;

	if (!ctx)
		return SIMGPU_INVALID_CONTEXT;
	LIST_FOREACH(m, &ctx->modules, link)
		if (m->id == c->q->id)
			break;
	if (!m || c->fd < 0)
		return SIMGPU_INVALID_VALUE;
	status = code_load(ctx, m, c->fd, c->q);
	c->is_later = status == SIMGPU_OK;
	return status;
}

static uint32_t do_printed(struct call *c)
{
	struct ectx *ctx = serve_call_ctx(c);
	int fd;

	if (!ctx)
		return SIMGPU_INVALID_CONTEXT;
	fd = compute_take_printed(ctx);
	if (fd >= 0) {
		c->send[c->nsend++] = fd;
		c->close_sent = true;
	}
	return SIMGPU_OK;
}

static uint32_t do_mem_alloc(struct call *c)
{
	struct ectx *ctx = serve_call_ctx(c);
	struct engine *e = c->p->engine;
	int fd = -1, r;

	if (!ctx)
		return SIMGPU_INVALID_CONTEXT;
	if (c->q->kind > SIMGPU_MEM_MANAGED || !c->q->arg[0])
		return SIMGPU_INVALID_VALUE;
	if (engine_fault_oom(e, ctx->device))
		return SIMGPU_OUT_OF_MEMORY;
	r = mem_alloc(e->mem, &c->p->mem, ctx->slot, ctx->device, (enum simgpu_mem_kind)c->q->kind,
		c->q->arg[0], &c->a->ptr, &fd);
	c->a->arg[0] = c->q->arg[0];
	if (fd >= 0) {
		c->send[0] = fd;
		c->nsend = 1;
		c->close_sent = true;
	}
	return serve_errno_status(r);
}

static uint32_t do_mem_free(struct call *c)
{
	return serve_errno_status(mem_free(c->p->engine->mem, &c->p->mem, c->q->ptr));
}

static uint32_t do_mem_query(struct call *c)
{
	struct mem_info info;
	int r = mem_query(c->p->engine->mem, c->q->ptr, &info);

	if (r < 0)
		return SIMGPU_INVALID_VALUE;
	c->a->ptr = info.base;
	c->a->arg[0] = info.bytes;
	c->a->arg[1] = info.owner->pid;
	c->a->arg[2] = info.resident_bytes;
	c->a->kind = info.kind;
	c->a->device = (int32_t)info.device;
	c->a->context = info.owner == &c->p->mem ? info.ctx : MEM_NO_CTX;
	c->a->id = info.id;
	return SIMGPU_OK;
}

static uint32_t do_mem_info(struct call *c)
{
	const struct memory *m = c->p->engine->mem;

	if (!is_device(c))
		return SIMGPU_INVALID_DEVICE;
	c->a->arg[1] = mem_total(m, (uint32_t)c->q->device);
	c->a->arg[0] = c->a->arg[1] - mem_used(m, (uint32_t)c->q->device);
	return SIMGPU_OK;
}

static uint32_t do_mem_advise(struct call *c)
{
	struct mem_info info;

	if (mem_query(c->p->engine->mem, c->q->ptr, &info) < 0 || info.kind != SIMGPU_MEM_MANAGED)
		return SIMGPU_INVALID_VALUE;
	return SIMGPU_OK; /* the engine accepts advice without any effect */
}

static uint32_t do_va_reserve(struct call *c)
{
	return serve_errno_status(mem_reserve(
		c->p->engine->mem, &c->p->mem, c->q->arg[0], c->q->arg[1], c->q->ptr, &c->a->ptr));
}

static uint32_t do_va_free(struct call *c)
{
	return serve_errno_status(
		mem_unreserve(c->p->engine->mem, &c->p->mem, c->q->ptr, c->q->arg[0]));
}

static uint32_t do_vmm_create(struct call *c)
{
	struct engine *e = c->p->engine;

	if (!is_device(c))
		return SIMGPU_INVALID_DEVICE;
	if (engine_fault_oom(e, (uint32_t)c->q->device))
		return SIMGPU_OUT_OF_MEMORY;
	return serve_errno_status(mem_phys_create(
		e->mem, &c->p->mem, (uint32_t)c->q->device, c->q->arg[0], &c->a->id));
}

static uint32_t do_vmm_release(struct call *c)
{
	return serve_errno_status(mem_phys_release(c->p->engine->mem, &c->p->mem, c->q->id));
}

static uint32_t do_vmm_map(struct call *c)
{
	return serve_errno_status(mem_map(
		c->p->engine->mem, &c->p->mem, c->q->ptr, c->q->arg[0], c->q->arg[1], c->q->id));
}

static uint32_t do_vmm_unmap(struct call *c)
{
	return serve_errno_status(
		mem_unmap(c->p->engine->mem, &c->p->mem, c->q->ptr, c->q->arg[0]));
}

static uint32_t do_vmm_access(struct call *c)
{
	if (!is_device(c))
		return SIMGPU_INVALID_DEVICE;
	return serve_errno_status(
		mem_set_access(c->p->engine->mem, &c->p->mem, c->q->ptr, c->q->arg[0],
			(uint32_t)c->q->device, (uint32_t)MIN(c->q->arg[1], (uint64_t)UINT32_MAX)));
}

static uint32_t do_vmm_export(struct call *c)
{
	int fd = mem_phys_export(c->p->engine->mem, &c->p->mem, c->q->id);

	if (fd < 0)
		return serve_errno_status(fd);
	c->send[0] = fd;
	c->nsend = 1;
	c->close_sent = true;
	return SIMGPU_OK;
}

static uint32_t vmm_info(struct call *c, uint64_t id)
{
	uint32_t device = 0;
	int r = mem_phys_info(c->p->engine->mem, &c->p->mem, id, &c->a->arg[0], &device);

	c->a->id = id;
	c->a->device = (int32_t)device;
	return serve_errno_status(r);
}

static uint32_t do_vmm_import(struct call *c)
{
	uint64_t id;
	int r;

	if (c->fd < 0)
		return SIMGPU_INVALID_VALUE;
	r = mem_phys_import(c->p->engine->mem, &c->p->mem, c->fd, &id);
	return r < 0 ? serve_errno_status(r) : vmm_info(c, id);
}

static uint32_t do_vmm_retain(struct call *c)
{
	return serve_errno_status(
		mem_phys_retain(c->p->engine->mem, &c->p->mem, c->q->ptr, &c->a->id));
}

static uint32_t do_vmm_info(struct call *c)
{
	return vmm_info(c, c->q->id);
}

static uint32_t do_pool_create(struct call *c)
{
	struct engine *e = c->p->engine;

	if (!is_device(c))
		return SIMGPU_INVALID_DEVICE;
	return serve_errno_status(mem_pool_create(e->mem, &c->p->mem, (uint32_t)c->q->device,
		e->config.costs.pool_chunk_bytes, c->q->arg[0], &c->a->id));
}

static struct mem_pool *serve_call_pool(const struct call *c)
{
	struct engine *e = c->p->engine;
	struct mem_pool *pool = NULL;

	if (mem_pool_get(e->mem, &c->p->mem, c->q->id, e->config.costs.pool_chunk_bytes, &pool) < 0)
		return NULL;
	return pool;
}

static uint32_t do_pool_destroy(struct call *c)
{
	return serve_errno_status(mem_pool_destroy(c->p->engine->mem, &c->p->mem, c->q->id));
}

static uint32_t do_pool_set(struct call *c)
{
	struct mem_pool *pool = serve_call_pool(c);

	if (!pool || c->q->arg[0] > UINT32_MAX)
		return SIMGPU_INVALID_VALUE;
	return serve_errno_status(
		mem_pool_set(c->p->engine->mem, pool, (uint32_t)c->q->arg[0], c->q->arg[1]));
}

static uint32_t do_pool_get(struct call *c)
{
	struct mem_pool *pool = serve_call_pool(c);

	if (!pool || c->q->arg[0] > UINT32_MAX)
		return SIMGPU_INVALID_VALUE;
	return serve_errno_status(mem_pool_read(pool, (uint32_t)c->q->arg[0], &c->a->arg[0]));
}

static uint32_t do_pool_trim(struct call *c)
{
	struct mem_pool *pool = serve_call_pool(c);

	if (!pool)
		return SIMGPU_INVALID_VALUE;
	mem_pool_trim(c->p->engine->mem, pool, c->q->arg[0]);
	c->a->arg[0] = mem_pool_is_leaving(pool);
	return SIMGPU_OK;
}

static uint32_t do_pool_alloc(struct call *c)
{
	struct engine *e = c->p->engine;
	struct mem_pool *pool = serve_call_pool(c);
	struct estream *s = c->q->stream < SIMGPU_MAX_STREAMS && c->p->streams
		? c->p->streams[c->q->stream]
		: NULL;

	if (!pool || !s)
		return SIMGPU_INVALID_VALUE;
	if (engine_fault_oom(e, s->ctx->device))
		return SIMGPU_OUT_OF_MEMORY;
	return serve_errno_status(mem_pool_alloc(e->mem, pool, s->id, c->q->arg[0], &c->a->ptr));
}

static uint32_t do_ipc_get_mem(struct call *c)
{
	return serve_errno_status(
		mem_ipc_export(c->p->engine->mem, &c->p->mem, c->q->ptr, &c->a->arg[0]));
}

static uint32_t do_ipc_open_mem(struct call *c)
{
	int r = mem_ipc_open(
		c->p->engine->mem, &c->p->mem, c->q->arg[0], &c->a->ptr, &c->a->arg[0]);

	return r == -EPERM ? SIMGPU_INVALID_CONTEXT : serve_errno_status(r);
}

static uint32_t do_ipc_close_mem(struct call *c)
{
	return serve_errno_status(mem_ipc_close(c->p->engine->mem, &c->p->mem, c->q->ptr));
}

static uint32_t do_ipc_get_event(struct call *c)
{
	struct engine *e = c->p->engine;
	struct eevent *ev;

	if (c->q->arg[0] >= SIMGPU_MAX_EVENTS)
		return SIMGPU_INVALID_VALUE;
	ev = submit_event_get(c->p, (uint32_t)c->q->arg[0]);
	if (!ev)
		return SIMGPU_INVALID_VALUE;
	if (!ev->ipc_key) {
		ev->ipc_key = ++e->next_id;
		LIST_INSERT_HEAD(&e->ipc_events, ev, ipc_link);
	}
	c->a->arg[0] = ev->ipc_key;
	return SIMGPU_OK;
}

static uint32_t do_ipc_open_event(struct call *c)
{
	struct eevent *ev;

	if (c->q->arg[1] >= SIMGPU_MAX_EVENTS || !c->p->events || c->p->events[c->q->arg[1]])
		return SIMGPU_INVALID_VALUE;
	LIST_FOREACH(ev, &c->p->engine->ipc_events, ipc_link)
		if (ev->ipc_key == c->q->arg[0])
			return serve_errno_status(
				submit_event_bind(c->p, (uint32_t)c->q->arg[1], ev));
	return SIMGPU_INVALID_VALUE;
}

static uint32_t do_graph_create(struct call *c)
{
	if (c->fd < 0 || c->q->arg[0] >= SIMGPU_MAX_GRAPHS)
		return SIMGPU_INVALID_VALUE;
	return serve_errno_status(submit_graph_create(c->p, (uint32_t)c->q->arg[0], c->fd));
}

static uint32_t do_peer_access(struct call *c)
{
	struct ectx *ctx = serve_call_ctx(c);
	uint32_t bit;

	if (!ctx)
		return SIMGPU_INVALID_CONTEXT;
	if (!is_device(c) || (uint32_t)c->q->device == ctx->device)
		return SIMGPU_INVALID_DEVICE;
	bit = 1u << c->q->device;
	if (c->q->arg[0]) {
		if (ctx->peers & bit)
			return SIMGPU_PEER_ENABLED;
		ctx->peers |= bit;
	} else {
		if (!(ctx->peers & bit))
			return SIMGPU_PEER_NOT_ENABLED;
		ctx->peers &= ~bit;
	}
	return SIMGPU_OK;
}

static uint32_t do_status(struct call *c)
{
	c->a->arg[0] = (uint64_t)getpid();
	c->a->arg[1] = c->p->engine->clients - 1;
	return SIMGPU_OK;
}

static uint32_t do_faults(struct call *c)
{
	_cleanup_buf_ struct buf text = BUF_INIT(64 * 1024);
	struct error err = {0};

	if (c->fd < 0)
		return SIMGPU_INVALID_VALUE;
	if (fd_read_all(c->fd, &text) < 0)
		snprintf(c->a->text, sizeof(c->a->text), "the file cannot be read");
	else if (engine_set_faults(c->p->engine, buf_str(&text), &err) < 0)
		snprintf(c->a->text, sizeof(c->a->text), "%.120s", err.msg);
	else
		return SIMGPU_OK;
	return SIMGPU_INVALID_VALUE;
}

static uint32_t do_stop(struct call *c)
{
	c->p->engine->stopping = true;
	return SIMGPU_OK;
}

typedef uint32_t call_fn(struct call *c);

static call_fn *const calls[SIMGPU_MSG_COUNT] = {
	[SIMGPU_MSG_HELLO] = do_hello,
	[SIMGPU_MSG_SYNC] = do_sync,
	[SIMGPU_MSG_CTX_CREATE] = do_ctx_create,
	[SIMGPU_MSG_CTX_DESTROY] = do_ctx_destroy,
	[SIMGPU_MSG_CTX_RESERVE] = do_ctx_reserve,
	[SIMGPU_MSG_MODULE_LOAD] = do_module_load,
	[SIMGPU_MSG_MODULE_CODE] = do_module_code,
	[SIMGPU_MSG_PRINTED] = do_printed,
	[SIMGPU_MSG_MODULE_UNLOAD] = do_module_unload,
	[SIMGPU_MSG_MEM_ALLOC] = do_mem_alloc,
	[SIMGPU_MSG_MEM_FREE] = do_mem_free,
	[SIMGPU_MSG_MEM_QUERY] = do_mem_query,
	[SIMGPU_MSG_MEM_INFO] = do_mem_info,
	[SIMGPU_MSG_MEM_ADVISE] = do_mem_advise,
	[SIMGPU_MSG_VA_RESERVE] = do_va_reserve,
	[SIMGPU_MSG_VA_FREE] = do_va_free,
	[SIMGPU_MSG_VMM_CREATE] = do_vmm_create,
	[SIMGPU_MSG_VMM_RELEASE] = do_vmm_release,
	[SIMGPU_MSG_VMM_MAP] = do_vmm_map,
	[SIMGPU_MSG_VMM_UNMAP] = do_vmm_unmap,
	[SIMGPU_MSG_VMM_ACCESS] = do_vmm_access,
	[SIMGPU_MSG_VMM_EXPORT] = do_vmm_export,
	[SIMGPU_MSG_VMM_IMPORT] = do_vmm_import,
	[SIMGPU_MSG_VMM_RETAIN] = do_vmm_retain,
	[SIMGPU_MSG_VMM_INFO] = do_vmm_info,
	[SIMGPU_MSG_POOL_CREATE] = do_pool_create,
	[SIMGPU_MSG_POOL_DESTROY] = do_pool_destroy,
	[SIMGPU_MSG_POOL_SET] = do_pool_set,
	[SIMGPU_MSG_POOL_GET] = do_pool_get,
	[SIMGPU_MSG_POOL_TRIM] = do_pool_trim,
	[SIMGPU_MSG_POOL_ALLOC] = do_pool_alloc,
	[SIMGPU_MSG_IPC_GET_MEM] = do_ipc_get_mem,
	[SIMGPU_MSG_IPC_OPEN_MEM] = do_ipc_open_mem,
	[SIMGPU_MSG_IPC_CLOSE_MEM] = do_ipc_close_mem,
	[SIMGPU_MSG_IPC_GET_EVENT] = do_ipc_get_event,
	[SIMGPU_MSG_IPC_OPEN_EVENT] = do_ipc_open_event,
	[SIMGPU_MSG_GRAPH_CREATE] = do_graph_create,
	[SIMGPU_MSG_PEER_ACCESS] = do_peer_access,
	[SIMGPU_MSG_STATUS] = do_status,
	[SIMGPU_MSG_FAULTS] = do_faults,
	[SIMGPU_MSG_STOP] = do_stop,
};

/* Calls that leave the tables of memory alone. */
static bool serve_changes_memory(uint32_t type)
{
	switch ((enum simgpu_msg)type) {
	case SIMGPU_MSG_HELLO:
	case SIMGPU_MSG_SYNC:
	case SIMGPU_MSG_MEM_QUERY:
	case SIMGPU_MSG_MEM_INFO:
	case SIMGPU_MSG_MODULE_CODE:
	case SIMGPU_MSG_PRINTED:
	case SIMGPU_MSG_STATUS: return false;
	default: return true;
	}
}

static int serve_answer(struct proc *p, const struct simgpu_request *q, int fd)
{
	struct simgpu_reply a = {.type = q->type, .seq = q->seq};
	struct call c = {.p = p, .q = q, .a = &a, .fd = fd};
	ssize_t n;

	if (q->type >= SIMGPU_MSG_COUNT || !calls[q->type])
		a.status = SIMGPU_NOT_SUPPORTED;
	else if (!p->greeted && q->type != SIMGPU_MSG_HELLO)
		a.status = SIMGPU_INVALID_VALUE;
	else if (!serve_changes_memory(q->type))
		a.status = calls[q->type](&c);
	else {
		compute_stop();
		a.status = calls[q->type](&c);
		compute_resume();
	}
	if (c.is_later)
		return 0;
	if (a.status != SIMGPU_OK && c.close_sent) {
		for (uint32_t i = 0; i < c.nsend; i++)
			fd_close(c.send[i]);
		c.nsend = 0;
	}
	n = fd_send(p->sock, &a, sizeof(a), c.send, c.nsend, MSG_DONTWAIT);
	if (c.close_sent)
		for (uint32_t i = 0; i < c.nsend; i++)
			fd_close(c.send[i]);
	return n == sizeof(a) ? 0 : -EPIPE;
}

void serve_reply(struct proc *p, const struct simgpu_reply *a)
{
	if (fd_send(p->sock, a, sizeof(*a), NULL, 0, MSG_DONTWAIT) != sizeof(*a))
		serve_drop(p);
}

static void serve_receive(struct proc *p)
{
	/* Reads several requests in a row, so a client with many calls costs fewer wake-ups. */
	for (int i = 0; i < 16 && !p->dead; i++) {
		_cleanup_fd_list_ struct fd_list fds = {.n = 0};
		struct simgpu_request q;
		ssize_t n = fd_recv(p->sock, &q, sizeof(q), &fds, MSG_DONTWAIT);

		if (n == -EAGAIN || n == -EINTR)
			return;
		/* A client with one more call does not wait for its translation. */
		if (n != sizeof(q) || p->translation) {
			serve_drop(p);
			return;
		}
		submit_activate(p);
		engine_catch_up(p->engine);
		if (serve_answer(p, &q, fds.n ? fds.fd[0] : -1) < 0)
			serve_drop(p);
	}
}

void serve_ready(struct proc *p, uint32_t which)
{
	uint64_t rings;

	if (p->dead)
		return;
	switch (which) {
	case 0: serve_receive(p); break;
	case 1:
		engine_catch_up(p->engine);
		serve_drop(p);
		break;
	default:
		if (read(p->doorbell, &rings, sizeof(rings)) > 0)
			submit_activate(p);
		break;
	}
}
