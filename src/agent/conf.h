/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /etc/divvy/tenants.conf: who a process belongs to that shows no secret. One rule a line, the
 * first that matches counts:
 *   uid NAME|NUMBER    field=value ...
 *   gid NAME|NUMBER    field=value ...      (each user of the group has a tenant of its own)
 *   cgroup PATTERN     field=value ...      (fnmatch on the path; each cgroup has its own)
 *   default allow|refuse  [field=value ...]
 * Fields are those of src/spec/spec.h. '#' begins a comment.
 */
#ifndef AGENT_CONF_H
#define AGENT_CONF_H

#include "agent/agent.h"
#include "base/str.h"

struct conf;

/* The text of a file; -EINVAL names the line. */
int conf_parse(struct str text, struct conf **ret_conf, struct error *err);
void conf_free(struct conf *conf);
/* path: NULL for the usual one, which is empty when it is not there. Asks the name service. */
int conf_load(const char *path, struct conf **ret_conf, struct error *err);

/* A pod's under systemd has some 260 characters; where the node is a container its own are more. */
#define CONF_CGROUP 1024

/*
 * The path of a process's cgroup, the longest of all hierarchies': v2's where that is the only one,
 * v1's where v2 only stands beside it; "" when it cannot be read. -ENAMETOOLONG with a sentence:
 * it has CONF_CGROUP bytes or more.
 */
int conf_cgroup(pid_t pid, char ret[static CONF_CGROUP], struct error *err);
/* The same of the text of a /proc/PID/cgroup. Pure. */
int conf_cgroup_parse(struct str text, char ret[static CONF_CGROUP], struct error *err);

/*
 * The tenant of a process without a secret, made if there is none yet. -EACCES: strangers are
 * refused, and pods' processes for which there is no rule; -ENOSPC and so on: its tenant does not
 * fit. -EAGAIN: names.h awaits an answer about the user. After NAMES_WAIT_NS without one the user
 * has a number for a name, and the process's own group alone.
 */
struct tenant;
int conf_tenant(struct agent *agent, pid_t pid, uid_t uid, gid_t gid, struct tenant **ret_tenant,
	struct error *err);
/* Tenants that were named by the user's number get the name. */
void conf_user_known(struct agent *agent, uid_t uid, const char *user);

#endif
