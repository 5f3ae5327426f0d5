/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /etc/divvy/tenants.conf assigns tenants to processes that show no secret. Each line is a rule,
 * and the first matching rule counts:
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

/* Parses the text of a tenants.conf. -EINVAL: the message names the line. */
int conf_parse(struct str text, struct conf **ret_conf, struct error *err);
void conf_free(struct conf *conf);
/*
 * Reads and parses a file. NULL means the usual path; a missing file there counts as empty. Blocks:
 * asks the name service for users and groups.
 */
int conf_load(const char *path, struct conf **ret_conf, struct error *err);

/*
 * Bytes of a cgroup path. A pod's path under systemd has some 260 characters; a node within a
 * container puts its own path before that.
 */
#define CONF_CGROUP 1024

/*
 * Reads the cgroup path of a process. If several hierarchies have a path for the process, the
 * longest one is taken. Writes "" when /proc does not show it. -ENAMETOOLONG: the path has
 * CONF_CGROUP bytes or more.
 */
int conf_cgroup(pid_t pid, char ret[static CONF_CGROUP], struct error *err);
/*
 * A number for a cgroup path of conf_cgroup(); equal paths have equal numbers. 0: "" or "/", where
 * unrelated processes may be. Pure.
 */
uint64_t conf_cgroup_id(const char *cgroup);
/* Parses the text of a /proc/PID/cgroup by the rules of conf_cgroup(). Pure. */
int conf_cgroup_parse(struct str text, char ret[static CONF_CGROUP], struct error *err);

/*
 * Returns the tenant of a process that shows no secret, and makes the tenant if there is none yet.
 * -EACCES: the rules refuse such a process, or it is a pod's and no rule matches. -ENOSPC and other
 * errors of tenant_new(): the new tenant does not fit. -EAGAIN: user-names.h awaits an answer about
 * the user. After NAMES_WAIT_NS without an answer the user's number serves as its name, and of the
 * gid rules only those for the process's own group can match.
 */
struct tenant;
int conf_tenant(struct agent *agent, pid_t pid, uid_t uid, gid_t gid, struct tenant **ret_tenant,
	struct error *err);
/* Renames tenants that were named by the user's number. */
void conf_user_known(struct agent *agent, uid_t uid, const char *user);

#endif
