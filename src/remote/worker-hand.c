/* SPDX-License-Identifier: Apache-2.0 */
/* Requests whose fields no layout describes: images, launches, kernel nodes. Any lane's thread. */
#include <stdlib.h>

#include "cuda/image.h"
#include "remote/store.h"
#include "remote/worker.h"

static void give_u64(struct serve *s, uint64_t value)
{
	give(s, &value, sizeof(value));
}

static void give_handle(struct serve *s, enum kind kind, const void *real)
{
	give_u64(s, handle_name(s, kind, (uintptr_t)real));
}

/* ---- images ---- */

static _Atomic uint64_t blobs_room; /* bytes of images in transit, of all threads */

static bool blobs_take(size_t bytes)
{
	uint64_t taken = atomic_load(&blobs_room);

	do
		if (taken + bytes > BLOBS_MAX)
			return false;
	while (!atomic_compare_exchange_weak(&blobs_room, &taken, taken + bytes));
	return true;
}

static CUresult blob_add(struct serve *s, const uint8_t *p, size_t n)
{
	if (s->blob_bytes + n > BLOB_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (s->blob_bytes + n > s->blob_room) {
		const size_t room = 2 * (s->blob_bytes + n), added = room - s->blob_room;
		uint8_t *more;

		if (!blobs_take(added))
			return CUDA_ERROR_OUT_OF_MEMORY;
		more = realloc(s->blob, room);
		if (!more) {
			blobs_room -= added;
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		s->blob = more;
		s->blob_room = room;
	}
	memcpy(s->blob + s->blob_bytes, p, n);
	s->blob_bytes += n;
	return CUDA_SUCCESS;
}

CUresult serve_blob(struct serve *s)
{
	const uint64_t n = take_u64(s);

	if (s->error || !n || n > (size_t)(s->in_end - s->in))
		return CUDA_ERROR_INVALID_VALUE;
	return blob_add(s, s->data, n);
}

void serve_blob_done(struct serve *s)
{
	free(s->blob);
	blobs_room -= s->blob_room;
	s->blob = NULL;
	s->blob_bytes = s->blob_room = 0;
}

CUresult serve_blob_known(struct serve *s)
{
	const uint8_t *hash = take(s, SHA256_BYTES), *p;
	size_t n;

	if (s->error)
		return s->error;
	p = store_find(hash, &n);
	serve_blob_done(s);
	return p ? blob_add(s, p, n) : CUDA_ERROR_NOT_FOUND;
}

/* Checks the hash, because a wrong hash would make other workers load a foreign image. */
CUresult serve_blob_named(struct serve *s)
{
	const uint8_t *hash = take(s, SHA256_BYTES);
	uint8_t real[SHA256_BYTES];

	if (s->error)
		return s->error;
	sha256(s->blob, s->blob_bytes, real);
	if (memcmp(hash, real, sizeof(real)) != 0) {
		serve_blob_done(s);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	store_add(real, s->blob, s->blob_bytes);
	return CUDA_SUCCESS;
}

struct options {
	uint64_t n;
	CUjit_option option[REMOTE_OPTIONS_MAX + 2]; /* hand_add_log() adds two */
	void *value[REMOTE_OPTIONS_MAX + 2];
};

/* Options whose values are numbers: the driver follows no pointer. */
static bool is_number(CUjit_option option)
{
	switch (option) {
	case CU_JIT_MAX_REGISTERS:
	case CU_JIT_THREADS_PER_BLOCK:
	case CU_JIT_OPTIMIZATION_LEVEL:
	case CU_JIT_TARGET_FROM_CUCONTEXT:
	case CU_JIT_TARGET:
	case CU_JIT_FALLBACK_STRATEGY:
	case CU_JIT_GENERATE_DEBUG_INFO:
	case CU_JIT_LOG_VERBOSE:
	case CU_JIT_GENERATE_LINE_INFO:
	case CU_JIT_CACHE_MODE:
	case CU_JIT_NEW_SM3X_OPT:
	case CU_JIT_FAST_COMPILE:
	case CU_JIT_LTO:
	case CU_JIT_FTZ:
	case CU_JIT_PREC_DIV:
	case CU_JIT_PREC_SQRT:
	case CU_JIT_FMA:
	case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
	case CU_JIT_POSITION_INDEPENDENT_CODE:
	case CU_JIT_MIN_CTA_PER_SM:
	case CU_JIT_MAX_THREADS_PER_BLOCK:
	case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
	case CU_JIT_SPLIT_COMPILE: return true;
	default: return false;
	}
}

static bool hand_take_options(struct serve *s, struct options *ret)
{
	ret->n = take_u64(s);
	if (ret->n > REMOTE_OPTIONS_MAX)
		s->error = CUDA_ERROR_INVALID_VALUE;
	for (uint64_t i = 0; !s->error && i < ret->n; i++) {
		ret->option[i] = (CUjit_option)take_u64(s);
		ret->value[i] = (void *)(uintptr_t)take_u64(s);
		if (!is_number(ret->option[i]))
			s->error = CUDA_ERROR_NOT_SUPPORTED;
	}
	return !s->error;
}

/* The driver writes the reason of a failure into the log, which has REMOTE_LOG_MAX bytes. */
static void hand_add_log(struct options *o, char *log)
{
	log[0] = '\0';
	o->option[o->n] = CU_JIT_ERROR_LOG_BUFFER;
	o->value[o->n++] = log;
	o->option[o->n] = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
	o->value[o->n++] = (void *)(uintptr_t)REMOTE_LOG_MAX;
}

static void hand_give_log(struct serve *s, const char *log)
{
	const uint64_t n = strnlen(log, REMOTE_LOG_MAX - 1);

	give(s, &n, sizeof(n));
	give(s, log, n);
}

/*
 * The driver reads as far as the image states, so the worker refuses an image that states more
 * bytes than were sent.
 */
static bool is_whole(const struct serve *s)
{
	const void *begin;
	uint64_t bytes;

	if (s->blob_bytes < 64)
		return s->blob_bytes && !s->blob[s->blob_bytes - 1] && s->blob[0] != 0x7f &&
			s->blob[0] != 0x50 && s->blob[0] != 0xb1;
	/* A wrapper contains an address, which the driver would follow. */
	if (!memcmp(s->blob, "\xb1\x43\x62\x46", 4))
		return false;
	if (s->blob[0] != 0x7f && s->blob[0] != 0x50)
		return !s->blob[s->blob_bytes - 1];
	bytes = image_bytes(s->blob, &begin);
	return bytes && bytes <= s->blob_bytes;
}

CUresult serve_cuModuleLoadDataEx(struct serve *s)
{
	struct options o;
	CUmodule module = NULL;
	CUresult r = CUDA_ERROR_INVALID_IMAGE;
	char log[REMOTE_LOG_MAX] = "";

	if (!hand_take_options(s, &o)) {
		r = s->error;
	} else if (is_whole(s)) {
		hand_add_log(&o, log);
		r = driver.cuModuleLoadDataEx(&module, s->blob, (unsigned)o.n, o.option, o.value);
	}
	serve_blob_done(s);
	if (r)
		hand_give_log(s, log);
	else
		give_handle(s, KIND_CUmodule, module);
	return r;
}

CUresult serve_cuLibraryLoadData(struct serve *s)
{
	CUlibraryOption keep = CU_LIBRARY_BINARY_IS_PRESERVED;
	CUlibrary library = NULL;
	struct options o;
	CUresult r = CUDA_ERROR_INVALID_IMAGE;
	char log[REMOTE_LOG_MAX] = "";
	void *no = NULL;

	if (!hand_take_options(s, &o)) {
		r = s->error;
	} else if (is_whole(s)) {
		hand_add_log(&o, log);
		r = driver.cuLibraryLoadData(
			&library, s->blob, o.option, o.value, (unsigned)o.n, &keep, &no, 0);
	}
	serve_blob_done(s);
	if (r)
		hand_give_log(s, log);
	else
		give_handle(s, KIND_CUlibrary, library);
	return r;
}

CUresult serve_cuLinkCreate_v2(struct serve *s)
{
	CUlinkState state = NULL;
	struct options o;
	CUresult r = hand_take_options(s, &o)
		? driver.cuLinkCreate_v2((unsigned)o.n, o.option, o.value, &state)
		: s->error;

	if (!r)
		give_handle(s, KIND_CUlinkState, state);
	return r;
}

CUresult serve_cuLinkAddData_v2(struct serve *s)
{
	CUlinkState state = (CUlinkState)(uintptr_t)handle_real(s, KIND_CUlinkState, take_u64(s));
	const CUjitInputType type = (CUjitInputType)take_u64(s);
	const char *name = take_string(s);
	struct options o;
	CUresult r;

	r = hand_take_options(s, &o) ? CUDA_SUCCESS : s->error;
	if (!r)
		r = s->blob_bytes ? driver.cuLinkAddData_v2(state, type, s->blob, s->blob_bytes,
					    name, (unsigned)o.n, o.option, o.value)
				  : CUDA_ERROR_INVALID_VALUE;
	serve_blob_done(s);
	return r;
}

CUresult serve_cuLinkComplete(struct serve *s)
{
	CUlinkState state = (CUlinkState)(uintptr_t)handle_real(s, KIND_CUlinkState, take_u64(s));
	const uint64_t at = take_u64(s);
	void *image = NULL;
	size_t size = 0, n;
	CUresult r = s->error ? s->error : driver.cuLinkComplete(state, &image, &size);

	if (r)
		return r;
	if (at >= size)
		return CUDA_ERROR_INVALID_VALUE;
	n = size - at < REMOTE_PIECE ? size - at : REMOTE_PIECE;
	give_u64(s, size);
	give_u64(s, n);
	give(s, (const uint8_t *)image + at, n);
	return CUDA_SUCCESS;
}

/* ---- launches ---- */

static CUresult hand_param_info(
	uint64_t handle, uint64_t real, size_t i, size_t *offset, size_t *size)
{
	return handle >> 40 == handle_make(KIND_CUkernel, 0) >> 40
		? driver.cuKernelGetParamInfo((CUkernel)(uintptr_t)real, i, offset, size)
		: driver.cuFuncGetParamInfo((CUfunction)(uintptr_t)real, i, offset, size);
}

CUresult serve_layout(struct serve *s)
{
	const uint64_t handle = take_u64(s), real = handle_real(s, KIND_CUfunction, handle);
	struct remote_layout layout = {.n = 0};
	size_t offset = 0, size = 0;
	CUresult r;

	if (s->error || !real)
		return s->error ? s->error : CUDA_ERROR_INVALID_HANDLE;
	while (!(r = hand_param_info(handle, real, layout.n, &offset, &size))) {
		if (layout.n == REMOTE_PARAMS || offset + size > REMOTE_PARAMS_MAX)
			return CUDA_ERROR_NOT_SUPPORTED;
		layout.param[layout.n].offset = (uint16_t)offset;
		layout.param[layout.n].size = (uint16_t)size;
		layout.n++;
		if (offset + size > layout.bytes)
			layout.bytes = (uint32_t)(offset + size);
	}
	if (r != CUDA_ERROR_INVALID_VALUE)
		return r;
	give(s, &layout, sizeof(layout));
	return CUDA_SUCCESS;
}

struct launch {
	struct remote_launch given;
	CUfunction function;
	CUlaunchAttribute *attrs;
	void *params;
	size_t bytes;
	void *extra[5];
};

bool is_carried(CUlaunchAttributeID id)
{
	switch (id) {
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
	case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: return false;
	default: return true;
	}
}

static bool take_launch(struct serve *s, struct launch *l)
{
	l->given = TAKE_VALUE(s, struct remote_launch);
	l->function = (CUfunction)(uintptr_t)handle_real(s, KIND_CUfunction, l->given.function);
	l->attrs = TAKE_ARRAY(s, CUlaunchAttribute, l->given.n_attrs);
	l->bytes = l->given.bytes;
	l->params = TAKE_ARRAY(s, uint8_t, l->bytes);
	for (uint32_t i = 0; !s->error && i < l->given.n_attrs; i++)
		if (!is_carried(l->attrs[i].id))
			s->error = CUDA_ERROR_NOT_SUPPORTED;
	if (!s->error && !l->function)
		s->error = CUDA_ERROR_INVALID_HANDLE;
	l->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	l->extra[1] = l->params;
	l->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	l->extra[3] = &l->bytes;
	l->extra[4] = CU_LAUNCH_PARAM_END;
	return !s->error;
}

static void **extra_of(struct launch *l)
{
	return l->bytes ? l->extra : NULL;
}

CUresult serve_cuLaunchKernel(struct serve *s)
{
	struct launch l;
	CUstream stream;

	if (!take_launch(s, &l))
		return s->error;
	stream = (CUstream)(uintptr_t)handle_real(s, KIND_CUstream, l.given.stream);
	if (s->error)
		return s->error;
	return driver.cuLaunchKernel(l.function, l.given.grid[0], l.given.grid[1], l.given.grid[2],
		l.given.block[0], l.given.block[1], l.given.block[2], l.given.shared, stream, NULL,
		extra_of(&l));
}

/* The cooperative launch takes a list of pointers to the parameters. */
static CUresult hand_param_pointers(struct serve *s, const struct launch *l, void **param)
{
	size_t offset = 0, size = 0, i = 0;

	while (i < REMOTE_PARAMS &&
		!hand_param_info(l->given.function, (uintptr_t)l->function, i, &offset, &size)) {
		if (offset + size > l->bytes)
			return CUDA_ERROR_INVALID_VALUE;
		param[i++] = (uint8_t *)l->params + offset;
	}
	return CUDA_SUCCESS;
}

CUresult serve_cuLaunchCooperativeKernel(struct serve *s)
{
	void *param[REMOTE_PARAMS];
	struct launch l;
	CUstream stream;
	CUresult r;

	if (!take_launch(s, &l))
		return s->error;
	stream = (CUstream)(uintptr_t)handle_real(s, KIND_CUstream, l.given.stream);
	r = s->error ? s->error : hand_param_pointers(s, &l, param);
	return r ? r
		 : driver.cuLaunchCooperativeKernel(l.function, l.given.grid[0], l.given.grid[1],
			   l.given.grid[2], l.given.block[0], l.given.block[1], l.given.block[2],
			   l.given.shared, stream, param);
}

static bool take_config(struct serve *s, struct launch *l, CUlaunchConfig *ret)
{
	if (!take_launch(s, l))
		return false;
	*ret = (CUlaunchConfig){
		.hStream = (CUstream)(uintptr_t)handle_real(s, KIND_CUstream, l->given.stream),
		.sharedMemBytes = l->given.shared,
		.attrs = l->attrs,
		.numAttrs = l->given.n_attrs};
	memcpy(&ret->gridDimX, l->given.grid, sizeof(l->given.grid));
	memcpy(&ret->blockDimX, l->given.block, sizeof(l->given.block));
	return !s->error;
}

CUresult serve_cuLaunchKernelEx(struct serve *s)
{
	CUlaunchConfig config;
	struct launch l;

	return take_config(s, &l, &config)
		? driver.cuLaunchKernelEx(&config, l.function, NULL, extra_of(&l))
		: s->error;
}

static CUresult tell_clusters(
	struct serve *s, CUresult (*ask)(int *, CUfunction, const CUlaunchConfig *))
{
	CUlaunchConfig config;
	struct launch l;
	int n = 0;
	CUresult r;

	if (!take_config(s, &l, &config))
		return s->error;
	r = ask(&n, l.function, &config);
	if (!r)
		give(s, &n, sizeof(n));
	return r;
}

CUresult serve_cuOccupancyMaxActiveClusters(struct serve *s)
{
	return tell_clusters(s, driver.cuOccupancyMaxActiveClusters);
}

CUresult serve_cuOccupancyMaxPotentialClusterSize(struct serve *s)
{
	return tell_clusters(s, driver.cuOccupancyMaxPotentialClusterSize);
}

/* ---- kernel nodes ---- */

static bool take_node(struct serve *s, struct launch *l, CUDA_KERNEL_NODE_PARAMS *ret,
	struct remote_node *ret_node, CUgraphNode **ret_dependencies)
{
	if (!take_launch(s, l))
		return false;
	*ret_node = TAKE_VALUE(s, struct remote_node);
	*ret_dependencies = TAKE_ARRAY(s, CUgraphNode, ret_node->n);
	if (s->error || !handles_real(s, KIND_CUgraphNode, *ret_dependencies, ret_node->n))
		return false;
	*ret = (CUDA_KERNEL_NODE_PARAMS){.sharedMemBytes = l->given.shared, .extra = extra_of(l)};
	if (l->given.function >> 40 == handle_make(KIND_CUkernel, 0) >> 40)
		ret->kern = (CUkernel)(void *)l->function;
	else
		ret->func = l->function;
	ret->ctx = (CUcontext)(uintptr_t)handle_real(s, KIND_CUcontext, l->given.stream);
	memcpy(&ret->gridDimX, l->given.grid, sizeof(l->given.grid));
	memcpy(&ret->blockDimX, l->given.block, sizeof(l->given.block));
	return !s->error;
}

CUresult serve_cuGraphAddKernelNode_v2(struct serve *s)
{
	CUDA_KERNEL_NODE_PARAMS params;
	CUgraphNode *dependencies, made = NULL;
	struct remote_node node;
	struct launch l;
	CUgraph graph;
	CUresult r;

	if (!take_node(s, &l, &params, &node, &dependencies))
		return s->error;
	graph = (CUgraph)(uintptr_t)handle_real(s, KIND_CUgraph, node.of);
	r = s->error ? s->error
		     : driver.cuGraphAddKernelNode_v2(&made, graph, dependencies, node.n, &params);
	if (!r)
		give_handle(s, KIND_CUgraphNode, made);
	return r;
}

CUresult serve_cuGraphKernelNodeSetParams_v2(struct serve *s)
{
	CUDA_KERNEL_NODE_PARAMS params;
	CUgraphNode *dependencies, real;
	struct remote_node node;
	struct launch l;

	if (!take_node(s, &l, &params, &node, &dependencies))
		return s->error;
	real = (CUgraphNode)(uintptr_t)handle_real(s, KIND_CUgraphNode, node.node);
	return s->error ? s->error : driver.cuGraphKernelNodeSetParams_v2(real, &params);
}

CUresult serve_cuGraphExecKernelNodeSetParams_v2(struct serve *s)
{
	CUDA_KERNEL_NODE_PARAMS params;
	CUgraphNode *dependencies, real;
	struct remote_node node;
	struct launch l;
	CUgraphExec exec;

	if (!take_node(s, &l, &params, &node, &dependencies))
		return s->error;
	exec = (CUgraphExec)(uintptr_t)handle_real(s, KIND_CUgraphExec, node.of);
	real = (CUgraphNode)(uintptr_t)handle_real(s, KIND_CUgraphNode, node.node);
	return s->error ? s->error : driver.cuGraphExecKernelNodeSetParams_v2(exec, real, &params);
}

/* Packs a node's parameters, which the driver returns as a list of pointers or as a buffer. */
static CUresult pack_params(struct serve *s, const CUDA_KERNEL_NODE_PARAMS *p, uint64_t function,
	uint8_t *to, size_t *ret_bytes)
{
	const void *real = p->func ? (const void *)p->func : (const void *)p->kern;
	size_t offset = 0, size = 0;

	*ret_bytes = 0;
	for (size_t i = 0;
		i < REMOTE_PARAMS && !hand_param_info(function, (uintptr_t)real, i, &offset, &size);
		i++) {
		if (offset + size > REMOTE_PARAMS_MAX)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (p->kernelParams)
			memcpy(to + offset, p->kernelParams[i], size);
		*ret_bytes = offset + size > *ret_bytes ? offset + size : *ret_bytes;
	}
	for (int i = 0; !p->kernelParams && p->extra && p->extra[i] != CU_LAUNCH_PARAM_END; i += 2)
		if (p->extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			memcpy(to, p->extra[i + 1], *ret_bytes);
	return CUDA_SUCCESS;
}

CUresult serve_cuGraphKernelNodeGetParams_v2(struct serve *s)
{
	CUgraphNode node = (CUgraphNode)(uintptr_t)handle_real(s, KIND_CUgraphNode, take_u64(s));
	CUDA_KERNEL_NODE_PARAMS params = {0};
	struct remote_launch got = {0};
	uint8_t *bytes = GIVE_ARRAY(s, uint8_t, REMOTE_PARAMS_MAX);
	size_t n;
	CUresult r;

	r = s->error ? s->error : driver.cuGraphKernelNodeGetParams_v2(node, &params);
	if (r)
		return r;
	got.function = params.func ? handle_name(s, KIND_CUfunction, (uintptr_t)params.func)
				   : handle_name(s, KIND_CUkernel, (uintptr_t)params.kern);
	r = pack_params(s, &params, got.function, bytes, &n);
	if (r)
		return r;
	memcpy(got.grid, &params.gridDimX, sizeof(got.grid));
	memcpy(got.block, &params.blockDimX, sizeof(got.block));
	got.shared = params.sharedMemBytes;
	got.bytes = n;
	give(s, &got, sizeof(got));
	give(s, bytes, n);
	return CUDA_SUCCESS;
}

/* ---- other requests without a layout ---- */

CUresult serve_cuGraphAddMemAllocNode(struct serve *s)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = TAKE_VALUE(s, CUDA_MEM_ALLOC_NODE_PARAMS);
	struct remote_node node = TAKE_VALUE(s, struct remote_node);
	CUgraphNode *dependencies = TAKE_ARRAY(s, CUgraphNode, node.n), made = NULL;
	CUgraph graph = (CUgraph)(uintptr_t)handle_real(s, KIND_CUgraph, node.of);
	CUmemAccessDesc access = {
		.location = params.poolProps.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult r;

	if (s->error || !handles_real(s, KIND_CUgraphNode, dependencies, node.n) ||
		!fix_CUmemPoolProps(s, &params.poolProps))
		return s->error;
	/*
	 * The worker passes the access rights of one device only, the memory's own, even if the
	 * program gave those of several devices.
	 */
	params.accessDescs = params.accessDescCount ? &access : NULL;
	params.accessDescCount = params.accessDescCount ? 1 : 0;
	r = driver.cuGraphAddMemAllocNode(&made, graph, dependencies, node.n, &params);
	if (r)
		return r;
	address_given(params.dptr, params.bytesize, RANGE_OF_GRAPH);
	give_handle(s, KIND_CUgraphNode, made);
	give_u64(s, params.dptr);
	return CUDA_SUCCESS;
}

CUresult serve_cuDeviceGetAttribute(struct serve *s)
{
	const CUdevice_attribute attribute = TAKE_VALUE(s, CUdevice_attribute);
	const CUdevice device = TAKE_VALUE(s, CUdevice);
	int value = 0;
	CUresult r = s->error ? s->error : driver.cuDeviceGetAttribute(&value, attribute, device);

	if (!r)
		give(s, &value, sizeof(value));
	return r;
}

CUresult serve_cuPointerGetAttribute(struct serve *s)
{
	const CUpointer_attribute attribute = TAKE_VALUE(s, CUpointer_attribute);
	const CUdeviceptr address = take_address(s);
	uint64_t value[8] = {0}; /* the largest attribute, with room to spare */
	CUresult r = s->error ? s->error : driver.cuPointerGetAttribute(value, attribute, address);

	if (r)
		return r;
	if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
		value[0] = handle_name(s, KIND_CUcontext, value[0]);
	else if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
		value[0] = handle_name(s, KIND_CUmemoryPool, value[0]);
	give_u64(s, value[0]);
	return CUDA_SUCCESS;
}

CUresult serve_cuStreamGetCaptureInfo_v3(struct serve *s)
{
	CUstream stream = (CUstream)(uintptr_t)handle_real(s, KIND_CUstream, take_u64(s));
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	const CUgraphNode *nodes = NULL;
	cuuint64_t id = 0;
	CUgraph graph = NULL;
	size_t n = 0;
	CUgraphNode *own;
	CUresult r;

	r = s->error ? s->error
		     : driver.cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &n);
	if (r)
		return r;
	own = GIVE_ARRAY(s, CUgraphNode, n);
	if (s->error)
		return s->error;
	if (n && nodes)
		memcpy(own, nodes, n * sizeof(*own));
	/* The nodes belong to the graph of the capture. */
	s->given[KIND_CUgraph] = handle_name(s, KIND_CUgraph, (uintptr_t)graph);
	handles_named(s, KIND_CUgraphNode, own, n);
	give_u64(s, status);
	give_u64(s, id);
	give_u64(s, s->given[KIND_CUgraph]);
	give_u64(s, n);
	give(s, own, n * sizeof(*own));
	return CUDA_SUCCESS;
}
