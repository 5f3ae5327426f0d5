/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: owners of one spec on one or several devices. Tenants come from `divvy run` (through
 * control.h), a line of tenants.conf, a followed file, a pod's container, or a user without any of
 * these (the default tenant). A tenant lives as its lifetime says, and a dead tenant stays in
 * memory until agent_after_batch().
 */
#ifndef AGENT_TENANT_H
#define AGENT_TENANT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "agent/conf.h"
#include "agent/agent-remote.h"
#include "base/error.h"
#include "core/arbiter.h"
#include "spec/spec.h"
#include "wire/page.h"

#define TENANT_NAME SPEC_NAME
#define TENANT_ORIGIN (CONF_CGROUP + 32) /* "cgroup UID PATH" is the longest */
#define TENANT_SECRET 16
#define TENANTS_MAX 4096u /* on one daemon */
/*
 * Tenants that one user makes; fewer where descriptors are scarce. Root and the daemon's user have
 * no such limit.
 */
#define TENANTS_PER_USER 1024u

enum tenant_lifetime {
	TENANT_PROCESS, /* while the owner or any registered process lives */
	/* while the owner or registered processes live, and TENANT_LINGER_NS longer */
	TENANT_PROCESSES,
	TENANT_KEEP, /* until removed */
};

enum tenant_source { TENANT_RUN, TENANT_CONF, TENANT_APPLY, TENANT_DEFAULT, TENANT_POD };

#define TENANT_LINGER_NS (60ull * 1000000000ull)

struct device;
struct share_table;
struct usage_series;

struct tenant_device {
	struct tenant *tenant;
	struct device *device;
	uint32_t at; /* index in tenant->devices and process->devices */
	uint64_t quota_bytes;
	uint64_t context_bytes;  /* size of one of its contexts when last measured; 0: not yet */
	uint64_t context_cgroup; /* hash of the measured process's cgroup; 0: not known */

	/* The page with the tenant's counter. After a restart a process must hand it back. */
	int fd;
	struct page_tenant *page;
	uint64_t inode;
	uint64_t denied;            /* refusals to processes that have ended: see memory_denied() */
	struct share_table *shares; /* agent-share.c; NULL: none yet */
	bool needs_recount;         /* agent-memory.c: recount after this batch */

	/* the token (token.c) */
	bool is_open, is_draining;
	bool does_want; /* last value sent to the arbiter */
	uint32_t window_us, flags;
	uint64_t turn_ends_ns, began_ns; /* the values in the tenant's pages */
	uint64_t closed_ns;
	uint64_t look_ns;                  /* time of the next look; UINT64_MAX: not watched */
	uint64_t looked_ns;                /* time of the last look or of the opening */
	uint64_t done;                     /* sum of done markers at the last look of a drain */
	TAILQ_ENTRY(tenant_device) active; /* list of tenant-devices that are open or draining */

	struct usage_series *series;

	/* audit.c: values at the last round; counted_before: value at the last tick */
	uint64_t says_bytes, counted_bytes, counted_before;
	uint32_t excess_rounds; /* audit rounds in a row that found an excess */

	uint64_t kept_used_ns; /* values that the state file has */
	int64_t kept_lag_ns;
};

/* A tenant for a container accepts processes of any user from the cgroup of its first process. */
enum tenant_container {
	TENANT_NO_CONTAINER,
	TENANT_CONTAINER_AWAITED, /* cgroup: that of the process that requested the container */
	TENANT_CONTAINER_BOUND,   /* cgroup: the container's */
};

/* A container of a pod. */
struct tenant_pod {
	char uid[64];
	char space[64], name[254], container[64]; /* space: the Kubernetes namespace */
	char slot[16];                            /* the node's slot */
	/*
	 * The ResourceClaim that the tenant is made of, by which further pods may share the tenant;
	 * "": none. `container` is then the name of the claim's request.
	 */
	char claim[254];
	uint64_t epoch; /* epoch of the scheduler that placed the pod */
	/*
	 * Memory overcommit that the namespace's policies allow, in permille; 0: none or unknown.
	 */
	uint32_t overcommit;
};

/* Whether `pod` is the named container of the pod with that UID. */
static inline bool tenant_pod_is(
	const struct tenant_pod *pod, const char *uid, const char *container)
{
	return !strcmp(pod->uid, uid) && !strcmp(pod->container, container);
}

struct tenant {
	LIST_ENTRY(tenant) link;
	struct agent *agent;
	arbiter_id id;
	bool is_ending, is_dead;
	char name[TENANT_NAME];
	uint8_t secret[TENANT_SECRET];
	uid_t uid;
	struct spec spec;
	enum tenant_lifetime lifetime;
	enum tenant_source source;
	char origin[TENANT_ORIGIN]; /* TENANT_CONF: rule's key; TENANT_APPLY: file and client */
	struct tenant_pod *pod;     /* NULL: no pod */
	enum tenant_container container;
	char cgroup[CONF_CGROUP];
	bool is_sought;   /* container-watch.c searches for its container */
	uint64_t seek_ns; /* earliest time of the next search */
	/* Time of a search that found nothing; invalid if the tenant was in use after that. */
	uint64_t missed_ns;
	uint64_t created_s; /* seconds since 1970 */
	uint64_t alone_ns;  /* since when it has neither processes nor an owner; 0: it has some */
	/* After a restart: end of the wait for processes of the earlier daemon; 0: no wait. */
	uint64_t hold_ns;

	pid_t owner;
	uint64_t owner_start;
	uint64_t owner_end; /* in clock ticks, like owner_start; 0: not known */
	int owner_fd;       /* pidfd; -1: ended or none */
	struct loop_io owner_io;

	struct remote_reach remote; /* reports about the tenant's program on another machine */

	LIST_HEAD(, process) processes;
	uint32_t n_processes;
	uint64_t slots[PAGE_PROCESSES / 64]; /* process indexes in use; index 0 is the daemon's */

	uint32_t n;
	struct tenant_device devices[]; /* n of them */
};

/* A device and a quota that the caller has decided. */
struct tenant_place {
	uint32_t device;
	uint64_t quota_bytes;
};

struct tenant_params {
	struct spec spec;
	const char *name;
	const char *origin;
	uid_t uid;
	pid_t owner; /* 0: none */
	enum tenant_container container;
	const char *cgroup; /* cgroup of the container; NULL: none */
	enum tenant_lifetime lifetime;
	enum tenant_source source;
	const struct tenant_pod *pod;      /* copied; NULL: no pod */
	const struct tenant_place *places; /* spec.count entries; NULL: tenant_new() chooses */
};

/*
 * Chooses devices and makes the tenant. Returns 0, -ENOSPC, -EINVAL or another -errno; the message
 * says what is possible now.
 */
int tenant_new(struct agent *agent, const struct tenant_params *params, struct tenant **ret_tenant,
	struct error *err);

/*
 * Restores a tenant from the state of an earlier daemon and enters it into the arbiter and the
 * ledger. params->spec names devices by UUID.
 */
struct tenant_saved {
	uint32_t id;
	uint32_t n;
	uint32_t devices[SPEC_DEVICES_MAX];
	uint64_t quota[SPEC_DEVICES_MAX];
	uint64_t inode[SPEC_DEVICES_MAX];
	uint8_t secret[TENANT_SECRET];
	uint64_t created_s;
	uint64_t owner_start;
};
int tenant_restore(struct agent *agent, const struct tenant_params *params,
	const struct tenant_saved *saved, struct tenant **ret_tenant, struct error *err);

/*
 * Counts the tenant's preference conflicts: other tenants on its devices with the label that its
 * preferred anti-affinity names. Another tenant counts once for each common device.
 */
uint32_t tenant_n_conflicts(const struct tenant *tenant);

/* -EBUSY: the spec differs in a field that must not change while the tenant runs. */
int tenant_check_change(const struct tenant *tenant, const struct spec *spec, struct error *err);
/* Changes request, limit, memory, class and priority of a running tenant. */
int tenant_change(struct tenant *tenant, const struct spec *spec, struct error *err);
/* As tenant_change(), with these quotas, one for each device of the tenant. */
int tenant_change_to(struct tenant *tenant, const struct spec *spec, const uint64_t *quota_bytes,
	struct error *err);

/* Whether the tenant's lifetime is over, judged by its registered processes. */
bool tenant_has_ended(const struct tenant *tenant, uint64_t now);
/*
 * Whether there is a tenant whose last process has ended within MEMORY_GRACE_NS. This tenant ends
 * within that time, unless its shared memory stays in use.
 */
bool tenant_is_any_settling(const struct agent *agent);
/*
 * Ends a tenant whose lifetime is over. Kills the tenant at once if it is not a container's. The
 * container watcher kills a container's tenant when it finds no process.
 */
void tenant_end(struct tenant *tenant);

/* Closes the tenant's gates, ends its registrations and frees its share and memory. */
void tenant_kill(struct tenant *tenant);
void tenant_free(struct tenant *tenant);

struct tenant *tenant_by_id(struct agent *agent, uint32_t id);
/* Finds a tenant by id or name among those that uid may see; by name the newest of that name. */
struct tenant *tenant_by_text(struct agent *agent, const char *text, uid_t uid);
/* Compares with all secrets in constant time. */
struct tenant *tenant_by_secret(struct agent *agent, const uint8_t secret[static TENANT_SECRET]);
struct tenant *tenant_by_origin(struct agent *agent, enum tenant_source source, const char *origin);

/* 32 hexadecimal digits and a NUL. */
#define TENANT_SECRET_TEXT (2 * TENANT_SECRET + 1)
void tenant_secret_format(const struct tenant *tenant, char ret[static TENANT_SECRET_TEXT]);

/* Root and the daemon's user see all tenants, other users their own. */
bool tenant_may_see(const struct agent *agent, const struct tenant *tenant, uid_t uid);

/* Takes a free process index. -EUSERS: none is free. */
int tenant_take_slot(struct tenant *tenant, uint32_t *ret_index);
void tenant_give_slot(struct tenant *tenant, uint32_t index);

/* Makes the page of the counter if there is none. */
int tenant_page(struct tenant_device *td, struct error *err);
/*
 * Takes a page that a process hands back, if it is the recorded one. The caller keeps fd; the
 * function duplicates it.
 */
int tenant_page_reuse(struct tenant_device *td, int fd, struct error *err);

/* Divides free memory among the default tenants again. Call when free memory has changed. */
void tenant_update_defaults(struct agent *agent);

/* Checks lifetimes; called once a second. */
void tenant_tick(struct agent *agent, uint64_t now);

const char *tenant_lifetime_name(enum tenant_lifetime lifetime);
int tenant_lifetime_parse(const char *text, enum tenant_lifetime *ret);
const char *tenant_source_name(enum tenant_source source);
int tenant_source_parse(const char *text, enum tenant_source *ret);

#endif
