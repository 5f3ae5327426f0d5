/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PTX of modules on its way to the engine, which executes the kernels, and the text that
 * kernels print on its way back. A kernel without PTX takes time and computes nothing: this file
 * says so, once for each kernel.
 */
#include "simgpu/cu.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

static bool code_write(int fd, const void *bytes, size_t n)
{
	static const char zeros[8];
	size_t padding = (8 - n % 8) % 8;

	return fd_write_all(fd, bytes, n) >= 0 && fd_write_all(fd, zeros, padding) >= 0;
}

static bool code_write_name(int fd, const char *name, uint64_t address)
{
	struct simgpu_code_name head = {.address = address, .bytes = (uint32_t)strlen(name)};

	return code_write(fd, &head, sizeof(head)) && code_write(fd, name, head.bytes);
}

static int code_make_file(const struct cu_module *module)
{
	const struct image *image = &module->image->image;
	struct simgpu_code_head head = {.variables = (uint32_t)image->n_globals,
		.kernels = (uint32_t)image->n_kernels,
		.text_bytes = image->text_bytes};
	_cleanup_close_ int fd = memfd_new("divvy-sim-code", 0);

	if (fd < 0 || !code_write(fd, &head, sizeof(head)))
		return -1;
	for (size_t i = 0; i < image->n_globals; i++)
		if (!code_write_name(fd, image->globals[i].name, module->addresses[i]))
			return -1;
	for (size_t i = 0; i < image->n_kernels; i++)
		if (!code_write_name(fd, image->kernels[i].name, 0))
			return -1;
	if (!code_write(fd, image->text, image->text_bytes) ||
		memfd_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return -1;
	return TAKE_FD(fd);
}

/*
 * The engine's message begins with "line N: ". Libraries load their code at their first use, when
 * the program's buffer for the log may be gone, and many programs give no buffer.
 */
static void code_write_log(const struct cu_jit *jit, const char *text)
{
	struct image_log log = {0};
	char *end;

	if (!jit || !jit->error) {
		fprintf(stderr, "divvy: the simulated GPU does not load a module: %s\n", text);
		return;
	}
	if (strncmp(text, "line ", 5) == 0) {
		log.line = (uint32_t)strtoul(text + 5, &end, 10);
		text = strncmp(end, ": ", 2) == 0 ? end + 2 : end;
	}
	snprintf(log.text, sizeof(log.text), "%s", text);
	cu_jit_write_log(jit, &log);
}

CUresult cu_code_send(struct cu_module *module, const struct cu_jit *jit)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_MODULE_CODE,
		.context = module->context->slot,
		.id = module->engine_id,
		.arg = {module->context->limits[CU_LIMIT_MALLOC_HEAP_SIZE]}};
	const struct image *image = &module->image->image;
	_cleanup_close_ int fd = -1;
	struct simgpu_reply reply = {0}; /* its text counts also if the engine has ended */
	bool is_known = true;
	CUresult r;

	if (cu.state->compute == SIMGPU_COMPUTE_REQUIRE && image->n_kernels && !image->text) {
		code_write_log(jit, "the module has no PTX, and compute=require was given");
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	/* The engine needs no code for the kernels that it knows by name. */
	for (size_t i = 0; i < image->n_kernels; i++)
		is_known = is_known && module->functions[i].sim_kernel != SIMGPU_KERNEL_OTHER;
	if (cu.state->compute == SIMGPU_COMPUTE_OFF || !image->text || is_known)
		return CUDA_SUCCESS;
	fd = code_make_file(module);
	CU_CHECK(fd >= 0, CUDA_ERROR_OUT_OF_MEMORY);
	r = cu_call_fd(&request, fd, &reply, NULL);
	if (r != CUDA_SUCCESS) {
		code_write_log(jit, reply.text);
		return r;
	}
	module->has_code = true;
	module->context->prints |= reply.arg[0] != 0;
	return CUDA_SUCCESS;
}

void cu_code_report(struct cu_function *function)
{
	function->is_reported = true;
	if (function->sim_kernel != SIMGPU_KERNEL_OTHER || cu.state->compute == SIMGPU_COMPUTE_OFF)
		return;
	fprintf(stderr,
		"divvy: the simulated GPU does not compute kernel '%s': its module has no PTX. "
		"The kernel takes time and changes no memory.\n",
		function->kernel->name);
}

void cu_code_print(struct cu_context *context)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_PRINTED, .context = context->slot};
	_cleanup_close_ int fd = -1;
	struct simgpu_reply reply;
	char bytes[4096];
	ssize_t n;

	if (!context->prints || cu_call_fd(&request, -1, &reply, &fd) != CUDA_SUCCESS || fd < 0)
		return;
	for (off_t at = 0; (n = pread(fd, bytes, sizeof(bytes), at)) > 0; at += n)
		fwrite(bytes, 1, (size_t)n, stdout);
	fflush(stdout);
}
