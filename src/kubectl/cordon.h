/* SPDX-License-Identifier: Apache-2.0 */
/* GPUNode.spec.cordoned: which devices get no new tenants. */
#ifndef KUBECTL_CORDON_H
#define KUBECTL_CORDON_H

#include "kubectl/access.h"

/*
 * That device is in the list, with the reason ("": none), or is not. Others' changes of the list
 * meanwhile stay. Returns 1, 0 where it was so already, or a negative errno.
 */
int cordon_set(struct access *access, const char *node, const char *uuid, bool is_cordoned,
	const char *reason, struct error *err);

#endif
