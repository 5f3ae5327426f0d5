/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every driver call of our own stands between relax_begin and relax_end: whatever captures a stream
 * meanwhile, in this thread or in another, is then not invalidated by it.
 */
#ifndef HOOK_RELAX_H
#define HOOK_RELAX_H

#include "hook/hook.h"

struct relaxed {
	CUstreamCaptureMode mode;
	bool changed;
};

static inline struct relaxed relax_begin(void)
{
	struct relaxed r = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED};

	r.changed = REAL(cuThreadExchangeStreamCaptureMode)(&r.mode) == CUDA_SUCCESS;
	return r;
}

static inline void relax_end(struct relaxed r)
{
	if (r.changed)
		REAL(cuThreadExchangeStreamCaptureMode)(&r.mode);
}

#endif
