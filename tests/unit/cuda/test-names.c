/* SPDX-License-Identifier: Apache-2.0 */
/* The search for entry points by base name, and the order of the lists. */
#include "cuda/cuda-names.h"

#include <stdio.h>

#include "unit.h"

#include "cuda/nvml-proto.h"
#include "cuda/proto.h"

#define LEGACY CU_GET_PROC_ADDRESS_LEGACY_STREAM
#define PER_THREAD CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

static const char *find(const char *symbol, int version, uint64_t flags)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
	const struct cuda_name *name = cuda_name_find(symbol, version, flags, &status);

	assert_int_equal(status == CU_GET_PROC_ADDRESS_SUCCESS, name != NULL);
	return name ? name->abi : NULL;
}

static CUdriverProcAddressQueryResult status_of(const char *symbol, int version, uint64_t flags)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;

	assert_null(cuda_name_find(symbol, version, flags, &status));
	return status;
}

static void newest_form_not_newer_than_the_caller(void **state)
{
	(void)state;
	assert_string_equal(find("cuMemAlloc", 12000, 0), "cuMemAlloc_v2");
	assert_string_equal(find("cuMemAlloc", 3020, 0), "cuMemAlloc_v2");
	assert_string_equal(find("cuMemAlloc", 3010, 0), "cuMemAlloc");
	assert_string_equal(find("cuCtxCreate", 11030, 0), "cuCtxCreate_v2");
	assert_string_equal(find("cuCtxCreate", 12040, 0), "cuCtxCreate_v3");
	assert_string_equal(find("cuCtxCreate", 13000, 0), "cuCtxCreate_v4");
	assert_string_equal(find("cuDeviceGetUuid", 11030, 0), "cuDeviceGetUuid");
	assert_string_equal(find("cuDeviceGetUuid", 11040, 0), "cuDeviceGetUuid_v2");
	assert_string_equal(find("cuGetProcAddress", 11030, 0), "cuGetProcAddress");
	assert_string_equal(find("cuGetProcAddress", 12000, 0), "cuGetProcAddress_v2");
	assert_string_equal(find("cuGraphInstantiate", 11000, 0), "cuGraphInstantiate_v2");
	assert_string_equal(find("cuEventElapsedTime", 12000, 0), "cuEventElapsedTime");
	assert_string_equal(find("cuEventElapsedTime", 13000, 0), "cuEventElapsedTime_v2");
	assert_string_equal(find("cuInit", 2000, 0), "cuInit");
	/*
	 * A driver older than the caller's CUDA version returns the newest form of the function
	 * that it has.
	 */
	assert_string_equal(find("cuInit", 99990, 0), "cuInit");
}

static void default_stream_of_the_thread(void **state)
{
	(void)state;
	assert_string_equal(find("cuLaunchKernel", 12000, 0), "cuLaunchKernel");
	assert_string_equal(find("cuLaunchKernel", 12000, LEGACY), "cuLaunchKernel");
	assert_string_equal(find("cuLaunchKernel", 12000, PER_THREAD), "cuLaunchKernel_ptsz");
	assert_string_equal(find("cuMemcpyHtoD", 12000, PER_THREAD), "cuMemcpyHtoD_v2_ptds");
	assert_string_equal(
		find("cuMemcpyHtoDAsync", 12000, PER_THREAD), "cuMemcpyHtoDAsync_v2_ptsz");
	assert_string_equal(
		find("cuMemPrefetchAsync", 12010, PER_THREAD), "cuMemPrefetchAsync_ptsz");
	assert_string_equal(
		find("cuMemPrefetchAsync", 12020, PER_THREAD), "cuMemPrefetchAsync_v2_ptsz");
	/* Both flags at once select the per-thread form. */
	assert_string_equal(
		find("cuLaunchKernel", 12000, LEGACY | PER_THREAD), "cuLaunchKernel_ptsz");
	/* If the function has no per-thread form, the plain form is returned. */
	assert_string_equal(find("cuMemAlloc", 12000, PER_THREAD), "cuMemAlloc_v2");
	/* A per-thread form is not replaced by the plain form of an older version. */
	assert_int_equal(status_of("cuLaunchKernel", 6000, PER_THREAD),
		CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_int_equal(status_of("cuMemcpyHtoD", 6050, PER_THREAD),
		CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_string_equal(find("cuLaunchKernel", 7000, PER_THREAD), "cuLaunchKernel_ptsz");
}

static void version_minus_one_is_the_newest(void **state)
{
	(void)state;
	assert_string_equal(find("cuCtxCreate", -1, 0), "cuCtxCreate_v4");
	assert_string_equal(find("cuLaunchKernel", -1, PER_THREAD), "cuLaunchKernel_ptsz");
	assert_int_equal(status_of("cuInit", -2, 0), CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

static void both_forms_of_the_question_answer(void **state)
{
	static void *entries[CUDA_ENTRIES];
	CUdriverProcAddressQueryResult status;
	void *const old = &status;
	void *found = old;

	(void)state;
	entries[CUDA_ENTRY_cuInit] = entries;
	assert_int_equal(cuda_name_ask(entries, "cuInit", &found, 12000, 0, NULL), CUDA_SUCCESS);
	assert_ptr_equal(found, entries);
	assert_int_equal(
		cuda_name_ask(entries, "cuNoSuchThing", &found, 12000, 0, NULL), CUDA_SUCCESS);
	assert_null(found);
	assert_int_equal(
		cuda_name_ask(entries, "", &found, 0, LEGACY | PER_THREAD, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	assert_int_equal(
		cuda_name_ask(entries, "cuInit", &found, 12000, 4, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		cuda_name_ask(entries, NULL, &found, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		cuda_name_ask(entries, "cuInit", NULL, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);

	found = old;
	assert_int_equal(
		cuda_name_ask_first(entries, "cuInit", &found, 1000, 0), CUDA_ERROR_NOT_FOUND);
	assert_ptr_equal(found, old);
	assert_int_equal(cuda_name_ask_first(entries, "cuInit", &found, -1, 0), CUDA_SUCCESS);
	assert_ptr_equal(found, entries);
	assert_int_equal(
		cuda_name_ask_first(entries, "cuInit", NULL, -1, 0), CUDA_ERROR_INVALID_VALUE);
}

static void unknown_and_too_new_names_differ(void **state)
{
	static const char *const unknown[] = {"", "cu", "cuMem", "cuMemAllo", "cuMemAllocX",
		"cuMemAlloc_v2", "cuLaunchKernel_ptsz", "malloc", "aaa", "zzz", "cuZ"};

	(void)state;
	for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
		assert_int_equal(
			status_of(unknown[i], 13000, 0), CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	assert_int_equal(status_of("cuLaunchKernelEx", 11050, 0),
		CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_int_equal(status_of("cuLaunchKernelEx", 11050, PER_THREAD),
		CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_int_equal(status_of("cuInit", 0, 0), CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_null(cuda_name_find("cuMemAllo", 13000, 0, NULL));
}

static int order(const struct cuda_name *a, const struct cuda_name *b)
{
	char base_a[sizeof a->abi], base_b[sizeof b->abi];

	snprintf(base_a, sizeof base_a, "%.*s", (int)cuda_name_base(a->abi), a->abi);
	snprintf(base_b, sizeof base_b, "%.*s", (int)cuda_name_base(b->abi), b->abi);
	int r = strcmp(base_a, base_b);
	if (!r)
		r = a->variant - b->variant;
	return r ? r : a->since - b->since;
}

static void every_entry_is_in_order_and_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < CUDA_ENTRIES; i++) {
		const struct cuda_name *name = &cuda_names[i];
		char base[sizeof name->abi];
		uint64_t flags = name->variant == CUDA_VARIANT_NONE ? LEGACY : PER_THREAD;

		if (i && order(name - 1, name) >= 0)
			fail_msg("%s must not stand before %s", name[-1].abi, name->abi);
		snprintf(base, sizeof base, "%.*s", (int)cuda_name_base(name->abi), name->abi);
		assert_ptr_equal(cuda_name_find(base, name->since, flags, NULL), name);
		assert_ptr_equal(cuda_name_by_abi(name->abi), name);
		assert_true(name->since >= 2000 && name->since % 10 == 0);
	}
	assert_null(cuda_name_by_abi("cuMemAlloc_v9"));
	assert_null(cuda_name_by_abi("cuLaunchKernel_ptds"));
	assert_null(cuda_name_by_abi(""));
	assert_null(
		cuda_name_by_abi("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlagsAndMore"));
}

/* The suffix, the variant column and the action of all forms of one function agree. */
static void columns_agree(void **state)
{
	(void)state;
	for (size_t i = 0; i < CUDA_ENTRIES; i++) {
		const struct cuda_name *name = &cuda_names[i];
		size_t n = strlen(name->abi);
		int ptds = n > 5 && !strcmp(name->abi + n - 5, "_ptds");
		int ptsz = n > 5 && !strcmp(name->abi + n - 5, "_ptsz");
		size_t base = cuda_name_base(name->abi);

		assert_int_equal(name->variant,
			ptds           ? CUDA_VARIANT_PTDS
				: ptsz ? CUDA_VARIANT_PTSZ
				       : CUDA_VARIANT_NONE);
		if (i && cuda_name_base(name[-1].abi) == base &&
			!memcmp(name[-1].abi, name->abi, base))
			assert_int_equal(name[-1].action, name->action);
	}
}

static void important_functions_have_their_action(void **state)
{
	static const struct {
		const char *abi;
		enum cuda_action action;
	} expected[] = {
		{"cuLaunch", CUDA_ACTION_GATE},
		{"cuLaunchGridAsync", CUDA_ACTION_GATE},
		{"cuLaunchKernelEx_ptsz", CUDA_ACTION_GATE},
		{"cuLaunchCooperativeKernelMultiDevice", CUDA_ACTION_GATE},
		{"cuGraphLaunch_ptsz", CUDA_ACTION_GATE},
		{"cuMemsetD2D32Async_ptsz", CUDA_ACTION_GATE},
		{"cuMemcpy3DPeerAsync_ptsz", CUDA_ACTION_GATE},
		{"cuMemcpyBatchAsync_v2_ptsz", CUDA_ACTION_GATE},
		{"cuMemPrefetchAsync_v2_ptsz", CUDA_ACTION_GATE},
		{"cuLaunchHostFunc", CUDA_ACTION_PASS},
		{"cuEventRecord_ptsz", CUDA_ACTION_PASS},
		{"cuStreamWaitEvent", CUDA_ACTION_PASS},
		{"cuMemAlloc", CUDA_ACTION_COUNT},
		{"cuMemAllocAsync_ptsz", CUDA_ACTION_COUNT},
		{"cuMemFreeAsync", CUDA_ACTION_COUNT},
		{"cuMemRetainAllocationHandle", CUDA_ACTION_COUNT},
		{"cuGraphInstantiateWithParams_ptsz", CUDA_ACTION_COUNT},
		{"cuDevicePrimaryCtxReset_v2", CUDA_ACTION_COUNT},
		{"cuMemHostAlloc", CUDA_ACTION_PASS},
		{"cuMemGetInfo_v2", CUDA_ACTION_INFO},
		{"cuStreamSynchronize_ptsz", CUDA_ACTION_SYNC},
		{"cuThreadExchangeStreamCaptureMode", CUDA_ACTION_CAPTURE},
		{"cuCtxPopCurrent_v2", CUDA_ACTION_CTX},
		{"cuGreenCtxStreamCreate", CUDA_ACTION_STREAM},
		{"cuGetExportTable", CUDA_ACTION_SYMBOL},
		{"cuInit", CUDA_ACTION_INIT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
		const struct cuda_name *name = cuda_name_by_abi(expected[i].abi);

		if (!name || name->action != expected[i].action)
			fail_msg("%s: wrong or missing", expected[i].abi);
	}
	/* `streams` tells whether a function has a stream parameter. */
	assert_int_equal(cuda_names[CUDA_ENTRY_cuLaunchKernel].streams, 1);
	assert_int_equal(cuda_names[CUDA_ENTRY_cuMemcpyHtoD_v2].streams, 0);
}

static void results_have_names(void **state)
{
	long before = -1;

	(void)state;
	assert_string_equal(cuda_result_name(CUDA_ERROR_OUT_OF_MEMORY), "CUDA_ERROR_OUT_OF_MEMORY");
	assert_int_equal(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906);
	assert_null(cuda_result_name((CUresult)3000));
	assert_null(cuda_result_text((CUresult)-1));
#define CU_RESULT(name, number, text) \
	assert_true((number) > before); \
	before = (number); \
	assert_true(strlen(cuda_result_text(name)) > 8);
#include "cuda/result.def"
#undef CU_RESULT
}

static const char *const nvml_names[] = {
#define NVML(abi, ...) #abi,
#include "cuda/nvml.def"
#undef NVML
};

/* Functions that the drivers 535 and 555 export, and that are easily forgotten. */
static void exports_of_drivers_are_listed(void **state)
{
	static const char *const cuda[] = {
		"cuEGLApiInit", "cuMemGetAttribute", "cuMemGetAttribute_v2"};
	static const char *const nvml[] = {"nvmlDeviceGetFanControlPolicy_v2",
		"nvmlDeviceGetGpuMaxPcieLinkGeneration", "nvmlDeviceSetFanControlPolicy",
		"nvmlGpmMigSampleGet"};
	size_t found = 0;

	(void)state;
	for (size_t i = 0; i < sizeof cuda / sizeof cuda[0]; i++)
		if (!cuda_name_by_abi(cuda[i]))
			fail_msg("%s is missing", cuda[i]);
	for (size_t i = 0; i < sizeof nvml / sizeof nvml[0]; i++)
		for (size_t j = 0; j < sizeof nvml_names / sizeof nvml_names[0]; j++)
			found += !strcmp(nvml[i], nvml_names[j]);
	assert_int_equal(found, sizeof nvml / sizeof nvml[0]);
}

static void nvml_is_in_order(void **state)
{
	const char *const *names = nvml_names;

	(void)state;
	assert_true(sizeof nvml_names / sizeof nvml_names[0] >= 180);
	for (size_t i = 1; i < sizeof nvml_names / sizeof nvml_names[0]; i++)
		if (strcmp(names[i - 1], names[i]) >= 0)
			fail_msg("%s must not stand before %s", names[i - 1], names[i]);
}

UNIT_MAIN(UNIT(newest_form_not_newer_than_the_caller), UNIT(default_stream_of_the_thread),
	UNIT(version_minus_one_is_the_newest), UNIT(both_forms_of_the_question_answer),
	UNIT(unknown_and_too_new_names_differ), UNIT(every_entry_is_in_order_and_found),
	UNIT(columns_agree), UNIT(important_functions_have_their_action), UNIT(results_have_names),
	UNIT(exports_of_drivers_are_listed), UNIT(nvml_is_in_order))
