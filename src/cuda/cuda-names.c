/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of cuda-names.h, made from cuda.def and result.def, and binary searches in them. The
 * searches need cuda.def sorted by base name, then variant, then since, and result.def sorted by
 * number; the unit test checks both.
 */
#include "cuda/cuda-names.h"

#include <stdbool.h>
#include <string.h>

#define STREAM_none 0
/* STREAM_<name> is 1 for each parameter name of a stream in cuda.def. */
#define STREAM_hStream 1
#define STREAM_stream 1

const struct cuda_name cuda_names[CUDA_ENTRIES] = {
#define CU(name, version, form, what, stream, params, args, ...) \
	{.abi = #name, \
		.since = version, \
		.variant = CUDA_VARIANT_##form, \
		.action = CUDA_ACTION_##what, \
		.streams = STREAM_##stream},
#include "cuda/cuda.def"
#undef CU
};

_Static_assert(sizeof(struct cuda_name) == 64, "one entry is one cache line");

size_t cuda_name_base(const char *abi)
{
	size_t n = strlen(abi);

	if (n > 5 && (!memcmp(abi + n - 5, "_ptds", 5) || !memcmp(abi + n - 5, "_ptsz", 5)))
		n -= 5;
	if (n > 3 && abi[n - 3] == '_' && abi[n - 2] == 'v' && abi[n - 1] >= '0' &&
		abi[n - 1] <= '9')
		n -= 3;
	return n;
}

/* Orders a whole string against the first n characters of another. */
static int cuda_compare_name(const char *symbol, const char *base, size_t n)
{
	int r = strncmp(symbol, base, n);

	return r ? r : symbol[n] != '\0';
}

/* The first entry whose base name is not less than symbol. */
static size_t lower_bound(const char *symbol, size_t length)
{
	size_t low = 0, high = CUDA_ENTRIES;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *abi = cuda_names[middle].abi;
		size_t n = cuda_name_base(abi);
		int r = strncmp(abi, symbol, n < length ? n : length);

		if (r < 0 || (r == 0 && n < length))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int of_base(size_t i, const char *symbol)
{
	return i < CUDA_ENTRIES &&
		!cuda_compare_name(symbol, cuda_names[i].abi, cuda_name_base(cuda_names[i].abi));
}

const struct cuda_name *cuda_name_find(const char *symbol, int cuda_version, uint64_t flags,
	CUdriverProcAddressQueryResult *ret_status)
{
	const struct cuda_name *plain = NULL, *per_thread = NULL;
	const struct cuda_name *found;
	CUdriverProcAddressQueryResult status;
	size_t first = lower_bound(symbol, strlen(symbol));
	bool has_per_thread = false;

	for (size_t i = first; of_base(i, symbol); i++) {
		const struct cuda_name *name = &cuda_names[i];

		has_per_thread |= name->variant != CUDA_VARIANT_NONE;
		if (cuda_version != -1 && name->since > cuda_version)
			continue;
		if (name->variant == CUDA_VARIANT_NONE)
			plain = name;
		else
			per_thread = name;
	}
	found = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && has_per_thread ? per_thread
											: plain;
	if (!of_base(first, symbol))
		status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	else if (!found)
		status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	else
		status = CU_GET_PROC_ADDRESS_SUCCESS;
	if (ret_status)
		*ret_status = status;
	return found;
}

CUresult cuda_name_ask(void *const entries[], const char *symbol, void **pfn, int cuda_version,
	uint64_t flags, CUdriverProcAddressQueryResult *ret_status)
{
	const uint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM |
		CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	const struct cuda_name *name;

	if (!symbol || !pfn || flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	name = cuda_name_find(symbol, cuda_version, flags, ret_status);
	*pfn = name ? entries[name - cuda_names] : NULL;
	return CUDA_SUCCESS;
}

CUresult cuda_name_ask_first(
	void *const entries[], const char *symbol, void **pfn, int cuda_version, uint64_t flags)
{
	void *found;
	CUresult r;

	if (!pfn)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuda_name_ask(entries, symbol, &found, cuda_version, flags, NULL);
	if (r == CUDA_SUCCESS && !found)
		r = CUDA_ERROR_NOT_FOUND;
	if (r == CUDA_SUCCESS)
		*pfn = found;
	return r;
}

const struct cuda_name *cuda_name_by_abi(const char *abi)
{
	char base[sizeof cuda_names[0].abi];
	size_t n = strlen(abi);

	if (n >= sizeof base)
		return NULL;
	n = cuda_name_base(abi);
	memcpy(base, abi, n);
	base[n] = '\0';
	for (size_t i = lower_bound(base, n); of_base(i, base); i++)
		if (!strcmp(cuda_names[i].abi, abi))
			return &cuda_names[i];
	return NULL;
}

const char *cuda_result_name(CUresult result)
{
	switch (result) {
#define CU_RESULT(name, number, text) \
	case name: \
		return #name;
#include "cuda/result.def"
#undef CU_RESULT
	}
	return NULL;
}

const char *cuda_result_text(CUresult result)
{
	switch (result) {
#define CU_RESULT(name, number, text) \
	case name: \
		return text;
#include "cuda/result.def"
#undef CU_RESULT
	}
	return NULL;
}
