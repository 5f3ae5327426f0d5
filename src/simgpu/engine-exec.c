/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file computes how long operations take, and applies their effects to memory at their end.
 * Device memory has its device address in this process too. Each access needs the permission of
 * mem_check(). The engine reaches a client's host memory with process_vm_readv() and
 * process_vm_writev(). Where the kernel refuses that, the engine uses the descriptor of
 * /proc/self/mem that the client has sent. Both ways work while the client is stopped. An
 * unreachable address fails the context with CUDA_ERROR_ILLEGAL_ADDRESS, as on hardware, and never
 * the engine.
 */
#include "simgpu/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define IOV_BATCH 256
/* Memory of the host that one of the engine's own kernels may reach; each has its own copy. */
#define VIEW_MAX (UINT64_C(1) << 28)
/* Copies and memsets of the host's memory go in parts of this size. */
#define BOUNCE_BYTES (UINT64_C(1) << 20)

static struct engine *engine_of(const struct eop *op)
{
	return op->proc->engine;
}

static uint64_t param_u64(const struct eop *op, uint32_t offset)
{
	uint64_t v;

	memcpy(&v, op->data + offset, sizeof(v));
	return v;
}

static uint32_t param_u32(const struct eop *op, uint32_t offset)
{
	uint32_t v;

	memcpy(&v, op->data + offset, sizeof(v));
	return v;
}

/* ---- reaching memory ---- */

/*
 * process_vm_readv() fails with EPERM if the engine runs as another user, or in a container with
 * fewer rights than the client has. Then the client's /proc/self/mem is used, if the client sent
 * it.
 */
static ssize_t host_io_some(
	const struct host_memory *host, void *buf, uint64_t addr, uint64_t bytes, bool write)
{
	struct iovec local = {buf, bytes}, remote = {(void *)addr, bytes};
	ssize_t n = write ? process_vm_writev(host->pid, &local, 1, &remote, 1, 0)
			  : process_vm_readv(host->pid, &local, 1, &remote, 1, 0);

	if (n >= 0 || errno != EPERM || host->fd < 0)
		return n;
	return write ? pwrite(host->fd, buf, bytes, (off_t)addr)
		     : pread(host->fd, buf, bytes, (off_t)addr);
}

int exec_host_io(
	const struct host_memory *host, void *buf, uint64_t addr, uint64_t bytes, bool write)
{
	while (bytes) {
		ssize_t n = host_io_some(host, buf, addr, bytes, write);

		if (n <= 0)
			return -EFAULT;
		buf = (char *)buf + n;
		addr += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return 0;
}

void host_memory_unref(struct host_memory *host)
{
	if (!host || --host->refs)
		return;
	fd_close(host->fd);
	pthread_mutex_destroy(&host->lock);
	free(host);
}

static int exec_check_range(const struct eop *op, uint64_t addr, uint64_t bytes, bool write)
{
	const struct engine *e = engine_of(op);
	struct mem_info info;
	int r = mem_check(e->mem, &op->proc->mem, op->ctx->device, addr, bytes, write);

	if (r < 0 || mem_query(e->mem, addr, &info) < 0)
		return r;
	/*
	 * Copies may always access another device's memory; kernels only after the program has
	 * enabled the peer.
	 */
	if (info.device != op->ctx->device && op->e.kind == SIMGPU_OP_KERNEL &&
		info.kind != SIMGPU_MEM_MANAGED && info.kind != SIMGPU_MEM_VMM &&
		!(op->ctx->peers & (1u << info.device)))
		return -EFAULT;
	return 0;
}

/* Access to host or device memory during one effect. */
struct view {
	void *p;
	const struct eop *op;
	uint64_t addr, bytes;
	bool host, write;
};

static int view_open(
	struct view *v, const struct eop *op, uint64_t addr, uint64_t bytes, bool write)
{
	int r;

	*v = (struct view){.op = op, .addr = addr, .bytes = bytes, .write = write};
	if (mem_is_device(addr)) {
		r = exec_check_range(op, addr, bytes, write);
		v->p = r < 0 ? NULL : (void *)addr;
		return r;
	}
	v->host = true;
	if (bytes > VIEW_MAX)
		return -EFAULT;
	v->p = malloc(bytes ? bytes : 1);
	if (!v->p)
		return -ENOMEM;
	r = exec_host_io(op->proc->host, v->p, addr, bytes, false);
	if (r < 0) {
		free(v->p);
		v->p = NULL;
	}
	return r;
}

static int view_close(struct view *v)
{
	int r = 0;

	if (!v->host || !v->p)
		return 0;
	if (v->write)
		r = exec_host_io(v->op->proc->host, v->p, v->addr, v->bytes, true);
	free(v->p);
	v->p = NULL;
	return r;
}

static int write_word(const struct eop *op, uint64_t addr, uint64_t value, uint32_t bytes)
{
	int r;

	if (!mem_is_device(addr))
		return exec_host_io(op->proc->host, &value, addr, bytes, true);
	r = exec_check_range(op, addr, bytes, true);
	if (r >= 0)
		memcpy((void *)addr, &value, bytes);
	return r;
}

static int exec_read_word(const struct eop *op, uint64_t addr, uint32_t bytes, uint64_t *ret_value)
{
	int r;

	*ret_value = 0;
	if (!mem_is_device(addr))
		return exec_host_io(op->proc->host, ret_value, addr, bytes, false);
	r = exec_check_range(op, addr, bytes, false);
	if (r >= 0)
		memcpy(ret_value, (const void *)addr, bytes);
	return r;
}

/* ---- planning ---- */

static uint64_t rate_ns(uint64_t bytes, uint64_t rate)
{
	return rate ? (uint64_t)((unsigned __int128)bytes * NSEC_PER_SEC / rate) : 0;
}

static uint64_t memory_rate(const struct engine *e, uint32_t device)
{
	return e->config.costs.mem_rate ? e->config.costs.mem_rate
					: e->config.devices[device].mem_rate;
}

static uint64_t compute_ns(const struct engine *e, const struct eop *op)
{
	uint64_t gflops = e->config.costs.gflops ? e->config.costs.gflops
						 : e->config.devices[op->ctx->device].gflops;
	uint64_t rate = memory_rate(e, op->ctx->device);
	uint64_t n;

	switch (op->e.kernel.kernel) {
	case SIMGPU_KERNEL_FILL_U32: return rate_ns(4 * param_u64(op, 16), rate);
	case SIMGPU_KERNEL_SAXPY_F32: return rate_ns(12 * param_u64(op, 24), rate);
	case SIMGPU_KERNEL_REDUCE_U32: return rate_ns(4 * param_u64(op, 16), rate);
	case SIMGPU_KERNEL_MATMUL_F32:
		n = param_u32(op, 24);
		return gflops ? (uint64_t)((unsigned __int128)2 * n * n * n / gflops) : 0;
	default: return 0;
	}
}

static const uint32_t kernel_param_bytes[SIMGPU_KERNEL_COUNT] = {
#define X(id, name, bytes) bytes,
	SIMGPU_KERNELS(X)
#undef X
};

static uint32_t plan_kernel(struct eop *op)
{
	const struct engine *e = engine_of(op);
	const struct simgpu_model *model = &e->config.devices[op->ctx->device];
	struct simgpu_op_kernel *k = &op->e.kernel;
	uint64_t slots, ns;

	if (k->kernel >= SIMGPU_KERNEL_COUNT)
		k->kernel = SIMGPU_KERNEL_OTHER;
	if (k->param_bytes > op->trailing || k->param_bytes < kernel_param_bytes[k->kernel])
		return SIMGPU_INVALID_VALUE;
	slots = (uint64_t)model->sm_count * MAX(k->blocks_per_sm, 1u);
	op->tl.class = TL_COMPUTE;
	op->tl.permille = (uint16_t)MIN(
		MAX((uint64_t)k->blocks * TL_FULL / slots, UINT64_C(1)), (uint64_t)TL_FULL);
	switch (k->kernel) {
	case SIMGPU_KERNEL_SPIN_NS:
	case SIMGPU_KERNEL_STAMP_NS:
		/* Blocks that do not fit at once run in waves of equal length. */
		ns = param_u64(op, 0) * MAX((k->blocks + slots - 1) / slots, UINT64_C(1));
		break;
	case SIMGPU_KERNEL_SPIN_FLAG:
		op->tl.spin = true;
		ns = param_u64(op, 16);
		break;
	case SIMGPU_KERNEL_OTHER:
		ns = k->duration_ns ? k->duration_ns : e->config.costs.default_kernel_ns;
		break;
	default:
		/*
		 * A kernel with fewer blocks than the device holds gets a smaller part of the
		 * device.
		 */
		ns = compute_ns(e, op) * TL_FULL / op->tl.permille;
		break;
	}
	if (k->duration_ns && !op->tl.spin)
		ns = k->duration_ns;
	op->tl.duration_ns = MIN(MAX(ns, e->config.costs.min_kernel_ns), TL_NEVER / 4);
	return k->code && k->kernel == SIMGPU_KERNEL_OTHER ? compute_plan(op) : SIMGPU_OK;
}

static uint32_t exec_address_device(const struct engine *e, uint64_t addr, uint32_t otherwise)
{
	struct mem_info info;

	return mem_query(e->mem, addr, &info) < 0 ? otherwise : info.device;
}

static uint32_t plan_copy(struct eop *op)
{
	const struct engine *e = engine_of(op);
	const struct simgpu_costs *costs = &e->config.costs;
	struct simgpu_op_copy *c = &op->e.copy;
	unsigned __int128 total;
	bool to = mem_is_device(c->dst), from = mem_is_device(c->src);
	uint32_t own = op->ctx->device, a, b;
	uint64_t rate;

	if (!c->height)
		c->height = 1;
	if (!c->depth)
		c->depth = 1;
	total = (unsigned __int128)c->width * c->height * c->depth;
	if (total > SIMGPU_VA_SIZE)
		return SIMGPU_INVALID_VALUE;
	if (op->e.flags & SIMGPU_ENTRY_INLINE) {
		from = false;
		if (total > op->trailing)
			return SIMGPU_INVALID_VALUE;
	}
	op->tl.class = TL_COPY_IN;
	if (to && from) {
		a = exec_address_device(e, c->src, own);
		b = exec_address_device(e, c->dst, own);
		op->tl.class = a == b ? TL_COMPUTE : TL_COPY_OUT;
		op->tl.permille = TL_FULL;
		rate = a == b                   ? memory_rate(e, own) / 2
			: e->config.links[a][b] ? costs->peer_rate
						: costs->peer_pci_rate;
	} else if (to) {
		rate = costs->h2d_rate;
	} else {
		op->tl.class = from ? TL_COPY_OUT : TL_COPY_IN;
		rate = costs->d2h_rate;
	}
	if (op->e.flags & SIMGPU_ENTRY_PAGEABLE)
		rate = MIN(rate, costs->pageable_rate);
	op->tl.duration_ns = costs->copy_setup_ns + rate_ns((uint64_t)total, rate);
	return SIMGPU_OK;
}

uint32_t exec_plan(struct eop *op)
{
	const struct engine *e = engine_of(op);
	struct simgpu_op_memset *m = &op->e.memset;

	op->tl.permille = TL_FULL;
	switch ((enum simgpu_op_kind)op->e.kind) {
	case SIMGPU_OP_KERNEL: return plan_kernel(op);
	case SIMGPU_OP_COPY: return plan_copy(op);
	case SIMGPU_OP_MEMSET:
		if (!m->height)
			m->height = 1;
		if ((m->elem_bytes != 1 && m->elem_bytes != 2 && m->elem_bytes != 4) ||
			(unsigned __int128)m->width * m->height * m->elem_bytes > SIMGPU_VA_SIZE)
			return SIMGPU_INVALID_VALUE;
		op->tl.class = TL_COMPUTE;
		op->tl.duration_ns = MAX(rate_ns(m->width * m->height * m->elem_bytes,
						 memory_rate(e, op->ctx->device)),
			e->config.costs.min_kernel_ns);
		return SIMGPU_OK;
	case SIMGPU_OP_WAIT_VALUE:
		op->tl.class = TL_WAIT;
		return op->e.value.bytes == 4 || op->e.value.bytes == 8 ? SIMGPU_OK
									: SIMGPU_INVALID_VALUE;
	case SIMGPU_OP_WRITE_VALUE:
		op->tl.class = TL_INSTANT;
		return op->e.value.bytes == 4 || op->e.value.bytes == 8 ? SIMGPU_OK
									: SIMGPU_INVALID_VALUE;
	case SIMGPU_OP_HOST_FUNC: op->tl.class = TL_EXTERNAL; return SIMGPU_OK;
	case SIMGPU_OP_PREFETCH:
		op->tl.class = TL_COPY_IN;
		op->tl.duration_ns = e->config.costs.copy_setup_ns;
		return op->e.mem.device < (int32_t)e->config.n ? SIMGPU_OK : SIMGPU_INVALID_VALUE;
	default: op->tl.class = TL_INSTANT; return SIMGPU_OK;
	}
}

/* ---- the beginning ---- */

static uint64_t exec_touch_page(struct eop *op, uint64_t addr)
{
	struct engine *e = engine_of(op);
	struct mem_info info;
	uint64_t moved;

	if (!mem_is_device(addr) || mem_query(e->mem, addr, &info) < 0 ||
		info.kind != SIMGPU_MEM_MANAGED)
		return 0;
	/*
	 * If there is no room, the kernel uses the memory across the bus, which costs as much as
	 * moving it.
	 */
	if (mem_touch(e->mem, addr, op->ctx->device, &moved) < 0)
		return info.bytes;
	return moved;
}

uint64_t exec_start(struct eop *op)
{
	struct engine *e = engine_of(op);
	uint64_t moved = 0, n;

	mem_begin_use(e->mem);
	switch ((enum simgpu_op_kind)op->e.kind) {
	case SIMGPU_OP_KERNEL:
		for (uint32_t at = 0; at + 8 <= op->e.kernel.param_bytes; at += 8)
			moved += exec_touch_page(op, param_u64(op, at));
		n = engine_fault_kernel(e, op->ctx->device, (uint32_t)op->ctx->proc->pid);
		op->tl.duration_ns = n > TL_NEVER / 2 / op->tl.duration_ns ? TL_NEVER / 2
									   : op->tl.duration_ns * n;
		if (n == UINT64_MAX)
			op->tl.spin = false;
		op->model_ns = n > TL_NEVER / 4 / MAX(op->model_ns, UINT64_C(1)) ? TL_NEVER / 4
										 : op->model_ns * n;
		if (op->code && op->tl.spin)
			compute_start(op);
		break;
	case SIMGPU_OP_MEMSET: moved = exec_touch_page(op, op->e.memset.ptr); break;
	case SIMGPU_OP_COPY:
		/* A copy to or from the host does not move managed memory. */
		if (op->tl.class == TL_COMPUTE)
			moved = exec_touch_page(op, op->e.copy.dst) +
				exec_touch_page(op, op->e.copy.src);
		break;
	case SIMGPU_OP_PREFETCH:
		if (op->e.mem.device < 0)
			mem_evict(e->mem, op->e.mem.ptr, &moved);
		else if (mem_touch(e->mem, op->e.mem.ptr, (uint32_t)op->e.mem.device, &moved) < 0)
			moved = 0;
		break;
	default: break;
	}
	op->moved = moved;
	return rate_ns(moved, e->config.costs.migrate_rate);
}

/* ---- waiting ---- */

static bool exec_compare_values(uint64_t have, uint64_t want, uint32_t bytes, uint32_t cmp)
{
	switch (cmp) {
	case SIMGPU_WAIT_EQ: return have == want;
	case SIMGPU_WAIT_AND: return (have & want) != 0;
	case SIMGPU_WAIT_NOR: return (~(have | want) & (bytes == 8 ? UINT64_MAX : UINT32_MAX)) != 0;
	default:
		return bytes == 8 ? (int64_t)(have - want) >= 0
				  : (int32_t)((uint32_t)have - (uint32_t)want) >= 0;
	}
}

bool exec_ready(struct eop *op)
{
	struct engine *e = engine_of(op);
	bool kernel = op->e.kind == SIMGPU_OP_KERNEL, done;
	struct mem_info info;
	uint64_t addr, have;
	uint32_t bytes = kernel ? 4 : op->e.value.bytes;

	if (op->code)
		return compute_is_done(op);
	addr = kernel ? param_u64(op, 0) : op->e.value.ptr;
	if (exec_read_word(op, addr, bytes, &have) < 0) {
		submit_fail(op->ctx, SIMGPU_ILLEGAL_ADDRESS);
		return false;
	}
	if (kernel)
		done = have >= param_u32(op, 8);
	else
		done = exec_compare_values(have,
			bytes == 8 ? op->e.value.value : (uint32_t)op->e.value.value, bytes,
			op->e.value.cmp);
	/* A CPU may write this memory at any time, so the engine has to poll it. */
	if (!done &&
		(!mem_is_device(addr) ||
			(mem_query(e->mem, addr, &info) >= 0 && info.kind == SIMGPU_MEM_MANAGED)))
		e->host_wait = true;
	return done;
}

/* ---- effects ---- */

static int run_fill(const struct eop *op)
{
	uint64_t n = param_u64(op, 16);
	uint32_t value = param_u32(op, 8);
	struct view v;
	int r;

	if (n > SIMGPU_VA_SIZE)
		return -EFAULT;
	r = view_open(&v, op, param_u64(op, 0), 4 * n, true);
	if (r < 0)
		return r;
	for (uint64_t i = 0; i < n; i++)
		((uint32_t *)v.p)[i] = value;
	return view_close(&v);
}

static int run_saxpy(const struct eop *op)
{
	uint64_t n = param_u64(op, 24);
	struct view y = {0}, x = {0};
	float a;
	int r;

	memcpy(&a, op->data + 16, sizeof(a));
	if (n > SIMGPU_VA_SIZE)
		return -EFAULT;
	r = view_open(&y, op, param_u64(op, 0), 4 * n, true);
	if (r < 0)
		return r;
	r = view_open(&x, op, param_u64(op, 8), 4 * n, false);
	if (r >= 0) {
		float *py = y.p;
		const float *px = x.p;

		for (uint64_t i = 0; i < n; i++)
			py[i] = a * px[i] + py[i];
		view_close(&x);
	}
	return r < 0 ? (view_close(&y), r) : view_close(&y);
}

static int run_reduce(const struct eop *op)
{
	uint64_t n = param_u64(op, 16), out = param_u64(op, 0), old;
	uint32_t sum = 0;
	struct view in;
	int r;

	if (n > SIMGPU_VA_SIZE)
		return -EFAULT;
	r = view_open(&in, op, param_u64(op, 8), 4 * n, false);
	if (r < 0)
		return r;
	for (uint64_t i = 0; i < n; i++)
		sum += ((const uint32_t *)in.p)[i];
	view_close(&in);
	r = exec_read_word(op, out, 4, &old);
	return r < 0 ? r : write_word(op, out, (uint32_t)old + sum, 4);
}

typedef float float8 __attribute__((vector_size(32), aligned(4), may_alias));

/* y += a * x, for memory that does not overlap. Rounds after the product and after the sum. */
static void exec_add_row(float *y, const float *x, float a, uint64_t n)
{
	uint64_t i;

	for (i = 0; i + 8 <= n; i += 8)
		*(float8 *)(y + i) += a * *(const float8 *)(x + i);
	for (; i < n; i++)
		y[i] += a * x[i];
}

static int run_matmul(const struct eop *op)
{
	uint64_t n = param_u32(op, 24), bytes = 4 * n * n;
	struct view c = {0}, a = {0}, b = {0};
	int r;

	r = view_open(&c, op, param_u64(op, 0), bytes, true);
	if (r >= 0)
		r = view_open(&a, op, param_u64(op, 8), bytes, false);
	if (r >= 0)
		r = view_open(&b, op, param_u64(op, 16), bytes, false);
	if (r >= 0) {
		const float *pa = a.p, *pb = b.p;
		float *pc = c.p;

		/*
		 * The products of each element are added in the order of k, and the loop reads the
		 * rows of b in memory order.
		 */
		memset(pc, 0, bytes);
		for (uint64_t i = 0; i < n; i++)
			for (uint64_t k = 0; k < n; k++)
				exec_add_row(pc + i * n, pb + k * n, pa[i * n + k], n);
	}
	view_close(&b);
	view_close(&a);
	return r < 0 ? (view_close(&c), r) : view_close(&c);
}

/*
 * Writes the time of the run by the device's clock. For a preempted kernel this extends from the
 * first piece to the last.
 */
static int run_stamp(const struct eop *op)
{
	uint64_t out = param_u64(op, 8);
	int r = write_word(op, out, op->tl.start_ns, 8);

	return r < 0 ? r : write_word(op, out + 8, op->tl.end_ns, 8);
}

static int run_kernel(const struct eop *op)
{
	switch (op->e.kernel.kernel) {
	case SIMGPU_KERNEL_SET_FLAG: return write_word(op, param_u64(op, 0), param_u32(op, 8), 4);
	case SIMGPU_KERNEL_FILL_U32: return run_fill(op);
	case SIMGPU_KERNEL_SAXPY_F32: return run_saxpy(op);
	case SIMGPU_KERNEL_REDUCE_U32: return run_reduce(op);
	case SIMGPU_KERNEL_MATMUL_F32: return run_matmul(op);
	case SIMGPU_KERNEL_STAMP_NS: return run_stamp(op);
	default: return 0;
	}
}

static void memset_fill(void *p, const struct simgpu_op_memset *m, uint64_t bytes)
{
	if (m->elem_bytes == 1) {
		memset(p, (int)(m->value & 0xff), bytes);
	} else if (m->elem_bytes == 2) {
		for (uint64_t i = 0; i < bytes / 2; i++)
			((uint16_t *)p)[i] = (uint16_t)m->value;
	} else {
		for (uint64_t i = 0; i < bytes / 4; i++)
			((uint32_t *)p)[i] = m->value;
	}
}

static int memset_host(
	const struct eop *op, const struct simgpu_op_memset *m, uint64_t to, uint64_t bytes)
{
	_cleanup_free_ uint8_t *part = malloc(MIN(bytes, BOUNCE_BYTES) + 1);
	int r = part ? 0 : -ENOMEM;

	if (part)
		memset_fill(part, m, MIN(bytes, BOUNCE_BYTES));
	for (uint64_t at = 0, n; at < bytes && r >= 0; at += n) {
		n = MIN(bytes - at, BOUNCE_BYTES);
		r = exec_host_io(op->proc->host, part, to + at, n, true);
	}
	return r;
}

static int run_memset(const struct eop *op)
{
	const struct simgpu_op_memset *m = &op->e.memset;
	const uint64_t bytes = m->width * m->elem_bytes;

	for (uint64_t y = 0; y < m->height; y++) {
		uint64_t to = m->ptr + y * m->pitch;
		int r;

		if (!mem_is_device(to)) {
			r = memset_host(op, m, to, bytes);
		} else {
			r = exec_check_range(op, to, bytes, true);
			if (r >= 0)
				memset_fill((void *)to, m, bytes);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* Copies between host memory and host memory of the same process. */
static int copy_host(const struct host_memory *host, uint64_t dst, uint64_t src, uint64_t bytes)
{
	_cleanup_free_ uint8_t *bounce = malloc(BOUNCE_BYTES);
	int r = bounce ? 0 : -ENOMEM;

	for (uint64_t at = 0, n; at < bytes && r >= 0; at += n) {
		n = MIN(bytes - at, BOUNCE_BYTES);
		r = exec_host_io(host, bounce, src + at, n, false);
		if (r >= 0)
			r = exec_host_io(host, bounce, dst + at, n, true);
	}
	return r;
}

static int copy_row(
	const struct eop *op, uint64_t dst, uint64_t src, const uint8_t *data, uint64_t bytes)
{
	bool to = mem_is_device(dst), from = !data && mem_is_device(src);
	int r = 0;

	if (to)
		r = exec_check_range(op, dst, bytes, true);
	if (r >= 0 && from)
		r = exec_check_range(op, src, bytes, false);
	if (r < 0)
		return r;
	if (data && to) {
		memcpy((void *)dst, data, bytes);
		return 0;
	}
	if (to && from) {
		memmove((void *)dst, (const void *)src, bytes);
		return 0;
	}
	if (to)
		return exec_host_io(op->proc->host, (void *)dst, src, bytes, false);
	if (from)
		return exec_host_io(op->proc->host, (void *)src, dst, bytes, true);
	if (data)
		return exec_host_io(op->proc->host, (void *)data, dst, bytes, true);
	return copy_host(op->proc->host, dst, src, bytes);
}

static int run_copy(const struct eop *op)
{
	const struct simgpu_op_copy *c = &op->e.copy;
	const uint8_t *data = op->e.flags & SIMGPU_ENTRY_INLINE ? op->data : NULL;

	if (!c->width)
		return 0;
	for (uint64_t z = 0; z < c->depth; z++) {
		for (uint64_t y = 0; y < c->height; y++) {
			uint64_t dst = c->dst + z * c->dst_slice + y * c->dst_pitch;
			uint64_t src = c->src + z * c->src_slice + y * c->src_pitch;
			const uint8_t *row = data ? data + (z * c->height + y) * c->width : NULL;
			int r = copy_row(op, dst, src, row, c->width);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

bool exec_finish(struct eop *op)
{
	struct engine *e = engine_of(op);
	bool wrote = false;
	int r = 0;

	switch ((enum simgpu_op_kind)op->e.kind) {
	case SIMGPU_OP_KERNEL:
		if (op->code) {
			uint32_t fault = compute_finish(op);

			if (fault)
				submit_fail(op->ctx, fault);
			return true;
		}
		r = run_kernel(op);
		wrote = op->e.kernel.kernel != SIMGPU_KERNEL_SPIN_NS &&
			op->e.kernel.kernel != SIMGPU_KERNEL_OTHER;
		break;
	case SIMGPU_OP_MEMSET:
		r = run_memset(op);
		wrote = true;
		break;
	case SIMGPU_OP_COPY:
		r = run_copy(op);
		wrote = true;
		break;
	case SIMGPU_OP_WRITE_VALUE:
		r = write_word(op, op->e.value.ptr, op->e.value.value, op->e.value.bytes);
		wrote = true;
		break;
	case SIMGPU_OP_FREE_ASYNC:
		compute_stop();
		if (op->ticket)
			mem_free_ticket(e->mem, op->e.mem.ptr, op->ticket);
		else if (mem_free(e->mem, &op->proc->mem, op->e.mem.ptr) < 0)
			r = -EFAULT;
		compute_resume();
		break;
	default: break;
	}
	if (r < 0)
		submit_fail(op->ctx, SIMGPU_ILLEGAL_ADDRESS);
	return wrote;
}
