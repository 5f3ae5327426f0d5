/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "controller/authority.h"
#include "identity/identity.h"

#define START (UINT64_C(1700000000) * 1000000000)
#define HOUR (UINT64_C(3600) * 1000000000)
#define UID "5f0c8c1e-7d0e-4a55-9a53-0c4f2e1b6d10"

static int step(struct authority_store *store, uint64_t now)
{
	struct error err;
	int r = authority_step(store, now, &err);

	if (r < 0)
		fail_msg("%s", err.msg);
	return r;
}

static void settle(struct authority_store *store, uint64_t now)
{
	for (int i = 0; step(store, now); i++)
		assert_true(i < 3);
}

/* Makes an identity with a new key: its certificate, and the authorities that it trusts. */
static struct identity ask(
	const struct authority_store *store, const struct identity_name *name, uint64_t now)
{
	_cleanup_request_ struct request request = {0};
	_cleanup_free_ char *pem = NULL;
	struct identity own = {0};
	struct error err;

	assert_ok(request_make(name, &pem, &own.key, NULL));
	assert_ok(request_read(str_from(pem), &request, NULL));
	if (authority_sign(store, &request, now, &own.crt, &err) < 0)
		fail_msg("%s", err.msg);
	own.authority = authority_bundle(store, now);
	assert_non_null(own.authority);
	return own;
}

static const struct identity_name node = {.kind = IDENTITY_OF_NODE, .node = "n1"},
				  tenant = {.kind = IDENTITY_OF_TENANT,
					  .uid = UID,
					  .container = "main"};

static bool is_for(const char *pem, const char *purpose)
{
	const gnutls_datum_t text = {(unsigned char *)pem, (unsigned)strlen(pem)};
	gnutls_x509_crt_t crt;
	char oid[64];
	bool is_so = false;

	assert_ok(gnutls_x509_crt_init(&crt));
	assert_ok(gnutls_x509_crt_import(crt, &text, GNUTLS_X509_FMT_PEM));
	for (unsigned i = 0;; i++) {
		size_t size = sizeof(oid);

		if (gnutls_x509_crt_get_key_purpose_oid(crt, i, oid, &size, NULL) < 0)
			break;
		is_so |= !strcmp(oid, purpose);
	}
	/* The certificate must not be an authority. */
	assert_int_equal(gnutls_x509_crt_get_ca_status(crt, NULL), 0);
	gnutls_x509_crt_deinit(crt);
	return is_so;
}

static void the_authority_signs_one_key_and_one_name(void **state)
{
	_cleanup_authority_store_ struct authority_store store = {0};
	struct identity_facts facts;

	assert_int_equal(step(&store, START), 1);
	assert_int_equal(step(&store, START), 0);
	for (int i = 0; i < 2; i++) {
		const struct identity_name *name = i ? &tenant : &node;
		_cleanup_identity_ struct identity own = ask(&store, name, START);

		assert_ok(identity_check(&own, START, &facts, NULL));
		assert_true(identity_name_is_same(&facts.name, name));
		assert_true(facts.to_ns == START + AUTHORITY_SIGNED_NS);
		assert_true(is_for(own.crt, GNUTLS_KP_TLS_WWW_CLIENT));
		assert_int_equal(is_for(own.crt, GNUTLS_KP_TLS_WWW_SERVER), !i);
	}
}

static void nothing_is_signed_without_an_authority(void **state)
{
	_cleanup_authority_store_ struct authority_store store = {0};
	_cleanup_request_ struct request request = {0};
	_cleanup_free_ char *pem = NULL, *key = NULL;
	char *crt;

	assert_ok(request_make(&node, &pem, &key, NULL));
	assert_ok(request_read(str_from(pem), &request, NULL));
	assert_int_equal(authority_sign(&store, &request, START, &crt, NULL), -ENOKEY);
	assert_null(authority_bundle(&store, START));
	settle(&store, START);
	assert_int_equal(
		authority_sign(&store, &request, START + CERTIFICATE_AUTHORITY_NS, &crt, NULL),
		-ENOKEY);
}

static void an_unreadable_authority_is_replaced(void **state)
{
	static const char *const rubbish[] = {"", "rubbish", "-----BEGIN CERTIFICATE-----\n"};

	for (size_t i = 0; i < ARRAY_SIZE(rubbish); i++)
		for (int what = 0; what < 4; what++) {
			_cleanup_authority_store_ struct authority_store store = {0};
			char **field[] = {
				&store.ca_crt, &store.ca_key, &store.old_crt, &store.old_key};
			_cleanup_identity_ struct identity own = {0};
			struct identity_facts facts;

			settle(&store, START);
			free(*field[what]);
			*field[what] = str_dup(str_from(rubbish[i]));
			settle(&store, START);
			assert_null(store.old_crt);
			assert_null(store.old_key);
			own = ask(&store, &node, START);
			assert_ok(identity_check(&own, START, &facts, NULL));
		}
}

/* A Secret that holds another certificate, for example a tenant's, in place of the authority. */
static void a_certificate_without_the_right_to_sign_is_no_authority(void **state)
{
	_cleanup_authority_store_ struct authority_store store = {0};
	_cleanup_identity_ struct identity own = {0};

	settle(&store, START);
	own = ask(&store, &tenant, START);
	free(store.ca_crt);
	free(store.ca_key);
	store.ca_crt = str_dup(str_from(own.crt));
	store.ca_key = str_dup(str_from(own.key));
	assert_int_equal(step(&store, START), 1);
	assert_string_not_equal(store.ca_crt, own.crt);
}

/*
 * Two years pass. One node renews its certificate at two thirds of its validity, and another node
 * reads new authorities an hour late. Each must trust the other all the time. If nothing has
 * changed for long, a step is a day.
 */
static void both_authorities_are_trusted_during_a_change(void **state)
{
	enum { RENEW_H = 16, QUIET_H = 60 };
	_cleanup_authority_store_ struct authority_store store = {0};
	_cleanup_identity_ struct identity own = {0};
	_cleanup_free_ char *late = NULL;
	unsigned int n_changes = 0, n_two = 0, n_quiet = 0;
	uint64_t now = START, renewed = 0;
	struct identity_facts facts;

	settle(&store, now);
	while (now < START + 2 * 365 * 24 * HOUR) {
		char *bundle = authority_bundle(&store, now);

		assert_non_null(bundle);
		if (now - renewed >= RENEW_H * HOUR) {
			identity_done(&own);
			own = ask(&store, &node, now);
			renewed = now;
		}
		for (int i = 0; i < 2; i++) {
			const struct identity seen = {own.crt, own.key, i && late ? late : bundle};

			assert_ok(identity_check(&seen, now + HOUR / 2, &facts, NULL));
		}
		n_two += unit_count(bundle, "BEGIN CERTIFICATE") > 1;
		free(late);
		late = bundle;
		n_quiet = step(&store, now) ? 0 : n_quiet + 1;
		n_changes += n_quiet == 0;
		now += n_quiet < QUIET_H ? HOUR : RENEW_H * HOUR;
	}
	/*
	 * Each new authority is alone again once the last certificate of the old one has expired.
	 */
	assert_int_equal(n_changes, 4);
	assert_in_range(n_two, 2 * 24, 2 * 27);
}

UNIT_MAIN(UNIT(the_authority_signs_one_key_and_one_name),
	UNIT(nothing_is_signed_without_an_authority), UNIT(an_unreadable_authority_is_replaced),
	UNIT(a_certificate_without_the_right_to_sign_is_no_authority),
	UNIT(both_authorities_are_trusted_during_a_change))
