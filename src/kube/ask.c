/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns asynchronous requests to the API server into blocking calls for command lines.
 * kube_ask_wait_done() runs the client's loop until the answer has arrived; a signal does not end
 * the wait. A pending request points to the caller's `ask`, so the caller keeps `ask` until the
 * call returns. kube_ask_list() reads pages of PAGE objects, one request for each page, and returns
 * all or nothing.
 */
#include "kube/ask.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define PAGE 500

void kube_ask_done(void *data, const struct kube_answer *from)
{
	struct kube_ask *ask = data;

	ask->is_done = true;
	ask->result = from->result;
	ask->error = from->error;
	ask->is_right_missing = from->result == -EPERM && strstr(from->status.message, " cannot ");
	if (from->result == 0 && from->body.n)
		ask->result = kube_json_parse(from->body, &ask->json, &ask->error);
}

static void kube_ask_wait_done(struct kube_client *client, struct kube_ask *ask)
{
	while (!ask->is_done) {
		const int r = loop_run_once(kube_client_loop(client), CLOCK_NEVER);

		if (r < 0 && r != -EINTR) {
			ask->is_done = true;
			ask->result = fail_errno(&ask->error, -r, "event loop");
		}
	}
}

int kube_ask_wait(struct kube_client *client, struct kube_ask *ask, json_t **ret, struct error *err)
{
	kube_ask_wait_done(client, ask);
	if (ask->result < 0) {
		json_decref(TAKE_PTR(ask->json));
		return fail(err, -ask->result, "%s", ask->error.msg);
	}
	if (ret)
		*ret = TAKE_PTR(ask->json);
	json_decref(TAKE_PTR(ask->json));
	return 0;
}

int kube_ask_get(struct kube_client *client, const char *path, const struct kube_question *question,
	struct kube_ask *ask)
{
	const struct kube_request request = {.path = path,
		.query = question->query,
		.timeout_ns = question->timeout_ns,
		.retry = RETRY_IDEMPOTENT,
		.done = kube_ask_done,
		.data = ask};
	int r;

	*ask = (struct kube_ask){.is_done = false};
	r = kube_call_start(client, &request, NULL, &ask->error);
	if (r < 0) {
		ask->result = r;
		return r;
	}
	kube_ask_wait_done(client, ask);
	return ask->result;
}

/* Builds the query for the page that begins at `from`. */
static int page_query(struct buf *b, const char *query, const char *from)
{
	buf_clear(b);
	buf_addf(b, "limit=%d%s%s", PAGE, query ? "&" : "", query ? query : "");
	if (from && from[0]) {
		buf_add_text(b, "&continue=");
		kube_url_escape(b, str_from(from));
	}
	return buf_error(b);
}

int kube_ask_list(struct kube_client *client, const struct kube_target *target,
	const struct kube_question *question, struct kube_ask *ask)
{
	_cleanup_buf_ struct buf path = BUF_INIT(KUBE_URL_MAX), query = BUF_INIT(KUBE_URL_MAX);
	_cleanup_json_ json_t *all = json_array(), *page = NULL;
	const char *from = NULL;
	int r;

	*ask = (struct kube_ask){.is_done = false};
	r = kube_path(&path, target, &ask->error);
	do {
		struct kube_question one = {.timeout_ns = question->timeout_ns};

		r = r < 0 ? r : page_query(&query, question->query, from);
		if (r < 0)
			return ask->result = fail(&ask->error, -r, "the list's query is too long");
		one.query = buf_text(&query);
		r = kube_ask_get(client, buf_text(&path), &one, ask);
		if (r < 0)
			return r;
		json_decref(TAKE_PTR(page));
		page = TAKE_PTR(ask->json);
		json_array_extend(all, kube_json_at(page, "items", NULL));
		from = kube_json_text_at(page, "metadata", "continue", NULL);
	} while (from && from[0]);
	ask->json = TAKE_PTR(all);
	return 0;
}
