/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each function parses the store's texts anew. A struct pair is an authority that can sign now:
 * readable, marked as an authority, within its validity period, and with its own key. pair_read()
 * treats all other texts as absent. authority_sign() signs with a new authority at once if the old
 * authority cannot sign. A certificate is never valid longer than the authority that signed it. The
 * functions wipe keys and certificates before they free the texts.
 */
#include "controller/authority.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "http/issue.h"

/* An authority that can sign now; NULL in both fields: none. */
struct pair {
	gnutls_x509_crt_t crt;
	gnutls_x509_privkey_t key;
};

static void pair_done(struct pair *pair)
{
	if (pair->crt)
		gnutls_x509_crt_deinit(pair->crt);
	if (pair->key)
		gnutls_x509_privkey_deinit(pair->key);
	*pair = (struct pair){0};
}
#define _cleanup_pair_ __attribute__((cleanup(pair_done)))

static struct pair pair_read(const char *crt, const char *key, uint64_t now)
{
	gnutls_x509_crt_t list[CRT_LIST_MAX];
	const unsigned int n = crt_list_read(crt, list);
	struct pair pair = {.crt = n ? list[0] : NULL, .key = crt_key_read(key)};

	crt_list_done(list + 1, n ? n - 1 : 0);
	if (n != 1 || !pair.key || !crt_is_pair(pair.crt, pair.key) || !crt_holds(pair.crt, now) ||
		gnutls_x509_crt_get_ca_status(pair.crt, NULL) <= 0)
		pair_done(&pair);
	return pair;
}

static struct pair authority_newest_pair(const struct authority_store *store, uint64_t now)
{
	return pair_read(store->ca_crt, store->ca_key, now);
}

static struct pair authority_old_pair(const struct authority_store *store, uint64_t now)
{
	return pair_read(store->old_crt, store->old_key, now);
}

/*
 * Adds a new authority. The present one becomes the old one if it can sign; otherwise the old one
 * stays, because its certificates may still be valid.
 */
static int add_new(
	struct authority_store *store, const struct pair *so_far, uint64_t now, struct error *err)
{
	const struct http_issue issue = {.name = "divvy's authority between nodes",
		.from_ns = clock_since_ns(now, CRT_EARLY_NS),
		.to_ns = now + CERTIFICATE_AUTHORITY_NS};
	char *crt, *key;
	int r = http_issue(&issue, &crt, &key, err);

	if (r < 0)
		return r;
	if (so_far->crt) {
		str_wipe(&store->old_crt);
		str_wipe(&store->old_key);
		store->old_crt = TAKE_PTR(store->ca_crt);
		store->old_key = TAKE_PTR(store->ca_key);
	}
	str_wipe(&store->ca_crt);
	str_wipe(&store->ca_key);
	store->ca_crt = crt;
	store->ca_key = key;
	return 1;
}

int authority_step(struct authority_store *store, uint64_t real_ns, struct error *err)
{
	_cleanup_pair_ struct pair now = authority_newest_pair(store, real_ns),
				   before = authority_old_pair(store, real_ns);

	if (!now.crt || crt_is_running_out(now.crt, CERTIFICATE_AUTHORITY_NS, real_ns))
		return add_new(store, &now, real_ns, err);
	if (!store->old_crt && !store->old_key)
		return 0;
	/*
	 * The old authority signed its last certificate when the new one was AUTHORITY_OVERLAP_NS
	 * old. That certificate is valid for AUTHORITY_SIGNED_NS.
	 */
	if (before.crt && crt_age_ns(now.crt, real_ns) < AUTHORITY_OVERLAP_NS + AUTHORITY_SIGNED_NS)
		return 0;
	str_wipe(&store->old_crt);
	str_wipe(&store->old_key);
	return 1;
}

char *authority_bundle(const struct authority_store *store, uint64_t real_ns)
{
	_cleanup_pair_ struct pair now = authority_newest_pair(store, real_ns),
				   before = authority_old_pair(store, real_ns);
	struct buf out = BUF_INIT(CRT_PEM_MAX);
	char *text;

	if (now.crt)
		crt_format(now.crt, &out);
	if (before.crt)
		crt_format(before.crt, &out);
	text = out.n ? buf_take(&out) : NULL;
	buf_done(&out);
	return text;
}

int authority_sign(const struct authority_store *store, const struct request *request,
	uint64_t real_ns, char **ret_crt, struct error *err)
{
	_cleanup_pair_ struct pair now = authority_newest_pair(store, real_ns),
				   before = authority_old_pair(store, real_ns);
	const bool is_known = now.crt &&
		(!before.crt || crt_age_ns(now.crt, real_ns) >= AUTHORITY_OVERLAP_NS);
	const struct pair *by = is_known ? &now : &before;
	const bool is_node = request->name.kind == IDENTITY_OF_NODE;
	char uri[IDENTITY_URI];
	struct http_issue issue = {.name = is_node ? "divvy node" : "divvy tenant",
		.uri = uri,
		.is_server = is_node,
		.of = request->key,
		.from_ns = clock_since_ns(real_ns, CRT_EARLY_NS),
		.to_ns = real_ns + AUTHORITY_SIGNED_NS};

	if (!by->crt)
		return fail(err, ENOKEY,
			"no authority between nodes is valid now; a new one signs once it is made");
	if (identity_name_format(&request->name, uri) < 0)
		return fail(err, EINVAL, "the request has no name of a node or tenant");
	issue.issuer = by->crt;
	issue.issuer_key = by->key;
	issue.from_ns = MAX(issue.from_ns, crt_begins_ns(by->crt));
	issue.to_ns = MIN(issue.to_ns, crt_ends_ns(by->crt));
	return http_issue(&issue, ret_crt, NULL, err);
}

void authority_store_done(struct authority_store *store)
{
	str_wipe(&store->ca_crt);
	str_wipe(&store->ca_key);
	str_wipe(&store->old_crt);
	str_wipe(&store->old_key);
}
