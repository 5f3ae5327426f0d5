/* SPDX-License-Identifier: Apache-2.0 */
/* Text form of a CUDA UUID, as it follows "GPU-" or "MIG-" in NVML and CUDA_VISIBLE_DEVICES. */
#ifndef CUDA_UUID_H
#define CUDA_UUID_H

#include <stdint.h>
#include <stdio.h>

#define CUDA_UUID_TEXT 37u /* with its NUL */

static inline void cuda_uuid_format(const uint8_t u[static 16], char ret[static CUDA_UUID_TEXT])
{
	snprintf(ret, CUDA_UUID_TEXT,
		"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
		u[15]);
}

#endif
