/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a metav1.Status and translates the HTTP status into an errno. kube_status_parse() prefers
 * the HTTP status to the `code` in the body. The ERROR frame of a watch has no HTTP status, so
 * kube_status_from_json() reads `code`. A Status has no field for the webhook that refused:
 * behind_webhook() depends on the API server's wording. kube_status_from_json() cuts texts that are
 * too long, and `retry_after_ns` is at most one day.
 */
#include "kube/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define RETRY_AFTER_MAX_S 86400

void kube_status_from_json(const json_t *json, struct kube_status *ret_status)
{
	const json_t *wait = kube_json_at(json, "details", "retryAfterSeconds", NULL);
	struct kube_status status = {.http = ret_status->http};
	const json_t *code = json_object_get(json, "code");
	json_int_t seconds = json_integer_value(wait);

	if (json_is_integer(code) && json_integer_value(code) >= 100 &&
		json_integer_value(code) < 600)
		status.http = (int)json_integer_value(code);
	if (seconds > 0)
		status.retry_after_ns = (uint64_t)MIN(seconds, (json_int_t)RETRY_AFTER_MAX_S) *
			NSEC_PER_SEC;
	/* May be truncated: the texts are for people. */
	snprintf(status.reason, sizeof(status.reason), "%s", kube_json_text(json, "reason"));
	snprintf(status.message, sizeof(status.message), "%s", kube_json_text(json, "message"));
	snprintf(status.name, sizeof(status.name), "%s",
		kube_json_text(json_object_get(json, "details"), "name"));
	*ret_status = status;
}

void kube_status_parse(int http, struct str body, struct kube_status *ret_status)
{
	_cleanup_json_ json_t *json = NULL;
	struct kube_status status = {.http = http};
	const char *kind;

	if (kube_json_parse(body, &json, NULL) == 0) {
		kind = kube_json_text_at(json, "kind", NULL);
		if (kind && !strcmp(kind, "Status"))
			kube_status_from_json(json, &status);
	} else if (http >= 300) {
		body = str_trim(body);
		snprintf(status.message, sizeof(status.message), "%.*s",
			(int)MIN(body.n, sizeof(status.message) - 1), body.p ? body.p : "");
	}
	status.http = http;
	*ret_status = status;
}

/* The text after 'admission webhook "X" denied the request'; NULL if no webhook denied it. */
static const char *behind_webhook(const struct kube_status *status)
{
	static const char before[] = "admission webhook \"", denied[] = "\" denied the request";
	const char *end;

	if (strncmp(status->message, before, strlen(before)) != 0)
		return NULL;
	end = strstr(status->message + strlen(before), denied);
	return end ? end + strlen(denied) : NULL;
}

const char *kube_status_sentence(const struct kube_status *status)
{
	const char *said = behind_webhook(status);

	return said && !strncmp(said, ": ", 2) && said[2] ? said + 2 : status->message;
}

bool kube_status_is_refusal(const struct kube_status *status)
{
	switch (status->http) {
	case 400:
	case 403:
	case 422: return true;
	/* A webhook may choose any code for its answer. */
	case 500: return behind_webhook(status);
	default: return false;
	}
}

int kube_status_format(const struct kube_status *status, struct buf *out)
{
	return buf_addf(out, "%d%s%s: %s", status->http, status->reason[0] ? " " : "",
		status->reason, status->message);
}

int kube_status_errno(const struct kube_status *status)
{
	static const struct {
		int http, error;
	} table[] = {{400, EINVAL}, {401, EACCES}, {403, EPERM}, {404, ENOENT}, {405, ENOTSUP},
		{408, ETIMEDOUT}, {409, EBUSY}, {410, ESTALE}, {413, EMSGSIZE}, {415, ENOTSUP},
		{422, EINVAL}, {429, EAGAIN}, {504, ETIMEDOUT}};

	if (status->http >= 200 && status->http < 300)
		return 0;
	if (status->http == 409 && !strcmp(status->reason, "AlreadyExists"))
		return -EEXIST;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].http == status->http)
			return -table[i].error;
	return -EIO;
}
