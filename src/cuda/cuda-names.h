/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds entries of cuda.def by name, as cuGetProcAddress does. The base name ("cuMemAlloc"), the
 * CUDA version for which the caller was built and its default stream give one exported symbol
 * ("cuMemAlloc_v2"). Also the names and descriptions of results.
 *
 * There are only tables: no allocation, lock or state. The tables contain no pointers, so the
 * loader has nothing to relocate in a program that never calls CUDA. Any thread and any signal
 * handler may call the functions.
 */
#ifndef CUDA_CUDA_NAMES_H
#define CUDA_CUDA_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/* Values of the columns of cuda.def; the head of cuda.def explains them. */
enum cuda_variant { CUDA_VARIANT_NONE, CUDA_VARIANT_PTDS, CUDA_VARIANT_PTSZ };

enum cuda_action {
	CUDA_ACTION_PASS,
	CUDA_ACTION_GATE,
	/* only src/hook distinguishes these five GATE_ actions */
	CUDA_ACTION_GATE_KERNEL = CUDA_ACTION_GATE,
	CUDA_ACTION_GATE_CONFIG = CUDA_ACTION_GATE,
	CUDA_ACTION_GATE_LIST = CUDA_ACTION_GATE,
	CUDA_ACTION_GATE_GRAPH = CUDA_ACTION_GATE,
	CUDA_ACTION_GATE_WAITS = CUDA_ACTION_GATE,
	CUDA_ACTION_COUNT,
	CUDA_ACTION_INFO,
	CUDA_ACTION_SYNC,
	CUDA_ACTION_CAPTURE,
	CUDA_ACTION_CAPTURE_BEGINS = CUDA_ACTION_CAPTURE,
	CUDA_ACTION_CAPTURE_ENDS = CUDA_ACTION_CAPTURE,
	CUDA_ACTION_CTX,
	CUDA_ACTION_STREAM,
	CUDA_ACTION_SYMBOL,
	CUDA_ACTION_INIT,
};

/* CUDA_ENTRY_<abi_name> is the index of an entry in cuda.def and in cuda_names. */
enum cuda_entry {
#define CU(abi, since, variant, action, stream, params, args, ...) CUDA_ENTRY_##abi,
#include "cuda/cuda.def"
#undef CU
	CUDA_ENTRIES
};

struct cuda_name {
	char abi[56];    /* the exported symbol */
	int32_t since;   /* 1000 * major + 10 * minor */
	uint8_t variant; /* enum cuda_variant */
	uint8_t action;  /* enum cuda_action */
	uint8_t streams; /* 1: a parameter is the stream of the work */
	uint8_t unused;
};

extern const struct cuda_name cuda_names[CUDA_ENTRIES];

/*
 * Returns the entry that cuGetProcAddress gives for the base name `symbol`: the newest entry in the
 * variant that flags select, of those that are not newer than cuda_version. Version -1 is newer
 * than all. If flags select the per-thread default stream and the function has no form for it in
 * any version, returns an entry of the plain form. NULL: there is no entry; *ret_status then says
 * whether the name is unknown or only too new. ret_status may be NULL, and is always set otherwise.
 *
 * A symbol with a suffix ("cuMemAlloc_v2") is no base name and is not found. flags are bits:
 * CU_GET_PROC_ADDRESS_DEFAULT, _LEGACY_STREAM (the same) and _PER_THREAD_DEFAULT_STREAM, which
 * prevails.
 */
const struct cuda_name *cuda_name_find(const char *symbol, int cuda_version, uint64_t flags,
	CUdriverProcAddressQueryResult *ret_status);

/*
 * The answers of cuGetProcAddress_v2 and of its first form, for a driver with these entry points,
 * in the order of cuda.def. For a name that is unknown or too new, the newer form succeeds and
 * returns NULL, and the first form fails and leaves *pfn alone.
 */
CUresult cuda_name_ask(void *const entries[], const char *symbol, void **pfn, int cuda_version,
	uint64_t flags, CUdriverProcAddressQueryResult *ret_status);
CUresult cuda_name_ask_first(
	void *const entries[], const char *symbol, void **pfn, int cuda_version, uint64_t flags);

/* The entry with exactly this exported symbol, or NULL. */
const struct cuda_name *cuda_name_by_abi(const char *abi);

/* Length of the base name of an exported symbol, without _vN and _ptds or _ptsz. */
size_t cuda_name_base(const char *abi);

/*
 * The result's name, such as "CUDA_ERROR_OUT_OF_MEMORY", and divvy's description. NULL: the number
 * is no result.
 */
const char *cuda_result_name(CUresult result);
const char *cuda_result_text(CUresult result);

#endif
