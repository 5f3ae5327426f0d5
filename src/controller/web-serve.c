/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers the dashboard's HTTP requests. An event's id is "EPOCH-NUMBER". A viewer that connects to
 * /events/ again with its last id gets only newer items. A viewer whose id is from another process,
 * or is too old, gets all items.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "controller/web-files.h"
#include "controller/web-internal.h"

/* A viewer's token is checked again after this time, because it can expire or lose its right. */
#define VISIT_NS (120 * NSEC_PER_SEC)
#define BEARER STR("Bearer ")

static void web_serve_answer_text(
	struct http_request *request, unsigned int status, const char *text)
{
	http_add_header(request, "Cache-Control", "no-store");
	http_add_header(request, "X-Content-Type-Options", "nosniff");
	http_answer(request, status, HTTP_TEXT, str_from(text));
}

/* ---- files ---- */

/*
 * With these headers the page can load only its own files and contact only its own server, so that
 * injected markup has no effect.
 */
static const struct {
	const char *name, *value;
} file_headers[] = {
	{"Content-Security-Policy",
		"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
		"img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
		"require-trusted-types-for 'script'; trusted-types 'none'"},
	{"X-Content-Type-Options", "nosniff"},
	{"X-Frame-Options", "DENY"},
	{"Referrer-Policy", "no-referrer"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Cache-Control", "no-cache"},
};

static void serve_file(struct http_request *request, const struct web_file *file)
{
	const char *has = http_header(request, "If-None-Match");

	for (size_t i = 0; i < ARRAY_SIZE(file_headers); i++)
		http_add_header(request, file_headers[i].name, file_headers[i].value);
	http_add_header(request, "ETag", file->tag);
	if (has && !strcmp(has, file->tag))
		http_answer(request, 304, NULL, STR_NONE);
	else
		http_answer(request, 200, file->type, file->content);
}

/* ---- signing in and out ---- */

/* The page sends the token in a header, because a form of another site cannot set headers. */
static struct str web_serve_request_token(const struct http_request *request)
{
	struct str token = str_from(http_header(request, "Authorization"));

	return str_skip_prefix(&token, BEARER) ? token : STR_NONE;
}

/*
 * Returns whether the token has only characters that RFC 6750 permits. A cookie can hold all of
 * these.
 */
static bool may_be_kept(struct str token)
{
	static const char others[] = "-._~+/=";

	for (size_t i = 0; i < token.n; i++) {
		const char c = token.p[i];

		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
			!memchr(others, c, sizeof(others) - 1))
			return false;
	}
	return token.n > 0;
}

static void web_serve_keep_viewer(struct http_request *request, struct str token, const char *more)
{
	_cleanup_(buf_wipe) struct buf cookie = BUF_INIT(HTTP_HEADERS_MAX / 2);

	buf_addf(&cookie, "%s=", WEB_COOKIE);
	buf_add(&cookie, token);
	buf_addf(&cookie, "; Path=/; Secure; HttpOnly; SameSite=Strict%s", more);
	if (buf_error(&cookie) < 0 || http_add_header(request, "Set-Cookie", buf_text(&cookie)) < 0)
		web_serve_answer_text(request, 503, "out of memory\n");
	else
		web_serve_answer_text(request, 204, "");
}

static void serve_session(struct http_request *request)
{
	const char *method = http_method(request);
	struct str token = web_serve_request_token(request);

	if (!strcmp(method, "DELETE"))
		web_serve_keep_viewer(request, STR_NONE, "; Max-Age=0");
	else if (strcmp(method, "POST") != 0)
		web_serve_answer_text(request, 204, "");
	else if (token.n > WEB_TOKEN_MAX)
		web_serve_answer_text(request, 431,
			"the token is longer than 3500 characters; use a service account's token "
			"(kubectl create token)\n");
	else if (!may_be_kept(token))
		web_serve_answer_text(request, 400, "the token has invalid characters\n");
	else
		web_serve_keep_viewer(request, token, "");
}

/* ---- events ---- */

static void viewer_free(struct viewer *viewer)
{
	viewer->web->n_viewers--;
	LIST_REMOVE(viewer, link);
	free(viewer);
}

static void web_serve_on_closed(void *data, int why)
{
	viewer_free(data);
}

/* Formats the items that are newer than `since` as an event. */
static int format_event(const struct web *web, uint64_t since, struct buf *out)
{
	buf_addf(out, "id: %016" PRIx64 "-%" PRIu64 "\nevent: state\ndata: ", web->epoch,
		web_state_number(web->state));
	web_state_format(web->state, since, web_kinds(web), out);
	return buf_add_text(out, "\n\n");
}

static void web_serve_push_text(struct web *web, struct viewer *viewer, const struct buf *text)
{
	/*
	 * If the viewer's buffer is full, its connection is closed. The browser connects again and
	 * then gets the items.
	 */
	if (http_stream_push(viewer->stream, buf_str(text)) == 0)
		web->n_sent++;
}

void web_send(struct web *web)
{
	_cleanup_buf_ struct buf text = BUF_INIT(WEB_TEXT_MAX);
	struct viewer *viewer = NULL; /* = NULL for cppcheck */

	if (!LIST_EMPTY(&web->viewers) && format_event(web, web->sent, &text) < 0)
		return;
	web->sent = web_state_number(web->state);
	LIST_FOREACH(viewer, &web->viewers, link)
		web_serve_push_text(web, viewer, &text);
}

/*
 * Formats a heartbeat with the controller's time and how many seconds the API server has not
 * answered.
 */
static void format_beat(const struct web *web, struct buf *out)
{
	buf_addf(out, "event: beat\ndata: %" PRIu64 " %" PRIu64 "\n\n",
		clock_real_ns() / NSEC_PER_SEC, web_silence_ns(web) / NSEC_PER_SEC);
}

void web_beat(struct web *web, uint64_t now)
{
	struct viewer *viewer, *next;
	_cleanup_buf_ struct buf beat = BUF_INIT(80);

	format_beat(web, &beat);
	for (viewer = LIST_FIRST(&web->viewers); viewer; viewer = next) {
		next = LIST_NEXT(viewer, link);
		if (clock_since_ns(now, viewer->since_ns) < VISIT_NS) {
			web_serve_push_text(web, viewer, &beat);
			continue;
		}
		http_stream_push_event(viewer->stream, "again", STR(""));
		http_stream_close(viewer->stream);
		viewer_free(viewer);
	}
}

/*
 * Returns the number in the event id at the end of the path; 0 if the id is missing or from another
 * process.
 */
static uint64_t heard_of(const struct web *web, const char *path)
{
	struct str rest = str_from(path), epoch;
	char ours[24];
	uint64_t number;

	str_skip_prefix(&rest, STR("/events/"));
	snprintf(ours, sizeof(ours), "%016" PRIx64, web->epoch);
	if (!str_split(&rest, '-', &epoch) || !str_is(epoch, ours) ||
		parse_uint(rest, 0, INT64_MAX, &number, NULL) < 0)
		return 0;
	return number;
}

/* Before the caches are complete a missing node may exist, and a search would miss nodes. */
static bool web_serve_is_early(const struct web *web, struct http_request *request)
{
	if (!web->is_ready)
		web_serve_answer_text(
			request, 503, "the controller is still reading the cluster; try again\n");
	return !web->is_ready;
}

static void serve_events(struct web *web, struct http_request *request)
{
	_cleanup_buf_ struct buf text = BUF_INIT(WEB_TEXT_MAX);
	struct viewer *viewer;

	if (strcmp(http_method(request), "GET") != 0) {
		web_serve_answer_text(request, 405, "GET\n");
		return;
	}
	if (web_serve_is_early(web, request))
		return;
	if (web->n_viewers >= WEB_VIEWERS_MAX) {
		web_serve_answer_text(
			request, 503, "too many dashboard connections; try again later\n");
		return;
	}
	viewer = calloc(1, sizeof(*viewer));
	if (!viewer || format_event(web, heard_of(web, http_path(request)), &text) < 0) {
		free(viewer);
		web_serve_answer_text(
			request, 503, "the cluster's state is too large for one answer\n");
		return;
	}
	http_add_header(request, "X-Content-Type-Options", "nosniff");
	viewer->web = web;
	viewer->since_ns = clock_now_ns();
	viewer->stream = http_stream_open(
		request, "text/event-stream", WEB_TEXT_MAX, web_serve_on_closed, viewer);
	if (!viewer->stream) {
		free(viewer);
		return;
	}
	if (LIST_EMPTY(&web->viewers))
		web->sent = web_state_number(web->state);
	LIST_INSERT_HEAD(&web->viewers, viewer, link);
	web->n_viewers++;
	format_beat(web, &text);
	web_serve_push_text(web, viewer, &text);
}

static void answer_json(struct http_request *request, const struct buf *text)
{
	if (buf_error(text) < 0) {
		web_serve_answer_text(request, 503, "the answer is too large\n");
		return;
	}
	http_add_header(request, "Cache-Control", "no-store");
	http_add_header(request, "X-Content-Type-Options", "nosniff");
	http_answer(request, 200, "application/json", buf_str(text));
}

/* ---- history ---- */

static void serve_history(struct web *web, struct http_request *request)
{
	_cleanup_buf_ struct buf text = BUF_INIT(WEB_TEXT_MAX);
	struct str key = str_from(http_path(request));
	int r;

	str_skip_prefix(&key, STR("/history/"));
	r = web_history_format(web->history, key.p, clock_now_ns() / NSEC_PER_SEC, &text);
	if (r == -ENOENT) {
		web_serve_answer_text(request, 404, "no measurements of this container yet\n");
		return;
	}
	if (r < 0) {
		web_serve_answer_text(request, 503, "out of memory\n");
		return;
	}
	answer_json(request, &text);
}

/* ---- one node, and finding nodes ---- */

static void serve_node(struct web *web, struct http_request *request)
{
	_cleanup_buf_ struct buf text = BUF_INIT(WEB_TEXT_MAX);
	struct str name = str_from(http_path(request));
	const char *node, *use;

	if (web_serve_is_early(web, request))
		return;
	str_skip_prefix(&name, STR("/nodes/"));
	node = web_state_get(web->state, WEB_NODES, name.p);
	use = web_state_get(web->state, WEB_USE, name.p);
	if (!node) {
		web_serve_answer_text(request, 404, "no GPUNode has this name\n");
		return;
	}
	buf_addf(&text, "{\"node\":%s,\"use\":%s}", node, use ? use : "[]");
	answer_json(request, &text);
}

static void serve_find(struct web *web, struct http_request *request)
{
	_cleanup_buf_ struct buf text = BUF_INIT(WEB_TEXT_MAX);
	const char *words = http_query(request, "words");

	if (web_serve_is_early(web, request))
		return;
	if (web_state_find(web->state, WEB_NODES, str_from(words ? words : ""), &text) == -E2BIG) {
		web_serve_answer_text(request, 400,
			"the search has more than 8 words; search for 1 to 8 words\n");
		return;
	}
	answer_json(request, &text);
}

void web_serve(struct web *web, struct http_request *request)
{
	const struct str path = str_from(http_path(request));

	if (str_is(path, "/session")) {
		serve_session(request);
	} else if (str_has_prefix(path, STR("/events/"))) {
		serve_events(web, request);
	} else if (str_has_prefix(path, STR("/history/"))) {
		serve_history(web, request);
	} else if (str_has_prefix(path, STR("/nodes/"))) {
		serve_node(web, request);
	} else if (str_is(path, "/find")) {
		serve_find(web, request);
	} else {
		for (size_t i = 0; i < WEB_N_FILES; i++)
			if (str_is(path, web_files[i].path)) {
				serve_file(request, &web_files[i]);
				return;
			}
		web_serve_answer_text(request, 404, "no such path\n");
	}
}
