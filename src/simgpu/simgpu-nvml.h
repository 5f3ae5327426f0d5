/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal header of the simulated libnvidia-ml.so.1. The library reads everything from the
 * engine's state page; the connection only keeps the engine alive. Any thread; a forked child
 * continues to read.
 */
#ifndef SIMGPU_SIMGPU_NVML_H
#define SIMGPU_SIMGPU_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/nvml-answer.h"
#include "simgpu/simgpu-proto.h"

#define NVML_SIM_DRIVER "580.00.simulated"
#define NVML_SIM_CUDA 13000

/* Returns the state page, or NULL before nvmlInit. */
const struct simgpu_state *nvml_state(void);

/*
 * Finds a device by its handle. UNINITIALIZED; INVALID_ARGUMENT for a wrong handle; GPU_IS_LOST.
 * @ret_index may be NULL.
 */
nvmlReturn_t nvml_device(
	nvmlDevice_t handle, const struct simgpu_state_device **ret_device, unsigned *ret_index);
nvmlDevice_t nvml_handle(unsigned index);

/* Copies at most @room processes that use the device now; returns their number. */
unsigned nvml_processes(unsigned index, struct simgpu_state_proc *to, unsigned room);
/* Returns whether the device's utilisation is recent. Old utilisation reads as 0. */
bool nvml_is_fresh(const struct simgpu_state_device *device);

/* Defines nvmlDevice<name>, which answers with one value. `value` may use d and index. */
#define NVML_VALUE(name, type, value) \
	NVML_EXPORT nvmlReturn_t nvmlDevice##name(nvmlDevice_t device, type *out) \
	{ \
		const struct simgpu_state_device *d; \
		unsigned index; \
\
		NVML_TRY(nvml_device(device, &d, &index)); \
		NVML_CHECK(out, NVML_ERROR_INVALID_ARGUMENT); \
		*out = value; \
		return NVML_SUCCESS; \
	}

/* Like NVML_VALUE, with two values of one type. */
#define NVML_PAIR(name, type, value_a, value_b) \
	NVML_EXPORT nvmlReturn_t nvmlDevice##name(nvmlDevice_t device, type *a, type *b) \
	{ \
		const struct simgpu_state_device *d; \
\
		NVML_TRY(nvml_device(device, &d, NULL)); \
		NVML_CHECK(a, NVML_ERROR_INVALID_ARGUMENT); \
		NVML_CHECK(b, NVML_ERROR_INVALID_ARGUMENT); \
		*a = value_a; \
		*b = value_b; \
		return NVML_SUCCESS; \
	}

/* Like NVML_VALUE, with a text. */
#define NVML_TEXT(name, text) \
	NVML_EXPORT nvmlReturn_t nvmlDevice##name( \
		nvmlDevice_t device, char *out, unsigned int length) \
	{ \
		const struct simgpu_state_device *d; \
\
		NVML_TRY(nvml_device(device, &d, NULL)); \
		return nvml_text_give(text, out, length); \
	}

#endif
