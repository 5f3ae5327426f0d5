/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole daemon in the test's own process, with its own folder; the test runs the daemon's loop.
 */
#ifndef TESTS_UNIT_AGENT_OWN_AGENT_H
#define TESTS_UNIT_AGENT_OWN_AGENT_H

#include "agent/agent.h"
#include "agent/tenant.h"

#define RIG_DEVICES 2u

struct rig {
	struct agent *agent;
	char folder[64];
};

/*
 * Starts and stops the daemon, which behaves as on a kernel without SO_PASSRIGHTS. An error fails
 * the test.
 */
void rig_start(struct rig *rig);
void rig_stop(struct rig *rig);

/* Makes a tenant of the user, with 1/1000 of the device. -errno as tenant_new(). */
int rig_make_tenant(struct rig *rig, uid_t uid, struct tenant **ret_tenant);

#endif
