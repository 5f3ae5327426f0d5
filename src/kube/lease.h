/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leader election on a coordination.k8s.io/v1 Lease, by the common rules. A candidate may take a
 * Lease that has not changed for its duration by the candidate's own clock.
 *
 * lease_step() decides and is pure; kube_lease carries out its actions. A leader checks
 * lease_may_write() right before each write. lease_may_write() is false from renew_ns after the
 * last successful renewal was *sent*. These times are of CLOCK_BOOTTIME, which continues while the
 * machine is suspended or the process is stopped. A successor starts at the earliest duration_ns
 * after it has *seen* that renewal. So a leader's last write may be in transit for duration_ns -
 * renew_ns before a successor starts. The epoch is leaseTransitions, which grows with each new
 * leader. If the object was lost, lease_raise() passes on a larger epoch that a component
 * remembers. One thread.
 */
#ifndef KUBE_LEASE_H
#define KUBE_LEASE_H

#include "kube/kube-client.h"
#include "kube/kube-json.h"

#define LEASE_DURATION_NS (UINT64_C(15) * 1000000000)
#define LEASE_RENEW_NS (UINT64_C(10) * 1000000000)
#define LEASE_RETRY_NS (UINT64_C(2) * 1000000000)
#define LEASE_NAME_SIZE 256u
#define LEASE_JUMP_MAX (UINT64_C(1) << 20)

struct lease_rules {
	char identity[LEASE_NAME_SIZE];
	/* duration > renew > retry; duration in whole seconds */
	uint64_t duration_ns, renew_ns, retry_ns;
};

/* The content of the Lease object. */
struct lease_record {
	bool exists;
	char holder[LEASE_NAME_SIZE]; /* "": no holder */
	char version[64];
	uint64_t duration_ns;
	uint64_t transitions;
	char acquired[40], renewed[40];
};

enum lease_state { LEASE_WAITING, LEASE_LEADING };

struct lease {
	struct lease_rules rules;
	enum lease_state state;
	struct lease_record seen;
	uint64_t seen_boot_ns;    /* time since which the record has not changed */
	uint64_t renewed_boot_ns; /* when the last successful renewal was sent */
	uint64_t epoch;           /* valid while leading */
	/* the largest leaseTransitions seen; a new Lease object continues from it */
	uint64_t transitions;
	uint64_t least;   /* lower bound of the next epoch */
	bool is_released; /* this process has released the Lease and never takes it again */
};

enum lease_event {
	LEASE_READ,    /* the record was read */
	LEASE_WRITTEN, /* our write succeeded; it was sent at sent_boot_ns */
	LEASE_REFUSED, /* our write conflicted or failed */
	LEASE_TIMER,
	LEASE_RELEASE,
};

enum lease_action {
	LEASE_DO_NOTHING,
	LEASE_DO_READ,
	LEASE_DO_CREATE,
	LEASE_DO_TAKE, /* write ourselves as holder, with lease_transitions() */
	LEASE_DO_RENEW,
	LEASE_DO_GIVE_UP, /* write the Lease without a holder */
};

struct lease_input {
	enum lease_event event;
	const struct lease_record *record; /* for LEASE_READ and LEASE_WRITTEN */
	uint64_t sent_boot_ns;
};

void lease_init(struct lease *lease, const struct lease_rules *rules);

/*
 * Returns what to do now. *ret_wait_ns: time until the event LEASE_TIMER, if no other event comes
 * first.
 */
enum lease_action lease_step(struct lease *lease, const struct lease_input *input, uint64_t boot_ns,
	uint64_t *ret_wait_ns);

bool lease_may_write(const struct lease *lease, uint64_t boot_ns);

/*
 * leaseTransitions for a record with us as holder: one more than the largest seen, unless we hold
 * it already.
 */
uint64_t lease_transitions(const struct lease *lease);

/*
 * Call this when a component has seen seen_epoch: this process then needs a larger epoch. A leader
 * with a smaller epoch stops leading until a larger one is written. Values more than LEASE_JUMP_MAX
 * above the known epoch are ignored, because they could exhaust leaseTransitions.
 */
void lease_raise(struct lease *lease, uint64_t seen_epoch);

/* Reads a Lease object; -EBADMSG if it is none. */
int lease_record_parse(const json_t *json, struct lease_record *ret_record);

struct kube_lease;

/* Called when leading begins or ends, also at the deadline, with the epoch at that time. */
typedef void kube_lease_fn(void *data, bool is_leading, uint64_t epoch);

struct kube_lease_options {
	const char *namespace_name, *name;
	const char *identity;        /* "node_random": unique among the candidates */
	uint64_t duration_ns;        /* 0: LEASE_DURATION_NS */
	uint64_t renew_ns, retry_ns; /* 0: LEASE_RENEW_NS, LEASE_RETRY_NS */
	kube_lease_fn *changed;
	void *data;
};

int kube_lease_start(struct kube_client *client, const struct kube_lease_options *options,
	struct kube_lease **ret_lease, struct error *err);

/*
 * As lease_raise(): leading may end, and begin again with a larger epoch. Do not call from
 * `changed`.
 */
void kube_lease_raise(struct kube_lease *lease, uint64_t seen_epoch);

/* Whether a leader's write may be sent now. */
bool kube_lease_may_write(const struct kube_lease *lease);
/* The holder as last seen; "": none. */
const char *kube_lease_holder(const struct kube_lease *lease);

/*
 * Releases the Lease, so that a successor need not wait; leading ends at once. Then call
 * kube_lease_stop().
 */
void kube_lease_release(struct kube_lease *lease);

/* Stops without a release. Accepts NULL. Do not call from `changed`. */
void kube_lease_stop(struct kube_lease *lease);

#endif
