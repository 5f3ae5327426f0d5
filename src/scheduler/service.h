/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler at work: the API server's objects into sched.h, its actions back. On one loop;
 * nothing blocks. Everything that it writes is asked of the Lease first.
 */
#ifndef SCHEDULER_SERVICE_H
#define SCHEDULER_SERVICE_H

#include "base/loop.h"
#include "scheduler/options.h"

struct service;

/* Loop and options are borrowed. */
int service_new(struct loop *loop, const struct options *options, struct service **ret_service,
	struct error *err);
void service_free(struct service *service);

/* Gives the Lease up; then the loop is stopped. */
void service_leave(struct service *service);

#endif
