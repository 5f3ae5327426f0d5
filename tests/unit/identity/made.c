/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "made.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/issue.h"
#include "identity/crt.h"

struct made_authority made_authority(void)
{
	const uint64_t now = clock_real_ns();
	const struct http_issue issue = {.name = "an authority",
		.from_ns = now - MADE_HOUR_NS,
		.to_ns = now + 9 * MADE_HOUR_NS};
	struct made_authority made;

	assert_ok(http_issue(&issue, &made.crt, &made.key, NULL));
	return made;
}

void made_authority_done(struct made_authority *authority)
{
	free(authority->crt);
	free(authority->key);
}

struct identity made_identity(const struct made_wish *wish)
{
	const bool is_usual = !wish->from_h && !wish->to_h;
	const uint64_t now = clock_real_ns();
	struct http_issue issue = {.name = "somebody",
		.uri = wish->uri,
		.host = wish->host,
		.is_server = !wish->is_client_only,
		.from_ns = now + (uint64_t)(is_usual ? -1 : wish->from_h) * MADE_HOUR_NS,
		.to_ns = now + (uint64_t)(is_usual ? 1 : wish->to_h) * MADE_HOUR_NS};
	gnutls_x509_crt_t list[CRT_LIST_MAX] = {NULL};
	struct identity made;

	if (wish->by) {
		assert_int_equal(crt_list_read(wish->by->crt, list), 1);
		issue.issuer = list[0];
		issue.issuer_key = crt_key_read(wish->by->key);
		assert_non_null(issue.issuer_key);
	}
	assert_ok(http_issue(&issue, &made.crt, &made.key, NULL));
	if (wish->by) {
		crt_list_done(list, 1);
		gnutls_x509_privkey_deinit(issue.issuer_key);
	}
	made.authority = str_dup(str_from(wish->trusts->crt));
	return made;
}

struct identity made_node(const struct made_authority *authority, const char *node)
{
	char uri[IDENTITY_URI];

	snprintf(uri, sizeof(uri), "divvy://node/%s", node);
	return made_identity(&(struct made_wish){.uri = uri, .by = authority, .trusts = authority});
}

struct identity made_tenant(const struct made_authority *authority)
{
	return made_identity(&(struct made_wish){.uri = "divvy://tenant/" MADE_UID "/main",
		.by = authority,
		.trusts = authority,
		.is_client_only = true});
}
