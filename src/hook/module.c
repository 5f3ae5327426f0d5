/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries. The size that their image states is charged before they are loaded. Large
 * variables count in whole blocks. As on the device, the code of all modules of a context shares
 * blocks, and their small variables share other blocks. If the image's size is unreadable, this
 * code asks the device for the used memory after the load, and unloads a module beyond the quota.
 * Any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "core/ledger-counter.h"
#include "cuda/image.h"
#include "hook/hook.h"
#include "hook/hook-memory.h"
#include "hook/system.h"

struct loading {
	struct device *device; /* NULL: not counted */
	struct memory_record record;
	bool opaque;
};

/*
 * Adds `bytes` to the sum of a context's modules, which share blocks. Returns the pages to charge
 * for these bytes. The caller holds the module lock.
 */
static uint64_t module_image_share(uint64_t *sum, uint64_t bytes)
{
	uint64_t before = memory_pages(*sum);

	*sum += bytes;
	return memory_pages(*sum) - before;
}

static int loading_begin(struct loading *l, enum memory_kind kind, const struct image_size *size)
{
	struct hook *h = hook_registered();
	bool small = size->data < MEMORY_SMALL;
	CUcontext handle = NULL;
	struct context *c;
	uint64_t shared;

	*l = (struct loading){.device = memory_device(&handle), .opaque = size->opaque};
	/*
	 * A library needs no context yet: it is charged to the device where it will most likely be
	 * used.
	 */
	if (!l->device && kind == MEMORY_LIBRARY && h && h->visible_count)
		l->device = h->visible[0];
	if (!l->device)
		return 0;
	c = context_lookup(handle);
	l->record = (struct memory_record){
		.kind = (uint8_t)kind,
		.device = (uint8_t)l->device->index,
		.context = kind == MEMORY_MODULE ? handle : NULL,
	};
	if (!c) {
		l->record.pages = memory_pages(size->code) + memory_pages(size->data);
		return memory_charge(l->device, l->record.pages);
	}
	l->record.pages = small ? 0 : memory_pages(size->data);
	lock_take(&h->module_lock);
	shared = module_image_share(&c->code_bytes, size->code);
	if (small)
		shared += module_image_share(&c->data_bytes, size->data);
	lock_drop(&h->module_lock);
	if (!memory_charge(l->device, shared + l->record.pages)) {
		/*
		 * The charge stays with the context, because blocks that modules share are not
		 * given back singly.
		 */
		c->pages += shared;
		return 0;
	}
	lock_take(&h->module_lock);
	c->code_bytes -= size->code;
	if (small)
		c->data_bytes -= size->data;
	lock_drop(&h->module_lock);
	return -ENOMEM;
}

/* Returns false if the last load made the device hold more than the quota. */
static bool module_fits_quota(struct device *d)
{
	struct hook *h = hook_registered();
	uint64_t bytes = 0, held = ledger_slot_pages(&d->up->memory), seen;

	if (session_ask(h, MSG_MEASURE, d, 0, &bytes))
		return true;
	seen = ledger_pages(bytes);
	return seen <= held || !memory_charge(d, seen - held);
}

/* Returns 0, or -ENOMEM if the caller must unload the module. */
static int loading_end(struct loading *l, CUresult r, const void *handle)
{
	if (!l->device)
		return 0;
	if (r != CUDA_SUCCESS) {
		memory_uncharge(l->device, l->record.pages);
		return 0;
	}
	if (l->opaque && !module_fits_quota(l->device)) {
		memory_uncharge(l->device, l->record.pages);
		return -ENOMEM;
	}
	l->record.key = (uintptr_t)handle;
	memory_put(&l->record);
	return 0;
}

/*
 * Measures the image in a file. 0 bytes if the file cannot be read; the driver then reports the
 * error.
 */
static void file_measure(const char *path, struct image_size *ret_size)
{
	int saved = errno;
	_cleanup_close_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	struct stat st;
	char *p;

	*ret_size = (struct image_size){0};
	if (fd < 0 || fd_stat(fd, &st) || st.st_size <= 0) {
		errno = saved;
		return;
	}
	/* PTX that fills the file's last page has no NUL: the page of zeros behind ends it */
	p = mmap(NULL, (size_t)st.st_size + 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED) {
		if (mmap(p, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == p)
			image_measure_file(p, (size_t)st.st_size, ret_size);
		munmap(p, (size_t)st.st_size + 4096);
	}
	errno = saved;
}

#define LOADS(name, kind, measure, unload, result, params, args) \
	EXPORT CUresult name params \
	{ \
		struct image_size size; \
		struct loading l; \
		CUresult r; \
\
		if (!hook_registered()) \
			return REAL(name) args; \
		measure; \
		if (loading_begin(&l, kind, &size)) \
			return memory_refusal(); \
		r = REAL(name) args; \
		if (loading_end(&l, r, r == CUDA_SUCCESS ? *(result) : NULL)) { \
			REAL(unload)(*(result)); \
			r = CUDA_ERROR_OUT_OF_MEMORY; \
		} \
		return r; \
	}

LOADS(cuModuleLoad, MEMORY_MODULE, file_measure(fname, &size), cuModuleUnload, module,
	(CUmodule * module, const char *fname), (module, fname))
LOADS(cuModuleLoadData, MEMORY_MODULE, image_measure(image, &size), cuModuleUnload, module,
	(CUmodule * module, const void *image), (module, image))
LOADS(cuModuleLoadDataEx, MEMORY_MODULE, image_measure(image, &size), cuModuleUnload, module,
	(CUmodule * module, const void *image, unsigned int numOptions, CUjit_option *options,
		void **optionValues),
	(module, image, numOptions, options, optionValues))
LOADS(cuModuleLoadFatBinary, MEMORY_MODULE, image_measure(fatCubin, &size), cuModuleUnload, module,
	(CUmodule * module, const void *fatCubin), (module, fatCubin))
LOADS(cuLibraryLoadData, MEMORY_LIBRARY, image_measure(code, &size), cuLibraryUnload, library,
	(CUlibrary * library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
		unsigned int numJitOptions, CUlibraryOption *libraryOptions,
		void **libraryOptionValues, unsigned int numLibraryOptions),
	(library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
		libraryOptionValues, numLibraryOptions))
LOADS(cuLibraryLoadFromFile, MEMORY_LIBRARY, file_measure(fileName, &size), cuLibraryUnload,
	library,
	(CUlibrary * library, const char *fileName, CUjit_option *jitOptions,
		void **jitOptionsValues, unsigned int numJitOptions,
		CUlibraryOption *libraryOptions, void **libraryOptionValues,
		unsigned int numLibraryOptions),
	(library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
		libraryOptionValues, numLibraryOptions))

EXPORT CUresult cuModuleUnload(CUmodule hmod)
{
	struct memory_record record;
	bool known = memory_take(MEMORY_MODULE, (uintptr_t)hmod, &record);

	return memory_ended(REAL(cuModuleUnload)(hmod), known, &record);
}

EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
	struct memory_record record;
	bool known = memory_take(MEMORY_LIBRARY, (uintptr_t)library, &record);

	return memory_ended(REAL(cuLibraryUnload)(library), known, &record);
}
