/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries, their kernels and variables.
 *
 * A module belongs to a context. A library belongs to no context, and loads a module into each
 * context that uses the library. Both share the parsed image. A module's variables are one block of
 * device memory; each managed variable is an allocation of its own.
 */
#include "simgpu/cu.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

enum { IMAGE_FILE_MAX = 1 << 30 };

CUresult cu_image_result(enum image_status status)
{
	switch (status) {
	case IMAGE_OK: return CUDA_SUCCESS;
	case IMAGE_BAD_PTX: return CUDA_ERROR_INVALID_PTX;
	case IMAGE_BAD_BINARY: return CUDA_ERROR_INVALID_IMAGE;
	case IMAGE_NO_BINARY: return CUDA_ERROR_NO_BINARY_FOR_GPU;
	case IMAGE_UNSUPPORTED_PTX: return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	case IMAGE_NO_MEMORY: break;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

unsigned cu_device_sm(int engine)
{
	const struct simgpu_state_device *d = cu_device_state(engine);

	return d->cc_major * 10 + d->cc_minor;
}

static void image_unref(struct cu_image *image)
{
	if (!image || --image->refs != 0)
		return;
	image_done(&image->image);
	free(image);
}

static CUresult read_image(
	const void *bytes, int engine, const struct cu_jit *jit, struct cu_image **ret)
{
	struct cu_image *image = calloc(1, sizeof(*image));
	struct image_log log = {0};
	CUresult r;

	CU_CHECK(image, CUDA_ERROR_OUT_OF_MEMORY);
	r = cu_image_result(image_read(bytes, cu_device_sm(engine), &log, &image->image));
	image->refs = 1;
	cu_jit_write_log(jit, &log);
	if (r != CUDA_SUCCESS) {
		image_unref(image);
		return r;
	}
	image->bytes = image_size(bytes);
	*ret = image;
	return CUDA_SUCCESS;
}

CUresult cu_image_read_file(const char *path, char **ret_bytes, size_t *ret_n)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *bytes = NULL;
	/* statx(), because old C libraries lack the symbol of fstat() (base/old-glibc.h) */
	struct statx st;

	if (fd < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE, &st) < 0 || !S_ISREG(st.stx_mode))
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (st.stx_size > IMAGE_FILE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	/*
	 * 64 bytes of zeros at the end: the parsers look for a magic number without checking the
	 * length.
	 */
	bytes = calloc(1, (size_t)st.stx_size + 64);
	CU_CHECK(bytes, CUDA_ERROR_OUT_OF_MEMORY);
	if (fd_read_exact(fd, bytes, (size_t)st.stx_size) < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	*ret_bytes = TAKE_PTR(bytes);
	*ret_n = (size_t)st.stx_size;
	return CUDA_SUCCESS;
}

/* ---- variables ---- */

CUresult cu_write_memory(struct cu_context *context, uint64_t address, const void *bytes, size_t n)
{
	struct cu_stream *stream;
	CUresult r = CUDA_SUCCESS;

	/* A private stream disturbs neither another capture nor the legacy stream's order. */
	CU_TRY(cu_stream_new(context, CU_STREAM_NON_BLOCKING, 0, false, &stream));
	for (size_t done = 0; r == CUDA_SUCCESS && done < n;) {
		size_t step = n - done < CU_INLINE_COPY_MAX ? n - done : CU_INLINE_COPY_MAX;
		struct cu_op op;

		cu_op_init(&op, SIMGPU_OP_COPY, context);
		op.entry.flags = SIMGPU_ENTRY_INLINE | SIMGPU_ENTRY_PAGEABLE;
		op.entry.copy.dst = address + done;
		op.entry.copy.width = step;
		op.entry.copy.height = op.entry.copy.depth = 1;
		op.bytes = (const uint8_t *)bytes + done;
		op.trailing = (uint32_t)step;
		r = cu_submit(stream, &op);
		done += step;
	}
	if (r == CUDA_SUCCESS) {
		CUstream handle = stream->handle;

		r = cu_wait_stream(stream, stream->seq);
		if (cu_handle_get(handle, CU_KIND_STREAM) != stream)
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	cu_stream_free(stream);
	return r;
}

/* For pointer queries, each variable counts as an allocation. */
static CUresult add_variable_range(struct cu_module *module, uint64_t address, uint64_t bytes)
{
	struct cu_range *range = cu_range_add(&cu.device_memory, address, bytes);

	CU_CHECK(range, CUDA_ERROR_OUT_OF_MEMORY);
	range->kind = CU_MEM_GLOBAL;
	range->context = module->context;
	range->device = module->context->device;
	return CUDA_SUCCESS;
}

/* The address of a managed variable in any context's module of the library. 0: not loaded yet. */
static uint64_t find_managed(
	const struct cu_library *library, const char *name, const struct image_global **ret_global)
{
	for (size_t c = 0; c < ARRAY_SIZE(cu.contexts); c++) {
		if (!cu.contexts[c])
			continue;
		CU_LIST_EACH(struct cu_module, link, &cu.contexts[c]->modules, module)
		{
			const struct image *image = &module->image->image;

			if (module->library != library || !module->addresses)
				continue;
			for (size_t i = 0; i < image->n_globals; i++)
				if (image->globals[i].is_managed && module->addresses[i] &&
					!strcmp(image->globals[i].name, name)) {
					*ret_global = &image->globals[i];
					return module->addresses[i];
				}
		}
	}
	return 0;
}

/* All contexts' modules of a library share its managed variables. */
static CUresult make_managed(struct cu_module *module, size_t i)
{
	const struct image_global *global = &module->image->image.globals[i], *found;
	uint64_t address = module->library ? find_managed(module->library, global->name, &found)
					   : 0;

	if (!address) {
		CU_TRY(cu_memory_alloc_managed(module->context, global->size ? global->size : 1,
			CU_MEM_ATTACH_GLOBAL, &address));
		if (global->init)
			memcpy((void *)(uintptr_t)address, global->init, global->size);
	}
	module->addresses[i] = address;
	return CUDA_SUCCESS;
}

/* Places the variables that are not managed in a block. Returns its size. */
static uint64_t place_globals(struct cu_module *module, bool *ret_zero)
{
	const struct image *image = &module->image->image;
	uint64_t bytes = 0;

	*ret_zero = true;
	for (size_t i = 0; i < image->n_globals; i++) {
		const struct image_global *global = &image->globals[i];
		const uint64_t align = global->align < 256 ? 256 : global->align;

		if (global->is_managed)
			continue;
		bytes = (bytes + align - 1) & ~(align - 1);
		module->addresses[i] = bytes;
		bytes += global->size;
		*ret_zero = *ret_zero && !global->init;
	}
	return bytes ? bytes : 1;
}

static CUresult make_globals(struct cu_module *module)
{
	const struct image *image = &module->image->image;
	_cleanup_free_ uint8_t *block = NULL;
	uint64_t bytes;
	bool zero;

	if (image->n_globals == 0)
		return CUDA_SUCCESS;
	module->addresses = calloc(image->n_globals, sizeof(*module->addresses));
	CU_CHECK(module->addresses, CUDA_ERROR_OUT_OF_MEMORY);
	for (size_t i = 0; i < image->n_globals; i++)
		CU_CHECK(image->globals[i].size < 1ull << 40, CUDA_ERROR_OUT_OF_MEMORY);
	for (size_t i = 0; i < image->n_globals; i++)
		if (image->globals[i].is_managed)
			CU_TRY(make_managed(module, i));
	bytes = place_globals(module, &zero);
	CU_TRY(cu_memory_alloc(module->context, SIMGPU_MEM_GLOBAL, bytes, &module->globals));
	if (!zero) {
		block = calloc(1, bytes);
		CU_CHECK(block, CUDA_ERROR_OUT_OF_MEMORY);
	}
	for (size_t i = 0; i < image->n_globals; i++) {
		const struct image_global *global = &image->globals[i];

		if (global->is_managed)
			continue;
		if (global->init)
			memcpy(block + module->addresses[i], global->init, global->size);
		module->addresses[i] += module->globals;
		if (global->size)
			CU_TRY(add_variable_range(module, module->addresses[i], global->size));
	}
	return zero ? CUDA_SUCCESS
		    : cu_write_memory(module->context, module->globals, block, bytes);
}

static void free_globals(struct cu_module *module)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_MEM_FREE, .ptr = module->globals};
	struct simgpu_reply reply;

	for (size_t i = 0; module->addresses && i < module->image->image.n_globals; i++) {
		struct cu_range *range = cu_range_find(&cu.device_memory, module->addresses[i]);

		if (module->image->image.globals[i].is_managed)
			cu_memory_free_managed(module->context, module->addresses[i]);
		else if (range && range->kind == CU_MEM_GLOBAL)
			cu_range_remove(&cu.device_memory, range);
	}
	if (module->globals)
		cu_call(&request, &reply);
}

/* ---- modules ---- */

static uint32_t simgpu_kernel_of(const struct image_kernel *kernel)
{
	static const struct {
		const char *name;
		uint32_t bytes;
	} known[] = {
#define X(id, kernel_name, param_bytes) {kernel_name, param_bytes},
		SIMGPU_KERNELS(X)
#undef X
	};

	for (uint32_t i = 1; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].name, kernel->name) == 0 &&
			known[i].bytes == kernel->param_bytes)
			return i;
	return SIMGPU_KERNEL_OTHER;
}

void cu_module_free(struct cu_module *module)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_MODULE_UNLOAD};
	struct simgpu_reply reply;

	free_globals(module);
	if (module->functions)
		for (size_t i = 0; i < module->image->image.n_kernels; i++)
			cu_handle_free(module->functions[i].handle);
	if (module->engine_id != 0) {
		request.context = module->context->slot;
		request.id = module->engine_id;
		cu_call(&request, &reply);
	}
	cu_handle_free(module->handle);
	cu_list_remove(&module->link);
	image_unref(module->image);
	free(module->functions);
	free(module->addresses);
	free(module);
}

CUresult cu_module_new(struct cu_context *context, struct cu_image *image,
	struct cu_library *library, const struct cu_jit *jit, struct cu_module **ret_module)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_MODULE_LOAD, .context = context->slot};
	struct cu_module *module = calloc(1, sizeof(*module));
	struct simgpu_reply reply;
	CUresult r;

	CU_CHECK(module, CUDA_ERROR_OUT_OF_MEMORY);
	/* Each architecture has its own code. */
	if (library)
		image = library->images[context->device];
	module->context = context;
	module->library = library;
	module->image = image;
	image->refs++;
	cu_list_add(&context->modules, &module->link);
	module->handle = cu_handle_new(CU_KIND_MODULE, module);
	module->functions = calloc(image->image.n_kernels + 1, sizeof(*module->functions));
	if (!module->handle || !module->functions) {
		cu_module_free(module);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t i = 0; i < image->image.n_kernels; i++) {
		struct cu_function *function = &module->functions[i];

		function->module = module;
		function->kernel = &image->image.kernels[i];
		function->sim_kernel = simgpu_kernel_of(function->kernel);
		function->name_id = (uint32_t)str_hash(str_from(function->kernel->name));
		function->cache_config = CU_FUNC_CACHE_PREFER_NONE;
		for (size_t j = 0; j < ARRAY_SIZE(function->attributes); j++)
			function->attributes[j] = -1;
	}
	request.arg[0] = image->bytes;
	r = cu_call(&request, &reply);
	if (r == CUDA_SUCCESS) {
		module->engine_id = reply.id;
		r = make_globals(module);
	}
	if (r == CUDA_SUCCESS)
		r = cu_code_send(module, jit);
	if (r != CUDA_SUCCESS) {
		cu_module_free(module);
		return r;
	}
	*ret_module = module;
	return CUDA_SUCCESS;
}

static CUresult load_module(CUmodule *ret, const void *bytes, const struct cu_jit *jit)
{
	struct cu_module *module;
	struct cu_image *image;
	CUresult r;

	CU_ENTER_CONTEXT(ctx);
	CU_CHECK(ret && bytes, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(read_image(bytes, ctx->device, jit, &image));
	r = cu_module_new(ctx, image, NULL, jit, &module);
	image_unref(image);
	CU_TRY(r);
	*ret = module->handle;
	if (cu.state->module_load_ns != 0) {
		uint64_t until = clock_now_ns() + cu.state->module_load_ns;

		pthread_mutex_unlock(&cu.lock);
		clock_sleep_until_ns(until);
		pthread_mutex_lock(&cu.lock);
	}
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return load_module(module, image, NULL);
}

CU_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
	CUjit_option *options, void **optionValues)
{
	struct cu_jit jit;

	CU_TRY(cu_jit_take_options(numOptions, options, optionValues, &jit));
	return load_module(module, image, &jit);
}

CU_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return load_module(module, fatCubin, NULL);
}

CU_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	_cleanup_free_ char *bytes = NULL;
	size_t n;

	{
		CU_ENTER_CONTEXT(ctx);
		(void)ctx;
		CU_CHECK(module && fname, CUDA_ERROR_INVALID_VALUE);
	}
	CU_TRY(cu_image_read_file(fname, &bytes, &n));
	CU_CHECK(image_is_whole((const uint8_t *)bytes, n), CUDA_ERROR_INVALID_IMAGE);
	return load_module(module, bytes, NULL);
}

CUresult simgpu_cuModuleUnload(CUmodule hmod)
{
	struct cu_module *module;
	struct cu_context *context;

	module = cu_handle_get(hmod, CU_KIND_MODULE);
	CU_CHECK(module && !module->library, CUDA_ERROR_INVALID_HANDLE);
	context = module->context;
	CU_TRY(cu_capture_check_unsafe());
	/* The module's kernels may still run. */
	if (context->captures == 0)
		CU_TRY(cu_wait_context(context));
	CU_CHECK(cu_handle_get(hmod, CU_KIND_MODULE) == module, CUDA_ERROR_INVALID_HANDLE);
	cu_module_free(module);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	*mode = CU_MODULE_EAGER_LOADING;
	return CUDA_SUCCESS;
}

static CUresult function_handle(struct cu_function *function, CUfunction *ret)
{
	if (!function->handle)
		function->handle = cu_handle_new(CU_KIND_FUNCTION, function);
	CU_CHECK(function->handle, CUDA_ERROR_OUT_OF_MEMORY);
	*ret = function->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuModuleGetFunction(
	struct cu_context *ctx, CUfunction *hfunc, struct cu_module *module, const char *name)
{
	int i = image_find_kernel(&module->image->image, name);

	CU_CHECK(i >= 0, CUDA_ERROR_NOT_FOUND);
	return function_handle(&module->functions[i], hfunc);
}

CUresult simgpu_cuModuleGetFunctionCount(unsigned int *count, struct cu_module *module)
{
	*count = (unsigned)module->image->image.n_kernels;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuModuleEnumerateFunctions(
	CUfunction *functions, unsigned int numFunctions, struct cu_module *module)
{
	for (size_t i = 0; i < numFunctions && i < module->image->image.n_kernels; i++)
		CU_TRY(function_handle(&module->functions[i], &functions[i]));
	return CUDA_SUCCESS;
}

static CUresult find_global(
	const struct cu_module *module, const char *name, CUdeviceptr *dptr, size_t *bytes)
{
	const struct image *image = &module->image->image;

	for (size_t i = 0; i < image->n_globals; i++) {
		if (strcmp(image->globals[i].name, name) != 0)
			continue;
		if (dptr)
			*dptr = module->addresses[i];
		if (bytes)
			*bytes = image->globals[i].size;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult simgpu_cuModuleGetGlobal_v2(struct cu_context *ctx, CUdeviceptr *dptr, size_t *bytes,
	struct cu_module *module, const char *name)
{
	return find_global(module, name, dptr, bytes);
}

/* ---- libraries ---- */

static void free_library(struct cu_library *library)
{
	if (library->kernels)
		for (size_t i = 0; i < library->image->image.n_kernels; i++)
			cu_handle_free(library->kernels[i].handle);
	cu_handle_free(library->handle);
	cu_list_remove(&library->link);
	for (size_t d = 0; d < SIMGPU_MAX_DEVICES; d++)
		image_unref(library->images[d]);
	free(library->kernels);
	free(library);
}

/*
 * A library needs no context, and the program may free the code: the code for each architecture is
 * read now. Succeeds if one of the devices has code; else the error is the first device's.
 */
static CUresult read_images(struct cu_library *library, const void *code, const struct cu_jit *jit)
{
	CUresult first = CUDA_SUCCESS;

	for (int i = 0; i < cu.n_devices; i++) {
		const int engine = cu.devices[i].engine;
		struct cu_image **image = &library->images[engine];
		CUresult r;

		for (int j = 0; j < i && !*image; j++)
			if (cu_device_sm(cu.devices[j].engine) == cu_device_sm(engine))
				*image = library->images[cu.devices[j].engine];
		if (*image) {
			(*image)->refs++;
			continue;
		}
		r = read_image(code, engine, library->image ? NULL : jit, image);
		if (r == CUDA_SUCCESS && !library->image)
			library->image = *image;
		if (first == CUDA_SUCCESS)
			first = r;
	}
	return library->image ? CUDA_SUCCESS : first;
}

static CUresult load_library(CUlibrary *ret, const void *code, const struct cu_jit *jit)
{
	struct cu_library *library;
	CUresult r;

	CU_ENTER();
	CU_CHECK(ret && code, CUDA_ERROR_INVALID_VALUE);
	library = calloc(1, sizeof(*library));
	CU_CHECK(library, CUDA_ERROR_OUT_OF_MEMORY);
	cu_list_add(&cu.libraries, &library->link);
	r = read_images(library, code, jit);
	if (r == CUDA_SUCCESS) {
		library->kernels = calloc(
			library->image->image.n_kernels + 1, sizeof(*library->kernels));
		library->handle = cu_handle_new(CU_KIND_LIBRARY, library);
		if (!library->kernels || !library->handle)
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r != CUDA_SUCCESS) {
		free_library(library);
		return r;
	}
	for (size_t i = 0; i < library->image->image.n_kernels; i++) {
		struct cu_kernel *kernel = &library->kernels[i];

		kernel->library = library;
		kernel->index = (uint32_t)i;
		for (size_t d = 0; d < SIMGPU_MAX_DEVICES; d++)
			for (size_t j = 0; j < ARRAY_SIZE(kernel->attributes[d]); j++)
				kernel->attributes[d][j] = -1;
	}
	*ret = library->handle;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
	void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
	void **libraryOptionValues, unsigned int numLibraryOptions)
{
	struct cu_jit jit;

	CU_TRY(cu_jit_take_options(numJitOptions, jitOptions, jitOptionsValues, &jit));
	CU_CHECK(numLibraryOptions == 0 || libraryOptions, CUDA_ERROR_INVALID_VALUE);
	return load_library(library, code, &jit);
}

CU_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
	CUjit_option *jitOptions, void **jitOptionsValues, unsigned int numJitOptions,
	CUlibraryOption *libraryOptions, void **libraryOptionValues, unsigned int numLibraryOptions)
{
	_cleanup_free_ char *bytes = NULL;
	struct cu_jit jit;
	size_t n;

	{
		CU_ENTER();
		CU_CHECK(library && fileName, CUDA_ERROR_INVALID_VALUE);
	}
	CU_TRY(cu_jit_take_options(numJitOptions, jitOptions, jitOptionsValues, &jit));
	CU_CHECK(numLibraryOptions == 0 || libraryOptions, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_image_read_file(fileName, &bytes, &n));
	CU_CHECK(image_is_whole((const uint8_t *)bytes, n), CUDA_ERROR_INVALID_IMAGE);
	return load_library(library, bytes, &jit);
}

CUresult simgpu_cuLibraryUnload(struct cu_library *l)
{
	for (uint32_t i = 0; i < SIMGPU_MAX_CONTEXTS; i++) {
		struct cu_context *context = cu.contexts[i];

		if (!context)
			continue;
		CU_LIST_EACH(struct cu_module, link, &context->modules, module)
		if (module->library == l)
			cu_module_free(module);
	}
	free_library(l);
	return CUDA_SUCCESS;
}

static CUresult library_module(
	struct cu_library *library, struct cu_context *context, struct cu_module **ret)
{
	CU_CHECK(library->images[context->device], CUDA_ERROR_NO_BINARY_FOR_GPU);
	CU_LIST_EACH(struct cu_module, link, &context->modules, module)
	{
		if (module->library == library) {
			*ret = module;
			return CUDA_SUCCESS;
		}
	}
	return cu_module_new(context, library->image, library, NULL, ret);
}

/* The kernel's function in a context. Code for another architecture may have another order. */
static CUresult library_function(
	struct cu_kernel *kernel, struct cu_context *context, struct cu_function **ret)
{
	struct cu_library *library = kernel->library;
	const char *name = library->image->image.kernels[kernel->index].name;
	struct cu_module *module;
	int i;

	CU_TRY(library_module(library, context, &module));
	if (module->image == library->image) {
		*ret = &module->functions[kernel->index];
		return CUDA_SUCCESS;
	}
	i = image_find_kernel(&module->image->image, name);
	CU_CHECK(i >= 0, CUDA_ERROR_NOT_FOUND);
	*ret = &module->functions[i];
	return CUDA_SUCCESS;
}

static CUresult kernel_handle(struct cu_kernel *kernel, CUkernel *ret)
{
	if (!kernel->handle)
		kernel->handle = cu_handle_new(CU_KIND_KERNEL, kernel);
	CU_CHECK(kernel->handle, CUDA_ERROR_OUT_OF_MEMORY);
	*ret = kernel->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuLibraryGetKernel(CUkernel *pKernel, struct cu_library *l, const char *name)
{
	int i = image_find_kernel(&l->image->image, name);

	CU_CHECK(i >= 0, CUDA_ERROR_NOT_FOUND);
	return kernel_handle(&l->kernels[i], pKernel);
}

CUresult simgpu_cuLibraryGetKernelCount(unsigned int *count, struct cu_library *l)
{
	*count = (unsigned)l->image->image.n_kernels;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuLibraryEnumerateKernels(
	CUkernel *kernels, unsigned int numKernels, struct cu_library *l)
{
	for (size_t i = 0; i < numKernels && i < l->image->image.n_kernels; i++)
		CU_TRY(kernel_handle(&l->kernels[i], &kernels[i]));
	return CUDA_SUCCESS;
}

CUresult simgpu_cuLibraryGetModule(struct cu_context *ctx, CUmodule *pMod, struct cu_library *l)
{
	struct cu_module *module;

	CU_TRY(library_module(l, ctx, &module));
	*pMod = module->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuLibraryGetGlobal(struct cu_context *ctx, CUdeviceptr *dptr, size_t *bytes,
	struct cu_library *l, const char *name)
{
	struct cu_module *module;

	CU_TRY(library_module(l, ctx, &module));
	return find_global(module, name, dptr, bytes);
}

CUresult simgpu_cuLibraryGetManaged(
	CUdeviceptr *dptr, size_t *bytes, struct cu_library *library, const char *name)
{
	const struct image_global *global;
	const uint64_t address = find_managed(library, name, &global);

	CU_CHECK(address, CUDA_ERROR_NOT_FOUND);
	if (dptr)
		*dptr = address;
	if (bytes)
		*bytes = global->size;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuLibraryGetUnifiedFunction(
	void **fptr, struct cu_library *library, const char *symbol)
{
	return CUDA_ERROR_NOT_FOUND;
}

CUresult simgpu_cuKernelGetLibrary(CUlibrary *pLib, struct cu_kernel *k)
{
	*pLib = k->library->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuKernelGetFunction(struct cu_context *ctx, CUfunction *pFunc, struct cu_kernel *k)
{
	struct cu_function *function;

	CU_TRY(library_function(k, ctx, &function));
	return function_handle(function, pFunc);
}

CUresult cu_function_get(CUfunction handle, struct cu_context *context, struct cu_function **ret)
{
	struct cu_function *function = cu_handle_get(handle, CU_KIND_FUNCTION);

	if (__builtin_expect(!function, 0)) {
		/* A CUkernel names its function in the current context. */
		struct cu_kernel *kernel = cu_handle_get(handle, CU_KIND_KERNEL);

		CU_CHECK(kernel, CUDA_ERROR_INVALID_HANDLE);
		CU_TRY(library_function(kernel, context, &function));
		for (size_t i = 0; i < ARRAY_SIZE(function->attributes); i++)
			if (kernel->attributes[context->device][i] >= 0)
				function->attributes[i] = kernel->attributes[context->device][i];
	}
	CU_CHECK(function->module->context == context, CUDA_ERROR_INVALID_HANDLE);
	*ret = function;
	return CUDA_SUCCESS;
}

/* ---- attributes ---- */

/* The user's constants belong to all kernels of a module. */
static int constant_bytes(const struct image *image)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < image->n_globals; i++)
		if (image->globals[i].is_const)
			sum += image->globals[i].size;
	return sum > INT_MAX ? INT_MAX : (int)sum;
}

static CUresult kernel_attribute(const struct image_kernel *kernel, const struct image *image,
	const int *set, CUfunction_attribute attribute, unsigned sm, int *ret)
{
	const struct simgpu_arch *arch = simgpu_arch_get(sm);
	int optin = (int)(arch->shared_kib - arch->reserved_kib) * 1024;

	CU_CHECK((unsigned)attribute < CU_FUNC_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
	if (set[attribute] >= 0) {
		*ret = set[attribute];
		return CUDA_SUCCESS;
	}
	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*ret = kernel->max_threads ? (int)kernel->max_threads : 1024;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *ret = (int)kernel->shared_bytes; break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *ret = (int)kernel->local_bytes; break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *ret = constant_bytes(image); break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS: *ret = 32; break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*ret = (int)(image->is_ptx ? image->target_sm : sm);
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *ret = (int)sm; break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*ret = 49152 - (int)kernel->shared_bytes;
		if (*ret < 0)
			*ret = optin - (int)kernel->shared_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *ret = -1; break;
	default: *ret = 0;
	}
	return CUDA_SUCCESS;
}

static CUresult check_attribute(
	const struct image_kernel *kernel, unsigned sm, CUfunction_attribute attribute, int value)
{
	const struct simgpu_arch *arch = simgpu_arch_get(sm);
	int optin = (int)(arch->shared_kib - arch->reserved_kib) * 1024;

	switch ((int)attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		CU_CHECK(value >= 0 && value + (int64_t)kernel->shared_bytes <= optin,
			CUDA_ERROR_INVALID_VALUE);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		CU_CHECK(value >= -1 && value <= 100, CUDA_ERROR_INVALID_VALUE);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		CU_CHECK(sm >= 90, CUDA_ERROR_NOT_SUPPORTED);
		CU_CHECK(value >= 0 && value <= 16, CUDA_ERROR_INVALID_VALUE);
		return CUDA_SUCCESS;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult simgpu_cuFuncGetAttribute(
	struct cu_context *ctx, int *pi, CUfunction_attribute attrib, struct cu_function *f)
{
	return kernel_attribute(f->kernel, &f->module->image->image, f->attributes, attrib,
		cu_device_sm(ctx->device), pi);
}

CUresult simgpu_cuFuncSetAttribute(
	struct cu_context *ctx, struct cu_function *f, CUfunction_attribute attrib, int value)
{
	CU_TRY(check_attribute(f->kernel, cu_device_sm(ctx->device), attrib, value));
	f->attributes[attrib] = value;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuKernelGetAttribute(
	int *pi, CUfunction_attribute attrib, struct cu_kernel *k, struct cu_device *device)
{
	return kernel_attribute(&k->library->image->image.kernels[k->index],
		&k->library->image->image, k->attributes[device->engine], attrib,
		cu_device_sm(device->engine), pi);
}

CUresult simgpu_cuKernelSetAttribute(
	CUfunction_attribute attrib, int val, struct cu_kernel *k, struct cu_device *device)
{
	CU_TRY(check_attribute(&k->library->image->image.kernels[k->index],
		cu_device_sm(device->engine), attrib, val));
	k->attributes[device->engine][attrib] = val;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuKernelSetCacheConfig(
	struct cu_kernel *k, CUfunc_cache config, struct cu_device *device)
{
	return CUDA_SUCCESS;
}

CUresult simgpu_cuFuncSetCacheConfig(
	struct cu_context *ctx, struct cu_function *f, CUfunc_cache config)
{
	f->cache_config = config;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuFuncSetSharedMemConfig(
	struct cu_context *ctx, struct cu_function *f, CUsharedconfig config)
{
	return CUDA_SUCCESS;
}

CUresult simgpu_cuFuncGetModule(struct cu_context *ctx, CUmodule *hmod, struct cu_function *f)
{
	*hmod = f->module->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuFuncGetName(struct cu_context *ctx, const char **name, struct cu_function *f)
{
	*name = f->kernel->name;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuFuncIsLoaded(
	struct cu_context *ctx, CUfunctionLoadingState *state, struct cu_function *f)
{
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuFuncLoad(struct cu_context *ctx, struct cu_function *f)
{
	return CUDA_SUCCESS;
}

static CUresult cu_module_param_info(
	const struct image_kernel *kernel, size_t index, size_t *offset, size_t *size)
{
	CU_CHECK(offset && index < kernel->n_params, CUDA_ERROR_INVALID_VALUE);
	*offset = kernel->params[index].offset;
	if (size)
		*size = kernel->params[index].size;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuFuncGetParamInfo(struct cu_context *ctx, struct cu_function *f, size_t paramIndex,
	size_t *paramOffset, size_t *paramSize)
{
	return cu_module_param_info(f->kernel, paramIndex, paramOffset, paramSize);
}

CUresult simgpu_cuKernelGetParamInfo(
	struct cu_kernel *k, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	return cu_module_param_info(
		&k->library->image->image.kernels[k->index], paramIndex, paramOffset, paramSize);
}

CUresult simgpu_cuFuncGetParamCount(
	struct cu_context *ctx, struct cu_function *f, size_t *paramCount)
{
	*paramCount = f->kernel->n_params;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuKernelGetParamCount(struct cu_kernel *k, size_t *paramCount)
{
	*paramCount = k->library->image->image.kernels[k->index].n_params;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuKernelGetName(const char **name, struct cu_kernel *k)
{
	*name = k->library->image->image.kernels[k->index].name;
	return CUDA_SUCCESS;
}
