/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the objects of a resource and their changes. A reflector lists in pages, and requests
 * each page while the previous one still arrives. Then the reflector watches, and resumes or lists
 * again as reflect-state.h says. It continues until stopped, and reports and retries errors. One
 * thread.
 */
#ifndef KUBE_REFLECT_H
#define KUBE_REFLECT_H

#include "kube/kube-client.h"
#include "kube/kube-json.h"

#define REFLECT_LIMIT_DEFAULT 500u
#define REFLECT_IDLE_NS (UINT64_C(150) * 1000000000) /* servers send bookmarks each minute */
#define REFLECT_PAGE_TIMEOUT_NS (UINT64_C(120) * 1000000000)
#define REFLECT_PAGE_IDLE_NS (UINT64_C(30) * 1000000000)
/*
 * the reflector asks the server to end a watch after this number of seconds, or up to twice as many
 */
#define REFLECT_WATCH_MIN_S 300u

enum kube_change { KUBE_LISTED, KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED };

/* Valid during the call. The items of a list have no kind and apiVersion. */
struct kube_object {
	json_t *json;    /* without managedFields; keep it with json_incref() */
	struct str raw;  /* its text from the server, without managedFields */
	bool is_partial; /* cannot be parsed as a whole: json has only metadata */
};

/* Handlers may start and cancel calls, but must not stop this reflector. */
struct kube_reflect_handler {
	/*
	 * A list begins. is_replacing: replace all known objects, also those of the same version.
	 */
	void (*begin)(void *data, bool is_replacing);
	/* A negative result means that the object is invalid: the reflector lists again. */
	int (*object)(void *data, enum kube_change change, const struct kube_object *object);
	/* The list is complete: objects that it lacked do not exist. */
	void (*end)(void *data);
	/* An error that will be retried; may be NULL. */
	void (*trouble)(void *data, const struct error *err);
	void *data;
};

struct kube_reflect_options {
	const char *path;           /* "/api/v1/pods" */
	const char *label_selector; /* NULL: all */
	const char *field_selector;
	uint32_t limit;        /* items in one page; 0: REFLECT_LIMIT_DEFAULT */
	uint64_t idle_ns;      /* silence after which a watch counts as lost; 0: REFLECT_IDLE_NS */
	uint32_t watch_min_s;  /* 0: REFLECT_WATCH_MIN_S */
	uint64_t max_pause_ns; /* longest pause after failures; 0: REFLECT_PAUSE_MAX_NS (30 s) */
};

struct kube_reflect;

/* Copies the options; the first callback comes from the loop. */
int kube_reflect_start(struct kube_client *client, const struct kube_reflect_options *options,
	const struct kube_reflect_handler *handler, struct kube_reflect **ret_reflect,
	struct error *err);
/* Accepts NULL. Do not call from a handler. */
void kube_reflect_stop(struct kube_reflect *reflect);

struct kube_reflect_counts {
	uint64_t n_lists, n_pages, n_watches, n_frames, n_expired, n_garbled, n_lost, n_refused;
};
struct kube_reflect_counts kube_reflect_counts(const struct kube_reflect *reflect);

#endif
