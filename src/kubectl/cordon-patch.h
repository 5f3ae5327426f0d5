/* SPDX-License-Identifier: Apache-2.0 */
/* Changes GPUNode.spec.cordoned, the list of devices that get no new tenants. */
#ifndef KUBECTL_CORDON_PATCH_H
#define KUBECTL_CORDON_PATCH_H

#include "kubectl/kubectl-access.h"

/*
 * Adds the device with the reason ("": none) to the list, or removes the device. Concurrent changes
 * of the list are kept. Returns 1, 0 if nothing had to change, or -errno.
 */
int cordon_set(struct access *access, const char *node, const char *uuid, bool is_cordoned,
	const char *reason, struct error *err);

#endif
