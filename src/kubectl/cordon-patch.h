/* SPDX-License-Identifier: Apache-2.0 */
/* GPUNode.spec.cordoned: devices that get no new tenants. */
#ifndef KUBECTL_CORDON_PATCH_H
#define KUBECTL_CORDON_PATCH_H

#include "kubectl/kubectl-access.h"

/*
 * Adds the device to the list with the reason ("": none), or removes it. Concurrent changes of the
 * list stay. Returns 1, 0 if nothing had to change, or -errno.
 */
int cordon_set(struct access *access, const char *node, const char *uuid, bool is_cordoned,
	const char *reason, struct error *err);

#endif
