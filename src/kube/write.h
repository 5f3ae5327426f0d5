/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads or writes one object, by thin functions over kube_call_start(). Never uses PUT, so unknown
 * fields of an object stay unchanged. All functions return 0, or -EINVAL or -ENOMEM with a message;
 * `done` is called as kube-client.h says. Objects and patches are borrowed during the call only.
 */
#ifndef KUBE_WRITE_H
#define KUBE_WRITE_H

#include "kube/kube-client.h"
#include "kube/kube-json.h"

/* An object. "v1", "pods", "default", "a", "status": .../namespaces/default/pods/a/status */
struct kube_target {
	const char *group_version; /* "v1", "apps/v1" */
	const char *resource;
	const char *namespace_name; /* NULL: none, or all namespaces */
	const char *name;           /* NULL: the collection */
	const char *subresource;    /* NULL: the object itself */
};

/* Appends the path; -EINVAL for names that cannot be part of a path ("", ".", ".."). */
int kube_path(struct buf *b, const struct kube_target *target, struct error *err);

/* Parameters of a request. */
struct kube_write {
	struct kube_target target;
	const char *field_manager; /* NULL: "divvy" */
	bool is_dry_run;
	bool is_forced;             /* apply: take over fields that other clients manage */
	uint64_t timeout_ns;        /* 0: KUBE_TIMEOUT_DEFAULT_NS */
	bool is_tried_once;         /* never retried */
	kube_may_send_fn *may_send; /* as in kube_request */
	kube_done_fn *done;
	void *data;
	struct kube_call **ret_call; /* may be NULL */
};

int kube_read(struct kube_client *client, const struct kube_write *write, struct error *err);

/*
 * Creates the object, which contains its name. The call is tried again only if the server has
 * certainly not acted on the request. If the object has a name, the caller may try again: -EEXIST
 * then means that the object exists.
 */
int kube_create(struct kube_client *client, const struct kube_write *write, const json_t *object,
	struct error *err);

enum kube_patch_kind {
	KUBE_PATCH_MERGE,     /* null removes a field; lists are replaced as a whole */
	KUBE_PATCH_STRATEGIC, /* lists are merged by key; not for custom resources */
	/*
	 * a list of operations, which may include `test`; not repeated if it may have been applied
	 */
	KUBE_PATCH_JSON,
	KUBE_PATCH_APPLY, /* server-side apply: the fields that are ours */
};

/* With metadata.resourceVersion in a merge patch: -EBUSY if the object has changed since. */
int kube_patch(struct kube_client *client, const struct kube_write *write,
	enum kube_patch_kind kind, const json_t *patch, struct error *err);

struct kube_delete {
	const char *uid;         /* deletes only the object with this uid; NULL: any */
	const char *version;     /* only this resourceVersion; NULL: any */
	int64_t grace_s;         /* < 0: the object's own grace period */
	const char *propagation; /* "Background", "Foreground", "Orphan"; NULL: the default */
};

/* `what` may be NULL: any object, with its own grace period. */
int kube_delete(struct kube_client *client, const struct kube_write *write,
	const struct kube_delete *what, struct error *err);

/*
 * Binds a pod to a node (of the target, only namespace and name count). The same request writes the
 * annotations, an object of texts or NULL, into the pod. uid: only the pod with this uid; NULL:
 * any.
 */
int kube_bind(struct kube_client *client, const struct kube_write *write, const char *node,
	const char *uid, const json_t *annotations, struct error *err);

/*
 * Requests an eviction, which respects disruption budgets: -EAGAIN if they do not allow it now.
 * version: of the Eviction, "policy/v1" or "policy/v1beta1", from kube_discovery_eviction().
 */
int kube_evict(struct kube_client *client, const struct kube_write *write, const char *version,
	const struct kube_delete *what, struct error *err);

#endif
