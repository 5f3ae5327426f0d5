/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the requests whose stubs are written by hand; gen-remote.py makes all other stubs. */
#ifndef REMOTE_LAUNCH_H
#define REMOTE_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/* Limit of CUDA: 4 KiB of parameters, on newer devices 32 KiB. */
#define REMOTE_PARAMS_MAX 32764u
#define REMOTE_PARAMS 1024u
#define REMOTE_ATTRS_MAX 32u
#define REMOTE_OPTIONS_MAX 64u
#define REMOTE_LOG_MAX 4096u /* bytes of the JIT compiler's error log, with its NUL */
#define REMOTE_TEXT_MAX 4096u

/* Answer to REMOTE_LAYOUT. */
struct remote_layout {
	uint32_t n;
	uint32_t bytes; /* bytes of all parameters */
	struct {
		uint16_t offset, size;
	} param[REMOTE_PARAMS];
};

/*
 * A launch or a kernel node, followed by n_attrs CUlaunchAttribute and `bytes` bytes of parameters.
 */
struct remote_launch {
	uint64_t function, stream; /* handles; a kernel node has its context in `stream` */
	uint32_t grid[3], block[3];
	uint32_t shared, n_attrs;
	uint64_t bytes;
};

/* The node to make or to change, followed by the handles of the n nodes on which it depends. */
struct remote_node {
	uint64_t of;   /* a graph or an executable graph; 0: neither */
	uint64_t node; /* 0: a new node */
	uint64_t n;
	const void *dependencies; /* a pointer, which has no meaning on the wire */
};

static inline size_t pool_attribute_bytes(CUmemPool_attribute attribute)
{
	return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
			attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES
		? sizeof(int)
		: sizeof(cuuint64_t);
}

#endif
