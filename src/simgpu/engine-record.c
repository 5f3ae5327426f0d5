/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file writes the files that other processes read: the state page (devices, processes,
 * utilisation), the trace and the account. Only the engine writes these files. A record is complete
 * before `written` counts it (release), and readers load `written` with acquire.
 */
#include "simgpu/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "cuda/uuid.h"

#define SAMPLE_NS (100 * NSEC_PER_MSEC)
#define ROOM_STEP (256u << 10) /* size of one reservation in the file system: about 4000 records */

static void record_add64(_Atomic uint64_t *p, uint64_t v)
{
	/* With one writer, the addition needs no lock. */
	__atomic_store_n((uint64_t *)p, __atomic_load_n((uint64_t *)p, __ATOMIC_RELAXED) + v,
		__ATOMIC_RELAXED);
}

static void record_set64(_Atomic uint64_t *p, uint64_t v)
{
	__atomic_store_n((uint64_t *)p, v, __ATOMIC_RELAXED);
}

static uint64_t record_get64(const _Atomic uint64_t *p)
{
	return __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
}

/* Some file systems answer -EOPNOTSUPP; the engine assumes that they have room. */
static int record_reserve_bytes(int fd, uint64_t from, uint64_t n)
{
	int r;

	do
		r = fallocate(fd, 0, (off_t)from, (off_t)n);
	while (r < 0 && errno == EINTR);
	return r < 0 && errno != EOPNOTSUPP ? -errno : 0;
}

/* Replaces an old file by a new one. A process that has mapped the old file keeps it. */
static int map_new(const struct engine *e, const char *name, size_t bytes, size_t room,
	struct record_file *ret_file, struct error *err)
{
	_cleanup_close_ int fd = -1;
	char path[4096], tmp[4096];
	struct map map = MAP_NONE;
	int r;

	snprintf(path, sizeof(path), "%s/%s", e->dir, name);
	snprintf(tmp, sizeof(tmp), "%s/.%s.new", e->dir, name);
	unlink(tmp);
	fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return fail_errno(err, errno, "create '%s'", tmp);
	r = ftruncate(fd, (off_t)bytes) < 0 ? -errno : record_reserve_bytes(fd, 0, room);
	if (r < 0) {
		unlink(tmp);
		return fail_errno(err, -r, "reserve space for '%s'", path);
	}
	r = map_fd(fd, bytes, PROT_READ | PROT_WRITE, &map);
	if (r < 0)
		return fail_errno(err, -r, "map '%s'", tmp);
	if (rename(tmp, path) < 0) {
		map_done(&map);
		return fail_errno(err, errno, "rename '%s'", tmp);
	}
	*ret_file = (struct record_file){.map = map, .fd = TAKE_FD(fd), .room = room};
	return 0;
}

/*
 * Returns whether the file has room up to `end`. Once the file system is full, the file keeps its
 * records and gets no more.
 */
static bool record_has_room(const struct engine *e, struct record_file *file, uint64_t end)
{
	uint64_t next = MIN(file->room + ROOM_STEP, file->map.n);
	int r;

	if (end <= file->room)
		return true;
	if (file->fd < 0)
		return false;
	r = record_reserve_bytes(file->fd, file->room, next - file->room);
	if (r >= 0)
		file->room = next;
	if (r < 0 || next == file->map.n)
		file->fd = fd_close(file->fd);
	if (r < 0)
		log_warn("'%s': no space for records (%s); the engine records nothing from now on",
			e->dir, strerror(-r));
	return r >= 0;
}

static void init_ring(struct engine *e, struct simgpu_ring_head *head, uint64_t magic,
	uint32_t record_bytes, uint64_t capacity)
{
	head->abi = SIMGPU_TRACE_ABI;
	head->record_bytes = record_bytes;
	head->capacity = capacity;
	head->start_ns = e->start_ns;
	head->engine_pid = (uint32_t)getpid();
	head->devices = e->config.n;
	record_set64(&head->now_ns, e->start_ns);
	head->magic = magic;
}

/* The UUID is the same on each start for the same folder and device number. */
static void make_uuid(const struct engine *e, uint32_t i, struct simgpu_state_device *d)
{
	uint64_t h = str_hash(str_from(e->dir));
	uint8_t *u = d->uuid_bytes;

	for (uint32_t k = 0; k < 16; k++) {
		h = (h ^ (i + 1)) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
		u[k] = (uint8_t)(h >> 24);
	}
	u[6] = (uint8_t)((u[6] & 0x0f) | 0x40);
	u[8] = (uint8_t)((u[8] & 0x3f) | 0x80);
	memcpy(d->uuid, "GPU-", 4);
	cuda_uuid_format(u, d->uuid + 4);
}

static void init_device(struct engine *e, uint32_t i)
{
	const struct simgpu_model *m = &e->config.devices[i];
	struct simgpu_state_device *d = &e->state->devices[i];

	str_copy(d->name, sizeof(d->name), str_from(m->name));
	make_uuid(e, i, d);
	d->mem_total = m->mem_bytes;
	d->cc_major = m->cc_major;
	d->cc_minor = m->cc_minor;
	d->sm_count = m->sm_count;
	d->clock_khz = m->clock_khz;
	d->mem_clock_khz = m->mem_clock_khz;
	d->mem_bus_bits = m->mem_bus_bits;
	d->l2_bytes = m->l2_bytes;
	d->pci_bus = 0x10 + 0x10 * (i % 8) + i / 8;
	d->pci_vendor_device = m->pci_id;
	d->numa = e->config.numa[i];
	d->host_access = (uint32_t)e->config.costs.host_access;
	memcpy(d->nvlinks, e->config.links[i], sizeof(d->nvlinks));
	d->power_limit_mw = m->power_mw;
}

static void init_state(struct engine *e)
{
	struct simgpu_state *s = e->state;

	s->abi = SIMGPU_ABI;
	s->bytes = sizeof(*s);
	s->engine_pid = (uint32_t)getpid();
	s->device_count = e->config.n;
	s->default_kernel_ns = e->config.costs.default_kernel_ns;
	s->context_create_ns = e->config.costs.context_ns;
	s->module_load_ns = e->config.costs.module_ns;
	s->compute = e->config.compute;
	for (uint32_t i = 0; i < e->config.n; i++)
		init_device(e, i);
	s->magic = SIMGPU_MAGIC;
}

int record_open(struct engine *e, struct error *err)
{
	size_t trace = 4096 + e->config.trace_records * sizeof(struct simgpu_trace_record);
	size_t account = 4096 + e->config.account_records * sizeof(struct simgpu_account_record);
	struct record_file state;
	int r;

	e->sampled_proc = calloc(SIMGPU_MAX_STATE_PROCS, sizeof(*e->sampled_proc));
	if (!e->sampled_proc)
		return fail(err, ENOMEM, "state");
	r = map_new(e, SIMGPU_FILE_TRACE, trace, MIN(trace, ROOM_STEP), &e->trace_file, err);
	if (r >= 0)
		r = map_new(e, SIMGPU_FILE_ACCOUNT, account, MIN(account, ROOM_STEP),
			&e->account_file, err);
	if (r >= 0)
		r = map_new(e, SIMGPU_FILE_STATE, sizeof(struct simgpu_state),
			sizeof(struct simgpu_state), &state, err);
	if (r < 0)
		return r;
	fd_close(state.fd);
	e->state_map = state.map;
	e->trace = e->trace_file.map.p;
	e->account = e->account_file.map.p;
	e->state = e->state_map.p;
	init_ring(e, e->trace, SIMGPU_TRACE_MAGIC, sizeof(struct simgpu_trace_record),
		e->config.trace_records);
	init_ring(e, e->account, SIMGPU_ACCOUNT_MAGIC, sizeof(struct simgpu_account_record),
		e->config.account_records);
	init_state(e);
	return 0;
}

void record_close(struct engine *e)
{
	map_done(&e->trace_file.map);
	map_done(&e->account_file.map);
	fd_close(e->trace_file.fd);
	fd_close(e->account_file.fd);
	map_done(&e->state_map);
	free(e->sampled_proc);
}

static struct ectx *record_tl_ctx(const struct tl_ctx *ctx)
{
	return CONTAINER_OF(ctx, struct ectx, tl);
}

static void write_piece(struct engine *e, const struct simgpu_trace_record *record)
{
	uint64_t n = record_get64(&e->trace->written), i = n % e->trace->capacity;
	struct simgpu_trace_record *at = (struct simgpu_trace_record *)((char *)e->trace + 4096) +
		i;

	if (!record_has_room(e, &e->trace_file, 4096 + (i + 1) * sizeof(*at)))
		return;
	*at = *record;
	__atomic_store_n((uint64_t *)&e->trace->written, n + 1, __ATOMIC_RELEASE);
}

static enum simgpu_trace_kind record_piece_kind(const struct tl_piece *piece)
{
	if (piece->extra)
		return SIMGPU_TRACE_MIGRATE;
	switch (piece->op->kind) {
	case SIMGPU_OP_KERNEL: return SIMGPU_TRACE_KERNEL;
	case SIMGPU_OP_MEMSET: return SIMGPU_TRACE_MEMSET;
	case SIMGPU_OP_PREFETCH: return SIMGPU_TRACE_MIGRATE;
	default: return SIMGPU_TRACE_COPY;
	}
}

static void fill_op(struct simgpu_trace_record *r, const struct tl_piece *piece)
{
	const struct eop *op = CONTAINER_OF(piece->op, struct eop, tl);
	const struct simgpu_entry *e = &op->e;

	r->op = op->id;
	r->submit_ns = op->tl.submit_ns;
	r->stream = e->stream;
	r->kind = (uint8_t)record_piece_kind(piece);
	r->permille = piece->engine == TL_ENGINE_COMPUTE ? op->tl.permille : 0;
	if (op->tl.parent)
		r->flags |= SIMGPU_TRACE_GRAPH;
	if (op->code)
		r->flags |= SIMGPU_TRACE_COMPUTED |
			(op->is_model_time ? 0 : SIMGPU_TRACE_COMPUTE_TIME);
	else if (op->tl.spin)
		r->flags |= SIMGPU_TRACE_SPIN;
	if (r->kind == SIMGPU_TRACE_MIGRATE)
		r->bytes = op->moved;
	else if (e->kind == SIMGPU_OP_KERNEL)
		r->name_id = e->kernel.name_id;
	else if (e->kind == SIMGPU_OP_COPY)
		r->bytes = e->copy.width * e->copy.height * e->copy.depth;
	else if (e->kind == SIMGPU_OP_MEMSET)
		r->bytes = e->memset.width * e->memset.height * e->memset.elem_bytes;
}

void record_piece(struct engine *e, const struct tl_piece *piece)
{
	struct ectx *ctx = record_tl_ctx(piece->ctx);
	struct simgpu_state_device *d = &e->state->devices[piece->device];
	uint64_t ns = piece->end_ns - piece->start_ns;
	int slot = ctx->proc->state_slot[piece->device];
	struct simgpu_trace_record r = {
		.start_ns = piece->start_ns,
		.end_ns = piece->end_ns,
		.pid = (uint32_t)ctx->proc->pid,
		.context = ctx->id,
		.device = piece->device,
		.engine = (uint8_t)piece->engine,
		.kind = SIMGPU_TRACE_SWITCH,
	};

	if (piece->first)
		r.flags |= SIMGPU_TRACE_FIRST;
	if (piece->last)
		r.flags |= SIMGPU_TRACE_LAST;
	if (piece->aborted)
		r.flags |= SIMGPU_TRACE_ABORTED;
	if (piece->op)
		fill_op(&r, piece);
	write_piece(e, &r);
	if (!piece->op)
		return;
	if (piece->engine == TL_ENGINE_COMPUTE) {
		/*
		 * Concurrent kernels add to the busy time in proportion to their parts of the
		 * device.
		 */
		ns = ns * piece->op->permille / TL_FULL;
		record_add64(&d->busy_ns, ns);
		if (slot >= 0)
			record_add64(&e->state->procs[slot].busy_ns, ns);
	} else {
		record_add64(&d->copy_ns, ns);
	}
}

/* ---- processes ---- */

static int proc_slot(struct proc *p, uint32_t device)
{
	struct simgpu_state *s = p->engine->state;
	uint32_t i;

	if (p->state_slot[device] >= 0)
		return p->state_slot[device];
	for (i = 0; i < SIMGPU_MAX_STATE_PROCS; i++)
		if (!s->procs[i].pid)
			break;
	if (i == SIMGPU_MAX_STATE_PROCS)
		return -1;
	__atomic_add_fetch((uint32_t *)&s->generation, 1, __ATOMIC_ACQ_REL);
	memset(&s->procs[i], 0, sizeof(s->procs[i]));
	s->procs[i].device = (uint16_t)device;
	s->procs[i].start_time = p->start_time;
	s->procs[i].pid = (uint32_t)p->pid;
	p->engine->sampled_proc[i] = 0;
	if (i >= s->proc_slots)
		s->proc_slots = i + 1;
	__atomic_add_fetch((uint32_t *)&s->generation, 1, __ATOMIC_ACQ_REL);
	p->state_slot[device] = (int)i;
	return (int)i;
}

static void record_free_slot(struct proc *p, uint32_t device)
{
	struct simgpu_state *s = p->engine->state;
	int i = p->state_slot[device];

	if (i < 0)
		return;
	__atomic_add_fetch((uint32_t *)&s->generation, 1, __ATOMIC_ACQ_REL);
	s->procs[i].pid = 0;
	while (s->proc_slots && !s->procs[s->proc_slots - 1].pid)
		s->proc_slots--;
	__atomic_add_fetch((uint32_t *)&s->generation, 1, __ATOMIC_ACQ_REL);
	p->state_slot[device] = -1;
}

void record_contexts(struct proc *p, uint32_t device, int change)
{
	int slot = proc_slot(p, device);

	if (slot < 0)
		return;
	p->engine->state->procs[slot].contexts = (uint16_t)(p->engine->state->procs[slot].contexts +
		change);
	if (!p->engine->state->procs[slot].contexts && !p->mem.used[device])
		record_free_slot(p, device);
}

void record_exited(struct proc *p)
{
	for (uint32_t i = 0; i < SIMGPU_MAX_DEVICES; i++)
		record_free_slot(p, i);
}

static void write_account(struct engine *e, const struct simgpu_account_record *record)
{
	uint64_t n = record_get64(&e->account->written), i = n % e->account->capacity;
	struct simgpu_account_record *at =
		(struct simgpu_account_record *)((char *)e->account + 4096) + i;

	if (!record_has_room(e, &e->account_file, 4096 + (i + 1) * sizeof(*at)))
		return;
	*at = *record;
	__atomic_store_n((uint64_t *)&e->account->written, n + 1, __ATOMIC_RELEASE);
}

void record_account(void *user, struct mem_owner *o, uint32_t device, uint64_t owner_bytes,
	uint64_t device_bytes, enum simgpu_account_reason reason)
{
	struct engine *e = user;
	struct proc *p = o->user;
	struct simgpu_account_record record = {
		.t_ns = clock_now_ns(),
		.bytes = owner_bytes,
		.device_bytes = device_bytes,
		.pid = o->pid,
		.device = (uint16_t)device,
		.reason = (uint16_t)reason,
	};
	int slot = !p ? -1 : p->dead ? p->state_slot[device] : proc_slot(p, device);

	write_account(e, &record);
	record_set64(&e->state->devices[device].mem_used, device_bytes);
	if (slot < 0)
		return;
	record_set64(&e->state->procs[slot].mem_used, owner_bytes);
	if (!owner_bytes && !e->state->procs[slot].contexts)
		record_free_slot(p, device);
}

/* ---- utilisation ---- */

static uint32_t record_permille(uint64_t busy_ns, uint64_t span_ns)
{
	return (uint32_t)MIN(busy_ns * 1000 / span_ns, UINT64_C(1000));
}

static void record_sample(struct engine *e, uint64_t now_ns)
{
	uint64_t span = now_ns - e->sample_ns;

	for (uint32_t i = 0; i < e->config.n; i++) {
		struct simgpu_state_device *d = &e->state->devices[i];
		uint64_t busy = record_get64(&d->busy_ns), copy = record_get64(&d->copy_ns);

		d->sm_permille = record_permille(busy - e->sampled_busy[i], span);
		d->mem_permille = record_permille(copy - e->sampled_copy[i], span);
		record_set64(&d->sample_ns, now_ns);
		e->sampled_busy[i] = busy;
		e->sampled_copy[i] = copy;
	}
	for (uint32_t i = 0; i < e->state->proc_slots; i++) {
		struct simgpu_state_proc *p = &e->state->procs[i];
		uint64_t busy = record_get64(&p->busy_ns);

		p->sm_permille = record_permille(busy - e->sampled_proc[i], span);
		e->sampled_proc[i] = busy;
	}
	e->sample_ns = now_ns;
}

void record_now(struct engine *e, uint64_t now_ns)
{
	__atomic_store_n((uint64_t *)&e->trace->now_ns, now_ns, __ATOMIC_RELEASE);
	record_set64(&e->account->now_ns, now_ns);
	record_set64(&e->state->now_ns, now_ns);
	if (now_ns - e->sample_ns >= SAMPLE_NS)
		record_sample(e, now_ns);
}
