/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes kernels given as PTX text, on the processor, for the simulated device.
 *
 * ptx_load() checks and translates a whole module once. A job is one launch of a kernel: any number
 * of threads call ptx_job_work() for the same job, and each takes blocks until none is left. The
 * caller's struct ptx_device answers where device memory is; the executor itself reads no file and
 * allocates only its own state. A fault of the kernel ends the job with a CUresult and harms
 * nothing else. A loaded module is constant, so any thread may use it.
 */
#ifndef PTX_PTX_H
#define PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct ptx;
struct ptx_job;

enum {
	PTX_TEXT_MAX = 256 << 20,
	PTX_PARAM_BYTES_MAX = 32764,
	PTX_THREADS_MAX = 1024,
	PTX_SHARED_BYTES_MAX = 1 << 28, /* of all kernels of a module */
	PTX_DYNAMIC_BYTES_MAX = 227 << 10,
};

/* The faults of a kernel, as CUresult numbers. */
enum ptx_fault {
	PTX_OK = 0,
	PTX_OUT_OF_MEMORY = 2,
	PTX_INVALID_PTX = 218,
	PTX_ILLEGAL_ADDRESS = 700,
	PTX_TIMEOUT = 702,
	PTX_ASSERT = 710,
	PTX_STACK_ERROR = 714,
	PTX_ILLEGAL_INSTRUCTION = 715,
	PTX_MISALIGNED_ADDRESS = 716,
	PTX_INVALID_PC = 718,
	PTX_LAUNCH_FAILED = 719,
	PTX_CANCELED = 999, /* ptx_job_cancel() ended the job */
};

/* Returns true and the address of a variable of the module in .global or .const space. */
typedef bool ptx_address_fn(void *user, struct str name, uint64_t *ret_address);

/*
 * Bounds the memory of a module or a job. Any thread calls both functions. The executor gives back
 * what it took, at the latest when the module or the job is freed.
 */
struct ptx_memory {
	void *user;
	/* Returns whether the bytes are free. is_spare: the executor can go on without them. */
	bool (*take)(void *user, uint64_t bytes, bool is_spare);
	void (*give)(void *user, uint64_t bytes);
};

/* A caller may add these to a load; each member may be NULL. */
struct ptx_loading {
	void *user;
	ptx_address_fn *address;
	/* Called often. Returns false if the load shall end with -ECANCELED. */
	bool (*pause)(void *user);
	const struct ptx_memory *memory; /* must outlive the module */
};

/*
 * Loads a module. `text` may go away afterwards, and `loading` may be NULL. -EINVAL: the text is
 * not valid PTX. -ENOTSUP: an instruction is missing here. -ENOMEM, -ECANCELED. The message names
 * line and instruction.
 */
int ptx_load(struct str text, const struct ptx_loading *loading, struct ptx **ret_ptx,
	struct error *err);
void ptx_free(struct ptx *ptx);

/* Index of a kernel, or -ENOENT. */
int ptx_find_kernel(const struct ptx *ptx, struct str name);
uint32_t ptx_kernel_count(const struct ptx *ptx);
const char *ptx_kernel_name(const struct ptx *ptx, uint32_t kernel);
uint32_t ptx_kernel_param_bytes(const struct ptx *ptx, uint32_t kernel);
/* Returns whether kernels of the module may print, or call malloc(). */
bool ptx_has_print(const struct ptx *ptx);
bool ptx_has_heap(const struct ptx *ptx);

/* A value that the loader must store into a variable: an address in its initial value. */
struct ptx_patch {
	uint64_t address, value;
	uint32_t bytes;
};
uint32_t ptx_patch_count(const struct ptx *ptx);
struct ptx_patch ptx_patch_get(const struct ptx *ptx, uint32_t i);

/* A piece of memory that the kernel may access directly. */
struct ptx_range {
	uint64_t lo, hi; /* addresses; the bytes are at the same addresses of this process */
	bool can_write;
};

struct ptx_device {
	void *user;
	/* Finds the range that contains an address. 0, -EFAULT, or -ENXIO for host memory. */
	int (*range)(void *user, uint64_t address, struct ptx_range *ret_range);
	/*
	 * Copies from (or, with write, to) memory of the host. 0 or -EFAULT. Ranges may change
	 * during the call. May be NULL.
	 */
	int (*host)(void *user, uint64_t address, void *buf, size_t n, bool write);
	/*
	 * Changes memory of the host in one step, as the kernel's threads see it: reads `bytes`,
	 * calls update(data, buf), and writes buf. 0 or -EFAULT. May be NULL if `host` is.
	 */
	int (*host_update)(void *user, uint64_t address, uint32_t bytes,
		void (*update)(void *data, void *buf), void *data);
	/*
	 * Called often by each thread, between instructions. Ranges may change during the call. May
	 * be NULL.
	 */
	void (*pause)(void *user);
	/* Text that the kernel prints. Any thread. May be NULL. */
	void (*print)(void *user, const char *text, size_t n);
	/* malloc() of kernels: an address of device memory, or 0. Any thread. May be NULL. */
	uint64_t (*heap_take)(void *user, uint64_t bytes);
	/* free() of kernels. False: no block begins there. Any thread. May be NULL. */
	bool (*heap_give)(void *user, uint64_t address);
	uint64_t (*now_ns)(void *user); /* %globaltimer; NULL: 0 */
	uint32_t sm_count;
	uint32_t sm;           /* 90 for sm_90 */
	uint64_t steps_max;    /* instructions of one warp before PTX_TIMEOUT; 0: no bound */
	uint32_t stack_bytes;  /* local memory of a thread beyond its kernel's own; 0: 64 KiB */
	uint32_t resident_max; /* blocks that run at once in turns; 0: 64 */
	const struct ptx_memory *memory; /* NULL: no bound */
};

struct ptx_launch {
	const struct ptx *ptx;
	uint32_t kernel;
	uint32_t grid[3], block[3];
	uint32_t shared_bytes; /* dynamic */
	const void *params;    /* copied */
	uint32_t param_bytes;
	bool is_cooperative;
	const struct ptx_device *device; /* must outlive the job */
};

/* 0, -EINVAL (no such kernel, sizes out of range), -ENOMEM. */
int ptx_job_new(const struct ptx_launch *launch, struct ptx_job **ret_job);
/* Runs blocks until none is left or the job has failed. Any number of threads at once. */
void ptx_job_work(struct ptx_job *job);
/* Makes all threads leave ptx_job_work() soon. Any thread. */
void ptx_job_cancel(struct ptx_job *job);

struct ptx_result {
	enum ptx_fault fault;
	uint32_t line; /* of the PTX text, where the fault happened; 0: none */
	uint64_t address;
	uint64_t steps;      /* executed instructions of warps */
	uint64_t lane_steps; /* executed instructions of threads */
};
/* Call when no thread works on the job any more. */
struct ptx_result ptx_job_result(const struct ptx_job *job);
void ptx_job_free(struct ptx_job *job);

/* The name of a fault in the words of the driver: "CUDA_ERROR_ILLEGAL_ADDRESS". */
const char *ptx_fault_name(enum ptx_fault fault);

#endif
