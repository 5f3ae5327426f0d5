/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of the requests whose stubs are written by hand. */
#ifndef REMOTE_LAUNCH_H
#define REMOTE_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/* What CUDA allows: 4 KiB of parameters, on new devices 32 KiB. */
#define REMOTE_PARAMS_MAX 32764u
#define REMOTE_PARAMS 1024u
#define REMOTE_ATTRS_MAX 32u
#define REMOTE_OPTIONS_MAX 64u
#define REMOTE_TEXT_MAX 4096u

/* Answer of REMOTE_LAYOUT. */
struct remote_layout {
	uint32_t n;
	uint32_t bytes; /* of the whole */
	struct {
		uint16_t offset, size;
	} param[REMOTE_PARAMS];
};

/* A launch or a kernel node; n_attrs CUlaunchAttribute and `bytes` of parameters follow. */
struct remote_launch {
	uint64_t function, stream; /* handles; of a node: its context instead of a stream */
	uint32_t grid[3], block[3];
	uint32_t shared, n_attrs;
	uint64_t bytes;
};

/* Where a node goes, or which it is; n handles of nodes follow. */
struct remote_node {
	uint64_t of;   /* a graph or an executable one; 0: neither */
	uint64_t node; /* 0: a new one */
	uint64_t n;
	const void *dependencies; /* of no meaning on the wire */
};

static inline size_t pool_attribute_bytes(CUmemPool_attribute attribute)
{
	return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
			attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES
		? sizeof(int)
		: sizeof(cuuint64_t);
}

#endif
