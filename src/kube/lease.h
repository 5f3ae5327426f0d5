/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leader election on a coordination.k8s.io/v1 Lease, with the rules of all that use one: a lease
 * that has not changed for its duration, seen by our own clock, may be taken.
 *
 * lease_step() decides and is pure; kube_lease does what it says. What a leader may rely on is
 * lease_may_write(), to be asked right before each write: false from renew_ns after the last
 * successful renewal was *sent*, by CLOCK_BOOTTIME, which also passes while the machine is
 * suspended or the process is stopped. Another one begins duration_ns after it has *seen* that
 * renewal: duration_ns - renew_ns is what a write may be under way. The epoch is the number of
 * leaseTransitions: it grows with each new leader. Where the object was lost and who remembers more
 * than it says knows that (lease_raise), it goes on from there. One thread.
 */
#ifndef KUBE_LEASE_H
#define KUBE_LEASE_H

#include "kube/client.h"
#include "kube/json.h"

#define LEASE_DURATION_NS (UINT64_C(15) * 1000000000)
#define LEASE_RENEW_NS (UINT64_C(10) * 1000000000)
#define LEASE_RETRY_NS (UINT64_C(2) * 1000000000)
#define LEASE_NAME_SIZE 256u
#define LEASE_JUMP_MAX (UINT64_C(1) << 20)

struct lease_rules {
	char identity[LEASE_NAME_SIZE];
	uint64_t duration_ns, renew_ns, retry_ns; /* duration > renew > retry; whole seconds */
};

/* What the object says. */
struct lease_record {
	bool exists;
	char holder[LEASE_NAME_SIZE]; /* "": nobody */
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
	uint64_t seen_boot_ns;    /* since when the record is as it is */
	uint64_t renewed_boot_ns; /* when the last renewal that succeeded was sent */
	uint64_t epoch;           /* while leading */
	uint64_t transitions;     /* the most that were seen: a new object goes on from there */
	uint64_t least;           /* what the next epoch is at least */
	bool is_released;         /* given up for good */
};

enum lease_event {
	LEASE_READ,    /* the record has been read, or is what our write has left */
	LEASE_WRITTEN, /* our write succeeded; sent_boot_ns is when it was sent */
	LEASE_REFUSED, /* our write conflicted, or whatever else went wrong */
	LEASE_TIMER,
	LEASE_RELEASE,
};

enum lease_action {
	LEASE_DO_NOTHING,
	LEASE_DO_READ,
	LEASE_DO_CREATE,
	LEASE_DO_TAKE, /* write ourselves as holder, with lease_transitions() */
	LEASE_DO_RENEW,
	LEASE_DO_GIVE_UP, /* write nobody as holder */
};

struct lease_input {
	enum lease_event event;
	const struct lease_record *record; /* LEASE_READ, LEASE_WRITTEN */
	uint64_t sent_boot_ns;
};

void lease_init(struct lease *lease, const struct lease_rules *rules);

/* What to do now; *ret_wait_ns is when a timer should come, if nothing else does before. */
enum lease_action lease_step(struct lease *lease, const struct lease_input *input, uint64_t boot_ns,
	uint64_t *ret_wait_ns);

bool lease_may_write(const struct lease *lease, uint64_t boot_ns);

/* Of a record that we are to hold: one more than what was seen when somebody else did. */
uint64_t lease_transitions(const struct lease *lease);

/*
 * Somebody has seen that epoch: ours has to be a later one. Whoever leads with one that is not does
 * so no more, until it has been written. More than LEASE_JUMP_MAX beyond what we know of is not
 * listened to: whoever says that would use up what leaseTransitions has room for.
 */
void lease_raise(struct lease *lease, uint64_t seen_epoch);

/* A Lease object, read; -EBADMSG when it is none. */
int lease_record_parse(const json_t *json, struct lease_record *ret_record);

struct kube_lease;

/* Begins and ends of leading; the epoch is that of the time. Also told when the deadline passes. */
typedef void kube_lease_fn(void *data, bool is_leading, uint64_t epoch);

struct kube_lease_options {
	const char *namespace_name, *name;
	const char *identity; /* "node_random": unique among all that ask */
	uint64_t duration_ns; /* 0: LEASE_DURATION_NS, and so on */
	uint64_t renew_ns, retry_ns;
	kube_lease_fn *changed;
	void *data;
};

int kube_lease_start(struct kube_client *client, const struct kube_lease_options *options,
	struct kube_lease **ret_lease, struct error *err);

/* lease_raise(): leading may end, and begin again with a later epoch. Not from within changed. */
void kube_lease_raise(struct kube_lease *lease, uint64_t seen_epoch);

/* May what a leader does be sent now? */
bool kube_lease_may_write(const struct kube_lease *lease);
uint64_t kube_lease_epoch(const struct kube_lease *lease);
/* Who leads as far as is known; "": nobody. */
const char *kube_lease_holder(const struct kube_lease *lease);

/* Gives it up, so that the next need not wait; leading ends at once. Then kube_lease_stop(). */
void kube_lease_release(struct kube_lease *lease);

/* Without giving it up. NULL is fine. Not from within changed. */
void kube_lease_stop(struct kube_lease *lease);

#endif
