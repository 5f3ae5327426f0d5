/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "controller/certificate.h"

#define HOST "divvy-controller.divvy-system.svc"
#define START (UINT64_C(1700000000) * 1000000000)
#define HOUR (UINT64_C(3600) * 1000000000)

static int step(struct certificate_store *store, uint64_t now)
{
	struct error err;
	int r = certificate_step(store, HOST, now, &err);

	if (r < 0)
		fail_msg("%s", err.msg);
	return r;
}

/* Makes all steps that are due, as at the start of a controller. */
static void settle(struct certificate_store *store, uint64_t now)
{
	for (int i = 0; step(store, now); i++)
		assert_true(i < 4);
}

static bool is_trusted(const struct certificate_store *store, uint64_t now)
{
	return certificate_is_trusted(store, store->ca_crt, HOST, now);
}

static void a_missing_certificate_is_made(void **state)
{
	_cleanup_certificate_store_ struct certificate_store store = {0};

	assert_int_equal(step(&store, START), 1); /* the authority */
	assert_int_equal(step(&store, START), 1); /* the certificate */
	assert_int_equal(step(&store, START), 0);
	assert_true(is_trusted(&store, START));
	assert_true(
		/* a client whose clock is slow */
		is_trusted(&store, START - CERTIFICATE_EARLY_NS + 1000000000));
	assert_false(certificate_is_trusted(&store, store.ca_crt, "another.svc", START));
	assert_false(is_trusted(&store, START + CERTIFICATE_SERVER_NS + HOUR));
	assert_true(is_trusted(&store, START + CERTIFICATE_SERVER_NS - 1000000000));
}

static void an_unreadable_certificate_is_replaced(void **state)
{
	static const char *const rubbish[] = {"", "rubbish", "-----BEGIN CERTIFICATE-----\n"};

	for (size_t i = 0; i < ARRAY_SIZE(rubbish); i++)
		for (int what = 0; what < 4; what++) {
			_cleanup_certificate_store_ struct certificate_store store = {0};
			char **field[] = {
				&store.ca_crt, &store.ca_key, &store.tls_crt, &store.tls_key};

			settle(&store, START);
			free(*field[what]);
			*field[what] = str_dup(str_from(rubbish[i]));
			settle(&store, START);
			assert_true(is_trusted(&store, START));
		}
}

/*
 * The Secret has a certificate and the key of another one, for example after an incomplete change.
 */
static void a_certificate_with_another_key_is_replaced(void **state)
{
	_cleanup_certificate_store_ struct certificate_store a = {0}, b = {0};
	char *key;

	settle(&a, START);
	settle(&b, START);
	assert_false(certificate_is_trusted(&a, b.ca_crt, HOST, START));
	key = a.tls_key;
	a.tls_key = b.tls_key;
	b.tls_key = key;
	assert_false(is_trusted(&a, START));
	settle(&a, START);
	assert_true(is_trusted(&a, START));
}

/*
 * Two years pass. One server uses each change at once; another server and a client are LAG steps
 * behind. No client may ever refuse a server. If nothing has changed for hours, a step is a day.
 */
static void clients_trust_the_server_during_a_change(void **state)
{
	enum { LAG = 3 };
	_cleanup_certificate_store_ struct certificate_store store = {0};
	struct certificate_store then[LAG] = {{0}}; /* then[i]: the store as it was i steps ago */
	unsigned int n_changes = 0, n_quiet = 0, n_two = 0;
	uint64_t now = START;

	settle(&store, now);
	for (unsigned int i = 0; now < START + 2 * CERTIFICATE_AUTHORITY_NS; i++) {
		struct certificate_store *late = &then[i % LAG];

		assert_true(is_trusted(&store, now));
		if (late->tls_crt) {
			assert_true(certificate_is_trusted(&store, late->ca_crt, HOST, now));
			assert_true(certificate_is_trusted(late, store.ca_crt, HOST, now));
		}
		certificate_store_done(late);
		late->ca_crt = str_dup(str_from(store.ca_crt));
		late->tls_crt = str_dup(str_from(store.tls_crt));
		late->tls_key = str_dup(str_from(store.tls_key));
		n_two += unit_count(store.ca_crt, "BEGIN CERTIFICATE") > 1;
		n_quiet = step(&store, now) ? 0 : n_quiet + 1;
		n_changes += n_quiet == 0;
		now += n_quiet < 4 * LAG ? HOUR / LAG : 24 * HOUR;
	}
	for (int i = 0; i < LAG; i++)
		certificate_store_done(&then[i]);
	assert_in_range(n_changes, 12, 40);
	/* during a change the Secret has both authorities for over two hours, 2 * LAG steps */
	assert_true(n_two > 2 * LAG);
}

/* No controller ran for years. */
static void expired_certificates_are_replaced(void **state)
{
	_cleanup_certificate_store_ struct certificate_store store = {0};
	const uint64_t later = START + 5 * CERTIFICATE_AUTHORITY_NS;

	settle(&store, START);
	settle(&store, later);
	assert_true(is_trusted(&store, later));
	settle(&store, later + 2 * CERTIFICATE_OVERLAP_NS);
	assert_int_equal(unit_count(store.ca_crt, "BEGIN CERTIFICATE"), 1);
}

UNIT_MAIN(UNIT(a_missing_certificate_is_made), UNIT(an_unreadable_certificate_is_replaced),
	UNIT(a_certificate_with_another_key_is_replaced),
	UNIT(clients_trust_the_server_during_a_change), UNIT(expired_certificates_are_replaced))
