/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round asks for /version, and for each group and version in apis.def, in parallel. 404 for a
 * group is an answer: the server does not have it. A failed round changes nothing and is repeated
 * with a growing pause. One thread.
 */
#include "kube/discovery.h"

#include <errno.h>
#include <stdlib.h>

const struct kube_api_row kube_api_rows[] = {
#define KUBE_API(name, ...) {KUBE_##name, KUBE_ROW(false, __VA_ARGS__)},
#define KUBE_ALSO(name, ...) {KUBE_##name, KUBE_ROW(false, __VA_ARGS__)},
#define KUBE_OWN(name, ...) {KUBE_##name, KUBE_ROW(true, __VA_ARGS__)},
#define KUBE_OWN_ALSO(name, ...) {KUBE_##name, KUBE_ROW(true, __VA_ARGS__)},
#define KUBE_ROW(own, gv, resource, kind, namespaced, first, last) \
	gv, resource, kind, namespaced, own, first, last
#define KUBE_FIELD(...)
#include "kube/apis.def"
};
const size_t kube_n_api_rows = ARRAY_SIZE(kube_api_rows);
_Static_assert(ARRAY_SIZE(kube_api_rows) <= KUBE_API_ROWS_MAX, "more rows than are kept");

const struct kube_field_row kube_field_rows[KUBE_N_FIELDS] = {
#define KUBE_API(...)
#define KUBE_ALSO(...)
#define KUBE_OWN(...)
#define KUBE_OWN_ALSO(...)
#define KUBE_FIELD(name, of, field, first, last) \
	[KUBE_FIELD_##name] = {KUBE_##of, field, first, last},
#include "kube/apis.def"
};

/* One request of a round: see the head of this file. */
struct question {
	struct kube_discovery *discovery;
	const char *group_version; /* NULL: /version */
	struct kube_call *call;
};

struct kube_discovery {
	struct kube_client *client;
	kube_discovery_fn *changed;
	void *data;
	struct kube_served served, next;
	bool is_known, is_asking, is_wanted;
	struct question questions[KUBE_API_ROWS_MAX + 1];
	size_t n_questions, n_open;
	struct loop_timer timer;
	int failure; /* first failure of the present round, or 0 */
	struct error why;
	struct backoff backoff;
};

int kube_served_add(struct kube_served *served, const char *group_version, const json_t *list)
{
	const json_t *resources = json_object_get(list, "resources");

	if (!json_is_array(resources))
		return -EBADMSG;
	for (size_t i = 0; i < json_array_size(resources); i++) {
		const json_t *resource = json_array_get(resources, i);
		const char *name = kube_json_text_at(resource, "name", NULL);
		const char *version = kube_json_text_at(resource, "version", NULL);

		if (!name)
			return -EBADMSG;
		if (!strcmp(group_version, "v1") && !strcmp(name, "pods/eviction"))
			served->has_eviction_v1 = version && !strcmp(version, "v1");
		for (size_t row = 0; row < kube_n_api_rows; row++)
			if (!strcmp(kube_api_rows[row].group_version, group_version) &&
				!strcmp(kube_api_rows[row].resource, name))
				served->has[row] = true;
	}
	return 0;
}

void kube_served_set_version(struct kube_served *served, const json_t *version)
{
	const char *minor = kube_json_text_at(version, "minor", NULL);

	served->minor = KUBE_MINOR_UNKNOWN;
	for (; minor && *minor >= '0' && *minor <= '9' && served->minor < 10000; minor++)
		served->minor = served->minor * 10 + (*minor - '0');
}

const struct kube_api_row *kube_served_find(const struct kube_served *served, enum kube_api api)
{
	for (size_t row = 0; row < kube_n_api_rows; row++)
		if (kube_api_rows[row].api == api && served->has[row])
			return &kube_api_rows[row];
	return NULL;
}

bool kube_served_has_field(const struct kube_served *served, enum kube_field field)
{
	const struct kube_field_row *row = &kube_field_rows[field];

	return served->minor >= row->first_minor &&
		(!row->last_minor || served->minor <= row->last_minor);
}

static void end_round(struct kube_discovery *d)
{
	const struct error why = d->why;
	const int r = d->failure;

	d->is_asking = false;
	if (r == 0) {
		d->served = d->next;
		d->is_known = true;
		backoff_reset(&d->backoff);
	}
	if (r < 0)
		loop_set_timer(&d->timer,
			clock_now_ns() + backoff_next_ns(&d->backoff, kube_client_rand(d->client)));
	else if (d->is_wanted)
		loop_set_timer(&d->timer, clock_now_ns() + KUBE_DISCOVERY_PAUSE_NS);
	if (d->changed)
		d->changed(d->data, r, &why);
}

static int kube_discovery_read_answer(
	struct question *q, const struct kube_answer *answer, struct error *err)
{
	struct kube_discovery *d = q->discovery;
	_cleanup_json_ json_t *json = NULL;
	int r;

	if (answer->result == -ENOENT && q->group_version)
		return 0;
	if (answer->result < 0)
		return fail(err, -answer->result, "%s", answer->error.msg);
	r = kube_json_parse(answer->body, &json, err);
	if (r < 0)
		return r;
	if (!q->group_version) {
		kube_served_set_version(&d->next, json);
		return 0;
	}
	r = kube_served_add(&d->next, q->group_version, json);
	return r < 0 ? fail(err, -r, "%s: no APIResourceList", q->group_version) : 0;
}

static void kube_discovery_on_answer(void *data, const struct kube_answer *answer)
{
	struct question *q = data;
	struct kube_discovery *d = q->discovery;
	struct error err;
	int r = kube_discovery_read_answer(q, answer, &err);

	q->call = NULL;
	if (r < 0 && d->failure == 0) {
		d->failure = r;
		d->why = err;
	}
	if (--d->n_open == 0)
		end_round(d);
}

static int kube_discovery_send_question(struct question *q, struct error *err)
{
	_cleanup_buf_ struct buf path = BUF_INIT(256);

	if (q->group_version)
		buf_addf(&path, "%s/%s", strchr(q->group_version, '/') ? "/apis" : "/api",
			q->group_version);
	else
		buf_add_text(&path, "/version");
	return kube_call_start(q->discovery->client,
		&(struct kube_request){.path = buf_text(&path),
			.retry = RETRY_IDEMPOTENT,
			.done = kube_discovery_on_answer,
			.data = q},
		&q->call, err);
}

static void begin_round(struct loop_timer *timer, uint64_t now_ns)
{
	struct kube_discovery *d = timer->data;
	struct error err;

	d->is_asking = true;
	d->is_wanted = false;
	d->failure = 0;
	d->next = (struct kube_served){0};
	/*
	 * Counts one open question too many at first, so that a question that fails at once cannot
	 * end the round.
	 */
	d->n_open = 1;
	for (size_t i = 0; i < d->n_questions; i++) {
		if (kube_discovery_send_question(&d->questions[i], &err) < 0) {
			d->failure = -err.code;
			d->why = err;
			continue;
		}
		d->n_open++;
	}
	if (--d->n_open == 0)
		end_round(d);
}

static bool kube_discovery_is_queried(const struct kube_discovery *d, const char *group_version)
{
	for (size_t i = 1; i < d->n_questions; i++)
		if (!strcmp(d->questions[i].group_version, group_version))
			return true;
	return false;
}

int kube_discovery_new(struct kube_client *client, kube_discovery_fn *changed, void *data,
	struct kube_discovery **ret_discovery, struct error *err)
{
	struct kube_discovery *d = calloc(1, sizeof(*d));

	if (!d)
		return fail(err, ENOMEM, "out of memory for discovery");
	*d = (struct kube_discovery){.client = client,
		.changed = changed,
		.data = data,
		.timer.data = d,
		.backoff = {.base_ns = 500 * NSEC_PER_MSEC, .max_ns = 30 * NSEC_PER_SEC}};
	d->questions[d->n_questions++] = (struct question){.discovery = d};
	for (size_t row = 0; row < kube_n_api_rows; row++)
		if (!kube_discovery_is_queried(d, kube_api_rows[row].group_version))
			d->questions[d->n_questions++] = (struct question){
				.discovery = d, .group_version = kube_api_rows[row].group_version};
	if (loop_add_timer(kube_client_loop(client), &d->timer, begin_round) < 0) {
		free(d);
		return fail(err, ENOMEM, "out of memory for discovery");
	}
	loop_set_timer(&d->timer, 0);
	*ret_discovery = d;
	return 0;
}

void kube_discovery_free(struct kube_discovery *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n_questions; i++)
		kube_call_cancel(d->questions[i].call);
	loop_remove_timer(&d->timer);
	free(d);
}

void kube_discovery_refresh(struct kube_discovery *d)
{
	if (!d->is_asking && !d->is_wanted)
		loop_set_timer(&d->timer, clock_now_ns() + KUBE_DISCOVERY_PAUSE_NS);
	d->is_wanted = true;
}

const struct kube_api_row *kube_discovery_find(const struct kube_discovery *d, enum kube_api api)
{
	return d->is_known ? kube_served_find(&d->served, api) : NULL;
}

bool kube_discovery_has_row(const struct kube_discovery *d, const struct kube_api_row *row)
{
	return d->is_known && d->served.has[row - kube_api_rows];
}

bool kube_discovery_has_field(const struct kube_discovery *d, enum kube_field field)
{
	return d->is_known && kube_served_has_field(&d->served, field);
}

int kube_discovery_minor(const struct kube_discovery *d)
{
	return d->is_known ? d->served.minor : KUBE_MINOR_UNKNOWN;
}

const char *kube_discovery_eviction(const struct kube_discovery *d)
{
	return d->served.has_eviction_v1 ? "policy/v1" : "policy/v1beta1";
}
