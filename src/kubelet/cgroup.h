/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pod and which container a process is in, by /proc/PID/cgroup: of cgroups v1, v2 and both at
 * once, as the cgroupfs and the systemd driver name them, under containerd, CRI-O and Docker.
 *
 * What a tenant can make are cgroups below its own, with any names. So a path is read from its
 * beginning, component by component, as the kubelet makes it: the outermost pod counts, what stands
 * behind its container means nothing, and a path that begins otherwise (a login's own slice, a
 * container of a plain engine) is in no pod, whatever its parts are called. Any thread.
 */
#ifndef KUBELET_CGROUP_H
#define KUBELET_CGROUP_H

#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

#define CGROUP_FILE_MAX (64u << 10) /* bytes of a /proc/PID/cgroup */
#define CGROUP_ROOT_SIZE 512

struct cgroup_pod {
	char uid[37];       /* as the API server has it; of static pods 32 digits */
	char container[65]; /* its runtime's id; "": in the pod, but in none of its containers */
};

/*
 * The text of a /proc/PID/cgroup. `root` is the cgroup below which the kubelet keeps its pods: ""
 * on most nodes, "/kubelet" or "/kubelet.slice" where the node is itself a container; NULL: any of
 * these. Of a process outside of our own cgroup namespace, which containers have wherever cgroups
 * are of version 2, the path begins with "/..": it is read alike, from the ancestor on that is ours
 * as well. -ENOENT when it is in no pod; -EBADMSG when its lines name different ones; -EXDEV when
 * it is outside of our namespace, and in no pod as far as can be seen from there.
 */
int cgroup_parse_pod(struct str text, const char *root, struct cgroup_pod *ret_pod);

/* Of a process; -ESRCH when there is none. The sentence is about what could not be read. */
int cgroup_read_pod(pid_t pid, const char *root, struct cgroup_pod *ret_pod, struct error *err);

/*
 * The root, from the text of one whom we trust to be in a pod: divvyd's own. The outermost pod
 * counts here, too. -ENOENT when it is in none.
 */
int cgroup_parse_root(struct str text, char ret_root[static CGROUP_ROOT_SIZE]);

#endif
