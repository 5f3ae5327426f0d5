/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries and the linker. Images are sent in pieces before the call that needs them, and
 * files are read here. The file also has other functions whose arguments no layout describes. Any
 * thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cuda/image.h"
#include "remote/client.h"
#include "remote/launch.h"
#include "remote/store.h"

static CUresult send_pieces(const void *p, size_t n)
{
	struct call c;

	for (size_t at = 0; at < n;) {
		const size_t piece = n - at < REMOTE_PIECE ? n - at : REMOTE_PIECE;
		const uint64_t bytes = piece;
		CUresult r = call_begin(&c, REMOTE_BLOB, sizeof(bytes) + FIELD(piece));

		if (r)
			return r;
		call_put(&c, &bytes, sizeof(bytes));
		call_put(&c, (const uint8_t *)p + at, piece);
		r = call_post(&c);
		if (r)
			return r;
		at += piece;
	}
	return CUDA_SUCCESS;
}

/* CUDA_ERROR_NOT_FOUND: the server does not have the image. */
static CUresult send_name(unsigned op, const uint8_t hash[SHA256_BYTES])
{
	struct call c;
	CUresult r = call_begin(&c, op, SHA256_BYTES);

	if (r)
		return r;
	call_put(&c, hash, SHA256_BYTES);
	if (op == REMOTE_BLOB_NAMED)
		return call_post(&c);
	r = call_wait(&c, 0);
	call_end(&c);
	return r;
}

/*
 * Over a link, asks first whether the server knows the image by its hash. On one machine, computing
 * the hash takes longer than sending the image.
 */
static CUresult send_blob(const void *p, size_t n)
{
	uint8_t hash[SHA256_BYTES];
	CUresult r;

	if (n < STORE_LEAST || session_shared()->link_role == REMOTE_LINK_NONE)
		return send_pieces(p, n);
	sha256(p, n, hash);
	r = send_name(REMOTE_BLOB_KNOWN, hash);
	if (r != CUDA_ERROR_NOT_FOUND)
		return r;
	r = send_pieces(p, n);
	return r ? r : send_name(REMOTE_BLOB_NAMED, hash);
}

/* ---- options ---- */

struct options {
	uint64_t n;
	struct {
		uint32_t option, unused;
		uint64_t value;
	} one[REMOTE_OPTIONS_MAX];
	/* These stay here: the program's buffer for errors, and where its size goes. */
	char *log;
	size_t log_bytes;
	void **ret_log_bytes;
};

/* Puts a log of n bytes into the program's buffer, as far as the buffer goes. */
static void client_module_write_log(const struct options *o, const char *text, size_t n)
{
	if (!o->log || !o->log_bytes)
		n = 0;
	else if (n >= o->log_bytes)
		n = o->log_bytes - 1;
	if (o->log && o->log_bytes) {
		memcpy(o->log, text, n);
		o->log[n] = '\0';
	}
	if (o->ret_log_bytes)
		*o->ret_log_bytes = (void *)(uintptr_t)n;
}

/* A worker that sends no log sends nothing behind its result. */
static void client_module_take_log(struct call *c, const struct options *o)
{
	char text[REMOTE_LOG_MAX];
	uint64_t n;

	if (call_take(c, &n, sizeof(n)) && n < sizeof(text) && call_take(c, text, n))
		client_module_write_log(o, text, strnlen(text, n));
}

/*
 * Options that are numbers travel unchanged. The error log of a load travels back. The logs of the
 * linker and the log of information stay empty.
 */
static CUresult client_module_read_options(
	unsigned int n, const CUjit_option *options, void **values, struct options *ret)
{
	*ret = (struct options){.n = 0};
	if (n > REMOTE_OPTIONS_MAX || (n && (!options || !values)))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < n; i++) {
		switch (options[i]) {
		case CU_JIT_INFO_LOG_BUFFER:
			if (values[i])
				*(char *)values[i] = '\0';
			break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: values[i] = NULL; break;
		case CU_JIT_ERROR_LOG_BUFFER: ret->log = values[i]; break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			ret->log_bytes = (unsigned int)(uintptr_t)values[i];
			ret->ret_log_bytes = &values[i];
			break;
		case CU_JIT_WALL_TIME: break;
		case CU_JIT_GLOBAL_SYMBOL_NAMES:
		case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
		case CU_JIT_GLOBAL_SYMBOL_COUNT:
		case CU_JIT_REFERENCED_KERNEL_NAMES:
		case CU_JIT_REFERENCED_KERNEL_COUNT:
		case CU_JIT_REFERENCED_VARIABLE_NAMES:
		case CU_JIT_REFERENCED_VARIABLE_COUNT: return CUDA_ERROR_NOT_SUPPORTED;
		default:
			ret->one[ret->n].option = options[i];
			ret->one[ret->n].unused = 0;
			ret->one[ret->n++].value = (uintptr_t)values[i];
		}
	}
	client_module_write_log(ret, "", 0);
	return CUDA_SUCCESS;
}

static size_t options_bytes(const struct options *o)
{
	return sizeof(o->n) + o->n * sizeof(o->one[0]);
}

static void put_options(struct call *c, const struct options *o)
{
	call_put(c, &o->n, sizeof(o->n));
	call_put(c, o->one, o->n * sizeof(o->one[0]));
}

/* ---- loading ---- */

static CUresult client_module_load(unsigned op, const void *image, size_t bytes,
	const struct options *options, uint64_t *ret_handle)
{
	struct call c;
	CUresult r = send_blob(image, bytes);

	if (!r)
		r = call_begin(&c, op, options_bytes(options));
	if (r)
		return r;
	put_options(&c, options);
	r = call_wait(&c, 0);
	if (r)
		client_module_take_log(&c, options);
	else if (!call_take(&c, ret_handle, sizeof(*ret_handle)))
		r = CUDA_ERROR_UNKNOWN;
	call_end(&c);
	return r;
}

static CUresult load_image(
	unsigned op, const void *image, const struct options *options, uint64_t *ret_handle)
{
	size_t bytes;
	CUresult r = session_check();

	if (r)
		return r;
	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	bytes = image_bytes(image, &image);
	return bytes ? client_module_load(op, image, bytes, options, ret_handle)
		     : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult client_module_load_file(
	unsigned op, const char *path, const struct options *options, uint64_t *ret_handle)
{
	_cleanup_buf_ struct buf text = BUF_INIT(1u << 30);
	CUresult r = session_check();

	if (r)
		return r;
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	if (file_read(path, &text, NULL) < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	/* PTX ends with a 0, which a file does not have. */
	if (buf_add_byte(&text, '\0') < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return client_module_load(op, text.p, text.n, options, ret_handle);
}

#define LOAD(type, ret, call) \
	({ \
		uint64_t handle_ = 0; \
		CUresult r_ = (ret) ? (call) : CUDA_ERROR_INVALID_VALUE; \
		if (!r_) \
			*(ret) = (type)(uintptr_t)handle_; \
		r_; \
	})

static const struct options no_options;

REMOTE_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return LOAD(CUmodule, module,
		load_image(REMOTE_OP_cuModuleLoadDataEx, image, &no_options, &handle_));
}

REMOTE_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return cuModuleLoadData(module, fatCubin);
}

REMOTE_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image,
	unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	struct options o;
	CUresult r = client_module_read_options(numOptions, options, optionValues, &o);

	return r ? r
		 : LOAD(CUmodule, module,
			   load_image(REMOTE_OP_cuModuleLoadDataEx, image, &o, &handle_));
}

REMOTE_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	return LOAD(CUmodule, module,
		client_module_load_file(
			REMOTE_OP_cuModuleLoadDataEx, fname, &no_options, &handle_));
}

static CUresult check_library(
	const CUlibraryOption *options, const void *const *values, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (!options || options[i] != CU_LIBRARY_BINARY_IS_PRESERVED)
			return options ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Loads from memory, or from a file. */
#define LOAD_LIBRARY(name, type, source, client_module_load) \
	REMOTE_EXPORT CUresult name(CUlibrary *library, type source, CUjit_option *jitOptions, \
		void **jitOptionsValues, unsigned int numJitOptions, \
		CUlibraryOption *libraryOptions, void **libraryOptionValues, \
		unsigned int numLibraryOptions) \
	{ \
		struct options o; \
		CUresult r = client_module_read_options( \
			numJitOptions, jitOptions, jitOptionsValues, &o); \
\
		if (!r) \
			r = check_library(libraryOptions, \
				(const void *const *)libraryOptionValues, numLibraryOptions); \
		return r ? r \
			 : LOAD(CUlibrary, library, \
				   client_module_load( \
					   REMOTE_OP_cuLibraryLoadData, source, &o, &handle_)); \
	}

LOAD_LIBRARY(cuLibraryLoadData, const void *, code, load_image)
LOAD_LIBRARY(cuLibraryLoadFromFile, const char *, fileName, client_module_load_file)

/* ---- the linker ---- */

REMOTE_EXPORT CUresult cuLinkCreate_v2(
	unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	struct options o;
	CUresult r = client_module_read_options(numOptions, options, optionValues, &o);

	return r ? r
		 : LOAD(CUlinkState, stateOut,
			   client_module_load(REMOTE_OP_cuLinkCreate_v2, NULL, 0, &o, &handle_));
}

static CUresult link_add(CUlinkState state, CUjitInputType type, const void *data, size_t size,
	const char *name, const struct options *o)
{
	const uint64_t handle = (uintptr_t)state, kind = type;
	const size_t n = name ? strnlen(name, REMOTE_TEXT_MAX) : 0;
	struct call c;
	CUresult r = send_blob(data, size);

	if (!r)
		r = call_begin(
			&c, REMOTE_OP_cuLinkAddData_v2, 16 + FIELD(n + 1) + options_bytes(o));
	if (r)
		return r;
	call_put(&c, &handle, sizeof(handle));
	call_put(&c, &kind, sizeof(kind));
	memset(c.at, 0, FIELD(n + 1));
	memcpy(c.at, name ? name : "", n);
	c.at += FIELD(n + 1);
	put_options(&c, o);
	r = call_wait(&c, 0);
	call_end(&c);
	return r;
}

REMOTE_EXPORT CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data,
	size_t size, const char *name, unsigned int numOptions, CUjit_option *options,
	void **optionValues)
{
	struct options o;
	CUresult r = session_check();

	if (r)
		return r;
	if (!data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	r = client_module_read_options(numOptions, options, optionValues, &o);
	return r ? r : link_add(state, type, data, size, name, &o);
}

REMOTE_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
	unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	_cleanup_buf_ struct buf text = BUF_INIT(1u << 30);
	struct options o;
	CUresult r = session_check();

	if (r)
		return r;
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	if (file_read(path, &text, NULL) < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (type == CU_JIT_INPUT_PTX && buf_add_byte(&text, '\0') < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = client_module_read_options(numOptions, options, optionValues, &o);
	return r ? r : link_add(state, type, text.p, text.n, path, &o);
}

/* The first answer states the whole size, and each answer brings a part. */
static CUresult take_cubin(struct call *c, uint64_t at, uint64_t *all, char **image)
{
	uint64_t bytes, n;

	if (!call_take(c, &bytes, sizeof(bytes)) || !call_take(c, &n, sizeof(n)) ||
		(*image && bytes != *all) || !n || bytes > SIZE_MAX / 2 || n > bytes - at)
		return CUDA_ERROR_UNKNOWN;
	if (!*image)
		*image = malloc(bytes);
	if (!*image)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*all = bytes;
	return call_take(c, *image + at, n) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

REMOTE_EXPORT CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	const uint64_t handle = (uintptr_t)state;
	uint64_t all = 0;
	char *image = NULL;
	CUresult r = session_check();

	if (r)
		return r;
	if (!cubinOut)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t at = 0; !r && (!image || at < all); at += REMOTE_PIECE) {
		struct call c;

		r = call_begin(&c, REMOTE_OP_cuLinkComplete, 16);
		if (r)
			break;
		call_put(&c, &handle, sizeof(handle));
		call_put(&c, &at, sizeof(at));
		r = call_wait(&c, 0);
		r = r ? r : take_cubin(&c, at, &all, &image);
		call_end(&c);
	}
	if (!r) {
		/*
		 * The program may use the cubin as long as the linker's state exists, so the client
		 * never frees it. Equal cubins are stored once.
		 */
		*cubinOut = (void *)(uintptr_t)text_keep(image, all);
		if (sizeOut)
			*sizeOut = all;
	}
	free(image);
	return r;
}

/* ---- functions without a layout ---- */

/*
 * Attributes about access to the program's host memory. The client answers them itself, because the
 * remote device cannot access memory of this machine.
 */
static bool client_module_is_local(CUdevice_attribute attribute)
{
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
	case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
	case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
	case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH: return true;
	default: return false;
	}
}

REMOTE_EXPORT CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	const uint32_t which = attrib;
	struct call c;
	int value = 0;
	CUresult r = session_check();

	if (r)
		return r;
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	r = call_begin(&c, REMOTE_OP_cuDeviceGetAttribute, 16);
	if (r)
		return r;
	call_put(&c, &which, sizeof(which));
	call_put(&c, &dev, sizeof(dev));
	r = call_wait_cached(&c);
	if (!r && !call_take(&c, &value, sizeof(value)))
		r = CUDA_ERROR_UNKNOWN;
	call_end(&c);
	if (!r)
		*pi = client_module_is_local(attrib) ? 0 : value;
	return r;
}

/* The nodes on which a capturing stream depends, stored until the thread asks for them again. */
static __thread struct {
	CUgraphNode *node;
	CUgraphEdgeData *edge;
} captured;

REMOTE_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream hStream,
	CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
	const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out,
	size_t *numDependencies_out)
{
	uint64_t status = 0, id = 0, graph = 0, n = 0;
	CUgraphNode *nodes = NULL;
	struct call c;
	CUresult r = session_check();

	if (r)
		return r;
	if (!captureStatus_out)
		return CUDA_ERROR_INVALID_VALUE;
	r = call_ask(&c, REMOTE_OP_cuStreamGetCaptureInfo_v3, (uintptr_t)hStream);
	if (!r &&
		(!call_take(&c, &status, 8) || !call_take(&c, &id, 8) ||
			!call_take(&c, &graph, 8) || !call_take(&c, &n, 8) ||
			n > REMOTE_FRAME_MAX / 8))
		r = CUDA_ERROR_UNKNOWN;
	if (!r && n) {
		nodes = malloc(n * sizeof(*nodes));
		if (!nodes)
			r = CUDA_ERROR_OUT_OF_MEMORY;
		else if (!call_take(&c, nodes, n * sizeof(*nodes)))
			r = CUDA_ERROR_UNKNOWN;
	}
	call_end(&c);
	free(captured.node);
	captured.node = nodes;
	if (r)
		return r;
	*captureStatus_out = (CUstreamCaptureStatus)status;
	if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (id_out)
		*id_out = id;
	if (graph_out)
		*graph_out = (CUgraph)(uintptr_t)graph;
	if (dependencies_out)
		*dependencies_out = nodes;
	if (edgeData_out) {
		free(captured.edge);
		captured.edge = calloc(n ? n : 1, sizeof(*captured.edge));
		*edgeData_out = captured.edge;
	}
	if (numDependencies_out)
		*numDependencies_out = n;
	return CUDA_SUCCESS;
}

REMOTE_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream hStream,
	CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
	const CUgraphNode **dependencies_out, size_t *numDependencies_out)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
		dependencies_out, NULL, numDependencies_out);
}

/*
 * Finds the block size with the most concurrent threads on a multiprocessor, as the documentation
 * describes. The callback of the program returns the dynamic shared memory that a block of a given
 * size takes.
 */
REMOTE_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
	CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
	int blockSizeLimit, unsigned int flags)
{
	int most = 0, warp = 32, processors = 0, best = 0, best_blocks = 0;
	CUdevice device;
	CUresult r = session_check();

	if (r)
		return r;
	if (!minGridSize || !blockSize)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, func);
	if (!r)
		r = cuCtxGetDevice(&device);
	if (!r)
		r = cuDeviceGetAttribute(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
	if (!r)
		r = cuDeviceGetAttribute(
			&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	if (blockSizeLimit > 0 && most > blockSizeLimit)
		most = blockSizeLimit;
	for (int size = most; !r && size > 0; size = (size - 1) / warp * warp) {
		const size_t dynamic = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(size)
								  : dynamicSMemSize;
		int blocks = 0;

		r = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
			&blocks, func, size, dynamic, flags);
		if (blocks * size > best * best_blocks) {
			best = size;
			best_blocks = blocks;
		}
	}
	if (r)
		return r;
	*blockSize = best;
	*minGridSize = best_blocks * processors;
	return CUDA_SUCCESS;
}

REMOTE_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize,
	CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
	int blockSizeLimit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func,
		blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0);
}
