/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's own engine with all that the cluster has now: what it would decide, and why. It
 * is a copy; nothing is written anywhere.
 */
#ifndef KUBECTL_WORLD_H
#define KUBECTL_WORLD_H

#include "cmdline/output.h"
#include "kubectl/access.h"
#include "scheduler/sched.h"

#define WORLD_OPTIONS \
	{"scheduler-name", "NAME", \
		"the schedulerName of divvy's scheduler (default divvy-scheduler)"}, \
	{ \
		"lease-namespace", "NAMESPACE", \
			"where nodes' daemons renew their Leases (default divvy-node-lease)" \
	}

/* Reads everything that the scheduler reads. The names of args are borrowed. */
int world_load(struct access *access, const struct cli_args *args, struct sched **ret_sched,
	struct error *err);

const char *world_scheduler_name(const struct cli_args *args);

/*
 * Why a pod fits where it does not: [{node, device, index, model, free_permille, free_bytes, why}].
 * Other pods of its group take their places in `sched` first: nothing else is asked of it then.
 */
int world_reasons(struct sched *sched, struct cpod *pod, json_t **ret_list, struct error *err);

/* As a table; devices of a node that are alike are one line. */
int world_print_reasons(const json_t *reasons, struct error *err);

#endif
