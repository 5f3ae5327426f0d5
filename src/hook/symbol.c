/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions by name: a program gets divvy's function if divvy handles it, and the driver's
 * otherwise. The driver is always asked first, with the caller's own arguments, because only the
 * driver knows whether a function exists for the caller's version and stream flag. Any thread.
 */
#include <errno.h>
#include <string.h>

#include "cuda/cuda-names.h"
#include "hook/entry.h"
#include "hook/hook.h"
#include "hook/hook-link.h"
#include "hook/hook-memory.h"

/*
 * divvy's exports in the order of cuda.def, as relative addresses. -Bsymbolic makes the linker bind
 * the names to this library's functions.
 */
static void *const exports[CUDA_ENTRIES] = {
#define CU(name, since, variant, action, stream, params, args, ...) (void *)name,
#include "cuda/cuda.def"
#undef CU
};

/*
 * The form of `symbol` that the driver returned as `pfn`; NULL: divvy handles no such form. The
 * form is found also if the driver follows other rules about versions and flags than this project's
 * list.
 */
static const struct cuda_name *symbol_find_meant(
	const char *symbol, const void *pfn, int version, cuuint64_t flags)
{
	const struct cuda_name *name = cuda_name_find(symbol, version, flags, NULL);
	size_t n = strlen(symbol);

	if (name && hook_resolve((uint32_t)(name - cuda_names)) == pfn)
		return name;
	/* an older driver may return only an older form */
	for (uint32_t i = 0; i < CUDA_ENTRIES; i++) {
		const struct cuda_name *other = &cuda_names[i];

		if (!strncmp(other->abi, symbol, n) && cuda_name_base(other->abi) == n &&
			hook_resolve(i) == pfn)
			return other;
	}
	return name;
}

static void give_ours(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	const struct cuda_name *name;

	if (!symbol || !pfn || !*pfn)
		return;
	name = symbol_find_meant(symbol, *pfn, version, flags);
	if (name && name->action != CUDA_ACTION_PASS)
		*pfn = exports[name - cuda_names];
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult r = REAL(cuGetProcAddress)(symbol, pfn, cudaVersion, flags);
	int saved = errno;

	if (r == CUDA_SUCCESS)
		give_ours(symbol, pfn, cudaVersion, flags);
	errno = saved;
	return r;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
	cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult r = REAL(cuGetProcAddress_v2)(symbol, pfn, cudaVersion, flags, symbolStatus);
	int saved = errno;

	if (r == CUDA_SUCCESS)
		give_ours(symbol, pfn, cudaVersion, flags);
	errno = saved;
	return r;
}

/* ---- libdivvy-nvml.so ---- */

static int symbol_list_devices(struct link_device *ret_devices, uint32_t max)
{
	struct hook *h = hook_get();
	enum hook_mode mode = h ? session_open(h) : HOOK_OPEN;
	uint32_t n = 0;

	if (mode != HOOK_REGISTERED)
		return mode == HOOK_OPEN ? -1 : 0;
	for (; n < h->devices && n < max; n++) {
		const struct device *d = &h->device[n];
		uint64_t quota = memory_quota_bytes(d), left = memory_left_bytes(d);

		memcpy(ret_devices[n].uuid, d->uuid, sizeof d->uuid);
		/* quota minus used is the memory that the tenant can get, as in cuMemGetInfo */
		ret_devices[n].quota_bytes = quota;
		ret_devices[n].used_bytes = left < quota ? quota - left : 0;
	}
	return (int)n;
}

static const struct link_table link_table = {sizeof link_table, symbol_list_devices};

EXPORT CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	_Static_assert(sizeof LINK_ID >= sizeof *pExportTableId, "an id has 16 bytes");

	if (ppExportTable && pExportTableId &&
		!memcmp(pExportTableId, LINK_ID, sizeof *pExportTableId)) {
		*ppExportTable = &link_table;
		return CUDA_SUCCESS;
	}
	return REAL(cuGetExportTable)(ppExportTable, pExportTableId);
}
