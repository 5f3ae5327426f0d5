/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler without its connections: takes objects and the time, returns actions. The caller
 * carries out the actions and reports their results. Pure; one thread.
 */
#ifndef SCHEDULER_SCHED_H
#define SCHEDULER_SCHED_H

#include "base/rand.h"
#include "scheduler/cluster.h"
#include "scheduler/decide.h"
#include "scheduler/pending.h"
#include "scheduler/reason.h"

struct sched;

struct sched_config {
	struct cluster_config cluster;
	uint64_t seed; /* for jitter */
};

int sched_new(const struct sched_config *config, struct sched **ret_sched, struct error *err);
void sched_free(struct sched *sched);
DEFINE_CLEANUP(struct sched *, sched_free)

/* See cluster_set_time(), cluster_set() and cluster_remove(). The time never decreases. */
void sched_set_time(struct sched *sched, uint64_t now_ns, uint64_t real_ns);
int sched_set(struct sched *sched, int kind, json_t *json, struct error *err);
int sched_remove(struct sched *sched, int kind, const char *ns, const char *name);
struct cluster *sched_cluster(struct sched *sched);

enum sched_act {
	SCHED_BIND, /* bind to cpod_node() with decide_annotations(); report by sched_bound() */
	SCHED_CONDITION, /* the pod is not schedulable: write condition and Event with `sentence` */
	/* free the devices of the pod's claims that cpod_next_unused_claim() finds */
	SCHED_FREE_CLAIMS,
	SCHED_CLAIM, /* request volumes for the pod's claims on a node */
	SCHED_EVENT, /* write an Event with `reason` and `sentence` */
	SCHED_GRANT, /* resize accepted: write the new assigned keys, by decide_annotations() */
	SCHED_DENY,  /* resize rejected: write an Event; `sentence` gives the reason */
	SCHED_RUNS,  /* write cpod_running() */
	SCHED_REFRESH_EPOCH, /* epoch refresh: write this leader's epoch to the pod */
	SCHED_NOMINATE,      /* write cpod_node() as the pod's nominated node, with `sentence` */
	SCHED_EVICT,         /* evict the pod; repeated while the pod still runs */
	/* evict the pod from a tainted device, and write an Event unless `sentence` is "" */
	SCHED_EVICT_TAINTED,
	SCHED_NEEDS_DEVICE, /* an extender pod waits: write whether cpod_needs_device() */
};

/* The pod for which a victim is evicted. */
struct sched_preemptor {
	char *ns, *name;
	char *queue; /* queue whose guarantee is reclaimed; "": preemption by priority */
};

/* Writes "NAMESPACE/NAME", and the queue if its guarantee is reclaimed. */
void sched_preemptor_format(const struct sched_preemptor *preemptor, struct buf *out);

/*
 * Applies changed policies, and moves waiting pods to their queues. Call before any other use of
 * decide.h. -ENOMEM.
 */
int sched_settle(struct sched *sched, struct error *err);

/* `pod` and all texts are valid until the next call of a function of this file. */
struct sched_action {
	enum sched_act act;
	const struct cpod *pod;
	/* Reason of the Event, or for SCHED_CONDITION of the condition; else REASON_NONE. */
	enum reason reason;
	union {
		/* message of all acts except SCHED_CLAIM and SCHED_EVICT; "": no message */
		const char *sentence;
		const struct decide_claims *claims; /* for SCHED_CLAIM */
		/* For SCHED_EVICT; NULL: a repeated eviction. */
		const struct sched_preemptor *preemptor;
	};
};

/*
 * Returns 1 with an action, or 0 if there is nothing to do before sched_deadline() or the next
 * change. After long searches for devices it returns 0 with sched_deadline() in the past. -ENOMEM.
 */
int sched_next(struct sched *sched, struct sched_action *ret_action, struct error *err);
uint64_t sched_deadline(const struct sched *sched);

/*
 * Reports whether the Binding was made. If not, the pod's place is free again and the pod backs
 * off.
 */
void sched_bound(
	struct sched *sched, const char *ns, const char *name, const char *uid, bool is_done);
/*
 * The claims of the pod have their devices, but drivers have to make these ready first. The pod
 * waits again, and keeps the claims.
 */
void sched_defer(struct sched *sched, const char *ns, const char *name, const char *uid);
/*
 * Reports that the API server refused the Binding with the message `why`. The pod's place is free
 * again and the pod backs off. Its condition reports the refusal (SCHED_CONDITION). So do Events of
 * the pods that waited for its reservation (SCHED_EVENT ReservationReleased).
 */
void sched_refused(
	struct sched *sched, const char *ns, const char *name, const char *uid, const char *why);

/*
 * This instance leads from now on, with that epoch. Bound pods stay. SCHED_REFRESH_EPOCH refreshes
 * the epoch of those that may still start containers, now or later. Nodes refuse older epochs,
 * because a leader with an older epoch may not know that another one leads.
 */
void sched_lead(struct sched *sched, uint64_t epoch);

/*
 * kube-scheduler found no node for the extender pod. needs_device: a further device might help. The
 * action SCHED_NEEDS_DEVICE follows if the pod's condition says something else. -ENOMEM.
 */
int sched_note_need(struct sched *sched, struct cpod *pod, bool needs_device, struct error *err);

/* Another instance leads: nominations and reservations end, and queued actions are dropped. */
void sched_stand_down(struct sched *sched);

struct sched_counts {
	struct pending_counts pending;
	uint32_t n_nominated, n_reserved;
	/* n_reclaimed: part of n_evictions that reclaimed a guarantee */
	uint64_t n_evictions, n_reclaimed;
	uint64_t n_taint_evictions;   /* evictions from a tainted device that have begun */
	uint64_t n_timeouts;          /* gang members whose nomination expired */
	uint64_t n_granted, n_denied; /* resize requests */
	uint64_t n_expired;           /* expired reservations */
	uint64_t n_decisions, n_placed, n_nowhere, n_bind_failures;
};
struct sched_counts sched_counts(const struct sched *sched);

#endif
