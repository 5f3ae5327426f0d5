/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each driver call that this library makes itself is enclosed by relax_begin and relax_end. Such a
 * call then does not invalidate a stream capture of this thread or another.
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
