/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd inside our loop, as in metrics.c. A request for /metrics is suspended until the API
 * server has answered twice: who is it, and may he.
 */
#include "agent/node-serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/metrics.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/rand.h"
#include "kube/json.h"

#define TEXT_MAX (16u << 20)
#define PEM_MAX 4096
#define REVIEW_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define CERTIFICATE_S (10 * 365 * 86400)

struct visit {
	LIST_ENTRY(visit) link;
	struct serve *serve;
	struct MHD_Connection *connection;
	struct kube_call *call;
	unsigned int status; /* 0: not known yet */
};

struct serve {
	struct agent *agent;
	struct kube_client *client;
	struct MHD_Daemon *http;
	struct loop_io io;
	struct loop_timer timer;
	LIST_HEAD(, visit) visits;
	char cert[PEM_MAX], key[PEM_MAX];
};

static void run(struct serve *s)
{
	MHD_UNSIGNED_LONG_LONG timeout_ms = 0;

	MHD_run(s->http);
	if (MHD_get_timeout(s->http, &timeout_ms) == MHD_YES)
		loop_set_timer(&s->timer, clock_now_ns() + timeout_ms * NSEC_PER_MSEC);
	else
		loop_cancel_timer(&s->timer);
}

static void on_readable(struct loop_io *io, uint32_t events)
{
	run(io->data);
}

static void on_timer(struct loop_timer *timer, uint64_t now)
{
	run(timer->data);
}

/* ---- who may ---- */

/* The connection goes on in the loop's next turn, and is answered with that. */
static void decide(struct visit *v, unsigned int status)
{
	v->status = status;
	MHD_resume_connection(v->connection);
	loop_set_timer(&v->serve->timer, 0);
}

static int post(struct visit *v, const char *path, json_t *object, kube_done_fn *done)
{
	_cleanup_free_ char *text = object ? kube_json_format(object) : NULL;
	const struct kube_request request = {
		.method = KUBE_POST,
		.path = path,
		.body = str_from(text),
		.timeout_ns = REVIEW_TIMEOUT_NS,
		.retry = RETRY_IDEMPOTENT,
		.done = done,
		.data = v,
	};

	json_decref(object);
	return text ? kube_call_start(v->serve->client, &request, &v->call, NULL) : -ENOMEM;
}

static void on_access(void *data, const struct kube_answer *answer)
{
	_cleanup_json_ json_t *json = NULL;
	struct visit *v = data;

	v->call = NULL;
	if (answer->result < 0 || kube_json_parse(answer->body, &json, NULL) < 0)
		decide(v, MHD_HTTP_SERVICE_UNAVAILABLE);
	else
		decide(v,
			json_is_true(kube_json_at(json, "status", "allowed", NULL))
				? MHD_HTTP_OK
				: MHD_HTTP_FORBIDDEN);
}

static void on_token(void *data, const struct kube_answer *answer)
{
	_cleanup_json_ json_t *json = NULL;
	struct visit *v = data;
	json_t *user;
	const char *name;
	int r;

	v->call = NULL;
	if (answer->result < 0 || kube_json_parse(answer->body, &json, NULL) < 0) {
		decide(v, MHD_HTTP_SERVICE_UNAVAILABLE);
		return;
	}
	user = kube_json_at(json, "status", "user", NULL);
	name = kube_json_text_at(user, "username", NULL);
	if (!json_is_true(kube_json_at(json, "status", "authenticated", NULL)) || !name) {
		decide(v, MHD_HTTP_UNAUTHORIZED);
		return;
	}
	r = post(v, "/apis/authorization.k8s.io/v1/subjectaccessreviews",
		json_pack("{s:s, s:s, s:{s:s, s:s*, s:O*, s:O*, s:{s:s, s:s}}}", "apiVersion",
			"authorization.k8s.io/v1", "kind", "SubjectAccessReview", "spec", "user",
			name, "uid", kube_json_text_at(user, "uid", NULL), "groups",
			json_object_get(user, "groups"), "extra", json_object_get(user, "extra"),
			"nonResourceAttributes", "path", "/metrics", "verb", "get"),
		on_access);
	if (r < 0)
		decide(v, MHD_HTTP_SERVICE_UNAVAILABLE);
}

static unsigned int ask(struct visit *v, const char *authorization)
{
	struct str token = str_from(authorization);

	if (!str_skip_prefix(&token, STR("Bearer ")) || !token.n || token.n > SERVE_TOKEN_MAX)
		return MHD_HTTP_UNAUTHORIZED;
	if (post(v, "/apis/authentication.k8s.io/v1/tokenreviews",
		    json_pack("{s:s, s:s, s:{s:s%}}", "apiVersion", "authentication.k8s.io/v1",
			    "kind", "TokenReview", "spec", "token", token.p, token.n),
		    on_token) < 0)
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	MHD_suspend_connection(v->connection);
	return 0;
}

/* ---- HTTP ---- */

static enum MHD_Result answer(
	struct MHD_Connection *connection, unsigned int status, struct str text)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		text.n, (void *)(uintptr_t)text.p, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(
		response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_metrics(struct visit *v)
{
	_cleanup_buf_ struct buf body = BUF_INIT(TEXT_MAX);

	switch (v->status) {
	case MHD_HTTP_OK:
		if (metrics_format(v->serve->agent, &body) >= 0)
			return answer(v->connection, MHD_HTTP_OK, buf_str(&body));
		return answer(v->connection, MHD_HTTP_INTERNAL_SERVER_ERROR, STR("no memory\n"));
	case MHD_HTTP_UNAUTHORIZED:
		return answer(v->connection, v->status, STR("a bearer token of the cluster's\n"));
	case MHD_HTTP_FORBIDDEN:
		return answer(v->connection, v->status, STR("who may get /metrics may\n"));
	default: return answer(v->connection, v->status, STR("the API server does not say\n"));
	}
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **state)
{
	struct serve *s = data;
	struct visit *v = *state;

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
		return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, STR("GET\n"));
	if (!strcmp(url, "/healthz"))
		return answer(connection, MHD_HTTP_OK, STR("ok\n"));
	if (strcmp(url, "/metrics") != 0)
		return answer(connection, MHD_HTTP_NOT_FOUND, STR("/metrics or /healthz\n"));
	if (!v) {
		v = calloc(1, sizeof(*v));
		if (!v)
			return MHD_NO;
		*state = v;
		v->serve = s;
		v->connection = connection;
		LIST_INSERT_HEAD(&s->visits, v, link);
		v->status = ask(v,
			MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"));
	}
	return v->status ? answer_metrics(v) : MHD_YES;
}

static void on_completed(void *data, struct MHD_Connection *connection, void **state,
	enum MHD_RequestTerminationCode code)
{
	struct visit *v = *state;

	if (!v)
		return;
	kube_call_cancel(v->call);
	LIST_REMOVE(v, link);
	free(v);
	*state = NULL;
}

/* ---- the certificate ---- */

static int fill(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key, const char *name)
{
	const time_t now = (time_t)(clock_real_ns() / NSEC_PER_SEC);
	uint8_t serial[16];
	int r = random_bytes(serial, sizeof(serial));

	serial[0] &= 0x7f;
	if (r >= 0)
		r = gnutls_x509_crt_set_version(crt, 3);
	if (r >= 0)
		r = gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
	if (r >= 0)
		r = gnutls_x509_crt_set_activation_time(crt, now - 3600);
	if (r >= 0)
		r = gnutls_x509_crt_set_expiration_time(crt, now + CERTIFICATE_S);
	if (r >= 0)
		r = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, "divvyd", 6);
	if (r >= 0)
		r = gnutls_x509_crt_set_subject_alt_name(
			crt, GNUTLS_SAN_DNSNAME, name, (unsigned int)strlen(name), GNUTLS_FSAN_SET);
	if (r >= 0)
		r = gnutls_x509_crt_set_key(crt, key);
	return r < 0 ? r : gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0);
}

static int make_certificate(struct serve *s, const char *name, struct error *err)
{
	gnutls_x509_privkey_t key = NULL;
	gnutls_x509_crt_t crt = NULL;
	size_t n_cert = sizeof(s->cert) - 1, n_key = sizeof(s->key) - 1;
	int r = gnutls_x509_privkey_init(&key);

	if (r >= 0)
		r = gnutls_x509_privkey_generate(
			key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
	if (r >= 0)
		r = gnutls_x509_crt_init(&crt);
	if (r >= 0)
		r = fill(crt, key, name);
	if (r >= 0)
		r = gnutls_x509_crt_export(crt, GNUTLS_X509_FMT_PEM, s->cert, &n_cert);
	if (r >= 0)
		r = gnutls_x509_privkey_export(key, GNUTLS_X509_FMT_PEM, s->key, &n_key);
	if (crt)
		gnutls_x509_crt_deinit(crt);
	if (key)
		gnutls_x509_privkey_deinit(key);
	return r < 0 ? fail(err, EIO, "no certificate: %s", gnutls_strerror(r)) : 0;
}

/* ---- start and end ---- */

static int parse_address(const char *text, struct sockaddr_in6 *ret, struct error *err)
{
	const char *colon = strrchr(text, ':');
	struct str host = {text, colon ? (size_t)(colon - text) : 0};
	char name[64], mapped[80];
	uint64_t port;

	*ret = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
	if (!colon || parse_uint(str_from(colon + 1), 1, 65535, &port, NULL) < 0)
		return fail(err, EINVAL, "--listen %s: expected ADDRESS:PORT or :PORT", text);
	ret->sin6_port = htons((uint16_t)port);
	if (str_skip_prefix(&host, STR("[")))
		str_skip_suffix(&host, STR("]"));
	if (!host.n)
		return 0;
	if (str_copy(name, sizeof(name), host) >= 0) {
		snprintf(mapped, sizeof(mapped), "%s%s", strchr(name, ':') ? "" : "::ffff:", name);
		if (inet_pton(AF_INET6, mapped, &ret->sin6_addr) == 1)
			return 0;
	}
	return fail(err, EINVAL, "--listen %s: expected a numeric address before the port", text);
}

int serve_check(const char *address, struct error *err)
{
	struct sockaddr_in6 parsed;

	return parse_address(address, &parsed, err);
}

static int listen_on(const char *text, struct error *err)
{
	const int zero = 0, one = 1;
	struct sockaddr_in6 v6;
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	_cleanup_close_ int fd = -1;
	int r = parse_address(text, &v6, err);

	if (r < 0)
		return r;
	v4.sin_port = v6.sin6_port;
	memcpy(&v4.sin_addr, (const char *)&v6.sin6_addr + 12, 4);
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		r = bind(fd, (struct sockaddr *)&v6, sizeof(v6));
	} else { /* a kernel without IPv6 */
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		r = bind(fd, (struct sockaddr *)&v4, sizeof(v4));
	}
	if (r < 0 || listen(fd, 64) < 0)
		return fail_errno(err, errno, "--listen %s", text);
	return TAKE_FD(fd);
}

int serve_new(struct agent *agent, struct kube_client *client, const char *address,
	const char *name, struct serve **ret_serve, struct error *err)
{
	struct serve *s = calloc(1, sizeof(*s));
	const union MHD_DaemonInfo *info;
	int fd, r;

	if (!s)
		return fail(err, ENOMEM, "no memory");
	s->agent = agent;
	s->client = client;
	LIST_INIT(&s->visits);
	r = make_certificate(s, name, err);
	fd = r < 0 ? r : listen_on(address, err);
	if (fd < 0) {
		free(s);
		return fd;
	}
	s->http = MHD_start_daemon(MHD_USE_TLS | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL,
		NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_HTTPS_MEM_KEY, s->key,
		MHD_OPTION_HTTPS_MEM_CERT, s->cert, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
		MHD_OPTION_CONNECTION_LIMIT, SERVE_CONNS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, 30u,
		MHD_OPTION_END);
	if (!s->http) {
		fd_close(fd);
		free(s);
		return fail(err, EIO, "--listen %s: the HTTPS server did not start", address);
	}
	info = MHD_get_daemon_info(s->http, MHD_DAEMON_INFO_EPOLL_FD);
	s->io.data = s;
	s->timer.data = s;
	r = loop_add_timer(agent->loop, &s->timer, on_timer);
	if (r >= 0)
		r = loop_add_io(agent->loop, &s->io, info->epoll_fd, EPOLLIN, on_readable);
	if (r < 0) {
		serve_free(s);
		return fail_errno(err, -r, "--listen %s", address);
	}
	*ret_serve = s;
	return 0;
}

void serve_free(struct serve *s)
{
	struct visit *v;

	if (!s)
		return;
	/* Those that still wait: libmicrohttpd cannot end with a suspended connection. */
	LIST_FOREACH(v, &s->visits, link)
		if (!v->status) {
			kube_call_cancel(TAKE_PTR(v->call));
			decide(v, MHD_HTTP_SERVICE_UNAVAILABLE);
		}
	MHD_run(s->http);
	loop_remove_io(&s->io);
	loop_remove_timer(&s->timer);
	MHD_stop_daemon(s->http);
	explicit_bzero(s->key, sizeof(s->key));
	free(s);
}
