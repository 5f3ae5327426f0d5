/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: what owns one spec on one or several devices. A tenant is made by `divvy run` (through
 * control.h), by a line of tenants.conf, by a followed file, or as the default tenant of a user; it
 * lives as its lifetime says. A tenant that is dead stays in memory until agent_reap().
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
#include "agent/remote.h"
#include "base/error.h"
#include "core/arbiter.h"
#include "spec/spec.h"
#include "wire/page.h"

#define TENANT_NAME SPEC_NAME
#define TENANT_ORIGIN (CONF_CGROUP + 32) /* "cgroup UID PATH" is the longest */
#define TENANT_SECRET 16
#define TENANTS_MAX 4096u /* on one daemon */
/* That one user makes; fewer where there are few descriptors. Root and the daemon's user: all. */
#define TENANTS_PER_USER 1024u

enum tenant_lifetime {
	TENANT_PROCESS, /* while the owner or any registered process of it lives */
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
	uint64_t context_bytes; /* what one of its contexts took when last measured; 0: not yet */

	/*
	 * The page with the counter. After a restart there is none until a process hands it back.
	 *
	 */
	int fd;
	struct page_tenant *page;
	uint64_t inode;
	uint64_t denied; /* allocations refused to processes that have ended: memory_denied() */
	struct share_table *shares; /* share.c; NULL: none yet */
	bool needs_recount;         /* memory.c: after this batch */

	/* the token (token.c) */
	bool is_open, is_draining;
	bool does_want; /* as last told to the arbiter */
	uint32_t window_us, flags;
	uint64_t turn_ends_ns, began_ns; /* as its pages say */
	uint64_t closed_ns;
	uint64_t look_ns;                  /* when to look again; UINT64_MAX: not watched */
	uint64_t looked_ns;                /* the last look; of an opening: its time */
	uint64_t done;                     /* sum of done markers at the last look of a drain */
	TAILQ_ENTRY(tenant_device) active; /* open or draining */

	struct usage_series *series;

	/* audit.c: of its last round, but counted_before, which is of the last tick */
	uint64_t says_bytes, counted_bytes, counted_before;
	uint32_t excess_rounds; /* in a row */

	uint64_t kept_used_ns; /* as the state has them */
	int64_t kept_lag_ns;
};

/* Whose processes may be of any user, if they are where its first one was. */
enum tenant_container {
	TENANT_NO_CONTAINER,
	TENANT_CONTAINER_AWAITED, /* cgroup: of who asked for it */
	TENANT_CONTAINER_BOUND,   /* cgroup: the container's */
};

/* A tenant that is a container of a pod. */
struct tenant_pod {
	char uid[64];
	char space[64], name[254], container[64]; /* space: the namespace */
	char slot[16];                            /* the device plugin's */
	uint64_t epoch;                           /* of the scheduler that has decided */
	/* How far its namespace's policies let it share memory, 1/1000; 0: not known, or none */
	uint32_t overcommit;
};

/* Whether that is the container of the pod with the UID. */
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
	char origin[TENANT_ORIGIN]; /* conf: its key; apply: its id */
	struct tenant_pod *pod;     /* NULL: of no pod */
	enum tenant_container container;
	char cgroup[CONF_CGROUP];
	bool is_sought;     /* carrier.c looks for its container */
	uint64_t seek_ns;   /* not before */
	uint64_t missed_ns; /* not found then; of no meaning when it was in use since */
	uint64_t created_s; /* since 1970 */
	uint64_t alone_ns;  /* without processes and owner since; 0: has some */
	uint64_t hold_ns;   /* after a restart: processes of before are awaited until then */

	pid_t owner;
	uint64_t owner_start;
	uint64_t owner_end; /* in clock ticks, as the start; 0: not known */
	int owner_fd;       /* pidfd; -1: gone or none */
	struct loop_io owner_io;

	struct remote_reach remote; /* of a program on another machine */

	LIST_HEAD(, process) processes;
	uint32_t n_processes;
	uint64_t slots[PAGE_PROCESSES / 64]; /* process indexes in use; 0 is the daemon's */

	uint32_t n;
	struct tenant_device devices[]; /* n of them */
};

/* Where, and with how much memory: decided by somebody else. */
struct tenant_place {
	uint32_t device;
	uint64_t quota_bytes;
};

struct tenant_wish {
	struct spec spec;
	const char *name;
	const char *origin;
	uid_t uid;
	pid_t owner; /* 0: none */
	enum tenant_container container;
	const char *cgroup; /* of that; NULL: none */
	enum tenant_lifetime lifetime;
	enum tenant_source source;
	const struct tenant_pod *pod;      /* copied; NULL: none */
	const struct tenant_place *places; /* spec.count of them; NULL: to be chosen here */
};

/* Places it and makes it. -ENOSPC, -EINVAL, ... with a sentence of what is possible now. */
int tenant_new(struct agent *agent, const struct tenant_wish *wish, struct tenant **ret_tenant,
	struct error *err);

/*
 * From the state of an earlier daemon; devices are UUIDs. The arbiter and the ledger learn of it.
 *
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
int tenant_restore(struct agent *agent, const struct tenant_wish *wish,
	const struct tenant_saved *saved, struct tenant **ret_tenant, struct error *err);

/* Others of its label of preferred anti-affinity, as often as they are on a device of its. */
uint32_t tenant_n_met(const struct tenant *tenant);

/* -EBUSY where the spec differs in what must stay while the tenant runs. */
int tenant_check_change(const struct tenant *tenant, const struct spec *spec, struct error *err);
/* A new spec for a running tenant: request, limit, memory, class, priority, memory policy. */
int tenant_change(struct tenant *tenant, const struct spec *spec, struct error *err);
/* The same with these quotas, one for each of its devices. */
int tenant_change_to(struct tenant *tenant, const struct spec *spec, const uint64_t *quota_bytes,
	struct error *err);

/* Whether its lifetime is over, by what has registered. */
bool tenant_has_ended(const struct tenant *tenant, uint64_t now);
/* Of one, all but memory that its programs have shared has ended, a moment ago. */
bool tenant_is_any_settling(const struct agent *agent);
/* It has ended: kills it, or if it is a container's, when no process of that is left. */
void tenant_end(struct tenant *tenant);

/* Closes its gates, ends its registrations, gives its share and memory back. */
void tenant_kill(struct tenant *tenant);
void tenant_free(struct tenant *tenant);

struct tenant *tenant_by_id(struct agent *agent, uint32_t id);
/* Id as text or name; a name means the newest that has it. Only those that uid may see. */
struct tenant *tenant_by_text(struct agent *agent, const char *text, uid_t uid);
/* Compares all secrets in constant time. */
struct tenant *tenant_by_secret(struct agent *agent, const uint8_t secret[static TENANT_SECRET]);
struct tenant *tenant_by_origin(struct agent *agent, enum tenant_source source, const char *origin);

/* 32 hexadecimal digits. */
#define TENANT_SECRET_TEXT (2 * TENANT_SECRET + 1)
void tenant_secret_format(const struct tenant *tenant, char ret[static TENANT_SECRET_TEXT]);

/* root and the daemon's user see all, others their own. */
bool tenant_may_see(const struct agent *agent, const struct tenant *tenant, uid_t uid);

/* A process index of its own, or -EUSERS. */
int tenant_take_slot(struct tenant *tenant, uint32_t *ret_index);
void tenant_give_slot(struct tenant *tenant, uint32_t index);

/* The page of the counter, made if there is none. */
int tenant_page(struct tenant_device *td, struct error *err);
/* Takes a handed-back memfd if it is the recorded one. Consumes nothing; dups what it keeps. */
int tenant_page_adopt(struct tenant_device *td, int fd, struct error *err);

/* What is free goes to the default tenants: recomputed when anything has changed. */
void tenant_update_defaults(struct agent *agent);

/* Once a second: lifetimes. */
void tenant_tick(struct agent *agent, uint64_t now);

const char *tenant_lifetime_name(enum tenant_lifetime lifetime);
int tenant_lifetime_parse(const char *text, enum tenant_lifetime *ret);
const char *tenant_source_name(enum tenant_source source);
int tenant_source_parse(const char *text, enum tenant_source *ret);

#endif
