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
#include "scheduler/source.h"

#define SERVICE_MANAGER "divvy-scheduler"
#define SERVICE_BINDS_MAX 100u /* under way at a time */

struct watch {
	struct service *service;
	int kind;             /* as cluster_set() takes it */
	const char *resource; /* "gpunodes" */
	struct kube_cache *cache;
};

/* A write under way, of one pod or policy (then without a namespace). */
struct flight {
	struct flight *prev, *next;
	struct service *service;
	char *ns, *name, *uid;
	struct kube_call *call;
	uint64_t began_ns;
	char *refusal;              /* what the server said against it; NULL: nothing */
	struct http_request *asked; /* of an extender's client that waits for its end; or NULL */
};

struct question; /* service-extender.c */
struct telling;  /* service-tell.c */

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
	uint64_t refreshed_ns; /* when it was last asked what the server has */
	struct flight *flights;
	struct telling *tellings; /* by uid */
	uint32_t n_binds;
	bool is_leading, has_led; /* has_led: what was bound before is known, with this epoch */
	uint64_t epoch;
	uint64_t raised_ns;    /* when it was last to be a later one; 0: never */
	uint64_t report_at_ns; /* when policies' status is looked at next */
	char instance[256];
	struct page *page; /* NULL: nothing is served */
	struct question *questions;
	uint64_t n_bound, n_asked, n_asked_in_vain;
	struct prom_histogram bind_time, decide_time, answer_time;
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
/* asked: who is answered when that has ended; NULL: nobody. */
void service_bind(struct service *s, const struct cpod *pod, struct http_request *asked);
/* What is due as it runs. */
void service_running(struct service *s, const struct cpod *pod);
void service_adopt(struct service *s, const struct cpod *pod);
void service_grant(
	struct service *s, const struct cpod *pod, bool is_granted, const char *sentence);
void service_claim(struct service *s, const struct cpod *pod, const struct decide_claims *claims);
/* preemptor: NULL where the pod was evicted before; then no Event says so again. */
void service_evict(struct service *s, const struct cpod *pod, enum reason reason,
	const struct sched_preemptor *preemptor);
void service_event(struct service *s, const struct cpod *pod, enum reason reason, const char *text);
/* What policies' status is to say, where it says something else. */
void service_report(struct service *s);
void service_land_all(struct service *s); /* forgets what is under way */

/* ---- service-tell.c ---- */

/* Why it cannot be placed, and, nominated, for which node it waits. */
void service_tell(
	struct service *s, const struct cpod *pod, enum reason reason, const char *sentence);
void service_nominate(struct service *s, const struct cpod *pod, const char *sentence);
/* Once a second: what had to wait. */
void service_tell_later(struct service *s);
void service_tell_end(struct service *s);
/* For how long nothing is sent after a patch that took so long, or so many failures in a row. */
uint64_t service_tell_pause_ns(uint64_t took_ns, uint32_t n_failed);

/* ---- service-extender.c ---- */

/* Handlers of what kube-scheduler asks an extender. */
void service_on_filter(void *service, struct http_request *request);
void service_on_prioritize(void *service, struct http_request *request);
void service_on_preempt(void *service, struct http_request *request);
void service_on_bind(void *service, struct http_request *request);
/* The answer to who has asked for a Binding; why NULL: it was made. */
void service_answer_bind(struct http_request *request, const char *why);
/* Those whose pod was not known yet: it may be now. */
void service_ask_again(struct service *s);
/* Nobody waits for an answer any more. */
void service_answer_all(struct service *s);

/* Soon: what has happened may have left something to do. */
void service_wake(struct service *s);

#endif
