/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the pod and container of a process from /proc/PID/cgroup. Supports cgroups v1, v2 and both
 * together; the cgroupfs and the systemd driver; containerd, CRI-O and Docker.
 *
 * A tenant can create cgroups of any name below its own. So a path is read from its beginning,
 * component by component, in the form that the kubelet makes. The outermost pod counts, and
 * everything after its container is ignored. A path with another beginning (a login's slice, a
 * container of a plain engine) is in no pod, whatever its components are called. Any thread.
 */
#ifndef KUBELET_CGROUP_H
#define KUBELET_CGROUP_H

#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

#define CGROUP_FILE_MAX (64u << 10) /* bytes of a /proc/PID/cgroup */
#define CGROUP_ROOT_SIZE 512

struct cgroup_pod {
	char uid[37];       /* as in the API server; for static pods 32 digits */
	char container[65]; /* the runtime's id; "": in the pod, but in none of its containers */
};

/*
 * Parses the text of a /proc/PID/cgroup. `root` is the cgroup that contains the kubelet's pods: ""
 * on most nodes, "/kubelet" or "/kubelet.slice" if the node is itself a container; NULL: any of
 * these. The path of a process outside our cgroup namespace begins with "/..", for example that of
 * another container with cgroups v2. Such a path is read from the nearest common ancestor on.
 * Returns 0; -ENOENT: the process is in no pod; -EBADMSG: the lines name different pods or
 * containers; -EXDEV: the process is outside our namespace, and the visible part of its path has no
 * pod.
 */
int cgroup_parse_pod(struct str text, const char *root, struct cgroup_pod *ret_pod);

/* As cgroup_parse_pod(), for a process. -ESRCH: it has ended; other errno: reading failed. */
int cgroup_read_pod(pid_t pid, const char *root, struct cgroup_pod *ret_pod, struct error *err);

/*
 * Finds the root from the text of a process that is known to be in a pod: divvyd itself. The
 * outermost pod counts here, too. -ENOENT if it is in no pod.
 */
int cgroup_parse_root(struct str text, char ret_root[static CGROUP_ROOT_SIZE]);

#endif
