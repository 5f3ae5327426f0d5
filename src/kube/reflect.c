/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one phase at a time: a list or a watch. A list has up to two pages in flight; it ends when
 * no page is in flight and no further one is known. Each end of a phase goes through end_phase(),
 * which cancels requests and sets the timer for the next phase. One thread.
 */
#include "kube/reflect.h"

#include <errno.h>
#include <stdlib.h>

#include "kube/reflect-state.h"
#include "kube/scan.h"

#define PAGES 2u
#define TOKEN_MAX (8u << 10)
#define VERSION_SIZE 64u

/* A request in flight: a page or the watch. */
struct body {
	struct kube_reflect *reflect;
	struct kube_call *call; /* NULL: not in use */
	struct scan scan;
};

struct kube_reflect {
	struct kube_client *client;
	struct kube_reflect_handler handler;
	char *path, *selectors; /* "&labelSelector=..." */
	uint32_t limit, watch_min_s;
	uint64_t idle_ns;
	struct reflect_state state;
	struct loop_timer timer;
	struct body pages[PAGES];
	struct body watch;
	char version[VERSION_SIZE]; /* the last resourceVersion seen */
	bool has_version;           /* the present list has set `version` */
	struct buf token;           /* continue token of the next page; empty: unknown */
	uint64_t begun_ns;
	enum reflect_end frame_end; /* reason from an ERROR or faulty frame */
	struct kube_status frame_status;
	struct error frame_error;
	struct kube_reflect_counts counts;
};

static int start_page(struct kube_reflect *reflect, struct str token, struct error *err);

static void body_drop(struct body *body)
{
	kube_call_cancel(body->call);
	body->call = NULL;
	scan_done(&body->scan);
}

static void count_end(struct kube_reflect *reflect, enum reflect_end end)
{
	reflect->counts.n_expired += end == REFLECT_EXPIRED;
	reflect->counts.n_garbled += end == REFLECT_GARBLED;
	reflect->counts.n_lost += end == REFLECT_LOST;
	reflect->counts.n_refused += end == REFLECT_REFUSED;
}

/* err->code 0: there is no error to report. */
static void end_phase(struct kube_reflect *reflect, enum reflect_end end, uint64_t retry_after_ns,
	const struct error *err)
{
	const uint64_t now_ns = clock_now_ns();
	uint64_t pause_ns;

	for (size_t i = 0; i < PAGES; i++)
		body_drop(&reflect->pages[i]);
	body_drop(&reflect->watch);
	buf_clear(&reflect->token);
	count_end(reflect, end);
	pause_ns = reflect_state_end(&reflect->state, end, now_ns - reflect->begun_ns,
		retry_after_ns, kube_client_rand(reflect->client));
	if (end != REFLECT_OK && err->code && reflect->handler.trouble)
		reflect->handler.trouble(reflect->handler.data, err);
	loop_set_timer(&reflect->timer, now_ns + pause_ns);
}

/* How a failed request ends its phase. */
static enum reflect_end kube_reflect_answer_end(const struct kube_answer *answer)
{
	switch (answer->result) {
	case -EBADMSG:
	case -EMSGSIZE: return REFLECT_GARBLED;
	case -ESTALE: return REFLECT_EXPIRED;
	default: return answer->status.http >= 300 ? REFLECT_REFUSED : REFLECT_LOST;
	}
}

/* Reads only the metadata of an object that is valid JSON, but that jansson cannot hold. */
static int read_partial(struct str raw, json_t **ret_json, struct error *err)
{
	json_t *metadata = NULL, *json;
	int r = kube_json_parse(kube_json_member(raw, "metadata"), &metadata, err);

	if (r < 0)
		return fail_within(err, -EBADMSG, "an object's metadata");
	json = json_object();
	json_object_set_new(json, "metadata", metadata);
	*ret_json = json;
	return 0;
}

static int kube_reflect_read_object(
	struct str raw, struct kube_object *ret_object, struct error *err)
{
	struct kube_object object = {.raw = raw};
	int r = kube_json_parse(raw, &object.json, err);

	if (r == -EOVERFLOW) {
		object.is_partial = true;
		r = read_partial(raw, &object.json, err);
	}
	if (r < 0)
		return r;
	*ret_object = object;
	return 0;
}

static int give_object(
	struct kube_reflect *reflect, enum kube_change change, const struct kube_object *object)
{
	int r = reflect->handler.object(reflect->handler.data, change, object);

	return r < 0 ? fail(&reflect->frame_error, EBADMSG, "an object that cannot be") : 0;
}

static int on_item(void *data, struct str type, struct str raw)
{
	struct body *body = data;
	struct kube_object object;
	int r = kube_reflect_read_object(raw, &object, &body->reflect->frame_error);

	if (r < 0)
		return r;
	r = give_object(body->reflect, KUBE_LISTED, &object);
	json_decref(object.json);
	return r;
}

static bool kube_reflect_set_version(struct kube_reflect *reflect, const json_t *metadata)
{
	const char *version = kube_json_text_at(metadata, "resourceVersion", NULL);

	return version && version[0] &&
		str_copy(reflect->version, sizeof(reflect->version), str_from(version)) == 0;
}

static struct body *free_page(struct kube_reflect *reflect)
{
	for (size_t i = 0; i < PAGES; i++)
		if (!reflect->pages[i].call)
			return &reflect->pages[i];
	return NULL;
}

static int start_next_page(struct kube_reflect *reflect, struct error *err)
{
	_cleanup_buf_ struct buf token = BUF_INIT(TOKEN_MAX);

	if (!reflect->token.n || !free_page(reflect))
		return 0;
	buf_add(&token, buf_str(&reflect->token));
	buf_clear(&reflect->token);
	return start_page(reflect, buf_str(&token), err);
}

static int on_meta(void *data, struct str text)
{
	struct body *body = data;
	struct kube_reflect *reflect = body->reflect;
	_cleanup_json_ json_t *metadata = NULL;
	const char *token;
	int r = kube_json_parse(text, &metadata, &reflect->frame_error);

	if (r < 0)
		return r;
	/* All pages show the state at the first page's version. */
	if (!reflect->has_version && !kube_reflect_set_version(reflect, metadata))
		return fail(&reflect->frame_error, EBADMSG, "a list without resourceVersion");
	reflect->has_version = true;
	token = kube_json_text_at(metadata, "continue", NULL);
	if (!token || !token[0])
		return 0;
	buf_clear(&reflect->token);
	if (buf_add_text(&reflect->token, token) < 0)
		return fail(&reflect->frame_error, EMSGSIZE,
			"a continue token of more than %u bytes", TOKEN_MAX);
	return start_next_page(reflect, &reflect->frame_error);
}

static int on_error_frame(struct kube_reflect *reflect, const json_t *json)
{
	struct kube_status *status = &reflect->frame_status;

	*status = (struct kube_status){0};
	kube_status_from_json(json, status);
	reflect->frame_end = status->http == 410 ? REFLECT_EXPIRED : REFLECT_REFUSED;
	fail(&reflect->frame_error, EIO, "watch %s: %d %s: %s", reflect->path, status->http,
		status->reason, status->message);
	return -ECANCELED;
}

static int change_of(struct str type)
{
	static const struct {
		const char *type;
		enum kube_change change;
	} table[] = {{"ADDED", KUBE_ADDED}, {"MODIFIED", KUBE_MODIFIED}, {"DELETED", KUBE_DELETED}};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (str_is(type, table[i].type))
			return (int)table[i].change;
	return -EBADMSG;
}

static int kube_reflect_on_frame(void *data, struct str type, struct str raw)
{
	struct body *body = data;
	struct kube_reflect *reflect = body->reflect;
	_cleanup_json_ json_t *json = NULL;
	struct kube_object object;
	int r = kube_reflect_read_object(raw, &object, &reflect->frame_error);

	if (r < 0)
		return r;
	json = object.json;
	reflect->counts.n_frames++;
	if (str_is(type, "ERROR"))
		return on_error_frame(reflect, json);
	if (!str_is(type, "BOOKMARK")) {
		r = change_of(type);
		if (r < 0)
			return fail(&reflect->frame_error, EBADMSG,
				"a frame of type '%" STR_FMT "'", STR_ARG(type));
		r = give_object(reflect, (enum kube_change)r, &object);
	}
	/*
	 * Sets the version only after the handler: if the process stops in between, the server
	 * sends the frame again.
	 */
	if (r == 0 && !kube_reflect_set_version(reflect, json_object_get(json, "metadata")))
		return fail(&reflect->frame_error, EBADMSG, "a frame without resourceVersion");
	return r;
}

static int kube_reflect_on_bytes(void *data, struct str bytes)
{
	struct body *body = data;

	return scan_feed(&body->scan, bytes, &body->reflect->frame_error);
}

static const struct error *error_of(
	const struct kube_reflect *reflect, const struct kube_answer *answer)
{
	return reflect->frame_error.code ? &reflect->frame_error : &answer->error;
}

static void on_page_done(void *data, const struct kube_answer *answer)
{
	struct body *body = data;
	struct kube_reflect *reflect = body->reflect;
	struct error err = {0};
	int r = answer->result;

	body->call = NULL;
	if (r == 0)
		r = scan_end(&body->scan, &err);
	body_drop(body);
	if (answer->result < 0) {
		err = *error_of(reflect, answer);
		end_phase(reflect, kube_reflect_answer_end(answer), answer->status.retry_after_ns,
			&err);
		return;
	}
	if (r < 0) {
		end_phase(reflect, REFLECT_GARBLED, 0, &err);
		return;
	}
	r = start_next_page(reflect, &err);
	if (r < 0) {
		end_phase(reflect, REFLECT_LOST, 0, &err);
		return;
	}
	for (size_t i = 0; i < PAGES; i++)
		if (reflect->pages[i].call)
			return;
	reflect->handler.end(reflect->handler.data);
	end_phase(reflect, REFLECT_OK, 0, NULL);
}

static void on_watch_done(void *data, const struct kube_answer *answer)
{
	struct body *body = data;
	struct kube_reflect *reflect = body->reflect;
	struct error err = *error_of(reflect, answer);
	uint64_t wait_ns = answer->status.retry_after_ns;
	enum reflect_end end = REFLECT_OK;

	body->call = NULL;
	if (answer->result == -ECANCELED) {
		end = reflect->frame_end;
		wait_ns = reflect->frame_status.retry_after_ns;
	} else if (answer->is_idle && scan_end(&body->scan, NULL) == 0) {
		/*
		 * Some servers send bookmarks only for resources that change, so this may be a
		 * quiet watch. If the connection is lost, the next watch fails.
		 */
		end = REFLECT_LOST;
		err.code = 0;
	} else if (answer->result < 0) {
		end = kube_reflect_answer_end(answer);
	} else if (scan_end(&body->scan, &err) < 0) {
		/*
		 * An incomplete frame at the end: the connection was lost, and the data is not
		 * garbled.
		 */
		end = REFLECT_LOST;
	}
	end_phase(reflect, end, wait_ns, &err);
}

static int start_body(struct body *body, enum scan_kind kind, const struct kube_request *request,
	struct error *err)
{
	const struct scan_handler handler = {
		.meta = kind == SCAN_LIST ? on_meta : NULL,
		.item = kind == SCAN_LIST ? on_item : kube_reflect_on_frame,
		.data = body,
	};
	int r;

	body->reflect->frame_error = (struct error){0};
	scan_init(&body->scan, kind, &handler);
	r = kube_call_start(body->reflect->client, request, &body->call, err);
	if (r < 0)
		scan_done(&body->scan);
	return r;
}

static int start_page(struct kube_reflect *reflect, struct str token, struct error *err)
{
	struct body *body = free_page(reflect);
	_cleanup_buf_ struct buf query = BUF_INIT(KUBE_URL_MAX);

	if (!reflect->state.is_unpaged)
		buf_addf(&query, "limit=%u", reflect->limit);
	if (token.n) {
		buf_add_text(&query, "&continue=");
		kube_url_escape(&query, token);
	}
	buf_add_text(&query, reflect->selectors);
	if (buf_error(&query))
		return fail(err, EMSGSIZE, "list %s: the URL is too long", reflect->path);
	reflect->counts.n_pages++;
	return start_body(body, SCAN_LIST,
		&(struct kube_request){
			.path = reflect->path,
			.query = buf_text(&query),
			.timeout_ns = REFLECT_PAGE_TIMEOUT_NS,
			.idle_ns = MIN(reflect->idle_ns, REFLECT_PAGE_IDLE_NS),
			.on_body = kube_reflect_on_bytes,
			.done = on_page_done,
			.data = body,
		},
		err);
}

static void start_list(struct kube_reflect *reflect)
{
	struct error err;
	int r;

	reflect->counts.n_lists++;
	reflect->has_version = false;
	buf_clear(&reflect->token);
	reflect->handler.begin(reflect->handler.data, reflect->state.is_replacing);
	r = start_page(reflect, STR(""), &err);
	if (r < 0)
		end_phase(reflect, REFLECT_LOST, 0, &err);
}

static void start_watch(struct kube_reflect *reflect)
{
	_cleanup_buf_ struct buf query = BUF_INIT(KUBE_URL_MAX);
	const uint64_t seconds = reflect->watch_min_s +
		rand_below(kube_client_rand(reflect->client), reflect->watch_min_s + 1);
	struct error err;
	int r;

	reflect->counts.n_watches++;
	buf_addf(&query, "watch=1&allowWatchBookmarks=true&timeoutSeconds=%llu&resourceVersion=",
		(unsigned long long)seconds);
	kube_url_escape(&query, str_from(reflect->version));
	buf_add_text(&query, reflect->selectors);
	r = start_body(&reflect->watch, SCAN_WATCH,
		&(struct kube_request){
			.path = reflect->path,
			.query = buf_text(&query),
			.idle_ns = reflect->idle_ns,
			.is_watch = true,
			.on_body = kube_reflect_on_bytes,
			.done = on_watch_done,
			.data = &reflect->watch,
		},
		&err);
	if (r < 0)
		end_phase(reflect, REFLECT_LOST, 0, &err);
}

static void kube_reflect_on_timer(struct loop_timer *timer, uint64_t now_ns)
{
	struct kube_reflect *reflect = timer->data;

	reflect->begun_ns = now_ns;
	if (reflect->state.phase == REFLECT_LIST)
		start_list(reflect);
	else
		start_watch(reflect);
}

static char *selectors_of(const struct kube_reflect_options *options)
{
	_cleanup_buf_ struct buf b = BUF_INIT(KUBE_URL_MAX);

	if (options->label_selector) {
		buf_add_text(&b, "&labelSelector=");
		kube_url_escape(&b, str_from(options->label_selector));
	}
	if (options->field_selector) {
		buf_add_text(&b, "&fieldSelector=");
		kube_url_escape(&b, str_from(options->field_selector));
	}
	return buf_error(&b) ? NULL : b.n ? buf_take(&b) : str_dup(STR(""));
}

int kube_reflect_start(struct kube_client *client, const struct kube_reflect_options *options,
	const struct kube_reflect_handler *handler, struct kube_reflect **ret_reflect,
	struct error *err)
{
	struct kube_reflect *reflect = calloc(1, sizeof(*reflect));

	if (!reflect)
		return fail(err, ENOMEM, "out of memory for a watch of %s", options->path);
	*reflect = (struct kube_reflect){
		.client = client,
		.handler = *handler,
		.path = str_dup(str_from(options->path)),
		.selectors = selectors_of(options),
		.limit = options->limit ? options->limit : REFLECT_LIMIT_DEFAULT,
		.watch_min_s = options->watch_min_s ? options->watch_min_s : REFLECT_WATCH_MIN_S,
		.idle_ns = options->idle_ns ? options->idle_ns : REFLECT_IDLE_NS,
		.timer.data = reflect,
		.token = BUF_INIT(TOKEN_MAX),
		.watch.reflect = reflect,
	};
	reflect_state_init(&reflect->state, options->max_pause_ns);
	for (size_t i = 0; i < PAGES; i++)
		reflect->pages[i].reflect = reflect;
	if (!reflect->path || !reflect->selectors ||
		loop_add_timer(kube_client_loop(client), &reflect->timer, kube_reflect_on_timer) <
			0) {
		kube_reflect_stop(reflect);
		return fail(err, ENOMEM, "out of memory for a watch of %s", options->path);
	}
	loop_set_timer(&reflect->timer, 0);
	*ret_reflect = reflect;
	return 0;
}

void kube_reflect_stop(struct kube_reflect *reflect)
{
	if (!reflect)
		return;
	for (size_t i = 0; i < PAGES; i++)
		body_drop(&reflect->pages[i]);
	body_drop(&reflect->watch);
	loop_remove_timer(&reflect->timer);
	buf_done(&reflect->token);
	free(reflect->path);
	free(reflect->selectors);
	free(reflect);
}

struct kube_reflect_counts kube_reflect_counts(const struct kube_reflect *reflect)
{
	return reflect->counts;
}
