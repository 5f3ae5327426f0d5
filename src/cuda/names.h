/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding entries of cuda.def by name, as cuGetProcAddress does: the base name ("cuMemAlloc"), the
 * CUDA version that the caller was built for and its default stream give one exported symbol
 * ("cuMemAlloc_v2"). Also the names and descriptions of results.
 * Tables only: no allocation, lock or state, no pointer in the tables (the loader has nothing to
 * relocate in a program that never calls CUDA). Any thread, signal handlers included.
 */
#ifndef CUDA_NAMES_H
#define CUDA_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/* The columns of cuda.def; what each means stands at its head. */
enum cuda_variant { CUDA_VARIANT_NONE, CUDA_VARIANT_PTDS, CUDA_VARIANT_PTSZ };

enum cuda_action {
	CUDA_ACTION_PASS,
	CUDA_ACTION_GATE,
	CUDA_ACTION_GATE_KERNEL = CUDA_ACTION_GATE, /* how it differs is the hook's */
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

/* CUDA_ENTRY_<abi_name> is the place of an entry in cuda.def, and so in cuda_names. */
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
	uint8_t streams; /* 1: takes the stream that the work goes to */
	uint8_t unused;
};

extern const struct cuda_name cuda_names[CUDA_ENTRIES];

/*
 * What cuGetProcAddress gives for this base name: of the entries with that name, in the variant
 * that flags ask for, the newest that is not newer than cuda_version. Where flags ask for the
 * per-thread default stream and the function has no such form, the plain form. NULL where there is
 * none; *ret_status then says whether the name is unknown or only too new. ret_status may be NULL
 * and is always set otherwise.
 * A symbol with a suffix ("cuMemAlloc_v2") is no base name and is not found. flags is
 * CU_GET_PROC_ADDRESS_DEFAULT, _LEGACY_STREAM (the same) or _PER_THREAD_DEFAULT_STREAM.
 */
const struct cuda_name *cuda_name_find(const char *symbol, int cuda_version, uint64_t flags,
	CUdriverProcAddressQueryResult *ret_status);

/* The entry with exactly this exported symbol, or NULL. */
const struct cuda_name *cuda_name_by_abi(const char *abi);

/* How many characters of an exported symbol are its base name: without _vN and _ptds or _ptsz. */
size_t cuda_name_base(const char *abi);

/* "CUDA_ERROR_OUT_OF_MEMORY", and a description of ours; NULL for a number that is no result. */
const char *cuda_result_name(CUresult result);
const char *cuda_result_text(CUresult result);

#endif
