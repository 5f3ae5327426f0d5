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
#include "scheduler/scheduler-serve.h"
#include "scheduler/service.h"
#include "scheduler/source.h"

#define SERVICE_MANAGER "divvy-scheduler"
#define SERVICE_BINDS_MAX 100u /* most Bindings in flight */

struct watch {
	struct service *service;
	int kind;                       /* kind of object, as for cluster_set() */
	const struct kube_api_row *row; /* API that `cache` watches; NULL: none */
	struct kube_cache *cache;
	/*
	 * Cache of a version that the API server no longer has, until `cache` has its first list;
	 * else NULL. A former cache has completed its first list, and its objects count meanwhile.
	 */
	struct kube_cache *former;
};

/* A write in flight, about one pod or policy. For a policy ns is NULL. */
struct flight {
	struct flight *prev, *next;
	struct service *service;
	char *ns, *name, *uid;
	struct kube_call *call;
	uint64_t began_ns;
	char *refusal;              /* the API server's refusal; NULL: none */
	uint32_t claim;             /* of a Binding: the ResourceClaim that is written next */
	bool has_finalizer;         /* the finalizer of that claim is written */
	char *allocating;           /* claim whose allocation is being written; NULL: none */
	struct http_request *asked; /* extender request to answer when the write ends; NULL: none */
};

struct question;        /* service-extender.c */
struct condition_write; /* service-condition.c */

struct service {
	struct loop *loop;
	const struct options *options;
	struct kube_config *config;
	struct kube_client *client;
	struct kube_discovery *discovery;
	struct kube_recorder *recorder;
	struct kube_lease *lease;
	struct sched *sched;
	struct watch watches[CLUSTER_SOURCES];
	struct loop_timer pump, tick, leave;
	uint64_t refreshed_ns; /* last discovery refresh */
	unsigned minor;        /* release 1.x of Kubernetes whose rules apply */
	struct flight *flights;
	struct condition_write *condition_writes; /* hash by the pod's uid */
	uint32_t n_binds;
	bool is_leading, has_led; /* has_led: sched_lead() was called for this epoch */
	uint64_t epoch;
	uint64_t raised_ns;    /* when must_raise_epoch() last raised the epoch; 0: never */
	uint64_t report_at_ns; /* when to write the status of policies next */
	char instance[256];
	struct page *page; /* NULL: nothing is served */
	struct question *questions;
	uint64_t n_bound, n_extender_requests, n_extender_failures;
	struct prom_histogram bind_time, decide_time, answer_time;
};

/* ---- service-watch.c ---- */

/*
 * Starts the missing watches, for each kind of object that the API server has by now. A watch whose
 * version the API server no longer has moves to another version, and ends if there is none and no
 * decision waits for that kind.
 */
void service_watch(struct service *s);
/* Whether the API server lacks CustomResourceDefinitions, which may be installed later. */
bool service_lacks_definitions(const struct service *s);
/*
 * Whether the first lists are complete of all kinds of objects for which decisions wait (source.h).
 */
bool service_is_synced(const struct service *s);
void service_unwatch(struct service *s);
/* The handler for the caches of the watch. */
struct kube_cache_handler service_watch_handler(struct watch *w);
/*
 * Takes the cache for this watch. If the watch's present cache has completed its first list, its
 * objects stay until `cache` has completed its own; else they are removed at once. Do not call from
 * a callback of the present cache.
 */
void service_watch_set(struct watch *w, const struct kube_api_row *row, struct kube_cache *cache);
/*
 * The API server serves the kind of objects in no version: frees the caches, so that they send no
 * more requests. Caches with objects stay, because an API server may be wrong during an upgrade.
 */
void service_watch_leave(struct watch *w);

/* ---- service-write.c ---- */

bool service_may_write(const struct service *s);
/* asked: extender request to answer when the Binding ends; NULL: none. */
void service_bind(struct service *s, const struct cpod *pod, struct http_request *asked);
/* Writes the annotations and labels of cpod_running(). */
void service_running(struct service *s, const struct cpod *pod);
void service_refresh_epoch(struct service *s, const struct cpod *pod);
void service_grant(
	struct service *s, const struct cpod *pod, bool is_granted, const char *sentence);
void service_claim(struct service *s, const struct cpod *pod, const struct decide_claims *claims);
void service_free_claims(struct service *s, const struct cpod *pod);
/* preemptor: NULL for a repeated eviction, which has no Event. */
void service_evict(struct service *s, const struct cpod *pod, enum reason reason,
	const struct sched_preemptor *preemptor);
void service_event(struct service *s, const struct cpod *pod, enum reason reason, const char *text);
/* Writes the status of policies where it is out of date. */
void service_report(struct service *s);
void service_land_all(struct service *s); /* cancels all writes in flight */

/* ---- service-condition.c ---- */

/*
 * service_write_condition() writes why the pod has no place. service_nominate() also writes the
 * node for which a nominated pod waits.
 */
void service_write_condition(
	struct service *s, const struct cpod *pod, enum reason reason, const char *sentence);
/* Writes only whether the pod needs a device. */
void service_write_need(struct service *s, const struct cpod *pod);
void service_nominate(struct service *s, const struct cpod *pod, const char *sentence);
/* Call once a second: sends the conditions whose pause has ended. */
void service_condition_later(struct service *s);
void service_condition_end(struct service *s);
/* Pause after a patch that took took_ns, or after n_failed failures in a row. */
uint64_t service_condition_pause_ns(uint64_t took_ns, uint32_t n_failed);

/* ---- service-extender.c ---- */

/* Handlers of extender requests. */
void service_on_filter(void *service, struct http_request *request);
void service_on_prioritize(void *service, struct http_request *request);
void service_on_preempt(void *service, struct http_request *request);
void service_on_bind(void *service, struct http_request *request);
/* Answers a bind request. why: reason of the failure; NULL: the Binding was made. */
void service_answer_bind(struct http_request *request, const char *why);
/* Tries again to answer requests whose pod was not known yet. */
void service_ask_again(struct service *s);
/* Refuses all waiting requests. */
void service_answer_all(struct service *s);

/* Lets on_pump() (service.c) run soon, because sched may have actions. */
void service_wake(struct service *s);

#endif
