/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object read or written: thin functions over kube_call_start(). Never PUT: what we do not know
 * of an object stays byte for byte what it was. All return 0, or -EINVAL or -ENOMEM with a
 * sentence, and `done` is called as client.h says. Objects and patches are borrowed for the call.
 */
#ifndef KUBE_WRITE_H
#define KUBE_WRITE_H

#include "kube/client.h"
#include "kube/json.h"

/* What is meant. "v1", "pods", "default", "a", "status": .../namespaces/default/pods/a/status */
struct kube_target {
	const char *group_version; /* "v1", "apps/v1" */
	const char *resource;
	const char *namespace_name; /* NULL: none, or all of them */
	const char *name;           /* NULL: the collection */
	const char *subresource;    /* NULL: the object itself */
};

/* Appends the path; -EINVAL for names that cannot be part of one ("", ".", ".."). */
int kube_path(struct buf *b, const struct kube_target *target, struct error *err);

/* How, and what then. */
struct kube_write {
	struct kube_target target;
	const char *field_manager; /* NULL: "divvy" */
	bool is_dry_run;
	bool is_forced;             /* apply: takes over fields that others manage */
	uint64_t timeout_ns;        /* 0: KUBE_TIMEOUT_DEFAULT_NS */
	bool is_tried_once;         /* not even where trying again is safe */
	kube_may_send_fn *may_send; /* as of a kube_request */
	kube_done_fn *done;
	void *data;
	struct kube_call **ret_call; /* may be NULL */
};

int kube_read(struct kube_client *client, const struct kube_write *write, struct error *err);

/*
 * The name is the object's own. Tried again only when it surely was not acted on; an object with a
 * name of its own may be tried again by the caller, -EEXIST then says that it is there.
 */
int kube_create(struct kube_client *client, const struct kube_write *write, const json_t *object,
	struct error *err);

enum kube_patch_kind {
	KUBE_PATCH_MERGE,     /* null removes; lists are replaced as a whole */
	KUBE_PATCH_STRATEGIC, /* lists by key; not for custom resources */
	KUBE_PATCH_JSON,      /* a list of operations, `test` among them; tried once */
	KUBE_PATCH_APPLY,     /* server-side apply: the fields that are ours */
};

/* With metadata.resourceVersion in a merge patch: -EBUSY when the object has changed since. */
int kube_patch(struct kube_client *client, const struct kube_write *write,
	enum kube_patch_kind kind, const json_t *patch, struct error *err);

struct kube_delete {
	const char *uid;         /* only this one; NULL: any */
	const char *version;     /* only in this version */
	int64_t grace_s;         /* < 0: its own */
	const char *propagation; /* "Background", "Foreground", "Orphan"; NULL: the default */
};

/* what may be NULL: its own grace, whichever it is. */
int kube_delete(struct kube_client *client, const struct kube_write *write,
	const struct kube_delete *what, struct error *err);

/*
 * Binds a pod (target: namespace and name are used) to a node, and writes the annotations, an
 * object of texts or NULL, into the pod with the same write. With a uid only that pod.
 */
int kube_bind(struct kube_client *client, const struct kube_write *write, const char *node,
	const char *uid, const json_t *annotations, struct error *err);

/*
 * Asks to delete a pod as its disruption budgets allow: -EAGAIN when they do not, now.
 * version: of the Eviction, "policy/v1" or "policy/v1beta1": kube_discovery_eviction().
 */
int kube_evict(struct kube_client *client, const struct kube_write *write, const char *version,
	const struct kube_delete *what, struct error *err);

#endif
