/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes kernels whose module came as PTX. Threads of the pool run the blocks while the loop goes
 * on. A kernel occupies the simulated device until both its modelled time has passed and its
 * computing has ended.
 *
 * Threads read the tables of memory without a lock, since the loop stops them before it changes
 * these tables. An aborted kernel's threads leave before its memory does, except a thread that
 * waits for memory of the program: such a thread finds its kernel abandoned when it comes back, and
 * touches nothing but the job. Only the callbacks named worker_* run in the pool's threads.
 */
#include "simgpu/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "simgpu/engine-heap.h"
#include "simgpu/engine-pool.h"

enum { PRINTED_MAX = 1 << 20 };

struct ejob {
	struct pool_task task;
	struct ptx_job *job;
	struct ptx_device device;
	struct ptx_memory memory;
	_Atomic uint64_t bytes;   /* of memory */
	struct eop *op;           /* gone when the job is abandoned */
	struct ecode *code;       /* with a reference, as `host` */
	struct host_memory *host; /* of the process */
	_Atomic bool is_abandoned;
};

/* The printed text of all contexts. */
static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- what kernels reach; threads of the pool ---- */

static int worker_range(void *user, uint64_t address, struct ptx_range *ret_range)
{
	const struct ejob *job = user;
	const struct ectx *ctx;
	const struct engine *e;
	struct mem_extent extent;

	if (!mem_is_device(address))
		return -ENXIO;
	if (job->is_abandoned)
		return -EFAULT;
	ctx = job->op->ctx;
	e = ctx->proc->engine;
	if (mem_find_extent(e->mem, &ctx->proc->mem, ctx->device, address, &extent) < 0)
		return -EFAULT;
	if (extent.device != ctx->device && !extent.is_shared &&
		!(ctx->peers & 1u << extent.device))
		return -EFAULT;
	*ret_range = (struct ptx_range){extent.lo, extent.hi, extent.can_write};
	return 0;
}

static void worker_come_back(struct ejob *job)
{
	if (!pool_come_back())
		job->is_abandoned = true;
}

static int worker_host(void *user, uint64_t address, void *buf, size_t n, bool write)
{
	struct ejob *job = user;
	int r;

	if (job->is_abandoned)
		return -EFAULT;
	pool_go_outside();
	r = exec_host_io(job->host, buf, address, n, write);
	worker_come_back(job);
	return r;
}

/* One at a time in each process, so that atomics of several threads are atomic. */
static int worker_host_update(void *user, uint64_t address, uint32_t bytes,
	void (*update)(void *data, void *buf), void *data)
{
	struct ejob *job = user;
	uint8_t buf[16];
	int r;

	if (bytes > sizeof(buf) || job->is_abandoned)
		return -EFAULT;
	pool_go_outside();
	pthread_mutex_lock(&job->host->lock);
	r = exec_host_io(job->host, buf, address, bytes, false);
	if (r >= 0) {
		update(data, buf);
		r = exec_host_io(job->host, buf, address, bytes, true);
	}
	pthread_mutex_unlock(&job->host->lock);
	worker_come_back(job);
	return r;
}

static void worker_pause(void *user)
{
	pool_pause();
}

static void worker_print(void *user, const char *text, size_t n)
{
	struct ejob *job = user;
	struct ectx *ctx;

	if (job->is_abandoned)
		return;
	ctx = job->op->ctx;
	pthread_mutex_lock(&print_lock);
	if (!ctx->printed && job->memory.take(job, PRINTED_MAX, true)) {
		ctx->printed = malloc(PRINTED_MAX);
		if (!ctx->printed)
			job->memory.give(job, PRINTED_MAX);
		else
			atomic_fetch_sub(&job->bytes, PRINTED_MAX); /* the context's now */
	}
	/* As on hardware, the program loses what the buffer cannot hold. */
	if (ctx->printed && n <= PRINTED_MAX - ctx->n_printed) {
		memcpy(ctx->printed + ctx->n_printed, text, n);
		ctx->n_printed += (uint32_t)n;
	}
	pthread_mutex_unlock(&print_lock);
}

static uint64_t worker_heap_take(void *user, uint64_t bytes)
{
	const struct ejob *job = user;

	return job->is_abandoned || !job->op->ctx->heap ? 0 : heap_take(job->op->ctx->heap, bytes);
}

static bool worker_heap_give(void *user, uint64_t address)
{
	const struct ejob *job = user;

	return !job->is_abandoned && job->op->ctx->heap && heap_give(job->op->ctx->heap, address);
}

static uint64_t worker_now(void *user)
{
	return clock_now_ns();
}

/* A kernel gets a quarter of the limit at most, and what its tenant may take. */
static bool worker_take(void *user, uint64_t bytes, bool is_spare)
{
	struct ejob *job = user;
	const struct ptx_memory *memory = &job->task.tenant->memory;
	uint64_t own = atomic_fetch_add(&job->bytes, bytes) + bytes;

	if (own <= tenants_limit() / 4 && memory->take(memory->user, bytes, is_spare))
		return true;
	atomic_fetch_sub(&job->bytes, bytes);
	return false;
}

static void worker_give(void *user, uint64_t bytes)
{
	struct ejob *job = user;

	atomic_fetch_sub(&job->bytes, bytes);
	job->task.tenant->memory.give(job->task.tenant, bytes);
}

static void worker_run(struct pool_task *task)
{
	struct ejob *job = (struct ejob *)task;

	pool_enter();
	ptx_job_work(job->job);
	pool_leave();
}

/* ---- one kernel; the loop's thread ---- */

uint32_t compute_plan(struct eop *op)
{
	const struct simgpu_op_kernel *k = &op->e.kernel;
	struct module *m;

	LIST_FOREACH(m, &op->ctx->modules, link)
		if (m->id == k->code)
			break;
	if (!m || !m->code || k->function >= m->code->n || m->code->kernels[k->function] < 0)
		return SIMGPU_INVALID_VALUE;
	op->code = m->code;
	op->code->refs++;
	op->model_ns = op->tl.duration_ns;
	/* The kernel ends when compute_is_done() returns true. */
	op->tl.spin = true;
	op->tl.duration_ns = TL_NEVER / 4;
	return SIMGPU_OK;
}

static void job_free(struct pool_task *task)
{
	struct ejob *job = (struct ejob *)task;

	if (job->job)
		ptx_job_free(job->job);
	code_unref(job->code);
	host_memory_unref(job->host);
	tenant_unref(job->task.tenant);
	free(job);
}

static struct ejob *job_new(struct eop *op)
{
	const struct engine *e = op->proc->engine;
	const struct simgpu_model *model = &e->config.devices[op->ctx->device];
	struct ejob *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->task = (struct pool_task){.run = worker_run,
		.free = job_free,
		.tenant = tenant_ref(op->proc->tenant),
		.most = UINT32_MAX};
	job->op = op;
	job->code = op->code;
	job->code->refs++;
	job->host = op->proc->host;
	job->host->refs++;
	job->memory = (struct ptx_memory){job, worker_take, worker_give};
	job->device = (struct ptx_device){
		.user = job,
		.range = worker_range,
		.host = worker_host,
		.host_update = worker_host_update,
		.pause = worker_pause,
		.print = worker_print,
		.heap_take = worker_heap_take,
		.heap_give = worker_heap_give,
		.now_ns = worker_now,
		.sm_count = model->sm_count,
		.sm = model->cc_major * 10 + model->cc_minor,
		.steps_max = e->config.costs.steps_max,
		.memory = &job->memory,
	};
	return job;
}

void compute_start(struct eop *op)
{
	const struct simgpu_op_kernel *k = &op->e.kernel;
	struct ejob *job = job_new(op);
	struct ptx_launch launch = {
		.ptx = op->code->ptx,
		.kernel = (uint32_t)op->code->kernels[k->function],
		.shared_bytes = k->shared_bytes,
		.params = op->data,
		.param_bytes = k->param_bytes,
		.is_cooperative = (op->e.flags & SIMGPU_ENTRY_COOPERATIVE) != 0,
	};
	int r = -ENOMEM;

	if (job) {
		launch.device = &job->device;
		memcpy(launch.grid, k->grid, sizeof(launch.grid));
		memcpy(launch.block, k->block, sizeof(launch.block));
		r = ptx_job_new(&launch, &job->job);
	}
	if (r < 0) {
		if (job)
			job_free(&job->task);
		submit_fail(op->ctx, r == -ENOMEM ? SIMGPU_OUT_OF_MEMORY : SIMGPU_LAUNCH_FAILED);
		return;
	}
	op->job = job;
	pool_start(&job->task);
}

bool compute_is_done(struct eop *op)
{
	struct engine *e = op->proc->engine;

	if (!op->job)
		return true;
	if (!pool_has_ended(&op->job->task))
		return false; /* the eventfd wakes the loop */
	op->is_model_time = tl_set_length(e->tl, &op->tl, op->model_ns);
	return !op->is_model_time;
}

/* Takes the job from the threads, and returns the fault of the kernel. */
static struct ptx_result job_leave(struct ejob *job)
{
	struct ptx_result result;

	if (!pool_has_ended(&job->task))
		ptx_job_cancel(job->job);
	if (!pool_take(&job->task))
		return (struct ptx_result){.fault = PTX_CANCELED};
	result = ptx_job_result(job->job);
	job_free(&job->task);
	return result;
}

uint32_t compute_finish(struct eop *op)
{
	struct ptx_result result;

	if (!op->job)
		return SIMGPU_OK;
	result = job_leave(TAKE_PTR(op->job));
	if (result.fault == PTX_OK || result.fault == PTX_CANCELED)
		return SIMGPU_OK;
	log_warn("simulated kernel '%s' of process %d: %s at line %u of its PTX, address 0x%llx",
		ptx_kernel_name(op->code->ptx, (uint32_t)op->code->kernels[op->e.kernel.function]),
		op->proc->pid, ptx_fault_name(result.fault), result.line,
		(unsigned long long)result.address);
	return (uint32_t)result.fault;
}

int compute_take_printed(struct ectx *ctx)
{
	_cleanup_close_ int fd = -1;
	uint32_t n;

	pthread_mutex_lock(&print_lock);
	n = ctx->n_printed;
	if (n) {
		fd = memfd_new("divvy-sim-printed", 0);
		if (fd >= 0 && fd_write_all(fd, ctx->printed, n) < 0)
			fd = fd_close(fd);
		ctx->n_printed = 0;
	}
	pthread_mutex_unlock(&print_lock);
	return TAKE_FD(fd);
}

void compute_drop_printed(struct ectx *ctx)
{
	if (!ctx->printed)
		return;
	free(ctx->printed);
	ctx->printed = NULL;
	ctx->proc->tenant->memory.give(ctx->proc->tenant, PRINTED_MAX);
}
