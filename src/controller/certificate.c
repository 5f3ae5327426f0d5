/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each function parses the store's texts anew, and dates and signatures in the certificates tell
 * which step is due. certificate_renew() makes at most one change, in this order: the authority,
 * the server's certificate, the removal of old authorities. The authority whose key is ca_key
 * stands first in the bundle. A server's certificate without its own key counts as absent. A bundle
 * has at most CERTIFICATE_AUTHORITIES_MAX authorities. The functions wipe keys before they free the
 * texts.
 */
#include "controller/certificate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "http/issue.h"
#include "identity/crt.h"

/* The certificates and keys of a store, as far as they are readable. */
struct read {
	gnutls_x509_crt_t authority[CERTIFICATE_AUTHORITIES_MAX];
	unsigned int n_authorities;
	/* NULL: no key, or not the key of the first authority */
	gnutls_x509_privkey_t authority_key;
	gnutls_x509_crt_t server; /* NULL: no certificate, or not a certificate of tls_key */
};

/* ---- reading ---- */

static void read_done(struct read *read)
{
	crt_list_done(read->authority, read->n_authorities);
	if (read->authority_key)
		gnutls_x509_privkey_deinit(read->authority_key);
	if (read->server)
		gnutls_x509_crt_deinit(read->server);
}

static void read_store(const struct certificate_store *store, struct read *ret)
{
	gnutls_x509_crt_t chain[CERTIFICATE_AUTHORITIES_MAX];
	gnutls_x509_privkey_t key = crt_key_read(store->tls_key);
	unsigned int n = crt_list_read(store->tls_crt, chain);

	memset(ret, 0, sizeof(*ret));
	ret->n_authorities = crt_list_read(store->ca_crt, ret->authority);
	ret->authority_key = crt_key_read(store->ca_key);
	if (ret->authority_key &&
		(!ret->n_authorities || !crt_is_pair(ret->authority[0], ret->authority_key))) {
		gnutls_x509_privkey_deinit(ret->authority_key);
		ret->authority_key = NULL;
	}
	if (n && key && crt_is_pair(chain[0], key))
		ret->server = chain[0];
	for (unsigned int i = ret->server ? 1 : 0; i < n; i++)
		gnutls_x509_crt_deinit(chain[i]);
	if (key)
		gnutls_x509_privkey_deinit(key);
}

static bool is_good(
	const struct read *read, gnutls_x509_crt_t authority, const char *host, uint64_t now)
{
	return read->server && crt_holds(read->server, now) && crt_holds(authority, now) &&
		gnutls_x509_crt_check_hostname(read->server, host) &&
		crt_is_signed_by(read->server, authority);
}

static bool is_good_by_any(const struct read *read, const char *host, uint64_t now)
{
	for (unsigned int i = 0; i < read->n_authorities; i++)
		if (is_good(read, read->authority[i], host, now))
			return true;
	return false;
}

bool certificate_is_trusted(const struct certificate_store *store, const char *bundle_pem,
	const char *host, uint64_t real_ns)
{
	const struct certificate_store shown = {
		.ca_crt = (char *)bundle_pem, .tls_crt = store->tls_crt, .tls_key = store->tls_key};
	struct read read;
	bool is_trusted;

	read_store(&shown, &read);
	is_trusted = is_good_by_any(&read, host, real_ns);
	read_done(&read);
	return is_trusted;
}

/* ---- making ---- */

static int make_authority(uint64_t now, char **ret_crt, char **ret_key, struct error *err)
{
	const struct http_issue issue = {.name = "divvy-controller's authority",
		.from_ns = clock_since_ns(now, CERTIFICATE_EARLY_NS),
		.to_ns = now + CERTIFICATE_AUTHORITY_NS};

	return http_issue(&issue, ret_crt, ret_key, err);
}

static int make_server(struct certificate_store *store, const struct read *read, const char *host,
	uint64_t now, struct error *err)
{
	const struct http_issue issue = {.name = "divvy-controller",
		.host = host,
		.from_ns = clock_since_ns(now, CERTIFICATE_EARLY_NS),
		.to_ns = now + CERTIFICATE_SERVER_NS,
		.issuer = read->authority[0],
		.issuer_key = read->authority_key};
	char *pem, *pem_key;
	int r = http_issue(&issue, &pem, &pem_key, err);

	if (r < 0)
		return r;
	str_wipe(&store->tls_crt);
	str_wipe(&store->tls_key);
	store->tls_crt = pem;
	store->tls_key = pem_key;
	return 1;
}

/*
 * Appends the valid authorities with indexes from `first` to before `end`. `out` records an
 * overflow.
 */
static void add_authorities(const struct read *read, unsigned int first, unsigned int end,
	uint64_t now, struct buf *out)
{
	for (unsigned int i = first; i < MIN(end, read->n_authorities); i++)
		if (now < crt_ends_ns(read->authority[i]))
			crt_format(read->authority[i], out);
}

static int set_bundle(struct certificate_store *store, struct buf *bundle, struct error *err)
{
	char *text = buf_take(bundle);

	if (!text)
		return fail(err, EIO, "certificate: the authorities do not fit");
	free(store->ca_crt);
	store->ca_crt = text;
	return 1;
}

static int add_new_authority(
	struct certificate_store *store, const struct read *read, uint64_t now, struct error *err)
{
	_cleanup_buf_ struct buf bundle = BUF_INIT(CERTIFICATE_PEM_MAX);
	_cleanup_(str_wipe) char *crt = NULL, *key = NULL;
	int r = make_authority(now, &crt, &key, err);

	if (r < 0)
		return r;
	buf_add_text(&bundle, crt);
	add_authorities(read, 0, CERTIFICATE_AUTHORITIES_MAX - 1, now, &bundle);
	r = set_bundle(store, &bundle, err);
	if (r < 0)
		return r;
	str_wipe(&store->ca_key);
	store->ca_key = TAKE_PTR(key);
	return r;
}

static int drop_old_authorities(
	struct certificate_store *store, const struct read *read, uint64_t now, struct error *err)
{
	_cleanup_buf_ struct buf bundle = BUF_INIT(CERTIFICATE_PEM_MAX);

	add_authorities(read, 0, 1, now, &bundle);
	return set_bundle(store, &bundle, err);
}

static int certificate_renew(struct certificate_store *store, const struct read *read,
	const char *host, uint64_t now, struct error *err)
{
	const bool is_good_now = is_good_by_any(read, host, now);

	if (!read->authority_key || !crt_holds(read->authority[0], now) ||
		crt_is_running_out(read->authority[0], CERTIFICATE_AUTHORITY_NS, now))
		return add_new_authority(store, read, now, err);
	/*
	 * Clients may not trust a new authority yet, so it signs the server's certificate only
	 * after CERTIFICATE_OVERLAP_NS. But clients refuse an unusable certificate in any case, so
	 * it is replaced at once.
	 */
	if (!is_good_now)
		return make_server(store, read, host, now, err);
	if (crt_age_ns(read->authority[0], now) >= CERTIFICATE_OVERLAP_NS &&
		(!crt_is_signed_by(read->server, read->authority[0]) ||
			crt_is_running_out(read->server, CERTIFICATE_SERVER_NS, now)))
		return make_server(store, read, host, now, err);
	if (read->n_authorities > 1 && crt_is_signed_by(read->server, read->authority[0]) &&
		crt_age_ns(read->server, now) >= CERTIFICATE_OVERLAP_NS)
		return drop_old_authorities(store, read, now, err);
	return 0;
}

int certificate_step(
	struct certificate_store *store, const char *host, uint64_t real_ns, struct error *err)
{
	struct read read;
	int r;

	read_store(store, &read);
	r = certificate_renew(store, &read, host, real_ns, err);
	read_done(&read);
	return r;
}

void certificate_store_done(struct certificate_store *store)
{
	str_wipe(&store->ca_crt);
	str_wipe(&store->ca_key);
	str_wipe(&store->tls_crt);
	str_wipe(&store->tls_key);
}
