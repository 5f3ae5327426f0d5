/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler without its connections: objects and the time in, actions out. Whoever carries the
 * actions out says how they ended. Pure; one thread.
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
	uint64_t seed; /* of jitter */
};

int sched_new(const struct sched_config *config, struct sched **ret_sched, struct error *err);
void sched_free(struct sched *sched);
DEFINE_CLEANUP(struct sched *, sched_free)

/* As cluster.h; the time only grows. */
void sched_set_time(struct sched *sched, uint64_t now_ns, uint64_t real_ns);
int sched_set(struct sched *sched, int kind, json_t *json, struct error *err);
int sched_remove(struct sched *sched, int kind, const char *ns, const char *name);
struct cluster *sched_cluster(struct sched *sched);

enum sched_act {
	SCHED_BIND, /* to cpod_node(), with decide_annotations(): sched_bound() when it has ended */
	SCHED_TELL, /* it cannot be placed: condition and Event, with the sentence */
	SCHED_CLAIM,    /* volumes for its claims are to be made on a node */
	SCHED_EVENT,    /* an Event of that reason, with the sentence */
	SCHED_GRANT,    /* a live change: its given keys are new, by decide_annotations() */
	SCHED_DENY,     /* a live change: they stay, and the sentence says why */
	SCHED_RUNS,     /* it has cpod_running() to be written */
	SCHED_ADOPT,    /* an earlier leader's, which stands: its epoch is to be this one's */
	SCHED_NOMINATE, /* the node that it waits for is cpod_node(); with the sentence */
	SCHED_EVICT,    /* it has to leave; asked again while it does not */
};

/* The pod that a victim leaves for. */
struct sched_preemptor {
	char *ns, *name;
	char *queue; /* whose guarantee is reclaimed; "": it has a higher priority */
};

/* "ns/name", with what is reclaimed. */
void sched_preemptor_format(const struct sched_preemptor *preemptor, struct buf *out);

/*
 * What policies say now counts, also of who stands in which line: before anything of decide.h is
 * asked from elsewhere. -ENOMEM.
 */
int sched_settle(struct sched *sched, struct error *err);

/* pod and texts are valid until the next call. */
struct sched_action {
	enum sched_act act;
	const struct cpod *pod;
	enum reason reason; /* of the Event; of SCHED_TELL: of the condition; else REASON_NONE */
	union {
		const char *sentence;               /* of all others; "": none */
		const struct decide_claims *claims; /* of SCHED_CLAIM */
		/* Of SCHED_EVICT; NULL: the pod was evicted before, and that is sent again. */
		const struct sched_preemptor *preemptor;
	};
};

/* 1: there is one; 0: nothing to do before sched_deadline(), or something is told. -ENOMEM. */
int sched_next(struct sched *sched, struct sched_action *ret_action, struct error *err);
uint64_t sched_deadline(const struct sched *sched);

/* The Binding was made, or not: then its place is free again, and it is tried again later. */
void sched_bound(
	struct sched *sched, const char *ns, const char *name, const char *uid, bool is_done);
/*
 * The API server refused the Binding; `why` is what it said. As sched_bound(), and the pod and
 * those that waited for its reservation report that: SCHED_TELL, and SCHED_EVENT
 * ReservationReleased.
 */
void sched_refused(
	struct sched *sched, const char *ns, const char *name, const char *uid, const char *why);

/*
 * We decide from now on, with that epoch. Who is bound by then stays where he is; of them, those
 * that may still have containers to start are told of by SCHED_ADOPT, now or when it comes to that:
 * for nodes an older epoch is that of a leader who does not know that he no longer is.
 */
void sched_lead(struct sched *sched, uint64_t epoch);

/*
 * Somebody else decides from now on: who holds a place holds it no longer, and what is not done yet
 * is not to be done.
 */
void sched_stand_down(struct sched *sched);

struct sched_counts {
	struct pending_counts pending;
	uint32_t n_holding, n_offered;
	uint64_t n_evictions, n_reclaimed; /* of those */
	uint64_t n_timeouts;               /* members of groups that gave back what they held */
	uint64_t n_granted, n_denied;      /* live changes */
	uint64_t n_forgone;                /* places that were kept for who did not come */
	uint64_t n_decisions, n_placed, n_nowhere, n_bind_failures;
};
struct sched_counts sched_counts(const struct sched *sched);

#endif
