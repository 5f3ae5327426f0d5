/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that nvcc puts into a program. Static constructors register fat binaries, and the host
 * addresses that stand for kernels and variables. Registration touches no driver, because it runs
 * before main() in programs that may never use a device. The first use of a kernel or variable
 * loads its fat binary as a library of the driver, which serves all devices.
 *
 * All objects are under the lock. An entry lives as long as its fat binary.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cudart/cudart.h"
#include "cudart/cudart-entries.h"

#define WRAPPER_MAGIC 0x466243b1u /* FATBINC_MAGIC of the toolkit's fatbinary_section.h */
#define WRAPPER_PARTS 2u          /* FATBINC_LINK_VERSION */
#define LOG_BYTES 1024

/* nvcc passes this struct to __cudaRegisterFatBinary(), as fatbinary_section.h documents. */
struct wrapper {
	uint32_t magic, version;
	const void *image;
	void **parts; /* version 2: the fat binaries of the files, up to NULL */
};

/* Where a fat binary begins. */
struct fatbin_header {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes; /* behind the header */
};

struct fatbin {
	const struct wrapper *wrapper;
	CUlibrary library; /* NULL: not loaded yet, or failed */
	cudaError_t error; /* of the load */
	struct fatbin *next;
};

enum kind { KERNEL, VARIABLE, MANAGED };

struct entry {
	const void *key; /* address in the program, or a kernel handle of the driver */
	enum kind kind;
	struct fatbin *fatbin; /* NULL: a handle of the driver */
	const char *name;
	CUkernel kernel;  /* NULL: not looked up yet */
	const void *host; /* the address that the program registered */
	void **managed;   /* the program's variable with the address of the managed one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fatbin *fatbins;
/* A hash table with open addressing; free slots have no key. n_slots is a power of 2. */
static struct entry *slots;
static size_t n_slots, n_entries;

/* ---- the table ---- */

static size_t hash_of(const void *key)
{
	return (size_t)(((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u) >> 20);
}

static struct entry *find_slot(const void *key)
{
	size_t i = hash_of(key) & (n_slots - 1);

	while (slots[i].key && slots[i].key != key)
		i = (i + 1) & (n_slots - 1);
	return &slots[i];
}

static struct entry *find(const void *key)
{
	struct entry *e = n_slots && key ? find_slot(key) : NULL;

	return e && e->key ? e : NULL;
}

/* Moves all entries except those of a fat binary into a table of n slots. False: no memory. */
static bool rebuild(size_t n, const struct fatbin *without)
{
	struct entry *old = slots;
	const size_t n_old = n_slots;
	struct entry *fresh = calloc(n, sizeof(*fresh));

	if (!fresh)
		return false;
	slots = fresh;
	n_slots = n;
	n_entries = 0;
	for (size_t i = 0; i < n_old; i++)
		if (old[i].key && (!without || old[i].fatbin != without)) {
			*find_slot(old[i].key) = old[i];
			n_entries++;
		}
	free(old);
	return true;
}

/* Out of memory: the program later gets cudaErrorInvalidDeviceFunction or ...InvalidSymbol. */
static void add(const struct entry *entry)
{
	struct entry *e;

	if (!entry->key ||
		(2 * n_entries >= n_slots && !rebuild(n_slots ? 2 * n_slots : 256, NULL)))
		return;
	e = find_slot(entry->key);
	n_entries += !e->key;
	*e = *entry;
}

/* ---- loading ---- */

/* One line of the driver's log says which instruction or function the device cannot have. */
static void report_log(char *log, cudaError_t error)
{
	log[LOG_BYTES - 1] = '\0';
	log[strcspn(log, "\n")] = '\0';
	if (log[0])
		rt_say("divvy: the program's kernels do not load (%s): %s", cudaGetErrorName(error),
			log);
}

struct load_log {
	char text[LOG_BYTES];
	CUjit_option options[2];
	void *values[2];
};

static void log_init(struct load_log *log)
{
	*log = (struct load_log){
		.options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES},
		.values = {log->text, (void *)(uintptr_t)sizeof(log->text)},
	};
}

static cudaError_t load_image(const void *image, CUlibrary *ret)
{
	struct load_log log;
	cudaError_t error;

	log_init(&log);
	error = rt_error(
		rt_driver.cuLibraryLoadData(ret, image, log.options, log.values, 2, NULL, NULL, 0));
	if (error) {
		*ret = NULL;
		report_log(log.text, error);
	}
	return error;
}

/* Adds the PTX of each file. False: there is none, or the driver cannot join what there is. */
static bool link_parts(const struct wrapper *w, CUlinkState link)
{
	bool has_text = false;

	for (void **part = w->parts; *part; part++) {
		const struct fatbin_header *head = *part;

		/* Device libraries of the toolkit are machine code alone, and are left out. */
		if (rt_driver.cuLinkAddData_v2(link, CU_JIT_INPUT_FATBINARY, *part,
			    head->header_bytes + head->bytes, "part", 0, NULL,
			    NULL) == CUDA_SUCCESS)
			has_text = true;
	}
	return has_text;
}

/*
 * A program of several files with relocatable device code has their PTX beside the machine code
 * that nvcc linked. The driver links the PTX.
 */
static cudaError_t load_parts(const struct wrapper *w, CUlibrary *ret)
{
	CUlinkState link;
	void *image;
	size_t bytes;
	cudaError_t error = rt_begin_device();

	if (error)
		return error;
	RT_DRIVE(cuLinkCreate_v2(0, NULL, NULL, &link));
	error = link_parts(w, link) &&
			rt_driver.cuLinkComplete(link, &image, &bytes) == CUDA_SUCCESS
		? load_image(image, ret)
		: load_image(w->image, ret);
	rt_driver.cuLinkDestroy(link);
	return error;
}

static cudaError_t load_locked(struct fatbin *f)
{
	if (!f->library && !f->error)
		f->error = f->wrapper->version == WRAPPER_PARTS && f->wrapper->parts
			? load_parts(f->wrapper, &f->library)
			: load_image(f->wrapper->image, &f->library);
	return f->error;
}

static cudaError_t resolve_kernel_locked(struct entry *e, CUkernel *ret)
{
	struct entry handle = {.kind = KERNEL, .fatbin = e->fatbin};
	CUresult result;

	if (!e->kernel) {
		RT_TRY(load_locked(e->fatbin));
		result = rt_driver.cuLibraryGetKernel(&e->kernel, e->fatbin->library, e->name);
		if (result) {
			e->kernel = NULL;
			return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction
							      : rt_error(result);
		}
		handle.key = handle.kernel = e->kernel;
		handle.host = e->key;
		*ret = e->kernel;
		/* e may move */
		add(&handle);
		return cudaSuccess;
	}
	*ret = e->kernel;
	return cudaSuccess;
}

cudaError_t rt_kernel(const void *host, CUkernel *ret_kernel)
{
	cudaError_t error = cudaErrorInvalidDeviceFunction;
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find(host);
	if (e && e->kind == KERNEL)
		error = resolve_kernel_locked(e, ret_kernel);
	pthread_mutex_unlock(&lock);
	return error;
}

cudaError_t rt_function(const void *host, CUfunction *ret_function)
{
	CUkernel kernel;

	RT_TRY(rt_kernel(host, &kernel));
	RT_DRIVE(cuKernelGetFunction(ret_function, kernel));
	return cudaSuccess;
}

void *rt_kernel_host(CUkernel kernel, CUfunction function)
{
	const void *host = kernel ? (const void *)kernel : (const void *)function;
	const char *name;
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find(kernel);
	if (e && e->host)
		host = e->host;
	/* A remote driver returns a function that this process has not seen before. */
	if (!e && function && rt_driver.cuFuncGetName(&name, function) == CUDA_SUCCESS)
		for (size_t i = 0; i < n_slots; i++)
			if (slots[i].key && slots[i].kind == KERNEL && slots[i].name &&
				!strcmp(slots[i].name, name))
				host = slots[i].host;
	pthread_mutex_unlock(&lock);
	return (void *)(uintptr_t)host;
}

/* Programs pass kernel handles in place of host addresses, so each handle is an entry. */
static void add_handle(CUkernel kernel)
{
	const struct entry handle = {.key = kernel, .kind = KERNEL, .kernel = kernel};

	pthread_mutex_lock(&lock);
	if (!find(kernel))
		add(&handle);
	pthread_mutex_unlock(&lock);
}

static cudaError_t find_variable(const void *symbol, struct entry *ret)
{
	cudaError_t error = cudaErrorInvalidSymbol;
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find(symbol);
	if (e && e->kind != KERNEL) {
		error = load_locked(e->fatbin);
		*ret = *e;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

cudaError_t rt_symbol(const void *symbol, CUdeviceptr *ret_address, size_t *ret_bytes)
{
	struct entry e = {0};
	CUmodule module;
	CUresult result;

	RT_TRY(find_variable(symbol, &e));
	/* A managed variable exists once a context has loaded the library. */
	if (e.kind == MANAGED)
		RT_DRIVE(cuLibraryGetModule(&module, e.fatbin->library));
	result = e.kind == MANAGED
		? rt_driver.cuLibraryGetManaged(ret_address, ret_bytes, e.fatbin->library, e.name)
		: rt_driver.cuLibraryGetGlobal(ret_address, ret_bytes, e.fatbin->library, e.name);
	return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : rt_error(result);
}

cudaError_t rt_symbol_range(const void *symbol, size_t count, size_t offset, void **ret_address)
{
	CUdeviceptr address;
	size_t bytes;

	RT_TRY(rt_symbol(symbol, &address, &bytes));
	RT_CHECK(offset <= bytes && count <= bytes - offset, cudaErrorInvalidValue);
	*ret_address = (void *)(uintptr_t)(address + offset);
	return cudaSuccess;
}

/* ---- registration: called by code that nvcc puts into the program ---- */

RT_EXPORT void **__cudaRegisterFatBinary(void *wrapper);
RT_EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
RT_EXPORT void __cudaUnregisterFatBinary(void **handle);
RT_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device,
	const char *name, int thread_limit, void *tid, void *bid, void *block, void *grid,
	int *warp_size);
RT_EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name,
	int is_external, size_t bytes, int is_constant, int is_global);
RT_EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
	int is_external, size_t bytes, int is_constant, int is_global);
RT_EXPORT void __cudaRegisterHostVar(void **handle, const char *device, char *host, size_t bytes);
RT_EXPORT cudaError_t __cudaRegisterUnifiedTable(void **handle, void *table);
RT_EXPORT char __cudaInitModule(void **handle);

RT_EXPORT void **__cudaRegisterFatBinary(void *wrapper)
{
	const struct wrapper *w = wrapper;
	struct fatbin *f = w && w->magic == WRAPPER_MAGIC ? calloc(1, sizeof(*f)) : NULL;

	if (!f)
		return NULL;
	f->wrapper = w;
	pthread_mutex_lock(&lock);
	f->next = fatbins;
	fatbins = f;
	pthread_mutex_unlock(&lock);
	return (void **)f;
}

RT_EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
}

/* Called when the program ends, or when a library of the program is closed. */
RT_EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	struct fatbin *f = (struct fatbin *)handle, **at = &fatbins;

	if (!f)
		return;
	pthread_mutex_lock(&lock);
	while (*at && *at != f)
		at = &(*at)->next;
	if (*at) {
		*at = f->next;
		/* Out of memory: the entries stay, and so must what they point to. */
		if (!n_slots || rebuild(n_slots, f)) {
			if (f->library)
				rt_driver.cuLibraryUnload(f->library);
			free(f);
		}
	}
	pthread_mutex_unlock(&lock);
}

static void add_named(
	void **handle, const void *key, enum kind kind, const char *name, void **managed)
{
	const struct entry e = {
		.key = key,
		.kind = kind,
		.fatbin = (struct fatbin *)handle,
		.name = name,
		.host = key,
		.managed = managed,
	};

	if (!handle)
		return;
	pthread_mutex_lock(&lock);
	add(&e);
	pthread_mutex_unlock(&lock);
}

RT_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device,
	const char *name, int thread_limit, void *tid, void *bid, void *block, void *grid,
	int *warp_size)
{
	add_named(handle, host, KERNEL, name, NULL);
}

RT_EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name,
	int is_external, size_t bytes, int is_constant, int is_global)
{
	add_named(handle, host, VARIABLE, name, NULL);
}

RT_EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
	int is_external, size_t bytes, int is_constant, int is_global)
{
	add_named(handle, host, MANAGED, name, host);
}

/* Variables of the host that kernels read in place need memory that both share by address. */
RT_EXPORT void __cudaRegisterHostVar(void **handle, const char *device, char *host, size_t bytes)
{
}

RT_EXPORT cudaError_t __cudaRegisterUnifiedTable(void **handle, void *table)
{
	return cudaErrorNotSupported;
}

/* Gives the program the address of one managed variable. */
static cudaError_t set_managed(const struct entry *e)
{
	CUdeviceptr address;
	size_t bytes;

	RT_TRY(rt_symbol(e->key, &address, &bytes));
	*e->managed = (void *)(uintptr_t)address;
	/* The program names the variable by this address too. */
	add_named((void **)e->fatbin, *e->managed, MANAGED, e->name, NULL);
	return cudaSuccess;
}

/* The program calls this before it first reads a managed variable. */
RT_EXPORT char __cudaInitModule(void **handle)
{
	cudaError_t error = rt_begin_device();

	pthread_mutex_lock(&lock);
	for (size_t i = 0; !error && i < n_slots; i++) {
		const struct entry e = slots[i];

		if (!e.managed || e.fatbin != (struct fatbin *)handle || *e.managed)
			continue;
		pthread_mutex_unlock(&lock);
		error = set_managed(&e);
		pthread_mutex_lock(&lock);
		/* The table may have moved. A variable that has its address is skipped. */
		i = (size_t)-1;
	}
	pthread_mutex_unlock(&lock);
	if (error)
		rt_say("divvy: the program's managed variables have no memory: %s: %s; devices of "
		       "--remote have no managed memory",
			cudaGetErrorName(error), cudaGetErrorString(error));
	rt_end(error);
	return !error;
}

/* ---- handles ---- */

/*
 * nvcc's launches ask once for each kernel, and ignore an error. If the kernel does not load, they
 * get the host address, and the launch itself returns the error.
 */
cudaError_t rt___cudaGetKernel(CUkernel *kernel, const void *host)
{
	RT_CHECK(kernel, cudaErrorInvalidValue);
	if (rt_begin_driver() || rt_kernel(host, kernel))
		*kernel = (CUkernel)(uintptr_t)host;
	return cudaSuccess;
}

cudaError_t rt_cudaGetKernel(CUkernel *kernelPtr, const void *entryFuncAddr)
{
	RT_CHECK(kernelPtr, cudaErrorInvalidValue);
	return rt_kernel(entryFuncAddr, kernelPtr);
}

cudaError_t rt_cudaGetFuncBySymbol(CUfunction *functionPtr, const void *symbolPtr)
{
	RT_CHECK(functionPtr, cudaErrorInvalidValue);
	return rt_function(symbolPtr, functionPtr);
}

cudaError_t rt_cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
	CUdeviceptr address;
	size_t bytes;

	RT_CHECK(devPtr, cudaErrorInvalidValue);
	RT_TRY(rt_symbol(symbol, &address, &bytes));
	*devPtr = (void *)(uintptr_t)address;
	return cudaSuccess;
}

cudaError_t rt_cudaGetSymbolSize(size_t *size, const void *symbol)
{
	CUdeviceptr address;

	RT_CHECK(size, cudaErrorInvalidValue);
	return rt_symbol(symbol, &address, size);
}

/* ---- libraries ---- */

cudaError_t rt_cudaLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
	void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
	void **libraryOptionValues, unsigned int numLibraryOptions)
{
	RT_DRIVE(cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions,
		libraryOptions, libraryOptionValues, numLibraryOptions));
	return cudaSuccess;
}

cudaError_t rt_cudaLibraryLoadFromFile(CUlibrary *library, const char *fileName,
	CUjit_option *jitOptions, void **jitOptionsValues, unsigned int numJitOptions,
	CUlibraryOption *libraryOptions, void **libraryOptionValues, unsigned int numLibraryOptions)
{
	RT_DRIVE(cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues,
		numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions));
	return cudaSuccess;
}

cudaError_t rt_cudaLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	RT_DRIVE(cuLibraryGetKernel(pKernel, library, name));
	add_handle(*pKernel);
	return cudaSuccess;
}

cudaError_t rt_cudaLibraryEnumerateKernels(
	CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	unsigned int n;

	RT_DRIVE(cuLibraryGetKernelCount(&n, lib));
	RT_DRIVE(cuLibraryEnumerateKernels(kernels, numKernels, lib));
	for (unsigned int i = 0; i < numKernels && i < n; i++)
		add_handle(kernels[i]);
	return cudaSuccess;
}
