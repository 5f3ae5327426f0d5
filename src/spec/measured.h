/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usage that a node measured for its tenants in the last seconds, as an annotation of the
 * node's Lease: "UID/CONTAINER=SHARE:BYTES[,SHARE:BYTES...]". A container has a value for each of
 * its devices, in their order: used share in 1/1000 of the device, and device memory in use.
 * Containers are one space apart. Pure; any thread.
 */
#ifndef SPEC_MEASURED_H
#define SPEC_MEASURED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/spec.h"

#define MEASURED_KEY "divvy.gpu/measured"
/* bytes: half of what an object's annotations may have in total */
#define MEASURED_MAX (128u << 10)

struct measured_device {
	uint32_t share_permille;
	uint64_t memory_bytes;
};

/* The measured usage of one container; the texts are borrowed. */
struct measured {
	struct str uid, container;
	uint32_t n;
	struct measured_device device[SPEC_DEVICES_MAX];
};

/* Appends one container. -EMSGSIZE or -ENOMEM: `out` keeps its text. */
int measured_format(const struct measured *measured, struct buf *out);

/*
 * Reads the next container and advances *rest. Returns 1; 0 at the end; -EINVAL for a faulty word,
 * which is skipped. A share above 1000 becomes 1000, because a measurement may overshoot.
 */
int measured_next(struct str *rest, struct measured *ret_measured, struct error *err);

/*
 * Whether readers of `before` should see `now` before the next renewal of the Lease. True for other
 * containers, or if a device's share changed by MEASURED_SHARE_STEP permille, or its memory by both
 * an eighth and MEASURED_MEMORY_STEP bytes.
 */
#define MEASURED_SHARE_STEP 50u
#define MEASURED_MEMORY_STEP (UINT64_C(64) << 20)
bool measured_differs(struct str before, struct str now);

/* Finds one container and skips faulty words. -ENOENT. */
int measured_find(
	struct str all, struct str uid, struct str container, struct measured *ret_measured);

#endif
