/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes kernels whose module came as PTX. Worker threads run the blocks while the loop goes on:
 * as many threads as the machine has processors, and more if kernels would wait for other kernels.
 * A kernel occupies the simulated device until both its modelled time has passed and its computing
 * has ended.
 *
 * Workers read the tables of memory without a lock. Before the loop changes these tables, it stops
 * the workers (compute_stop()), which they allow every few milliseconds, between instructions. An
 * aborted kernel's threads leave before its memory does. Only the functions named worker_* and the
 * callbacks of struct ptx_device run in worker threads.
 */
#include "simgpu/engine.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "ptx/ptx.h"

/* SPARE_MAX: threads for kernels that start while endless ones have all other threads */
enum { WORKERS_MAX = 64, SPARE_MAX = 64, PRINTED_MAX = 1 << 20 };

struct ecode {
	uint32_t refs;
	struct ptx *ptx;
	uint32_t n;
	int32_t *kernels; /* of the module, by the client's number; -1: not in the text */
};

struct ejob {
	struct ptx_job *job;
	struct ptx_device device;
	struct eop *op;
	uint64_t begin_ns;
	uint32_t workers; /* threads inside, under the lock */
	bool is_queued;   /* further threads may join */
	bool has_ended;
	uint64_t ended_ns;
	TAILQ_ENTRY(ejob) link;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work, quiet; /* quiet: a worker has paused or left */
	TAILQ_HEAD(, ejob) queue;
	uint32_t threads, max;
	uint32_t busy;   /* threads that have a job */
	uint32_t inside; /* workers that may read memory */
	_Atomic bool stop;
	bool is_ending;
	int wake; /* eventfd for the loop */
	pthread_t ids[WORKERS_MAX + SPARE_MAX];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.quiet = PTHREAD_COND_INITIALIZER,
	.wake = -1};

/* ---- code ---- */

void compute_code_unref(struct ecode *code)
{
	if (!code || --code->refs)
		return;
	ptx_free(code->ptx);
	free(code->kernels);
	free(code);
}

/* A code file, as the client has sent it; each size is checked before it is used. */
struct code_reader {
	const uint8_t *p;
	uint64_t left;
	const struct simgpu_code_head *head;
};

static const void *code_take(struct code_reader *r, uint64_t n)
{
	const void *p = r->p;
	uint64_t padded = (n + 7) & ~UINT64_C(7);

	if (n > r->left || padded > r->left)
		return NULL;
	r->p += padded;
	r->left -= padded;
	return p;
}

static bool code_take_name(struct code_reader *r, struct str *ret_name, uint64_t *ret_address)
{
	const struct simgpu_code_name *name = code_take(r, sizeof(*name));
	const char *text = name ? code_take(r, name->bytes) : NULL;

	if (!text)
		return false;
	*ret_name = (struct str){text, name->bytes};
	*ret_address = name->address;
	return true;
}

struct code_variable {
	struct str name;
	uint64_t address;
};

/* Sorted by name. */
struct code_variables {
	struct code_variable *v;
	uint32_t n;
};

static void code_variables_done(struct code_variables *variables)
{
	free(variables->v);
}

static int code_variable_compare(const void *a, const void *b)
{
	const struct code_variable *x = a, *y = b;

	return str_compare(x->name, y->name);
}

/* Takes the names and addresses of the variables, which point into the file. */
static uint32_t code_take_variables(struct code_reader *r, struct code_variables *ret)
{
	if (r->head->variables > r->left / sizeof(struct simgpu_code_name))
		return SIMGPU_INVALID_VALUE;
	ret->v = calloc((size_t)r->head->variables + 1, sizeof(*ret->v));
	if (!ret->v)
		return SIMGPU_OUT_OF_MEMORY;
	for (ret->n = 0; ret->n < r->head->variables; ret->n++)
		if (!code_take_name(r, &ret->v[ret->n].name, &ret->v[ret->n].address))
			return SIMGPU_INVALID_VALUE;
	qsort(ret->v, ret->n, sizeof(*ret->v), code_variable_compare);
	return SIMGPU_OK;
}

static bool code_address(void *user, struct str name, uint64_t *ret_address)
{
	const struct code_variables *variables = user;
	const struct code_variable key = {.name = name};
	const struct code_variable *found = bsearch(
		&key, variables->v, variables->n, sizeof(key), code_variable_compare);

	if (!found)
		return false;
	*ret_address = found->address;
	return true;
}

static uint32_t code_patch(struct ectx *ctx, const struct ptx *ptx)
{
	const struct proc *p = ctx->proc;

	for (uint32_t i = 0; i < ptx_patch_count(ptx); i++) {
		struct ptx_patch patch = ptx_patch_get(ptx, i);

		if (mem_check(p->engine->mem, &p->mem, ctx->device, patch.address, patch.bytes,
			    true) < 0)
			return SIMGPU_INVALID_VALUE;
		memcpy((void *)patch.address, &patch.value, patch.bytes);
	}
	return SIMGPU_OK;
}

static uint32_t code_translate(
	struct ectx *ctx, struct code_reader r, struct ecode *code, char *text, size_t size)
{
	_cleanup_(code_variables_done) struct code_variables variables = {0};
	struct error err = {0};
	struct str name;
	uint64_t address;
	const char *source;
	uint32_t status;
	int e;

	status = code_take_variables(&r, &variables);
	if (status != SIMGPU_OK)
		return status;
	code->kernels = calloc((size_t)r.head->kernels + 1, sizeof(*code->kernels));
	if (!code->kernels)
		return SIMGPU_OUT_OF_MEMORY;
	{
		struct code_reader kernels = r;

		for (uint32_t i = 0; i < r.head->kernels; i++)
			if (!code_take_name(&r, &name, &address))
				return SIMGPU_INVALID_VALUE;
		source = code_take(&r, r.head->text_bytes);
		if (!source)
			return SIMGPU_INVALID_VALUE;
		e = ptx_load((struct str){source, r.head->text_bytes},
			&(struct ptx_loading){.user = &variables, .address = code_address},
			&code->ptx, &err);
		if (e < 0) {
			snprintf(text, size, "%s", err.msg);
			return e == -ENOMEM     ? SIMGPU_OUT_OF_MEMORY
				: e == -ENOTSUP ? SIMGPU_NOT_SUPPORTED
						: SIMGPU_INVALID_PTX;
		}
		for (code->n = 0; code->n < r.head->kernels; code->n++) {
			code_take_name(&kernels, &name, &address);
			code->kernels[code->n] = ptx_find_kernel(code->ptx, name);
		}
	}
	return code_patch(ctx, code->ptx);
}

uint32_t compute_load(
	struct ectx *ctx, struct module *m, int fd, char *text, size_t size, bool *ret_prints)
{
	_cleanup_map_ struct map map = MAP_NONE;
	struct code_reader r = {0};
	struct simgpu_code_head head;
	struct ecode *code;
	int64_t bytes = fd_size(fd);
	uint32_t status;

	/* The seals keep the client from changing or cutting what is read. */
	if (m->code || bytes < (int64_t)sizeof(head) || bytes > SIMGPU_MAX_CODE_BYTES ||
		!memfd_has_seals(fd, F_SEAL_SHRINK | F_SEAL_WRITE) ||
		map_fd(fd, (size_t)bytes, PROT_READ, &map) < 0)
		return SIMGPU_INVALID_VALUE;
	r.p = map.p;
	r.left = (uint64_t)bytes;
	r.head = code_take(&r, sizeof(head));
	if (r.head->kernels > (uint64_t)bytes / sizeof(struct simgpu_code_name))
		return SIMGPU_INVALID_VALUE;
	code = calloc(1, sizeof(*code));
	if (!code)
		return SIMGPU_OUT_OF_MEMORY;
	code->refs = 1;
	status = code_translate(ctx, r, code, text, size);
	if (status != SIMGPU_OK) {
		compute_code_unref(code);
		return status;
	}
	*ret_prints = ptx_has_print(code->ptx);
	m->code = code;
	return SIMGPU_OK;
}

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

/* ---- what kernels reach; worker threads ---- */

static int worker_range(void *user, uint64_t address, struct ptx_range *ret_range)
{
	const struct ejob *job = user;
	const struct ectx *ctx = job->op->ctx;
	const struct engine *e = ctx->proc->engine;
	struct mem_extent extent;

	if (!mem_is_device(address))
		return -ENXIO;
	if (mem_find_extent(e->mem, &ctx->proc->mem, ctx->device, address, &extent) < 0)
		return -EFAULT;
	if (extent.device != ctx->device && !extent.is_shared &&
		!(ctx->peers & 1u << extent.device))
		return -EFAULT;
	*ret_range = (struct ptx_range){extent.lo, extent.hi, extent.can_write};
	return 0;
}

static int worker_host(void *user, uint64_t address, void *buf, size_t n, bool write)
{
	const struct ejob *job = user;

	return exec_host_io(job->op, buf, address, n, write);
}

/* One at a time, so that atomics of several workers are atomic. */
static int worker_host_update(void *user, uint64_t address, uint32_t bytes,
	void (*update)(void *data, void *buf), void *data)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const struct ejob *job = user;
	uint8_t buf[16];
	int r;

	if (bytes > sizeof(buf))
		return -EFAULT;
	pthread_mutex_lock(&lock);
	r = exec_host_io(job->op, buf, address, bytes, false);
	if (r >= 0) {
		update(data, buf);
		r = exec_host_io(job->op, buf, address, bytes, true);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static void worker_pause(void *user)
{
	if (!pool.stop)
		return;
	pthread_mutex_lock(&pool.lock);
	pool.inside--;
	pthread_cond_broadcast(&pool.quiet);
	while (pool.stop)
		pthread_cond_wait(&pool.work, &pool.lock);
	pool.inside++;
	pthread_mutex_unlock(&pool.lock);
}

static void worker_print(void *user, const char *text, size_t n)
{
	struct ejob *job = user;
	struct ectx *ctx = job->op->ctx;

	pthread_mutex_lock(&pool.lock);
	if (!ctx->printed)
		ctx->printed = malloc(PRINTED_MAX);
	/* As on hardware, the program loses what the buffer cannot hold. */
	if (ctx->printed && n <= PRINTED_MAX - ctx->n_printed) {
		memcpy(ctx->printed + ctx->n_printed, text, n);
		ctx->n_printed += (uint32_t)n;
	}
	pthread_mutex_unlock(&pool.lock);
}

static uint64_t worker_now(void *user)
{
	return clock_now_ns();
}

/* The job with the fewest threads, so that jobs run side by side. */
static struct ejob *worker_choose(void)
{
	struct ejob *job, *best = NULL;

	TAILQ_FOREACH(job, &pool.queue, link)
		if (!best || job->workers < best->workers)
			best = job;
	return best;
}

static void *worker_main(void *arg)
{
	uint64_t one = 1;

	pthread_mutex_lock(&pool.lock);
	while (!pool.is_ending) {
		struct ejob *job = pool.stop ? NULL : worker_choose();

		if (!job) {
			pthread_cond_wait(&pool.work, &pool.lock);
			continue;
		}
		job->workers++;
		pool.busy++;
		pool.inside++;
		pthread_mutex_unlock(&pool.lock);
		ptx_job_work(job->job);
		pthread_mutex_lock(&pool.lock);
		pool.inside--;
		pool.busy--;
		if (job->is_queued) {
			/* This thread found no block left. */
			TAILQ_REMOVE(&pool.queue, job, link);
			job->is_queued = false;
		}
		if (--job->workers == 0) {
			job->has_ended = true;
			job->ended_ns = clock_now_ns();
			if (write(pool.wake, &one, sizeof(one)) < 0)
				log_debug("wake the loop: %m");
		}
		pthread_cond_broadcast(&pool.quiet);
	}
	pthread_mutex_unlock(&pool.lock);
	return NULL;
}

/* ---- the pool; the loop's thread ---- */

int compute_wake_fd(void)
{
	if (pool.wake < 0)
		pool.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return pool.wake;
}

static uint32_t pool_size(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return 1;
	return MIN((uint32_t)CPU_COUNT(&cpus), (uint32_t)WORKERS_MAX);
}

/*
 * Starts the threads at the first kernel that is computed. A thread stays with a job until no block
 * is left, so a job that finds no free thread gets one more. Otherwise endless kernels of one
 * tenant would keep those of all others from computing.
 */
static bool pool_start(void)
{
	uint32_t wanted = 1;
	struct ejob *job;

	if (pool.max == 0) {
		TAILQ_INIT(&pool.queue);
		pool.max = pool_size();
	}
	pthread_mutex_lock(&pool.lock);
	wanted += pool.busy;
	TAILQ_FOREACH(job, &pool.queue, link)
		wanted += job->workers == 0;
	pthread_mutex_unlock(&pool.lock);
	wanted = MAX(wanted, pool.max);
	wanted = MIN(wanted, (uint32_t)(WORKERS_MAX + SPARE_MAX));
	while (pool.threads < wanted &&
		pthread_create(&pool.ids[pool.threads], NULL, worker_main, NULL) == 0)
		pool.threads++;
	return pool.threads != 0;
}

void compute_end(void)
{
	pthread_mutex_lock(&pool.lock);
	pool.is_ending = true;
	pthread_cond_broadcast(&pool.work);
	pthread_mutex_unlock(&pool.lock);
	for (uint32_t i = 0; i < pool.threads; i++)
		pthread_join(pool.ids[i], NULL);
	pool.threads = 0;
	fd_close(pool.wake);
}

/* Nests: only the outermost call stops and resumes. */
static uint32_t n_stops;

void compute_stop(void)
{
	if (n_stops++)
		return;
	pool.stop = true;
	if (pool.threads == 0)
		return;
	pthread_mutex_lock(&pool.lock);
	while (pool.inside)
		pthread_cond_wait(&pool.quiet, &pool.lock);
	pthread_mutex_unlock(&pool.lock);
}

void compute_resume(void)
{
	if (--n_stops)
		return;
	pool.stop = false;
	if (pool.threads == 0)
		return;
	pthread_mutex_lock(&pool.lock);
	pthread_cond_broadcast(&pool.work);
	pthread_mutex_unlock(&pool.lock);
}

/* ---- one kernel ---- */

void compute_start(struct eop *op)
{
	const struct engine *e = op->proc->engine;
	const struct simgpu_model *model = &e->config.devices[op->ctx->device];
	const struct simgpu_op_kernel *k = &op->e.kernel;
	struct ejob *job = calloc(1, sizeof(*job));
	struct ptx_launch launch = {
		.ptx = op->code->ptx,
		.kernel = (uint32_t)op->code->kernels[k->function],
		.shared_bytes = k->shared_bytes,
		.params = op->data,
		.param_bytes = k->param_bytes,
		.is_cooperative = (op->e.flags & SIMGPU_ENTRY_COOPERATIVE) != 0,
	};
	int r = -ENOMEM;

	if (job && pool_start()) {
		job->op = op;
		job->device = (struct ptx_device){
			.user = job,
			.range = worker_range,
			.host = worker_host,
			.host_update = worker_host_update,
			.pause = worker_pause,
			.print = worker_print,
			.now_ns = worker_now,
			.sm_count = model->sm_count,
			.sm = model->cc_major * 10 + model->cc_minor,
			.steps_max = e->config.costs.steps_max,
		};
		launch.device = &job->device;
		memcpy(launch.grid, k->grid, sizeof(launch.grid));
		memcpy(launch.block, k->block, sizeof(launch.block));
		r = ptx_job_new(&launch, &job->job);
	}
	if (r < 0) {
		free(job);
		submit_fail(op->ctx, r == -ENOMEM ? SIMGPU_OUT_OF_MEMORY : SIMGPU_LAUNCH_FAILED);
		return;
	}
	job->begin_ns = clock_now_ns();
	op->job = job;
	pthread_mutex_lock(&pool.lock);
	job->is_queued = true;
	TAILQ_INSERT_TAIL(&pool.queue, job, link);
	pthread_cond_broadcast(&pool.work);
	pthread_mutex_unlock(&pool.lock);
}

bool compute_is_done(struct eop *op)
{
	struct engine *e = op->proc->engine;
	bool has_ended;

	if (!op->job)
		return true;
	pthread_mutex_lock(&pool.lock);
	has_ended = op->job->has_ended;
	pthread_mutex_unlock(&pool.lock);
	if (!has_ended)
		return false; /* the eventfd wakes the loop */
	op->is_model_time = tl_set_length(e->tl, &op->tl, op->model_ns);
	return !op->is_model_time;
}

/* Takes the job from the workers, and returns the fault of the kernel. */
static struct ptx_result job_leave(struct ejob *job)
{
	struct ptx_result result;
	bool was_stopped = pool.stop;

	pthread_mutex_lock(&pool.lock);
	if (job->is_queued) {
		TAILQ_REMOVE(&pool.queue, job, link);
		job->is_queued = false;
	}
	if (job->workers) {
		ptx_job_cancel(job->job);
		pool.stop = false;
		pthread_cond_broadcast(&pool.work);
		while (job->workers)
			pthread_cond_wait(&pool.quiet, &pool.lock);
		pool.stop = was_stopped;
		while (was_stopped && pool.inside)
			pthread_cond_wait(&pool.quiet, &pool.lock);
	}
	pthread_mutex_unlock(&pool.lock);
	result = ptx_job_result(job->job);
	ptx_job_free(job->job);
	free(job);
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

	pthread_mutex_lock(&pool.lock);
	n = ctx->n_printed;
	if (n) {
		fd = memfd_new("divvy-sim-printed", 0);
		if (fd >= 0 && fd_write_all(fd, ctx->printed, n) < 0)
			fd = fd_close(fd);
		ctx->n_printed = 0;
	}
	pthread_mutex_unlock(&pool.lock);
	return TAKE_FD(fd);
}
