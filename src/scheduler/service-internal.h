/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCHEDULER_SERVICE_INTERNAL_H
#define SCHEDULER_SERVICE_INTERNAL_H

#include "base/prom.h"
#include "kube/cache.h"
#include "kube/discovery.h"
#include "kube/event.h"
#include "kube/lease.h"
#include "kube/write.h"
#include "scheduler/sched.h"
#include "scheduler/serve.h"
#include "scheduler/service.h"

#define SERVICE_WATCHES 16
#define SERVICE_BINDS_MAX 100u /* under way at a time */

struct watch {
	struct service *service;
	int kind; /* as cluster_set() takes it */
	struct kube_cache *cache;
};

/* A write under way, of one pod. */
struct flight {
	struct flight *prev, *next;
	struct service *service;
	char *ns, *name, *uid;
	struct kube_call *call;
	uint64_t began_ns;
};

struct service {
	struct loop *loop;
	const struct options *options;
	struct kube_config *config;
	struct kube_client *client;
	struct kube_discovery *discovery;
	struct kube_recorder *recorder;
	struct kube_lease *lease;
	struct sched *sched;
	struct watch watches[SERVICE_WATCHES];
	struct loop_timer pump, tick, leave;
	uint64_t refreshed_ns; /* when it was last asked what the server has */
	struct flight *flights;
	uint32_t n_binds;
	bool is_leading;
	uint64_t epoch;
	char instance[256];
	struct page *page; /* NULL: nothing is served */
	uint64_t n_bound;
	struct prom_histogram bind_time, decide_time;
};

/* ---- service-watch.c ---- */

/* Begins to watch what the server has and is not yet watched. */
void service_watch(struct service *s);
/* Definitions that are not there, and may be installed. */
bool service_lacks_definitions(const struct service *s);
/* All that has to be known before anything is decided is. */
bool service_is_synced(const struct service *s);
void service_unwatch(struct service *s);

/* ---- service-write.c ---- */

bool service_may_write(const struct service *s);
void service_bind(struct service *s, const struct cpod *pod);
void service_tell(struct service *s, const struct cpod *pod, const char *sentence);
void service_grant(
	struct service *s, const struct cpod *pod, bool is_granted, const char *sentence);
void service_claim(struct service *s, const struct cpod *pod, const char *text);
void service_nominate(struct service *s, const struct cpod *pod, const char *sentence);
void service_evict(struct service *s, const struct cpod *pod, const char *whom);
void service_event(struct service *s, const struct cpod *pod, const char *type, const char *reason,
	const char *text);
void service_land_all(struct service *s); /* forgets what is under way */

/* Soon: what has happened may have left something to do. */
void service_wake(struct service *s);

#endif
