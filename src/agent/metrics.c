/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics: see metrics.h. libmicrohttpd runs inside our loop: its epoll descriptor is one of our
 * sources, its timeout one of our timers.
 */
#include "agent/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/audit.h"
#include "agent/client.h"
#include "agent/device.h"
#include "agent/memory.h"
#include "agent/tenant.h"
#include "agent/usage.h"
#include "base/fd.h"
#include "base/parse.h"

#define TEXT_MAX (16u << 20)
#define CONNECTIONS_MAX 64

struct metrics {
	struct agent *agent;
	struct MHD_Daemon *http;
	struct loop_io io;
	struct loop_timer timer;
	char path[108]; /* of the unix socket, to be removed; "": none */
};

/* One value of a tenant on a device. */
struct value {
	const struct tenant_device *td;
	const struct arbiter_usage *usage;
	uint64_t now;
};

static double used_seconds(const struct value *v)
{
	return (double)v->usage->used_ns / NSEC_PER_SEC;
}
static double waited_seconds(const struct value *v)
{
	return (double)v->usage->waited_ns / NSEC_PER_SEC;
}
static double share(const struct value *v)
{
	return usage_permille(v->td, NSEC_PER_SEC, v->now) / 1000.0;
}
static double request(const struct value *v)
{
	return v->td->tenant->spec.request / 1000.0;
}
static double limit(const struct value *v)
{
	return v->td->tenant->spec.limit / 1000.0;
}
static double memory(const struct value *v)
{
	return (double)memory_used(v->td);
}
static double quota(const struct value *v)
{
	return (double)v->td->quota_bytes;
}
static double holds(const struct value *v)
{
	return v->td->is_open;
}
static double wants(const struct value *v)
{
	return v->td->does_want;
}

static const struct tenant_metric {
	const char *name, *type, *help;
	double (*get)(const struct value *v);
} tenant_metrics[] = {
	{"divvy_tenant_gpu_seconds_total", "counter", "Device time charged.", used_seconds},
	{"divvy_tenant_waited_seconds_total", "counter",
		"Time it wanted the device and did not hold it.", waited_seconds},
	{"divvy_tenant_share", "gauge", "Share of the device in the last second.", share},
	{"divvy_tenant_request", "gauge", "Share that is guaranteed.", request},
	{"divvy_tenant_limit", "gauge", "Most it may take.", limit},
	{"divvy_tenant_memory_bytes", "gauge", "Device memory in use.", memory},
	{"divvy_tenant_memory_quota_bytes", "gauge", "Device memory it may use.", quota},
	{"divvy_tenant_holds", "gauge", "1 while it holds the device.", holds},
	{"divvy_tenant_wants", "gauge", "1 while it wants the device.", wants},
};

static double device_memory(const struct device *d)
{
	return (double)d->info.memory_bytes;
}
static double device_used(const struct device *d)
{
	return (double)d->used_bytes;
}
static double device_room(const struct device *d)
{
	return (double)ledger_room(d->ledger, SPEC_MEMORY_FAIL);
}

static const struct device_metric {
	const char *name, *help;
	double (*get)(const struct device *d);
} device_metrics[] = {
	{"divvy_device_memory_bytes", "Memory of the device.", device_memory},
	{"divvy_device_memory_used_bytes", "Memory in use on it, as it says.", device_used},
	{"divvy_device_memory_free_bytes", "Memory that could still be promised.", device_room},
};

static void add_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_tenants(struct agent *agent, struct buf *out, const struct tenant_metric *metric)
{
	uint64_t now = clock_now_ns();
	const struct tenant *t;

	add_head(out, metric->name, metric->type, metric->help);
	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++) {
			struct arbiter_usage usage = {0};
			struct value v = {&t->devices[i], &usage, now};

			arbiter_usage_get(
				agent->arbiter, t->id, t->devices[i].device->index, now, &usage);
			buf_addf(out,
				"%s{tenant=\"%u\",name=\"%s\",class=\"%s\",device=\"%s\",simulated="
				"\"%d\"",
				metric->name, t->id, t->name, spec_class_name(t->spec.class),
				t->devices[i].device->info.uuid, agent->devices->is_simulated);
			if (t->pod)
				buf_addf(out, ",namespace=\"%s\",pod=\"%s\",container=\"%s\"",
					t->pod->space, t->pod->name, t->pod->container);
			buf_addf(out, "} %.9g\n", metric->get(&v));
		}
}

int metrics_format(struct agent *agent, struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(tenant_metrics); i++)
		add_tenants(agent, out, &tenant_metrics[i]);
	for (size_t i = 0; i < ARRAY_SIZE(device_metrics); i++) {
		add_head(out, device_metrics[i].name, "gauge", device_metrics[i].help);
		for (uint32_t k = 0; k < agent->devices->n; k++) {
			const struct device *d = &agent->devices->devices[k];

			buf_addf(out, "%s{device=\"%s\",model=\"%s\",simulated=\"%d\"} %.12g\n",
				device_metrics[i].name, d->info.uuid, d->info.model,
				agent->devices->is_simulated, device_metrics[i].get(d));
		}
	}
	add_head(out, "divvy_tenants", "gauge", "Tenants.");
	buf_addf(out, "divvy_tenants %u\n", agent->n_tenants);
	add_head(out, "divvy_processes", "gauge", "Registered processes.");
	buf_addf(out, "divvy_processes %u\n", agent->n_processes);
	add_head(out, "divvy_strangers", "gauge", "Processes on devices that belong to no tenant.");
	buf_addf(out, "divvy_strangers %u\n", audit_strangers(agent));
	add_head(out, "divvy_uptime_seconds", "gauge", "Since the daemon has started.");
	buf_addf(out, "divvy_uptime_seconds %.3f\n",
		(double)clock_since_ns(clock_now_ns(), agent->started_ns) / NSEC_PER_SEC);
	return buf_error(out);
}

/* ---- HTTP ---- */

static enum MHD_Result answer(
	struct MHD_Connection *connection, unsigned int status, const char *type, struct buf *body)
{
	size_t n = body->n;
	char *text = buf_take(body);
	struct MHD_Response *response;
	enum MHD_Result result;

	if (!text)
		return MHD_NO;
	response = MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **state)
{
	struct metrics *m = data;
	_cleanup_buf_ struct buf body = BUF_INIT(TEXT_MAX);

	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD)) {
		buf_add_text(&body, "GET or HEAD\n");
		return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", &body);
	}
	if (!strcmp(url, "/healthz")) {
		buf_add_text(&body, "ok\n");
		return answer(connection, MHD_HTTP_OK, "text/plain", &body);
	}
	if (!strcmp(url, "/metrics") && metrics_format(m->agent, &body) >= 0)
		return answer(
			connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", &body);
	buf_clear(&body);
	buf_add_text(&body, "/metrics or /healthz\n");
	return answer(connection, MHD_HTTP_NOT_FOUND, "text/plain", &body);
}

static void run(struct metrics *m)
{
	MHD_UNSIGNED_LONG_LONG timeout_ms = 0;

	MHD_run(m->http);
	if (MHD_get_timeout(m->http, &timeout_ms) == MHD_YES)
		loop_set_timer(&m->timer, clock_now_ns() + timeout_ms * NSEC_PER_MSEC);
	else
		loop_cancel_timer(&m->timer);
}

static void on_readable(struct loop_io *io, uint32_t events)
{
	run(io->data);
}

static void on_timer(struct loop_timer *timer, uint64_t now)
{
	run(timer->data);
}

static int listen_unix(struct metrics *m, const char *path, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	str_copy(address.sun_path, sizeof(address.sun_path), str_from(path)); /* metrics_check */
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(fd, 16) < 0)
		return fail_errno(err, errno, "metrics address unix:%s", path);
	snprintf(m->path, sizeof(m->path), "%s", path);
	return TAKE_FD(fd);
}

/* Of "127.0.0.1:9400" and its like. */
static int parse_loopback(const char *text, bool *ret_is_v6, uint16_t *ret_port, struct error *err)
{
	struct str port = str_from(text);
	bool is_v6 = str_skip_prefix(&port, STR("[::1]:"));
	uint64_t number;

	if (!is_v6 && !str_skip_prefix(&port, STR("127.0.0.1:")) &&
		!str_skip_prefix(&port, STR("localhost:")) && !str_skip_prefix(&port, STR(":")))
		return fail(err, EINVAL,
			"metrics address '%s': expected unix:PATH or a loopback port such as "
			"127.0.0.1:9400 (they are not protected, so no other is served)",
			text);
	if (parse_uint(port, 1, 65535, &number, NULL) < 0)
		return fail(
			err, EINVAL, "metrics address '%s': expected a port from 1 to 65535", text);
	*ret_is_v6 = is_v6;
	*ret_port = (uint16_t)number;
	return 0;
}

int metrics_check(const char *address, struct error *err)
{
	struct sockaddr_un un;
	struct str path = str_from(address);
	uint16_t port;
	bool is_v6;

	if (!str_skip_prefix(&path, STR("unix:")))
		return parse_loopback(address, &is_v6, &port, err);
	if (path.n && path.n < sizeof(un.sun_path))
		return 0;
	return fail(err, EINVAL, "metrics address '%s': expected a path of 1 to %zu characters",
		address, sizeof(un.sun_path) - 1);
}

static int listen_loopback(const char *text, struct error *err)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	_cleanup_close_ int fd = -1;
	const int one = 1;
	uint16_t port;
	bool is_v6;
	int r = parse_loopback(text, &is_v6, &port, err);

	if (r < 0)
		return r;
	v4.sin_port = v6.sin6_port = htons(port);
	fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return fail_errno(err, errno, "metrics address %s", text);
	r = is_v6 ? bind(fd, (struct sockaddr *)&v6, sizeof(v6))
		  : bind(fd, (struct sockaddr *)&v4, sizeof(v4));
	if (r < 0 || listen(fd, 16) < 0)
		return fail_errno(err, errno, "metrics address %s", text);
	return TAKE_FD(fd);
}

int metrics_new(struct agent *agent, const char *address, struct error *err)
{
	const union MHD_DaemonInfo *info;
	struct metrics *m;
	int fd, r;

	if (!address)
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return fail(err, ENOMEM, "no memory");
	agent->metrics = m;
	m->agent = agent;
	fd = !strncmp(address, "unix:", 5) ? listen_unix(m, address + 5, err)
					   : listen_loopback(address, err);
	if (fd < 0)
		return fd;
	m->http = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, m,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, 10u, MHD_OPTION_END);
	if (!m->http) {
		fd_close(fd);
		return fail(err, EIO, "metrics address %s: the HTTP server did not start", address);
	}
	info = MHD_get_daemon_info(m->http, MHD_DAEMON_INFO_EPOLL_FD);
	m->io.data = m;
	m->timer.data = m;
	r = loop_add_timer(agent->loop, &m->timer, on_timer);
	if (r >= 0)
		r = loop_add_io(agent->loop, &m->io, info->epoll_fd, EPOLLIN, on_readable);
	return r < 0 ? fail_errno(err, -r, "metrics address %s", address) : 0;
}

void metrics_free(struct agent *agent)
{
	struct metrics *m = agent->metrics;

	if (!m)
		return;
	loop_remove_io(&m->io);
	loop_remove_timer(&m->timer);
	if (m->http)
		MHD_stop_daemon(m->http);
	if (m->path[0])
		unlink(m->path);
	free(m);
	agent->metrics = NULL;
}
