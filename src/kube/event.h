/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes Kubernetes Events. An Event that cannot be written is dropped and counted; nothing waits
 * for it.
 *
 * A repeated Event (same object, type, reason and message) increases the count of the existing one.
 * More than EVENT_SIMILAR_MAX messages for one reason within EVENT_SIMILAR_NS become one "(combined
 * from similar events)". An object may have EVENT_BURST Events at once, then one each
 * EVENT_REFILL_NS. These limits are client-go's. One thread.
 */
#ifndef KUBE_EVENT_H
#define KUBE_EVENT_H

#include "kube/kube-client.h"

#define EVENT_SIMILAR_MAX 10u
#define EVENT_SIMILAR_NS (UINT64_C(600) * 1000000000)
#define EVENT_BURST 25u
#define EVENT_REFILL_NS (UINT64_C(300) * 1000000000)
/* entries of each table; a new entry replaces the least recently used */
#define EVENT_KNOWN_MAX 4096u
/* Events are sent one at a time, as Kubernetes' own components do: other requests go first. */
#define EVENT_QUEUE_MAX 1024u
#define EVENT_IN_FLIGHT 1u
#define EVENT_MESSAGE_MAX 1024u

struct kube_event {
	const char *type;   /* "Normal", "Warning" */
	const char *reason; /* "FailedScheduling" */
	const char *message;
	struct {
		const char *api_version, *kind, *namespace_name, *name, *uid; /* may be NULL */
	} object;
};

enum event_verdict {
	EVENT_NEW,
	EVENT_AGAIN, /* the existing Event, with a higher count */
	EVENT_DROPPED,
};

struct event_decision {
	enum event_verdict verdict;
	char name[256]; /* name of the Event object */
	bool is_combined;
	uint32_t count;
	uint64_t first_real_ns;
};

/* Decides whether an Event is new, is a repetition, or is dropped. Changes only `memory`. */
struct event_memory;
int event_memory_new(struct event_memory **ret_memory);
void event_memory_free(struct event_memory *memory);
void event_decide(struct event_memory *memory, const struct kube_event *event, uint64_t now_ns,
	uint64_t real_ns, struct event_decision *ret_decision);
/* The server has no Event of that name any more: the next repetition is written as a new Event. */
void event_forget(struct event_memory *memory, const char *name);

struct kube_recorder;

/* instance: name of the component's node or pod; component: for example "divvy-scheduler". */
int kube_recorder_new(struct kube_client *client, const char *component, const char *instance,
	struct kube_recorder **ret_recorder, struct error *err);
/* Drops unwritten Events. Accepts NULL. */
void kube_recorder_free(struct kube_recorder *recorder);
DEFINE_CLEANUP(struct kube_recorder *, kube_recorder_free)

/* Copies the texts. */
void kube_record(struct kube_recorder *recorder, const struct kube_event *event);

struct kube_recorder_counts {
	uint64_t n_written, n_dropped, n_failed;
	uint64_t n_merged; /* replaced by a newer count before they were written */
	uint32_t n_waiting;
};
struct kube_recorder_counts kube_recorder_counts(const struct kube_recorder *recorder);

#endif
