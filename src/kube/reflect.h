/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps telling what the objects of a resource are: a list in pages, each asked for while the one
 * before still comes, then a watch, resumed or listed again as course.h says. It goes on until it
 * is stopped; what goes wrong is told and tried again. One thread.
 */
#ifndef KUBE_REFLECT_H
#define KUBE_REFLECT_H

#include "kube/client.h"
#include "kube/json.h"

#define REFLECT_LIMIT_DEFAULT 500u
#define REFLECT_IDLE_NS (UINT64_C(150) * 1000000000) /* bookmarks come each minute */
#define REFLECT_PAGE_TIMEOUT_NS (UINT64_C(120) * 1000000000)
#define REFLECT_PAGE_IDLE_NS (UINT64_C(30) * 1000000000)
#define REFLECT_WATCH_MIN_S 300u /* the server is asked to end it after that to twice that */

enum kube_change { KUBE_LISTED, KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED };

/* Valid during the call. The items of a list have no kind and apiVersion. */
struct kube_object {
	json_t *json;    /* without managedFields; may be kept with json_incref() */
	struct str raw;  /* its text, the server's own but for managedFields */
	bool is_partial; /* cannot be read here: json has nothing but metadata */
};

/* May start and cancel calls, but not stop what calls it. */
struct kube_reflect_handler {
	/* A list begins. is_replacing: no object known is to be trusted, whatever its version. */
	void (*begin)(void *data, bool is_replacing);
	/* A negative result says that this cannot be: it is listed again. */
	int (*object)(void *data, enum kube_change change, const struct kube_object *object);
	/* The list is complete: what was not in it is gone. */
	void (*end)(void *data);
	/* Something went wrong and will be tried again; may be NULL. */
	void (*trouble)(void *data, const struct error *err);
	void *data;
};

struct kube_reflect_options {
	const char *path;           /* "/api/v1/pods" */
	const char *label_selector; /* NULL: all */
	const char *field_selector;
	uint32_t limit;        /* of a page; 0: REFLECT_LIMIT_DEFAULT */
	uint64_t idle_ns;      /* silence after which a watch counts as lost; 0: REFLECT_IDLE_NS */
	uint32_t watch_min_s;  /* 0: REFLECT_WATCH_MIN_S */
	uint64_t max_pause_ns; /* after failures; 0: COURSE_PAUSE_MAX_NS, half a minute */
};

struct kube_reflect;

/* Options are copied; the first callback comes from the loop. */
int kube_reflect_start(struct kube_client *client, const struct kube_reflect_options *options,
	const struct kube_reflect_handler *handler, struct kube_reflect **ret_reflect,
	struct error *err);
/* NULL is fine. Not from within a handler. */
void kube_reflect_stop(struct kube_reflect *reflect);

struct kube_reflect_counts {
	uint64_t n_lists, n_pages, n_watches, n_frames, n_expired, n_garbled, n_lost, n_refused;
};
struct kube_reflect_counts kube_reflect_counts(const struct kube_reflect *reflect);

#endif
