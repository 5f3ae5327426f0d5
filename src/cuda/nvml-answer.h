/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers for divvy's own libraries named libnvidia-ml.so.1: exports, checks of arguments, texts,
 * and stubs for the functions of nvml.def that a library lacks. Any thread; nothing blocks.
 */
#ifndef CUDA_NVML_ANSWER_H
#define CUDA_NVML_ANSWER_H

#include <stdbool.h>

#include "cuda/nvml-proto.h"

#define NVML_EXPORT __attribute__((visibility("default")))

#define NVML_TRY(expression) \
	do { \
		const nvmlReturn_t nvml_try_ = (expression); \
		if (nvml_try_ != NVML_SUCCESS) \
			return nvml_try_; \
	} while (0)

#define NVML_CHECK(condition, code) \
	do { \
		if (!(condition)) \
			return code; \
	} while (0)

/* Checks the caller's nvml<name>_v<n>_t, which states its own size and version. */
#define NVML_CHECK_VERSION(pointer, name, n) \
	do { \
		NVML_CHECK(pointer, NVML_ERROR_INVALID_ARGUMENT); \
		NVML_CHECK((pointer)->version == NVML_STRUCT_VERSION(name, n), \
			NVML_ERROR_ARGUMENT_VERSION_MISMATCH); \
	} while (0)

/* Each library with stubs defines this function: true between nvmlInit and nvmlShutdown. */
bool nvml_is_begun(void);

/*
 * NVML_STUB_<column of nvml.def>(abi, params) defines the functions that no other file of the
 * library defines.
 */
#define NVML_STUB_DEVICE(abi, params)
#define NVML_STUB_OWN(abi, params)
#define NVML_STUB_FORM(abi, params)
#define NVML_STUB_NONE(abi, params) \
	NVML_EXPORT nvmlReturn_t abi params \
	{ \
		return nvml_is_begun() ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED; \
	}

/*
 * Copies the text with its NUL. If `room` is too small, copies nothing and returns
 * NVML_ERROR_INSUFFICIENT_SIZE. ret_text may be NULL.
 */
nvmlReturn_t nvml_text_give(const char *text, char *ret_text, unsigned int room);

/* "0000:1b:00.0": the domain has four or eight digits, or is left out. */
struct nvml_bus_id {
	unsigned int domain, bus, slot;
};
nvmlReturn_t nvml_bus_id_parse(const char *text, struct nvml_bus_id *ret_id);

/*
 * Answers nvmlDeviceGetProcessesUtilizationInfo from nvmlDeviceGetProcessUtilization, which has no
 * values for JPEG and optical flow. In nvml-forms.c.
 */
nvmlReturn_t nvml_utilization_info(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info);

#endif
