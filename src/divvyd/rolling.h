/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rolling upgrades of a node's DRA driver without a gap: --rolling. For a while the node has two
 * divvyd. The new one registers at the kubelet, which then sends it all requests, and only then
 * takes over from the old one. The old one does not exit, since its pod would start again and take
 * over in turn: it stands by until its pod is deleted. It serves again if the new one ends. Main
 * thread.
 */
#ifndef DIVVYD_ROLLING_H
#define DIVVYD_ROLLING_H

#include "base/error.h"
#include "base/loop.h"
#include "base/program.h"
#include "node/node.h"

/*
 * Registers the driver. Waits up to ROLLING_REGISTER_NS, since a kubelet may be away. The caller
 * passes *ret_plugin on to node_new().
 */
#define ROLLING_REGISTER_NS (5 * NSEC_PER_SEC)
int rolling_offer(struct loop *loop, const struct node_options *options,
	struct dra_plugin **ret_plugin, struct error *err);

/*
 * Waits while another divvyd serves the runtime folder, and answers the probes of this pod. Returns
 * 1 if none serves any more, 0 after a signal, or -errno.
 */
int rolling_stand_by(const char *runtime_dir, const char *health_listen,
	struct program_signals *signals, struct error *err);

#endif
