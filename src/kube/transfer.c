/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets libcurl's options for one request: URL, headers, body, TLS, proxy and timeouts. Keepalive
 * and TCP_USER_TIMEOUT end a connection whose peer no longer answers. If the configuration sets
 * tls-server-name, the URL has that name, and CURLOPT_CONNECT_TO and the Host header have the
 * server's address. libcurl does not copy the lists of headers and addresses, so both live until
 * transfer_done(). transfer_append_header() overwrites its copy of each header line, since one of
 * the lines carries the token.
 */
#include "kube/transfer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define CONNECT_TIMEOUT_MS 10000L
#define KEEPALIVE_S 15L
/* The peer counts as lost if sent data stays unacknowledged for this time. */
#define UNACKNOWLEDGED_MS 20000
#define BUFFER_BYTES (64L << 10)

const char *const kube_method_names[] = {
	[KUBE_GET] = "GET", [KUBE_POST] = "POST", [KUBE_PATCH] = "PATCH", [KUBE_DELETE] = "DELETE"};

static int transfer_on_socket(void *data, curl_socket_t fd, curlsocktype purpose)
{
	const int ms = UNACKNOWLEDGED_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	return CURL_SOCKOPT_OK;
}

static void set_blob(CURL *easy, CURLoption option, char *pem)
{
	struct curl_blob blob = {.data = pem, .len = strlen(pem), .flags = CURL_BLOB_COPY};

	curl_easy_setopt(easy, option, &blob);
}

/* Sets how the server is verified, and our certificate. */
static void set_tls(
	CURL *easy, const struct kube_config *config, const struct credential_view *view)
{
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, config->is_insecure ? 0L : 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, config->is_insecure ? 0L : 2L);
	if (config->ca_pem) {
		/*
		 * Unsets libcurl's default authorities, which would be trusted beside those of
		 * ca_pem.
		 */
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
		curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
		set_blob(easy, CURLOPT_CAINFO_BLOB, config->ca_pem);
	}
	if (view->cert_pem) {
		set_blob(easy, CURLOPT_SSLCERT_BLOB, (char *)view->cert_pem);
		set_blob(easy, CURLOPT_SSLKEY_BLOB, (char *)view->key_pem);
	}
	if (config->proxy_url)
		curl_easy_setopt(easy, CURLOPT_PROXY, config->proxy_url);
}

static int transfer_append_header(struct curl_slist **list, const char *name, struct str value)
{
	_cleanup_(buf_wipe) struct buf line = BUF_INIT(KUBE_TOKEN_MAX + 64);
	struct curl_slist *longer;

	buf_add_text(&line, name);
	buf_add(&line, value);
	longer = buf_error(&line) ? NULL : curl_slist_append(*list, buf_text(&line));
	if (!longer)
		return -ENOMEM;
	*list = longer;
	return 0;
}

static int set_headers(struct transfer *t, const struct kube_config *config,
	const struct kube_request *request, const struct credential_view *view)
{
	struct str as = str_from(config->as ? config->as : ""), line;
	const char *type = request->content_type ? request->content_type : "application/json";
	int r = transfer_append_header(&t->headers, "Accept: application/json",
		request->is_table ? STR(";as=Table;v=v1;g=meta.k8s.io") : STR(""));

	if (r == 0)
		r = transfer_append_header(&t->headers, "Expect:", STR(""));
	if (r == 0 && request->body.n)
		r = transfer_append_header(&t->headers, "Content-Type: ", str_from(type));
	if (r == 0 && view->token)
		r = transfer_append_header(
			&t->headers, "Authorization: Bearer ", str_from(view->token));
	while (r == 0 && str_split(&as, '\n', &line))
		if (line.n)
			r = transfer_append_header(&t->headers, "", line);
	return r;
}

static void set_method(CURL *easy, const struct kube_request *request)
{
	if (request->method == KUBE_GET)
		return;
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, kube_method_names[request->method]);
	if (!request->body.n && request->method == KUBE_DELETE)
		return;
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.n);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.p ? request->body.p : "");
}

/* The port of "host:port" or "[::1]:port". */
static struct str transfer_authority_port(struct str authority)
{
	size_t i = authority.n;

	while (i && authority.p[i - 1] != ':' && authority.p[i - 1] != ']')
		i--;
	if (!i || authority.p[i - 1] != ':')
		return STR("443");
	return (struct str){authority.p + i, authority.n - i};
}

/* Requests https://NAME:port/... from host:port; the Host header has the original address. */
static int set_server_name(struct transfer *t, const char *name, struct str rest)
{
	const struct str authority = {rest.p, str_find(rest, '/')};
	const struct str port = transfer_authority_port(authority);
	_cleanup_buf_ struct buf url = BUF_INIT(2 * KUBE_URL_MAX), to = BUF_INIT(KUBE_URL_MAX);
	int r;

	buf_addf(&url, "https://%s:%" STR_FMT, name, STR_ARG(port));
	buf_add(&url, (struct str){rest.p + authority.n, rest.n - authority.n});
	buf_addf(&to, "%" STR_FMT "%s", STR_ARG(authority),
		port.p < authority.p || port.p > authority.p + authority.n ? ":443" : "");
	if (buf_error(&url) || buf_error(&to))
		return -ENOMEM;
	r = transfer_append_header(&t->headers, "Host: ", authority);
	if (r == 0)
		r = transfer_append_header(&t->connect_to, "::", buf_str(&to));
	if (r == 0 && curl_easy_setopt(t->easy, CURLOPT_URL, buf_text(&url)) != CURLE_OK)
		r = -ENOMEM;
	curl_easy_setopt(t->easy, CURLOPT_CONNECT_TO, t->connect_to);
	return r;
}

int transfer_prepare(struct transfer *t, const struct kube_config *config,
	const struct credential_view *view, const struct kube_request *request, const char *url)
{
	struct str rest = str_from(url);
	CURL *easy = t->easy;
	int r = set_headers(t, config, request, view);

	if (r < 0)
		return r;
	if (curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK)
		return -ENOMEM;
	if (config->tls_server_name && str_skip_prefix(&rest, STR("https://")))
		r = set_server_name(t, config->tls_server_name, rest);
	if (r < 0)
		return r;
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, t->headers);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S);
	curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, transfer_on_socket);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
	set_tls(easy, config, view);
	set_method(easy, request);
	return 0;
}

void transfer_done(struct transfer *t)
{
	curl_slist_free_all(t->headers);
	curl_slist_free_all(t->connect_to);
	*t = (struct transfer){0};
}
