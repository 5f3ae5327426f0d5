/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options and messages of the JIT compiler, and the linker, which joins PTX texts.
 */
#include "simgpu/cu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* ---- options ---- */

CUresult cu_jit_take_options(
	unsigned n, const CUjit_option *options, void **values, struct cu_jit *ret)
{
	struct cu_jit jit = {0};

	CU_CHECK(n == 0 || (options && values), CUDA_ERROR_INVALID_VALUE);
	for (unsigned i = 0; i < n; i++) {
		CU_CHECK((unsigned)options[i] < CU_JIT_NUM_OPTIONS, CUDA_ERROR_INVALID_VALUE);
		switch ((int)options[i]) {
		case CU_JIT_INFO_LOG_BUFFER: jit.info = values[i]; break;
		case CU_JIT_ERROR_LOG_BUFFER: jit.error = values[i]; break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
			jit.info_bytes = (unsigned)(uintptr_t)values[i];
			jit.ret_info_bytes = &values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			jit.error_bytes = (unsigned)(uintptr_t)values[i];
			jit.ret_error_bytes = &values[i];
			break;
		default: break;
		}
	}
	if (ret)
		*ret = jit;
	return CUDA_SUCCESS;
}

static void jit_write(char *buffer, size_t bytes, void **ret_bytes, const char *text)
{
	size_t n = strlen(text);

	if (!buffer)
		bytes = 0;
	if (n >= bytes)
		n = bytes ? bytes - 1 : 0;
	if (bytes) {
		memcpy(buffer, text, n);
		buffer[n] = '\0';
	}
	if (ret_bytes)
		*ret_bytes = (void *)(uintptr_t)n;
}

/* Programs search the message for ", line N;", as NVIDIA's assembler writes it. */
void cu_jit_write_log(const struct cu_jit *jit, const struct image_log *log)
{
	char text[sizeof(log->text) + 80] = "";

	if (!jit)
		return;
	if (log->line)
		snprintf(text, sizeof(text), "simulated ptx input, line %u; error   : %s\n",
			log->line, log->text);
	else if (log->text[0])
		snprintf(text, sizeof(text), "simulated driver: %s\n", log->text);
	jit_write(jit->info, jit->info_bytes, jit->ret_info_bytes, "");
	jit_write(jit->error, jit->error_bytes, jit->ret_error_bytes, text);
}

/* ---- linker ---- */

/*
 * Joined PTX text, or one cubin. Each text after the first loses its .version, .target and
 * .address_size. This linker cannot join machine code.
 */
struct linker {
	CUlinkState handle;
	struct cu_jit jit; /* the buffers are valid as long as the linker */
	char *text;        /* NULL: no input yet */
	size_t n;
	bool is_cubin;
};

CUresult simgpu_cuLinkCreate_v2(struct cu_context *ctx, unsigned int numOptions,
	CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	struct linker *linker;
	struct cu_jit jit;

	CU_TRY(cu_jit_take_options(numOptions, options, optionValues, &jit));
	linker = calloc(1, sizeof(*linker));
	CU_CHECK(linker, CUDA_ERROR_OUT_OF_MEMORY);
	linker->jit = jit;
	linker->handle = cu_handle_new(CU_KIND_LINK, linker);
	if (!linker->handle) {
		free(linker);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	cu_jit_write_log(&linker->jit, &(struct image_log){0});
	*stateOut = linker->handle;
	return CUDA_SUCCESS;
}

static size_t header_length(const char *text, size_t n)
{
	static const char *const headers[] = {".version", ".target", ".address_size"};
	size_t end = 0;

	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		const char *at = memmem(text, n, headers[i], strlen(headers[i]));
		const char *line = at ? memchr(at, '\n', n - (size_t)(at - text)) : NULL;

		if (line && (size_t)(line - text) > end)
			end = (size_t)(line - text);
	}
	return end;
}

static CUresult link_text(struct linker *linker, const char *data, size_t size, unsigned sm)
{
	size_t n = strnlen(data, size), skip;
	struct image_log log = {0};
	struct image image;
	char *bigger;
	CUresult r;

	CU_CHECK(!linker->is_cubin, CUDA_ERROR_NOT_SUPPORTED);
	r = cu_image_result(image_read_ptx(data, n, sm, &log, &image));
	cu_jit_write_log(&linker->jit, &log);
	CU_TRY(r);
	image_done(&image);
	skip = linker->text ? header_length(data, n) : 0;
	bigger = realloc(linker->text, linker->n + n - skip + 2);
	CU_CHECK(bigger, CUDA_ERROR_OUT_OF_MEMORY);
	linker->text = bigger;
	memcpy(bigger + linker->n, data + skip, n - skip);
	linker->n += n - skip;
	bigger[linker->n++] = '\n';
	bigger[linker->n] = '\0';
	return CUDA_SUCCESS;
}

static CUresult link_cubin(struct linker *linker, const uint8_t *data, size_t size, unsigned sm)
{
	struct image_log log = {0};
	struct image image;
	CUresult r;

	CU_CHECK(!linker->text, CUDA_ERROR_NOT_SUPPORTED);
	r = cu_image_result(image_read_elf(data, size, sm, &log, &image));
	cu_jit_write_log(&linker->jit, &log);
	CU_TRY(r);
	image_done(&image);
	/* A load of the result reads as far as the cubin states. */
	CU_CHECK(image_size(data) <= size, CUDA_ERROR_INVALID_IMAGE);
	/* The reader of the result looks for a magic number without checking the length. */
	linker->text = calloc(1, size + 64);
	CU_CHECK(linker->text, CUDA_ERROR_OUT_OF_MEMORY);
	memcpy(linker->text, data, size);
	linker->n = size - 1;
	linker->is_cubin = true;
	return CUDA_SUCCESS;
}

static CUresult link_fatbin(struct linker *linker, const uint8_t *data, size_t size, unsigned sm)
{
	struct image_log log = {0};
	struct image_member member;
	enum image_status status;
	CUresult r;

	CU_CHECK(image_fatbin_is_whole(data, size), CUDA_ERROR_INVALID_IMAGE);
	status = image_take_member(data, sm, 1, &log, &member);
	if (status == IMAGE_NO_BINARY)
		status = image_take_member(data, sm, 0, &log, &member);
	if (status != IMAGE_OK) {
		cu_jit_write_log(&linker->jit, &log);
		return cu_image_result(status);
	}
	r = member.is_ptx ? link_text(linker, (const char *)member.bytes, member.n, sm)
			  : link_cubin(linker, member.bytes, member.n, sm);
	image_member_done(&member);
	return r;
}

/*
 * An archive of machine code, such as libcudadevrt.a. The linker takes nothing from the archive:
 * cu-devrt.h has functions of the device runtime. A kernel that calls another function of the
 * archive does not load, and the log names the function.
 */
static CUresult link_library(const char *data, size_t size)
{
	static const char magic[] = "!<arch>\n";

	CU_CHECK(size >= strlen(magic) && memcmp(data, magic, strlen(magic)) == 0,
		CUDA_ERROR_INVALID_IMAGE);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuLinkAddData_v2(struct cu_context *ctx, struct linker *linker, CUjitInputType type,
	void *data, size_t size, const char *name, unsigned int numOptions, CUjit_option *options,
	void **optionValues)
{
	unsigned sm = cu_device_sm(ctx->device);

	CU_TRY(cu_jit_take_options(numOptions, options, optionValues, NULL));
	switch ((int)type) {
	case CU_JIT_INPUT_PTX: return link_text(linker, data, size, sm);
	case CU_JIT_INPUT_CUBIN: return link_cubin(linker, data, size, sm);
	case CU_JIT_INPUT_FATBINARY: return link_fatbin(linker, data, size, sm);
	case CU_JIT_INPUT_LIBRARY: return link_library(data, size);
	default: return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CU_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
	unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	_cleanup_free_ char *bytes = NULL;
	size_t n;

	CU_CHECK(path, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_image_read_file(path, &bytes, &n));
	if (type == CU_JIT_INPUT_PTX)
		n = strlen(bytes) + 1;
	return cuLinkAddData_v2(state, type, bytes, n, path, numOptions, options, optionValues);
}

CUresult simgpu_cuLinkComplete(
	struct cu_context *ctx, struct linker *linker, void **cubinOut, size_t *sizeOut)
{
	CU_CHECK(linker->text, CUDA_ERROR_INVALID_IMAGE);
	*cubinOut = linker->text;
	if (sizeOut)
		*sizeOut = linker->n + 1;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuLinkDestroy(CUlinkState state)
{
	struct linker *linker;

	linker = cu_handle_get(state, CU_KIND_LINK);
	CU_CHECK(linker, CUDA_ERROR_INVALID_HANDLE);
	cu_handle_free(state);
	free(linker->text);
	free(linker);
	return CUDA_SUCCESS;
}
