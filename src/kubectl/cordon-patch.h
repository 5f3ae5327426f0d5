/* SPDX-License-Identifier: Apache-2.0 */
/* Changes the lists of devices in GPUNode.spec: cordoned and cleared. */
#ifndef KUBECTL_CORDON_PATCH_H
#define KUBECTL_CORDON_PATCH_H

#include "kubectl/kubectl-access.h"

/*
 * Adds the device with the reason ("": none) to the list, or removes the device. Concurrent changes
 * of the list are kept. Returns 1, 0 if nothing had to change, or -errno.
 */
int cordon_set(struct access *access, const char *node, const char *uuid, bool is_cordoned,
	const char *reason, struct error *err);

/*
 * Writes into GPUNode.spec.cleared that the device's Xid errors up to that time are dealt with.
 * Returns 1; 0 if the list says so already; -errno as cordon_set().
 */
int clear_set(
	struct access *a, const char *node, const char *uuid, const char *time, struct error *err);

#endif
