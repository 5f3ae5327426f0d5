/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node has measured of its tenants in the last seconds, as the annotation of its Lease says
 * it: "UID/CONTAINER=SHARE:BYTES[,SHARE:BYTES...]", a value for each of the container's devices in
 * their order (share used in 1/1000 of the device, device memory in use), containers with one space
 * between. Pure; any thread.
 */
#ifndef SPEC_MEASURED_H
#define SPEC_MEASURED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/spec.h"

#define MEASURED_KEY "divvy.gpu/measured"
#define MEASURED_MAX (128u << 10) /* bytes of it: half of what annotations may have together */

struct measured_device {
	uint32_t share_permille;
	uint64_t memory_bytes;
};

/* Of one container; the texts are borrowed. */
struct measured {
	struct str uid, container;
	uint32_t n;
	struct measured_device device[SPEC_DEVICES_MAX];
};

/* One more at the end of out; -EMSGSIZE or -ENOMEM, and out is as it was. */
int measured_format(const struct measured *measured, struct buf *out);

/*
 * Takes the next off *rest: 1; 0: there is none left; -EINVAL: that is none, *rest goes on behind
 * it. Shares above 1000 are read as 1000: a measurement may overshoot, a display may not.
 */
int measured_next(struct str *rest, struct measured *ret_measured, struct error *err);

/*
 * Whether `now` says something that readers of `before` should know before the next renewal:
 * another container, or on a device a change of MEASURED_SHARE_STEP permille, or of an eighth of
 * the memory and MEASURED_MEMORY_STEP bytes.
 */
#define MEASURED_SHARE_STEP 50u
#define MEASURED_MEMORY_STEP (UINT64_C(64) << 20)
bool measured_differs(struct str before, struct str now);

/* That container's, out of all of them; what is none is passed over. -ENOENT. */
int measured_find(
	struct str all, struct str uid, struct str container, struct measured *ret_measured);

#endif
