/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of processes: which lists fit the caller's array, the result for an empty list, and which
 * entries stay in a list.
 */
#include "cuda/nvml-entries.h"

#include "unit.h"

static void a_list_that_fits_is_a_success(void **state)
{
	nvmlProcessInfo_t entries[3] = {0};
	unsigned int count = 3;

	assert_int_equal(nvml_entries_fit(3, entries, &count), NVML_SUCCESS);
	assert_int_equal(count, 3);
	assert_int_equal(nvml_entries_fit(1, entries, &count), NVML_SUCCESS);
	assert_int_equal(count, 1);
	assert_int_equal(nvml_entries_fit(2, entries, &count), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(count, 2);
}

static void without_an_array_only_an_empty_list_fits(void **state)
{
	unsigned int count = 3;

	assert_int_equal(nvml_entries_fit(1, NULL, &count), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(count, 1);
	assert_int_equal(nvml_entries_fit(0, NULL, &count), NVML_SUCCESS);
	assert_int_equal(count, 0);
}

static void without_samples_the_result_is_not_found(void **state)
{
	assert_int_equal(nvml_entries_or_none(NVML_SUCCESS, 0), NVML_ERROR_NOT_FOUND);
	assert_int_equal(nvml_entries_or_none(NVML_SUCCESS, 1), NVML_SUCCESS);
	assert_int_equal(nvml_entries_or_none(NVML_ERROR_GPU_IS_LOST, 0), NVML_ERROR_GPU_IS_LOST);
}

/* Keeps the entries with even pids, and halves these pids. */
static unsigned int half(const void *context, unsigned int pid)
{
	assert_string_equal(context, "context");
	return pid % 2 ? 0 : pid / 2;
}

static void entries_stay_in_order_with_new_pids(void **state)
{
	const struct nvml_entry entry = {sizeof(nvmlProcessUtilizationInfo_v1_t),
		offsetof(nvmlProcessUtilizationInfo_v1_t, pid)};
	nvmlProcessUtilizationInfo_v1_t entries[] = {
		{.pid = 1, .smUtil = 10},
		{.pid = 2, .smUtil = 20},
		{.pid = 3, .smUtil = 30},
		{.pid = 8, .smUtil = 40},
	};

	assert_int_equal(nvml_entries_keep(&entry, entries, 4, half, "context"), 2);
	assert_int_equal(entries[0].pid, 1);
	assert_int_equal(entries[0].smUtil, 20);
	assert_int_equal(entries[1].pid, 4);
	assert_int_equal(entries[1].smUtil, 40);
	assert_int_equal(nvml_entries_keep(&entry, NULL, 0, half, "context"), 0);
}

UNIT_MAIN(UNIT(a_list_that_fits_is_a_success), UNIT(without_an_array_only_an_empty_list_fits),
	UNIT(without_samples_the_result_is_not_found), UNIT(entries_stay_in_order_with_new_pids))
