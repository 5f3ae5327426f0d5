/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads module images: PTX text, ELF cubins and fatbin containers. Finds their kernels, parameter
 * layouts and global variables, and ignores the code itself.
 *
 * image_read() copies everything that it keeps. Pure code without globals; any thread. Sizes are
 * bounded by IMAGE_*_MAX.
 */
#ifndef SIMGPU_CU_IMAGE_H
#define SIMGPU_CU_IMAGE_H

#include <stddef.h>
#include <stdint.h>

enum {
	IMAGE_KERNELS_MAX = 1 << 16,
	IMAGE_PARAMS_MAX = 1024,
	IMAGE_GLOBALS_MAX = 1 << 16,
	IMAGE_NAME_MAX = 4096,
	/* Bytes of parameters of one kernel: 32,764 since sm_70 with CUDA 12.1. */
	IMAGE_PARAM_BYTES_MAX = 32764,
};

/* Why an image was refused; cu-module.c turns it into a CUresult. */
enum image_status {
	IMAGE_OK,
	IMAGE_BAD_PTX,         /* text that is not PTX */
	IMAGE_BAD_BINARY,      /* neither PTX, ELF nor fatbin, or a damaged one */
	IMAGE_NO_BINARY,       /* a container without anything for this device */
	IMAGE_UNSUPPORTED_PTX, /* a newer .version than the driver's */
	IMAGE_NO_MEMORY,
};

/*
 * The newest .version that the driver reads: 9.5, as of CUDA 13.5. NVIDIA's driver of the version
 * that cuDriverGetVersion() states reads 9.0; compilers of later versions then need another driver,
 * but not another simulated device.
 */
#define IMAGE_PTX_NEWEST 95

/* The reason of a refusal, from the reader of the image. The program's JIT log shows the text. */
struct image_log {
	uint32_t line; /* of the PTX text, from 1; 0: no line is to blame */
	char text[200];
};

struct image_param {
	uint32_t offset;
	uint32_t size;
};

struct image_kernel {
	char *name;
	struct image_param *params;
	uint32_t n_params;
	uint32_t param_bytes;
	uint32_t shared_bytes; /* static shared memory */
	uint32_t local_bytes;  /* local memory of a thread, as PTX declares it; cubins: 0 */
	uint32_t max_threads;  /* from .maxntid or .reqntid; 0: the device's maximum */
};

struct image_global {
	char *name;
	uint64_t size;
	uint64_t align;
	uint8_t *init; /* `size` bytes of initial values; NULL: zeros */
	int is_const;
	int is_managed; /* the host reads and writes the variable by the same address */
};

struct image {
	struct image_kernel *kernels;
	size_t n_kernels;
	uint32_t *sorted; /* numbers of the kernels, by name */
	struct image_global *globals;
	size_t n_globals;
	int is_ptx;
	char *text; /* PTX: the text of `text_bytes` bytes, which the engine executes */
	size_t text_bytes;
	unsigned ptx_version; /* 64 for .version 6.4; cubins: 0 */
	unsigned target_sm;   /* 70 for sm_70 */
};

/* One member of a fat binary, unpacked. */
struct image_member {
	const uint8_t *bytes; /* PTX may lack a terminating NUL */
	size_t n;
	int is_ptx;
	uint8_t *unpacked; /* owns the bytes of a compressed member; NULL: they are the program's */
};

/*
 * Parses an image of unknown length, as cuModuleLoadData() gets it: PTX ends at its NUL, and the
 * headers of ELF and fatbin state the size. @device_sm (90 for sm_90) selects a fatbin's member; a
 * cubin for another major architecture is refused. The caller passes @ret_image to image_done();
 * @ret_image is untouched unless the result is IMAGE_OK. @log may be NULL; only a failure writes
 * it.
 */
enum image_status image_read(
	const void *bytes, unsigned device_sm, struct image_log *log, struct image *ret_image);

/* The parsers behind image_read, for images of known size. */
enum image_status image_read_ptx(const char *text, size_t n, unsigned device_sm,
	struct image_log *log, struct image *ret_image);
enum image_status image_read_elf(const uint8_t *bytes, size_t n, unsigned device_sm,
	struct image_log *log, struct image *ret_image);
enum image_status image_read_fatbin(
	const uint8_t *header, unsigned device_sm, struct image_log *log, struct image *ret_image);

/*
 * Finds and unpacks the newest PTX of a fat binary that the device runs, or with @is_ptx 0 the
 * cubin. IMAGE_NO_BINARY: the fat binary has none. The caller passes @ret to image_member_done().
 */
enum image_status image_take_member(const uint8_t *header, unsigned device_sm, int is_ptx,
	struct image_log *log, struct image_member *ret);
void image_member_done(struct image_member *member);

/* Whether a container, without a wrapper, lies within @n bytes. */
int image_fatbin_is_whole(const uint8_t *bytes, size_t n);

/*
 * Whether image_read() stays within the @n bytes of a file, which zeros follow (64 at least). A
 * wrapper contains an address, so no file has a valid one.
 */
int image_is_whole(const uint8_t *bytes, size_t n);

/*
 * Whether code for sm_@arch runs on a device. Code for sm_90a (@suffix 'a') runs on 9.0 alone, code
 * for sm_100f on its family: the same major number. @suffix 0: on all later devices, if it is PTX.
 */
int image_runs_on(unsigned arch, char suffix, unsigned device_sm);

/* Fills @log, which may be NULL. */
__attribute__((format(printf, 3, 4))) void image_log_set(
	struct image_log *log, uint32_t line, const char *format, ...);

/* Size of an image by its own headers; 0: no known kind of image. */
size_t image_size(const void *bytes);

/* The number of a kernel, or -1. */
int image_find_kernel(const struct image *image, const char *name);
/* For the parsers: call when all kernels are there. 0, or -1: out of memory. */
int image_sort_kernels(struct image *image);

/* Helpers of the parsers: add a zeroed element. NULL: out of memory, or at the limit. */
struct image_kernel *image_add_kernel(struct image *image, const char *name, size_t n);
struct image_global *image_add_global(struct image *image, const char *name, size_t n);
int image_add_param(struct image_kernel *kernel, uint32_t offset, uint32_t size);

void image_done(struct image *image);

#endif
