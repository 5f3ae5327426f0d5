/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call is waiting, running (it has an easy handle in a pool), or pausing before its next try.
 * Starts and cancellations take effect in kube_client_on_kick(). A timer calls that function, so it
 * never runs within a callback of libcurl. A cancelled call is marked as dead, and
 * kube_client_on_kick() frees it. One thread.
 */
#include "kube/kube-client.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "kube/credential.h"
#include "kube/kube-pool.h"
#include "kube/transfer.h"

#define EASY_KEEP 16u

enum pool_kind { POOL_CALLS, POOL_WATCHES, POOLS };
enum call_state { CALL_WAITING, CALL_RUNNING, CALL_PAUSING };

struct kube_call {
	struct kube_client *client;
	struct kube_call *prev, *next;
	struct kube_request request; /* its texts are copies */
	char *url, *path, *body;
	enum call_state state;
	bool is_dead;     /* cancelled: kube_client_on_kick() frees it */
	bool was_refused; /* the server has answered 401 */
	bool is_begun;    /* on_body was called */
	bool has_date;    /* the date of this try's answer has been read */
	struct transfer transfer;
	struct pool_lane *lane; /* lane of the present try */
	struct buf answer;
	int own_result; /* result of a try that this side has ended */
	char curl_error[CURL_ERROR_SIZE];
	uint64_t generation; /* generation of the credential that the try used */
	uint64_t deadline_ns, resume_ns, heard_ns;
	struct loop_timer timer;
	struct backoff backoff;
};

struct kube_client {
	struct loop *loop;
	const struct kube_config *config;
	struct kube_client_options options;
	char *user_agent;
	struct credential *credential;
	struct pool *pools[POOLS];
	struct kube_call *calls; /* all calls, the oldest first */
	struct loop_timer kick;
	struct rand rand;
	CURL *spare[EASY_KEEP];
	size_t n_spare;
	struct kube_client_counts counts;
	int64_t ahead_ns;  /* the server's real time minus this machine's */
	uint64_t asked_ns; /* time of the oldest unanswered request; 0: none */
};

static void kick_soon(struct kube_client *client)
{
	loop_set_timer(&client->kick, 0);
}

static struct pool *kube_client_pool(const struct kube_call *call)
{
	return call->client->pools[call->request.is_watch ? POOL_WATCHES : POOL_CALLS];
}

static void kube_call_set_state(struct kube_call *call, enum call_state state)
{
	uint32_t *running = &call->client->counts.n_running;

	if (!call->request.is_watch)
		*running += (uint32_t)(state == CALL_RUNNING) -
			(uint32_t)(call->state == CALL_RUNNING);
	call->state = state;
}

/* Ends the present try, if there is one. */
static void stop_try(struct kube_call *call)
{
	struct kube_client *client = call->client;
	CURL *easy = call->transfer.easy;

	if (easy) {
		pool_remove(call->lane, easy);
		if (client->n_spare < EASY_KEEP)
			client->spare[client->n_spare++] = easy;
		else
			curl_easy_cleanup(easy);
	}
	transfer_done(&call->transfer);
	buf_clear(&call->answer);
}

static void kube_call_free(struct kube_call *call)
{
	stop_try(call);
	kube_call_set_state(call, CALL_WAITING);
	DL_DELETE(call->client->calls, call);
	loop_remove_timer(&call->timer);
	buf_done(&call->answer);
	free(call->url);
	free(call->path);
	free(call->body);
	free(call);
}

static void kube_call_set_timer(struct kube_call *call)
{
	uint64_t at_ns = call->deadline_ns;

	if (call->state == CALL_PAUSING)
		at_ns = MIN(at_ns, call->resume_ns);
	if (call->state == CALL_RUNNING && call->request.idle_ns)
		at_ns = MIN(at_ns, clock_add_ns(call->heard_ns, call->request.idle_ns));
	if (at_ns == CLOCK_NEVER)
		loop_cancel_timer(&call->timer);
	else
		loop_set_timer(&call->timer, at_ns);
}

static void kube_call_done(struct kube_call *call, struct kube_answer *answer)
{
	kube_done_fn *done = call->request.done;
	void *data = call->request.data;
	struct buf body = call->answer;

	call->answer = BUF_INIT(KUBE_ANSWER_MAX);
	answer->body = answer->result == 0 ? buf_str(&body) : STR("");
	if (answer->result < 0)
		call->client->counts.n_failures++;
	kube_call_free(call);
	if (done)
		done(data, answer);
	buf_done(&body);
}

/* Whether the headers of the answer have arrived with status 2xx. */
static bool is_accepted(const struct kube_call *call)
{
	long http = 0;

	if (call->state == CALL_RUNNING)
		curl_easy_getinfo(call->transfer.easy, CURLINFO_RESPONSE_CODE, &http);
	return http >= 200 && http < 300;
}

static void fail_as(struct kube_call *call, int code, const char *what, bool is_idle)
{
	struct kube_answer answer = {.is_idle = is_idle};

	answer.result = fail(&answer.error, code, "%s %s: %s",
		kube_method_names[call->request.method], call->path, what);
	kube_call_done(call, &answer);
}

static void fail_call(struct kube_call *call, int code, const char *what)
{
	fail_as(call, code, what, false);
}

/* "403 Forbidden: ..." as an error. Returns -code. */
static int fail_by_status(struct error *err, int code, const struct kube_status *status)
{
	_cleanup_buf_ struct buf text = BUF_INIT(sizeof(*status));

	if (kube_status_format(status, &text) < 0)
		return fail(err, code, "%d", status->http);
	return fail(err, code, "%s", buf_text(&text));
}

static int explain_alone(const struct kube_answer *answer, struct error *err)
{
	return answer->status.http
		? fail_by_status(err, -answer->result, &answer->status)
		: fail(err, -answer->result, "the API server does not answer (%s)",
			  strerror(-answer->result));
}

int kube_answer_explain(const struct kube_answer *answer, const char *what, struct error *err)
{
	if (answer->result == 0)
		return 0;
	return fail_within(err, explain_alone(answer, err), "%s", what);
}

const char *kube_answer_sentence(const struct kube_answer *answer, struct error *room)
{
	const char *sentence = kube_status_sentence(&answer->status);

	if (sentence[0] || answer->result == 0)
		return sentence;
	explain_alone(answer, room);
	return room->msg;
}

/* Translates libcurl's result to an errno. */
static int code_of(CURLcode result)
{
	static const struct {
		CURLcode curl;
		int error;
	} table[] = {
		{CURLE_COULDNT_RESOLVE_HOST, EHOSTUNREACH},
		{CURLE_COULDNT_RESOLVE_PROXY, EHOSTUNREACH},
		{CURLE_COULDNT_CONNECT, ECONNREFUSED},
		{CURLE_OPERATION_TIMEDOUT, ETIMEDOUT},
		{CURLE_OUT_OF_MEMORY, ENOMEM},
		{CURLE_SSL_CONNECT_ERROR, EPROTO},
		{CURLE_PEER_FAILED_VERIFICATION, EKEYREJECTED},
		{CURLE_SSL_CERTPROBLEM, EKEYREJECTED},
		{CURLE_SSL_CACERT_BADFILE, EKEYREJECTED},
		{CURLE_SSL_ISSUER_ERROR, EKEYREJECTED},
		{CURLE_URL_MALFORMAT, EINVAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].curl == result)
			return table[i].error;
	return ECONNRESET;
}

static struct retry_outcome outcome_of(
	const struct kube_call *call, CURLcode result, const struct kube_status *status)
{
	return (struct retry_outcome){
		.http = result == CURLE_OK ? status->http : 0,
		.is_unsent = result == CURLE_COULDNT_RESOLVE_HOST ||
			result == CURLE_COULDNT_RESOLVE_PROXY || result == CURLE_COULDNT_CONNECT ||
			result == CURLE_SSL_CONNECT_ERROR,
		.is_answer_begun = call->is_begun,
		.retry_after_ns = status->retry_after_ns,
	};
}

/* Returns true if it has scheduled another try. */
static bool try_again(struct kube_call *call, CURLcode result, const struct kube_status *status)
{
	struct kube_client *client = call->client;
	const struct retry_outcome outcome = outcome_of(call, result, status);
	uint64_t resume_ns;

	if (call->own_result < 0 || code_of(result) == EKEYREJECTED)
		return false;
	if (outcome.http == 401 && !call->was_refused &&
		credential_refused(client->credential, call->generation)) {
		call->was_refused = true;
		resume_ns = clock_now_ns();
	} else if (retry_is_allowed(call->request.retry, &outcome) &&
		(result != CURLE_OK || status->http >= 300)) {
		resume_ns = clock_add_ns(
			clock_now_ns(), retry_delay_ns(&call->backoff, &client->rand, &outcome));
	} else {
		return false;
	}
	if (resume_ns >= call->deadline_ns)
		return false;
	client->counts.n_retries++;
	stop_try(call);
	kube_call_set_state(call, CALL_PAUSING);
	call->resume_ns = resume_ns;
	kube_call_set_timer(call);
	return true;
}

static int kube_call_describe(
	const struct kube_call *call, CURLcode result, struct kube_answer *answer)
{
	const struct kube_status *status = &answer->status;
	const char *method = kube_method_names[call->request.method];
	const char *what = call->curl_error[0] ? call->curl_error : curl_easy_strerror(result);

	if (call->own_result < 0)
		return fail(&answer->error, -call->own_result, "%s %s: %s", method, call->path,
			call->own_result == -ECANCELED          ? "not sent"
				: call->own_result == -EMSGSIZE ? "the answer is too large"
								: "the answer was refused");
	if (result != CURLE_OK)
		return fail(&answer->error, code_of(result), "%s %s: %s", method, call->path, what);
	if (kube_status_errno(status) < 0)
		return fail_within(&answer->error,
			fail_by_status(&answer->error, -kube_status_errno(status), status), "%s %s",
			method, call->path);
	return 0;
}

static void kube_call_read_status(struct kube_call *call, struct kube_status *ret_status)
{
	curl_off_t wait_s = 0;
	long http = 0;

	curl_easy_getinfo(call->transfer.easy, CURLINFO_RESPONSE_CODE, &http);
	curl_easy_getinfo(call->transfer.easy, CURLINFO_RETRY_AFTER, &wait_s);
	if (http >= 300)
		kube_status_parse((int)http, buf_str(&call->answer), ret_status);
	else
		*ret_status = (struct kube_status){.http = (int)http};
	if (wait_s > 0)
		ret_status->retry_after_ns = (uint64_t)MIN(wait_s, 86400) * NSEC_PER_SEC;
}

static void kube_client_on_done(void *data, CURL *easy, CURLcode result)
{
	struct kube_call *call = NULL;
	struct kube_answer answer = {0};

	curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
	if (call->is_dead)
		return;
	kube_call_read_status(call, &answer.status);
	kick_soon(call->client);
	if (try_again(call, result, &answer.status))
		return;
	if (result != CURLE_OK && call->own_result == 0)
		answer.status.http = 0;
	answer.result = kube_call_describe(call, result, &answer);
	kube_call_done(call, &answer);
}

/* Reads the time at which the server began to answer, to the second. */
static void read_date(struct kube_call *call)
{
	struct curl_header *date;
	time_t at_s;

	if (curl_easy_header(call->transfer.easy, "Date", 0, CURLH_HEADER, -1, &date) != CURLHE_OK)
		return;
	at_s = curl_getdate(date->value, NULL);
	if (at_s > 0)
		call->client->ahead_ns = at_s * (int64_t)NSEC_PER_SEC - (int64_t)clock_real_ns();
}

uint64_t kube_client_real_ns(const struct kube_client *client)
{
	return clock_real_ns() + (uint64_t)client->ahead_ns;
}

uint64_t kube_client_silence_ns(const struct kube_client *client)
{
	return client->asked_ns ? clock_since_ns(clock_now_ns(), client->asked_ns) : 0;
}

static size_t kube_client_on_bytes(char *p, size_t size, size_t n, void *data)
{
	struct kube_call *call = data;
	const struct str bytes = {p, size * n};
	long http = 0;
	int r;

	if (call->is_dead)
		return 0;
	call->heard_ns = clock_now_ns();
	if (!call->has_date)
		read_date(call);
	call->has_date = true;
	curl_easy_getinfo(call->transfer.easy, CURLINFO_RESPONSE_CODE, &http);
	if (http < 500)
		call->client->asked_ns = 0;
	if (call->request.on_body && http >= 200 && http < 300) {
		call->is_begun = true;
		r = call->request.on_body(call->request.data, bytes);
	} else {
		r = buf_add(&call->answer, bytes);
	}
	if (r < 0 && !call->is_dead)
		call->own_result = r;
	return r < 0 || call->is_dead ? bytes.n + 1 : bytes.n;
}

static bool kube_call_may_send(const struct kube_call *call)
{
	return !call->request.may_send || call->request.may_send(call->request.data);
}

/*
 * Checks kube_call_may_send again: connecting may have taken long, or this process was stopped
 * meanwhile.
 */
static int on_connected(void *data, char *peer_ip, char *local_ip, int peer_port, int local_port)
{
	struct kube_call *call = data;

	if (!call->is_dead && kube_call_may_send(call))
		return CURL_PREREQFUNC_OK;
	call->own_result = -ECANCELED;
	return CURL_PREREQFUNC_ABORT;
}

/* A reset easy handle; NULL when out of memory. */
static CURL *easy_take(struct kube_client *client)
{
	CURL *easy = client->n_spare ? client->spare[--client->n_spare] : curl_easy_init();

	if (easy)
		curl_easy_reset(easy);
	return easy;
}

static int start_try(struct kube_call *call, const struct credential_view *view)
{
	struct kube_client *client = call->client;
	CURL *easy;
	int r;

	if (!kube_call_may_send(call))
		return -ECANCELED;
	easy = easy_take(client);
	if (!easy)
		return -ENOMEM;
	call->transfer.easy = easy;
	r = transfer_prepare(&call->transfer, client->config, view, &call->request, call->url);
	call->curl_error[0] = '\0';
	call->has_date = false;
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
		client->options.is_http1 ? (long)CURL_HTTP_VERSION_1_1
					 : (long)CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, client->user_agent);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->curl_error);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, kube_client_on_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	if (call->request.may_send) {
		curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
		curl_easy_setopt(easy, CURLOPT_PREREQDATA, call);
	}
	if (r == 0)
		r = pool_add(kube_client_pool(call), easy, &call->lane);
	if (r < 0) {
		/* The handle was never in the pool. */
		curl_easy_cleanup(easy);
		call->transfer.easy = NULL;
		return r;
	}
	client->counts.n_tries++;
	/* A server answers a watch only when an object changes, so asked_ns ignores watches. */
	if (!client->asked_ns && !call->request.is_watch)
		client->asked_ns = clock_now_ns();
	call->generation = view->generation;
	call->heard_ns = clock_now_ns();
	kube_call_set_state(call, CALL_RUNNING);
	kube_call_set_timer(call);
	return 0;
}

static bool kube_client_has_room(const struct kube_client *client, const struct kube_call *call)
{
	return call->request.is_watch || client->counts.n_running < client->options.max_in_flight;
}

static struct kube_call *next_waiting(struct kube_client *client)
{
	struct kube_call *call;

	DL_FOREACH(client->calls, call)
		if (!call->is_dead && call->state == CALL_WAITING &&
			kube_client_has_room(client, call))
			return call;
	return NULL;
}

static void kube_client_free_dead(struct kube_client *client)
{
	struct kube_call *call, *next;

	DL_FOREACH_SAFE(client->calls, call, next)
		if (call->is_dead)
			kube_call_free(call);
}

static void kube_client_on_kick(struct loop_timer *timer, uint64_t now_ns)
{
	struct kube_client *client = timer->data;
	struct credential_view view;
	struct error err;
	struct kube_call *call;
	int r;

	kube_client_free_dead(client);
	/* Restarts the search each time, because `done` of a failed call may change the list. */
	while ((call = next_waiting(client))) {
		r = credential_get(client->credential, &view, &err);
		if (r == -EAGAIN)
			return;
		if (r == 0) {
			r = start_try(call, &view);
			if (r < 0)
				fail_call(call, -r, "not sent");
		} else {
			fail_call(call, -r, err.msg);
		}
	}
}

static void on_call_timer(struct loop_timer *timer, uint64_t now_ns)
{
	struct kube_call *call = timer->data;
	struct kube_client *client = call->client;
	const char *what = "no answer before the time limit";
	bool is_idle = false;

	if (call->state == CALL_RUNNING && call->request.idle_ns && now_ns < call->deadline_ns) {
		if (now_ns < clock_add_ns(call->heard_ns, call->request.idle_ns)) {
			kube_call_set_timer(call);
			return;
		}
		what = "no data for too long";
		is_idle = is_accepted(call);
	} else if (now_ns < call->deadline_ns) {
		kube_call_set_state(call, CALL_WAITING);
		kube_call_set_timer(call);
		kick_soon(client);
		return;
	}
	/* The connection may be dead: new calls should not use it. */
	if (call->state == CALL_RUNNING)
		pool_renew(kube_client_pool(call), call->lane);
	kick_soon(client);
	fail_as(call, ETIMEDOUT, what, is_idle);
}

static void on_credential(void *data)
{
	kick_soon(data);
}

static int copy_request(
	struct kube_call *call, const struct kube_request *request, struct error *err)
{
	const char *query = request->query ? request->query : "";
	_cleanup_buf_ struct buf url = BUF_INIT(KUBE_URL_MAX);

	if (!request->path || request->path[0] != '/')
		return fail(err, EINVAL, "'%s': a path begins with /", request->path);
	buf_addf(&url, "%s%s%s%s", call->client->config->server, request->path, query[0] ? "?" : "",
		query);
	if (buf_error(&url) == -EMSGSIZE)
		return fail(err, EINVAL, "'%.64s...': more than %u bytes of URL", request->path,
			KUBE_URL_MAX);
	call->request = *request;
	call->url = buf_take(&url);
	call->path = str_dup(str_from(request->path));
	call->body = str_dup(request->body);
	if (!call->url || !call->path || !call->body)
		return fail(err, ENOMEM, "out of memory for a request");
	call->request.path = call->path;
	call->request.query = NULL;
	call->request.body.p = call->body;
	return 0;
}

int kube_call_start(struct kube_client *client, const struct kube_request *request,
	struct kube_call **ret_call, struct error *err)
{
	const uint64_t timeout_ns = request->timeout_ns ? request->timeout_ns
							: KUBE_TIMEOUT_DEFAULT_NS;
	struct kube_call *call = calloc(1, sizeof(*call));
	int r;

	if (!call)
		return fail(err, ENOMEM, "out of memory for a request");
	*call = (struct kube_call){.client = client,
		.answer = BUF_INIT(KUBE_ANSWER_MAX),
		.timer.data = call,
		.backoff = {.base_ns = 100 * NSEC_PER_MSEC, .max_ns = 10 * NSEC_PER_SEC}};
	DL_APPEND(client->calls, call);
	r = copy_request(call, request, err);
	if (r == 0) {
		r = loop_add_timer(client->loop, &call->timer, on_call_timer);
		if (r < 0)
			fail(err, -r, "out of memory for a request");
	}
	if (r < 0) {
		kube_call_free(call);
		return r;
	}
	call->deadline_ns = request->is_watch ? CLOCK_NEVER
					      : clock_add_ns(clock_now_ns(), timeout_ns);
	kube_call_set_timer(call);
	kick_soon(client);
	if (ret_call)
		*ret_call = call;
	return 0;
}

void kube_call_cancel(struct kube_call *call)
{
	if (!call)
		return;
	call->is_dead = true;
	loop_remove_timer(&call->timer);
	kick_soon(call->client);
}

static int make_parts(struct kube_client *client, struct error *err)
{
	const struct pool_options calls = {
		.max_connections = client->options.max_connections,
		.max_streams = KUBE_STREAMS_MAX,
	};
	const struct pool_options watches = {.max_streams = KUBE_STREAMS_MAX};
	int r = credential_new(
		client->loop, client->config, on_credential, client, &client->credential, err);

	if (r < 0)
		return r;
	r = loop_add_timer(client->loop, &client->kick, kube_client_on_kick);
	if (r == 0)
		r = pool_new(client->loop, &calls, kube_client_on_done, client,
			&client->pools[POOL_CALLS]);
	if (r == 0)
		r = pool_new(client->loop, &watches, kube_client_on_done, client,
			&client->pools[POOL_WATCHES]);
	if (r == 0 && client->options.seed == 0)
		r = random_bytes(&client->options.seed, sizeof(client->options.seed));
	client->rand = rand_seeded(client->options.seed);
	return r < 0 ? fail_errno(err, -r, "a client of %s", client->config->server) : 0;
}

int kube_client_new(struct loop *loop, const struct kube_config *config,
	const struct kube_client_options *options, struct kube_client **ret_client,
	struct error *err)
{
	_cleanup_kube_client_ struct kube_client *client = calloc(1, sizeof(*client));
	static bool is_ready;
	int r;

	if (!is_ready && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return fail(err, ENOMEM, "libcurl does not start");
	is_ready = true;
	if (!client)
		return fail(err, ENOMEM, "out of memory for a client");
	*client = (struct kube_client){.loop = loop, .config = config, .kick.data = client};
	if (options)
		client->options = *options;
	if (!client->options.max_in_flight)
		client->options.max_in_flight = KUBE_IN_FLIGHT_DEFAULT;
	client->user_agent = str_dup(str_from(
		client->options.user_agent ? client->options.user_agent : "divvy/" DIVVY_VERSION));
	if (!client->user_agent)
		return fail(err, ENOMEM, "out of memory for a client");
	r = make_parts(client, err);
	if (r < 0)
		return r;
	*ret_client = TAKE_PTR(client);
	return 0;
}

void kube_client_free(struct kube_client *client)
{
	struct kube_call *call, *next;

	if (!client)
		return;
	DL_FOREACH_SAFE(client->calls, call, next)
		kube_call_free(call);
	for (size_t i = 0; i < client->n_spare; i++)
		curl_easy_cleanup(client->spare[i]);
	for (size_t i = 0; i < POOLS; i++)
		pool_free(client->pools[i]);
	loop_remove_timer(&client->kick);
	credential_free(client->credential);
	free(client->user_agent);
	free(client);
}

struct loop *kube_client_loop(const struct kube_client *client)
{
	return client->loop;
}

struct rand *kube_client_rand(struct kube_client *client)
{
	return &client->rand;
}

struct kube_client_counts kube_client_counts(const struct kube_client *client)
{
	struct kube_client_counts counts = client->counts;
	struct kube_call *call;

	DL_FOREACH(client->calls, call)
		counts.n_waiting += !call->is_dead && call->state != CALL_RUNNING;
	return counts;
}

int kube_url_escape(struct buf *b, struct str text)
{
	for (size_t i = 0; i < text.n; i++) {
		const unsigned char c = (unsigned char)text.p[i];

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			(c && strchr("-._~", c)))
			buf_add_byte(b, (char)c);
		else
			buf_addf(b, "%%%02X", c);
	}
	return buf_error(b);
}
