/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds path, query and body of a request for one object and starts the call. A `struct kind`
 * holds the method, content type and retry policy of an operation; kube_write_send() does the rest.
 * An operation has RETRY_IDEMPOTENT only if a second request has the same effect as one.
 * kube_path() escapes each name and rejects "", "." and "..", so a name cannot leave its place in
 * the path.
 */
#include "kube/write.h"

#include <errno.h>

#define PATH_MAX_BYTES 2048u

static int add_segment(struct buf *b, const char *what, const char *text, struct error *err)
{
	if (!text[0] || !strcmp(text, ".") || !strcmp(text, ".."))
		return fail(err, EINVAL, "%s: '%s' is not a name", what, text);
	buf_add_byte(b, '/');
	kube_url_escape(b, str_from(text));
	return 0;
}

int kube_path(struct buf *b, const struct kube_target *t, struct error *err)
{
	struct str rest = str_from(t->group_version), piece;
	const struct {
		const char *what, *text;
	} segments[] = {{"namespace", t->namespace_name}, {"resource", t->resource},
		{"name", t->name}, {"subresource", t->subresource}};
	int r = 0;

	buf_add_text(b, strchr(t->group_version, '/') ? "/apis" : "/api");
	while (str_split(&rest, '/', &piece)) {
		buf_add_byte(b, '/');
		kube_url_escape(b, piece);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(segments); i++) {
		if (i == 0 && segments[i].text)
			buf_add_text(b, "/namespaces");
		if (segments[i].text)
			r = add_segment(b, segments[i].what, segments[i].text, err);
	}
	if (r == 0 && buf_error(b))
		r = fail(err, EINVAL, "%s %s: the path is too long", t->resource,
			t->name ? t->name : "");
	return r;
}

static void kube_write_add_option(struct buf *b, const char *name, const char *value)
{
	if (b->n)
		buf_add_byte(b, '&');
	buf_addf(b, "%s=", name);
	kube_url_escape(b, str_from(value));
}

/* The properties in which the requests of the functions below differ. */
struct kind {
	enum kube_method method;
	const char *content_type;
	enum retry_policy retry;
	bool is_managed; /* accepts fieldManager */
	bool is_apply;
};

static int kube_write_send(struct kube_client *client, const struct kube_write *w,
	const struct kind *kind, const json_t *body, struct error *err)
{
	_cleanup_buf_ struct buf path = BUF_INIT(PATH_MAX_BYTES), query = BUF_INIT(PATH_MAX_BYTES);
	_cleanup_free_ char *text = NULL;
	int r = kube_path(&path, &w->target, err);

	if (r < 0)
		return r;
	if (kind->is_managed)
		kube_write_add_option(
			&query, "fieldManager", w->field_manager ? w->field_manager : "divvy");
	if (kind->is_apply && w->is_forced)
		kube_write_add_option(&query, "force", "true");
	if (w->is_dry_run)
		kube_write_add_option(&query, "dryRun", "All");
	if (buf_error(&query))
		return fail(err, EINVAL, "'%.64s...': a name too long", w->field_manager);
	if (body) {
		text = kube_json_format(body);
		if (!text)
			return fail(err, ENOMEM, "out of memory for JSON");
	}
	return kube_call_start(client,
		&(struct kube_request){
			.method = kind->method,
			.path = buf_text(&path),
			.query = buf_text(&query),
			.body = str_from(text),
			.content_type = kind->content_type,
			.timeout_ns = w->timeout_ns,
			.retry = w->is_tried_once ? RETRY_NEVER : kind->retry,
			.may_send = w->may_send,
			.done = w->done,
			.data = w->data,
		},
		w->ret_call, err);
}

int kube_read(struct kube_client *client, const struct kube_write *write, struct error *err)
{
	static const struct kind kind = {KUBE_GET, .retry = RETRY_IDEMPOTENT};

	return kube_write_send(client, write, &kind, NULL, err);
}

int kube_create(struct kube_client *client, const struct kube_write *write, const json_t *object,
	struct error *err)
{
	static const struct kind kind = {KUBE_POST, .retry = RETRY_UNPROCESSED, .is_managed = true};

	return kube_write_send(client, write, &kind, object, err);
}

int kube_patch(struct kube_client *client, const struct kube_write *write,
	enum kube_patch_kind patch_kind, const json_t *patch, struct error *err)
{
	static const struct kind kinds[] = {
		[KUBE_PATCH_MERGE] = {KUBE_PATCH, "application/merge-patch+json", RETRY_IDEMPOTENT,
			true, false},
		[KUBE_PATCH_STRATEGIC] = {KUBE_PATCH, "application/strategic-merge-patch+json",
			RETRY_IDEMPOTENT, true, false},
		[KUBE_PATCH_JSON] = {KUBE_PATCH, "application/json-patch+json", RETRY_UNPROCESSED,
			true, false},
		[KUBE_PATCH_APPLY] = {KUBE_PATCH, "application/apply-patch+yaml", RETRY_IDEMPOTENT,
			true, true},
	};

	return kube_write_send(client, write, &kinds[patch_kind], patch, err);
}

static json_t *delete_options(const struct kube_delete *what)
{
	json_t *preconditions = what
		? json_pack("{s:s*, s:s*}", "uid", what->uid, "resourceVersion", what->version)
		: NULL;
	json_t *options = json_object();

	if (what && what->grace_s >= 0)
		json_object_set_new(options, "gracePeriodSeconds", json_integer(what->grace_s));
	if (what && what->propagation)
		json_object_set_new(options, "propagationPolicy", json_string(what->propagation));
	if (json_object_size(preconditions))
		json_object_set(options, "preconditions", preconditions);
	json_decref(preconditions);
	return options;
}

int kube_delete(struct kube_client *client, const struct kube_write *write,
	const struct kube_delete *what, struct error *err)
{
	static const struct kind kind = {KUBE_DELETE, .retry = RETRY_IDEMPOTENT};
	_cleanup_json_ json_t *options = delete_options(what);

	json_object_set_new(options, "apiVersion", json_string("v1"));
	json_object_set_new(options, "kind", json_string("DeleteOptions"));
	return kube_write_send(client, write, &kind, options, err);
}

int kube_bind(struct kube_client *client, const struct kube_write *write, const char *node,
	const char *uid, const json_t *annotations, struct error *err)
{
	/*
	 * If the caller repeats a request whose answer was lost, the server answers 409 for a bound
	 * pod, so nothing is done twice.
	 */
	static const struct kind kind = {KUBE_POST, .retry = RETRY_UNPROCESSED, .is_managed = true};
	const struct kube_target *t = &write->target;
	_cleanup_json_ json_t *binding = json_pack(
		"{ss, ss, s:{ss, s:s*, s:s*, s:O*}, s:{ss, ss, ss}}", "apiVersion", "v1", "kind",
		"Binding", "metadata", "name", t->name, "namespace", t->namespace_name, "uid", uid,
		"annotations", annotations, "target", "apiVersion", "v1", "kind", "Node", "name",
		node);
	struct kube_write w = *write;

	if (!binding)
		return fail(err, EINVAL, "a pod and a node with names in UTF-8 are expected");
	w.target.group_version = "v1";
	w.target.resource = "pods";
	w.target.subresource = "binding";
	return kube_write_send(client, &w, &kind, binding, err);
}

int kube_evict(struct kube_client *client, const struct kube_write *write, const char *version,
	const struct kube_delete *what, struct error *err)
{
	/*
	 * 429 means that disruption budgets do not allow the eviction now. The caller decides when
	 * to try again.
	 */
	static const struct kind kind = {KUBE_POST, .retry = RETRY_NEVER};
	const struct kube_target *t = &write->target;
	_cleanup_json_ json_t *options = delete_options(what);
	_cleanup_json_ json_t *eviction = json_pack("{ss, ss, s:{ss, s:s*}}", "apiVersion", version,
		"kind", "Eviction", "metadata", "name", t->name, "namespace", t->namespace_name);
	struct kube_write w = *write;

	if (!eviction)
		return fail(err, EINVAL, "a pod with a name in UTF-8 is expected");
	if (json_object_size(options))
		json_object_set(eviction, "deleteOptions", options);
	w.target.group_version = "v1";
	w.target.resource = "pods";
	w.target.subresource = "eviction";
	return kube_write_send(client, &w, &kind, eviction, err);
}
