/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the scheduler: passes the API server's objects to sched.h and carries out the actions that
 * sched.h returns. One loop; nothing blocks. The service writes only while it holds the Lease.
 */
#ifndef SCHEDULER_SERVICE_H
#define SCHEDULER_SERVICE_H

#include "base/loop.h"
#include "scheduler/scheduler-options.h"

struct service;

/* Borrows loop and options. */
int service_new(struct loop *loop, const struct options *options, struct service **ret_service,
	struct error *err);
void service_free(struct service *service);

/* Releases the Lease, then stops the loop. */
void service_leave(struct service *service);

#endif
