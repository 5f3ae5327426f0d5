/* SPDX-License-Identifier: Apache-2.0 */
/* A pod's GPU request in any dialect, and its grant in the keys of that dialect. Pure. */
#ifndef SCHEDULER_TENANCY_H
#define SCHEDULER_TENANCY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/dialect.h"

struct tenancy_container {
	char name[64];
	enum manifest_kind kind;
	struct spec spec;
	/*
	 * Index of the container whose devices this container uses. Only an init container can use
	 * those of another container, while that one does not run. Its own index: the container has
	 * devices of its own.
	 */
	uint32_t host;
};

struct tenancy {
	struct tenancy_container *v; /* in the pod's order; n 0: the pod requests no share */
	uint32_t n;
	char group[SPEC_GROUP]; /* "": none */
	/*
	 * number of members, and how many must fit first; both 0 if the pod names an object
	 * (group_object), which then states them (cluster-group.c)
	 */
	uint32_t group_size, group_least;
	uint32_t group_threshold; /* permille of the members that must fit first */
	char group_object[64];    /* API group of the object; "": no object */
	bool is_group_empty;      /* the object states that the group has no pods */
	bool is_group_basic; /* the PodGroup has the policy `basic`: each member starts alone */
	/* a group by DIALECT_GROUP_BY_KEY, and the label values with its object and part */
	const struct dialect_group_by *group_by; /* a constant; NULL: the group is the object */
	char group_object_name[64], group_part[64];
	char vgpu[SPEC_LABEL]; /* KubeShare's GPUID; "": none */
};

/*
 * dialects: the namespace's list, "" for none; a list in the pod itself takes precedence. -EINVAL:
 * err has a message for the user. -ENOMEM. Call tenancy_done() after a failure too.
 */
int tenancy_read(
	const json_t *pod, const char *dialects, struct tenancy *ret_tenancy, struct error *err);
void tenancy_done(struct tenancy *tenancy);

/*
 * Adds annotations for users and tools of the pod's dialect; assigned keys are not among them.
 * `given` has a grant for each container, in the tenancy's order.
 */
int tenancy_write_back(const json_t *pod, const char *dialects,
	const struct dialect_assigned *given, json_t *annotations);

/*
 * Makes a patch of metadata: the annotations and labels of the pod's dialect that change once the
 * pod runs. *ret_patch is NULL if nothing has to change. -ENOMEM.
 */
int tenancy_running(const json_t *pod, uint64_t real_ns, json_t **ret_patch);

#endif
