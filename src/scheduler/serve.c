/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd runs inside our loop, as in the agent's metrics.c. A request that has to be asked
 * about at the API server is suspended until the answer is there.
 */
#include "scheduler/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <utlist.h>

#include "base/fd.h"
#include "base/parse.h"
#include "scheduler/certificate.h"
#include "scheduler/service-internal.h"

#define CONNECTIONS_MAX 64u
#define IDLE_S 30u
#define TEXT_MAX (1u << 20)
#define FILE_MAX (1u << 20)
#define TOKEN_MAX (64u << 10)

struct serve {
	struct service *service;
	struct MHD_Daemon *http;
	struct loop_io io;
	struct loop_timer timer;
	char *cert, *key;
	struct visit *visits;
};

/* A request that has been looked at. */
struct visit {
	struct visit *prev, *next;
	struct serve *serve;
	struct MHD_Connection *connection;
	struct kube_call *call;
	unsigned int status; /* of the answer; 0: not known yet */
	bool is_suspended;
};

/* ---- metrics ---- */

static void add(struct buf *out, const char *name, const char *type, const char *help, double value)
{
	buf_addf(out,
		"# HELP divvy_scheduler_%s %s\n# TYPE divvy_scheduler_%s %s\n"
		"divvy_scheduler_%s %.17g\n",
		name, help, name, type, name, value);
}

static void add_metrics(const struct service *s, struct buf *out)
{
	const struct kube_client_counts client = kube_client_counts(s->client);
	struct sched_counts n = {0};

	if (s->sched)
		n = sched_counts(s->sched);
	add(out, "leading", "gauge", "1 while it decides.", service_may_write(s));
	add(out, "epoch", "gauge", "Transitions of the Lease.", (double)s->epoch);
	add(out, "pods_active", "gauge", "Pods and groups whose turn it is.", n.pending.n_active);
	add(out, "pods_backing_off", "gauge", "Pods and groups that pause after a try.",
		n.pending.n_backing_off);
	add(out, "pods_unschedulable", "gauge", "Pods and groups that fit nowhere now.",
		n.pending.n_resting);
	add(out, "pods_holding", "gauge", "Pods that wait for others to leave their place.",
		n.n_holding);
	add(out, "binds_in_flight", "gauge", "Bindings under way.", s->n_binds);
	add(out, "decisions_total", "counter", "Pods looked at.", (double)n.n_decisions);
	add(out, "placed_total", "counter", "Decisions that found a place.", (double)n.n_placed);
	add(out, "unschedulable_total", "counter", "Decisions that found none.",
		(double)n.n_nowhere);
	add(out, "bound_total", "counter", "Bindings that were made.", (double)s->n_bound);
	add(out, "bind_failures_total", "counter", "Bindings that failed.",
		(double)n.n_bind_failures);
	add(out, "evictions_total", "counter", "Pods told to leave for others.",
		(double)n.n_evictions);
	add(out, "bind_seconds_sum", "counter", "Time that Bindings took, together.",
		(double)s->bind_ns / NSEC_PER_SEC);
	add(out, "decide_seconds_sum", "counter", "Time that decisions took, together.",
		(double)s->decide_ns / NSEC_PER_SEC);
	add(out, "api_requests_total", "counter", "Requests to the API server.",
		(double)client.n_tries);
	add(out, "api_failures_total", "counter", "Requests that failed.",
		(double)client.n_failures);
}

/* ---- answers ---- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned int status,
	const char *type, const struct buf *body)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		body->n, (void *)buf_text(body), MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_visit(struct visit *v)
{
	_cleanup_buf_ struct buf body = BUF_INIT(TEXT_MAX);

	if (v->status == MHD_HTTP_OK)
		add_metrics(v->serve->service, &body);
	else
		buf_add_text(&body, "a token of somebody who may get /metrics is needed\n");
	return answer(v->connection, v->status,
		v->status == MHD_HTTP_OK ? "text/plain; version=0.0.4; charset=utf-8"
					 : "text/plain",
		&body);
}

static void run(struct serve *serve)
{
	MHD_UNSIGNED_LONG_LONG timeout_ms = 0;

	MHD_run(serve->http);
	if (MHD_get_timeout(serve->http, &timeout_ms) == MHD_YES)
		loop_set_timer(&serve->timer, clock_now_ns() + timeout_ms * NSEC_PER_MSEC);
	else
		loop_cancel_timer(&serve->timer);
}

static void on_readable(struct loop_io *io, uint32_t events)
{
	run(io->data);
}

static void on_timer(struct loop_timer *timer, uint64_t now_ns)
{
	run(timer->data);
}

/* ---- who may see it ---- */

static void conclude(struct visit *v, unsigned int status)
{
	v->status = status;
	v->call = NULL;
	if (!v->is_suspended)
		return;
	v->is_suspended = false;
	MHD_resume_connection(v->connection);
	loop_set_timer(&v->serve->timer, clock_now_ns());
}

static void on_access(void *data, const struct kube_answer *a)
{
	_cleanup_json_ json_t *review = NULL;
	struct visit *v = data;

	if (a->result < 0 || kube_json_parse(a->body, &review, NULL) < 0)
		conclude(v, MHD_HTTP_SERVICE_UNAVAILABLE);
	else
		conclude(v,
			json_is_true(kube_json_at(review, "status", "allowed", NULL))
				? MHD_HTTP_OK
				: MHD_HTTP_FORBIDDEN);
}

static int ask(struct visit *v, const char *group_version, const char *resource,
	const json_t *review, kube_done_fn *done)
{
	const struct kube_write write = {.target = {group_version, resource, NULL, NULL, NULL},
		.done = done,
		.data = v,
		.ret_call = &v->call};

	return review ? kube_create(v->serve->service->client, &write, review, NULL) : -ENOMEM;
}

static void on_token(void *data, const struct kube_answer *a)
{
	_cleanup_json_ json_t *review = NULL, *access = NULL;
	struct visit *v = data;
	json_t *user;

	if (a->result < 0 || kube_json_parse(a->body, &review, NULL) < 0) {
		conclude(v, MHD_HTTP_SERVICE_UNAVAILABLE);
		return;
	}
	user = kube_json_at(review, "status", "user", NULL);
	if (!json_is_true(kube_json_at(review, "status", "authenticated", NULL)) || !user) {
		conclude(v, MHD_HTTP_UNAUTHORIZED);
		return;
	}
	access = json_pack("{ss, ss, s:{s:O, s:O*, s:O*, s:{ss, ss}}}", "apiVersion",
		"authorization.k8s.io/v1", "kind", "SubjectAccessReview", "spec", "user",
		json_object_get(user, "username"), "groups", json_object_get(user, "groups"), "uid",
		json_object_get(user, "uid"), "nonResourceAttributes", "path", "/metrics", "verb",
		"get");
	if (ask(v, "authorization.k8s.io/v1", "subjectaccessreviews", access, on_access) < 0)
		conclude(v, MHD_HTTP_SERVICE_UNAVAILABLE);
}

static void ask_for(struct visit *v)
{
	const char *header = MHD_lookup_connection_value(
		v->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
	struct str token = str_from(header);
	_cleanup_json_ json_t *review = NULL;

	if (!str_skip_prefix(&token, STR("Bearer ")) || token.n > TOKEN_MAX) {
		v->status = MHD_HTTP_UNAUTHORIZED;
		return;
	}
	review = json_pack("{ss, ss, s:{s:s%}}", "apiVersion", "authentication.k8s.io/v1", "kind",
		"TokenReview", "spec", "token", token.p, token.n);
	if (ask(v, "authentication.k8s.io/v1", "tokenreviews", review, on_token) < 0)
		v->status = MHD_HTTP_SERVICE_UNAVAILABLE;
}

/* ---- requests ---- */

static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **state)
{
	_cleanup_buf_ struct buf body = BUF_INIT(TEXT_MAX);
	struct serve *serve = data;
	struct visit *v = *state;

	if (v)
		return answer_visit(v);
	if (strcmp(method, MHD_HTTP_METHOD_GET)) {
		buf_add_text(&body, "GET\n");
		return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", &body);
	}
	if (!strcmp(url, "/healthz")) {
		buf_add_text(&body, "ok\n");
		return answer(connection, MHD_HTTP_OK, "text/plain", &body);
	}
	if (strcmp(url, "/metrics")) {
		buf_add_text(&body, "/metrics or /healthz\n");
		return answer(connection, MHD_HTTP_NOT_FOUND, "text/plain", &body);
	}
	v = calloc(1, sizeof(*v));
	if (!v)
		return MHD_NO;
	*v = (struct visit){.serve = serve, .connection = connection};
	DL_APPEND(serve->visits, v);
	*state = v;
	ask_for(v);
	if (v->status)
		return answer_visit(v);
	v->is_suspended = true;
	MHD_suspend_connection(connection);
	return MHD_YES;
}

static void on_completed(void *data, struct MHD_Connection *connection, void **state,
	enum MHD_RequestTerminationCode code)
{
	struct visit *v = *state;

	if (!v)
		return;
	kube_call_cancel(v->call);
	DL_DELETE(v->serve->visits, v);
	free(v);
	*state = NULL;
}

/* ---- the start ---- */

/* ":9444", "127.0.0.1:9444": of IPv4 and, where no address is named, of IPv6 as well. */
static int listen_at(const char *address, struct error *err)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
	struct str port = str_from(address);
	const bool is_local = str_skip_prefix(&port, STR("127.0.0.1:"));
	_cleanup_close_ int fd = -1;
	const int one = 1, zero = 0;
	uint64_t number;

	if ((!is_local && !str_skip_prefix(&port, STR(":"))) ||
		parse_uint(port, 1, 65535, &number, NULL) < 0)
		return fail(err, EINVAL, "--listen %s: expected :PORT or 127.0.0.1:PORT", address);
	any.sin6_port = htons((uint16_t)number);
	if (is_local) {
		/* The same as IPv6 has it. */
		any.sin6_addr = (struct in6_addr){
			{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}}};
	}
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
		bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0 || listen(fd, 64) < 0)
		return fail_errno(err, errno, "--listen %s", address);
	return TAKE_FD(fd);
}

static int read_pem(const char *path, char **ret, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
	int r = file_read(path, &text, err);

	if (r < 0)
		return r;
	*ret = buf_take(&text);
	return *ret ? 0 : fail(err, ENOMEM, "out of memory");
}

static int get_certificate(struct serve *serve, struct error *err)
{
	const struct options *o = serve->service->options;
	int r;

	if (!o->tls_cert)
		return certificate_make("divvy-scheduler", &serve->cert, &serve->key, err);
	r = read_pem(o->tls_cert, &serve->cert, err);
	return r < 0 ? r : read_pem(o->tls_key, &serve->key, err);
}

static int start(struct serve *serve, struct error *err)
{
	const char *address = serve->service->options->listen;
	const union MHD_DaemonInfo *info;
	int fd = listen_at(address, err);

	if (fd < 0)
		return fd;
	serve->http = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_TLS | MHD_ALLOW_SUSPEND_RESUME, 0,
		NULL, NULL, on_request, serve, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, serve, MHD_OPTION_CONNECTION_LIMIT,
		CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_HTTPS_MEM_CERT,
		serve->cert, MHD_OPTION_HTTPS_MEM_KEY, serve->key, MHD_OPTION_END);
	if (!serve->http) {
		fd_close(fd);
		return fail(err, EIO, "--listen %s: HTTPS did not start", address);
	}
	info = MHD_get_daemon_info(serve->http, MHD_DAEMON_INFO_EPOLL_FD);
	serve->io.data = serve->timer.data = serve;
	if (loop_add_timer(serve->service->loop, &serve->timer, on_timer) < 0 ||
		loop_add_io(
			serve->service->loop, &serve->io, info->epoll_fd, EPOLLIN, on_readable) < 0)
		return fail(err, ENOMEM, "out of memory");
	return 0;
}

int serve_new(struct service *service, struct serve **ret, struct error *err)
{
	struct serve *serve;
	int r;

	*ret = NULL;
	if (!service->options->listen[0])
		return 0;
	serve = calloc(1, sizeof(*serve));
	if (!serve)
		return fail(err, ENOMEM, "out of memory");
	serve->service = service;
	r = get_certificate(serve, err);
	r = r < 0 ? r : start(serve, err);
	if (r < 0) {
		serve_free(serve);
		return r;
	}
	*ret = serve;
	return 0;
}

void serve_free(struct serve *serve)
{
	struct visit *v;

	if (!serve)
		return;
	for (v = serve->visits; v; v = v->next) {
		kube_call_cancel(v->call);
		conclude(v, MHD_HTTP_SERVICE_UNAVAILABLE);
	}
	loop_remove_io(&serve->io);
	loop_remove_timer(&serve->timer);
	if (serve->http) {
		MHD_run(serve->http);
		MHD_stop_daemon(serve->http);
	}
	free(serve->cert);
	free(serve->key);
	free(serve);
}
