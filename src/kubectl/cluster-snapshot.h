/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster snapshot: the scheduler's engine (struct sched) with all present objects, for commands
 * that show its decisions and their reasons. Nothing is written to the cluster.
 */
#ifndef KUBECTL_CLUSTER_SNAPSHOT_H
#define KUBECTL_CLUSTER_SNAPSHOT_H

#include "cmdline/output.h"
#include "kubectl/kubectl-access.h"
#include "scheduler/sched.h"

#define SNAPSHOT_OPTIONS \
	{"scheduler-name", "NAME", \
		"the schedulerName of divvy's scheduler (default divvy-scheduler)"}, \
	{ \
		"lease-namespace", "NAMESPACE", \
			"where nodes' daemons renew their Leases (default divvy-node-lease)" \
	}

/* Reads all objects that the scheduler reads. *ret_sched borrows texts of `args`. */
int snapshot_load(struct access *access, const struct cli_args *args, struct sched **ret_sched,
	struct error *err);

/* The same, as if the scheduler with that name were divvy's. */
int snapshot_load_as(struct access *access, const struct cli_args *args, const char *scheduler,
	struct sched **ret_sched, struct error *err);

const char *snapshot_scheduler_name(const struct cli_args *args);

/*
 * Lists why the pod does not fit, by node and device: [{node, device, index, model, free_permille,
 * free_bytes, why}]. Devices that requests cannot share have no free_permille and free_bytes. The
 * function first places the other members of the pod's gang in `sched`, so use `sched` for nothing
 * else afterwards.
 */
int snapshot_reasons(struct sched *sched, struct cpod *pod, json_t **ret_list, struct error *err);

/* Prints the list as a table. Devices of a node with equal model and reason share a line. */
int snapshot_print_reasons(const json_t *reasons, struct error *err);

#endif
