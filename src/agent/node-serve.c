/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/node-serve.h"

#include <errno.h>
#include <stdlib.h>

#include "access/access.h"
#include "agent/metrics.h"
#include "http/issue.h"

#define CONNECTIONS_MAX 64u
#define BODY_MAX (64u << 10)

struct serve {
	struct http_server *server;
	struct access *access;
};

static const struct http_route routes[] = {
	{"GET", "/healthz", http_answer_ok},
	{"GET", "/metrics", metrics_answer, .is_guarded = true},
};

int serve_new(struct agent *agent, struct kube_client *client, const struct node_options *options,
	struct serve **ret_serve, struct error *err)
{
	struct serve *s = calloc(1, sizeof(*s));
	struct http_options http = {.address = options->listen,
		.is_tls = true,
		.max_connections = CONNECTIONS_MAX,
		.max_body = BODY_MAX,
		.routes = routes,
		.n_routes = ARRAY_SIZE(routes),
		.data = agent,
		.guard = access_guard};
	int r;

	if (!s)
		return fail(err, ENOMEM, "no memory");
	r = access_new(client, &s->access, err);
	http.guard_data = s->access;
	r = r < 0 ? r : http_server_new(agent->loop, &http, &s->server, err);
	r = r < 0 ? r : http_server_issue(s->server, "divvyd", options->name, err);
	if (r < 0) {
		serve_free(s);
		return fail_within(err, r, "--listen");
	}
	*ret_serve = s;
	return 0;
}

void serve_free(struct serve *s)
{
	if (!s)
		return;
	access_free(s->access);
	http_server_free(s->server);
	free(s);
}
