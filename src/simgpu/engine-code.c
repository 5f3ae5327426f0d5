/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of modules: translates PTX in a thread of the pool, and answers the client when that is
 * done. Meanwhile the client waits, and the loop serves all others. Functions named translation_*
 * that the pool calls run in its threads; all others in the loop's.
 */
#include "simgpu/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "simgpu/engine-heap.h"
#include "simgpu/engine-pool.h"

/* NAMES_PAUSE: names, or comparisons of names, between two pauses. */
enum { NAMES_PAUSE = 4096 };

/* Adds the bytes to *taken. False: the tenant may not take them. */
static bool code_take_memory(const struct tenant *tenant, uint64_t bytes, uint64_t *taken)
{
	if (!tenant->memory.take(tenant->memory.user, bytes, false))
		return false;
	*taken += bytes;
	return true;
}

static void code_give_memory(const struct tenant *tenant, uint64_t taken)
{
	if (taken)
		tenant->memory.give(tenant->memory.user, taken);
}

void code_unref(struct ecode *code)
{
	if (!code || --code->refs)
		return;
	ptx_free(code->ptx);
	code_give_memory(code->tenant, code->taken);
	tenant_unref(code->tenant);
	free(code->kernels);
	free(code);
}

/* ---- the file ---- */

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
	uint64_t taken; /* of the tenant's memory */
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

static void code_pause_at(uint64_t n)
{
	if (n % NAMES_PAUSE == 0)
		pool_pause();
}

/* A client may send millions of names, which take seconds to sort. */
static int code_variable_sort(const void *a, const void *b, void *user)
{
	code_pause_at(++*(uint64_t *)user);
	return code_variable_compare(a, b);
}

/* Takes the names and addresses of the variables, which point into the file. */
static uint32_t code_take_variables(
	struct code_reader *r, const struct tenant *tenant, struct code_variables *ret)
{
	const uint64_t n = (uint64_t)r->head->variables + 1;
	uint64_t compared = 0;

	if (r->head->variables > r->left / sizeof(struct simgpu_code_name))
		return SIMGPU_INVALID_VALUE;
	/* twice: sorting takes as much again */
	if (!code_take_memory(tenant, 2 * n * sizeof(*ret->v), &ret->taken))
		return SIMGPU_OUT_OF_MEMORY;
	ret->v = calloc(n, sizeof(*ret->v));
	if (!ret->v)
		return SIMGPU_OUT_OF_MEMORY;
	for (ret->n = 0; ret->n < r->head->variables; ret->n++) {
		code_pause_at(ret->n);
		if (!code_take_name(r, &ret->v[ret->n].name, &ret->v[ret->n].address))
			return SIMGPU_INVALID_VALUE;
	}
	qsort_r(ret->v, ret->n, sizeof(*ret->v), code_variable_sort, &compared);
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

static bool code_take_head(struct code_reader *r)
{
	r->head = code_take(r, sizeof(*r->head));
	return r->head && r->head->kernels <= r->left / sizeof(struct simgpu_code_name);
}

/* ---- translation ---- */

struct translation {
	struct pool_task task;
	struct proc *proc; /* waits for the answer; NULL: the process has ended */
	struct simgpu_request request;
	uint32_t ctx_id;
	struct map file;
	struct code_reader reader; /* of the file */
	struct code_variables variables;
	struct ecode *code;
	_Atomic bool is_canceled;
	uint32_t status;
	char text[sizeof(((struct simgpu_reply *)0)->text)];
	TAILQ_ENTRY(translation) link;
};

static TAILQ_HEAD(, translation) translations = TAILQ_HEAD_INITIALIZER(translations);

static bool translation_pause(void *user)
{
	struct translation *t = user;

	pool_pause();
	return !t->is_canceled;
}

static bool translation_address(void *user, struct str name, uint64_t *ret_address)
{
	struct translation *t = user;

	return code_address(&t->variables, name, ret_address);
}

static uint32_t translation_status(int e)
{
	return e == -ENOMEM     ? SIMGPU_OUT_OF_MEMORY
		: e == -ENOTSUP ? SIMGPU_NOT_SUPPORTED
				: SIMGPU_INVALID_PTX;
}

static uint32_t translate(struct translation *t)
{
	const struct ptx_loading loading = {.user = t,
		.address = translation_address,
		.pause = translation_pause,
		.memory = &t->task.tenant->memory};
	struct code_reader *r = &t->reader, kernels;
	struct ecode *code = t->code;
	struct error err = {0};
	const char *source;
	struct str name;
	uint64_t address;
	uint32_t status = code_take_variables(r, code->tenant, &t->variables);
	const uint64_t n = (uint64_t)r->head->kernels + 1;
	int e;

	if (status != SIMGPU_OK)
		return status;
	if (!code_take_memory(code->tenant, n * sizeof(*code->kernels), &code->taken))
		return SIMGPU_OUT_OF_MEMORY;
	code->kernels = calloc(n, sizeof(*code->kernels));
	if (!code->kernels)
		return SIMGPU_OUT_OF_MEMORY;
	kernels = *r;
	for (uint32_t i = 0; i < r->head->kernels; i++) {
		code_pause_at(i);
		if (!code_take_name(r, &name, &address))
			return SIMGPU_INVALID_VALUE;
	}
	source = code_take(r, r->head->text_bytes);
	if (!source)
		return SIMGPU_INVALID_VALUE;
	e = ptx_load((struct str){source, r->head->text_bytes}, &loading, &code->ptx, &err);
	if (e < 0) {
		str_copy(t->text, sizeof(t->text),
			(struct str){err.msg, strnlen(err.msg, sizeof(t->text) - 1)});
		return translation_status(e);
	}
	for (code->n = 0; code->n < r->head->kernels; code->n++) {
		code_pause_at(code->n);
		code_take_name(&kernels, &name, &address);
		code->kernels[code->n] = ptx_find_kernel(code->ptx, name);
	}
	return SIMGPU_OK;
}

static void translation_run(struct pool_task *task)
{
	struct translation *t = (struct translation *)task;

	t->status = translate(t);
}

static void translation_free(struct translation *t)
{
	code_unref(t->code);
	code_give_memory(t->task.tenant, t->variables.taken);
	tenant_unref(t->task.tenant);
	code_variables_done(&t->variables);
	map_done(&t->file);
	free(t);
}

uint32_t code_load(struct ectx *ctx, struct module *m, int fd, const struct simgpu_request *request)
{
	int64_t bytes = fd_size(fd);
	struct translation *t;

	/* The seals keep the client from changing or cutting what is read. */
	if (m->code || bytes < (int64_t)sizeof(struct simgpu_code_head) ||
		bytes > SIMGPU_MAX_CODE_BYTES || !memfd_has_seals(fd, F_SEAL_SHRINK | F_SEAL_WRITE))
		return SIMGPU_INVALID_VALUE;
	t = calloc(1, sizeof(*t));
	if (!t)
		return SIMGPU_OUT_OF_MEMORY;
	t->task = (struct pool_task){
		.run = translation_run, .tenant = tenant_ref(ctx->proc->tenant), .most = 1};
	t->request = *request;
	t->ctx_id = ctx->id;
	t->code = calloc(1, sizeof(*t->code));
	if (t->code)
		*t->code = (struct ecode){.refs = 1, .tenant = tenant_ref(ctx->proc->tenant)};
	if (!t->code || map_fd(fd, (size_t)bytes, PROT_READ, &t->file) < 0) {
		translation_free(t);
		return SIMGPU_OUT_OF_MEMORY;
	}
	t->reader.p = t->file.p;
	t->reader.left = (uint64_t)bytes;
	if (!code_take_head(&t->reader)) {
		translation_free(t);
		return SIMGPU_INVALID_VALUE;
	}
	t->proc = ctx->proc;
	t->proc->translation = t;
	TAILQ_INSERT_TAIL(&translations, t, link);
	pool_start(&t->task);
	return SIMGPU_OK;
}

void code_cancel(struct proc *p)
{
	if (!p->translation)
		return;
	p->translation->is_canceled = true;
	p->translation->proc = NULL;
	p->translation = NULL;
}

/* ---- the answer ---- */

static uint32_t code_patch(const struct ectx *ctx, const struct ptx *ptx)
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

/* Gives a context its heap, of the size that the program has set at that time. */
static uint32_t code_make_heap(struct ectx *ctx, uint64_t bytes)
{
	const struct proc *p = ctx->proc;
	uint64_t base;
	int r;

	if (ctx->heap || bytes == 0)
		return SIMGPU_OK;
	compute_stop();
	r = mem_alloc(p->engine->mem, &ctx->proc->mem, ctx->slot, ctx->device, SIMGPU_MEM_LINEAR,
		bytes, &base, NULL);
	compute_resume();
	if (r < 0)
		return SIMGPU_OUT_OF_MEMORY;
	ctx->heap = heap_new(base, bytes, &p->tenant->memory);
	if (ctx->heap)
		return SIMGPU_OK;
	compute_stop();
	mem_free(p->engine->mem, &ctx->proc->mem, base);
	compute_resume();
	return SIMGPU_OUT_OF_MEMORY;
}

/* The client waits, so its context and its module are still there unless the context has failed. */
static uint32_t translation_keep(struct translation *t)
{
	const struct simgpu_request *q = &t->request;
	struct ectx *ctx = q->context < SIMGPU_MAX_CONTEXTS ? t->proc->ctx[q->context] : NULL;
	struct module *m;

	if (t->status != SIMGPU_OK)
		return t->status;
	if (!ctx || ctx->id != t->ctx_id)
		return SIMGPU_INVALID_CONTEXT;
	LIST_FOREACH(m, &ctx->modules, link)
		if (m->id == q->id)
			break;
	if (!m || m->code)
		return SIMGPU_INVALID_VALUE;
	t->status = code_patch(ctx, t->code->ptx);
	if (t->status == SIMGPU_OK && ptx_has_heap(t->code->ptx))
		t->status = code_make_heap(ctx, q->arg[0]);
	if (t->status == SIMGPU_OK)
		m->code = TAKE_PTR(t->code);
	return t->status;
}

void code_settle(void)
{
	struct translation *t, *next;

	for (t = TAILQ_FIRST(&translations); t; t = next) {
		next = TAILQ_NEXT(t, link);
		if (!pool_has_ended(&t->task))
			continue;
		TAILQ_REMOVE(&translations, t, link);
		if (t->proc) {
			struct simgpu_reply a = {.type = t->request.type, .seq = t->request.seq};
			struct proc *p = t->proc;

			p->translation = NULL;
			a.arg[0] = t->code && t->code->ptx && ptx_has_print(t->code->ptx);
			a.status = translation_keep(t);
			memcpy(a.text, t->text, sizeof(a.text));
			serve_reply(p, &a);
		}
		translation_free(t);
	}
}
