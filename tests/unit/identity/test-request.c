/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include <gnutls/x509.h>

#include "base/cleanup.h"
#include "identity/crt.h"
#include "identity/request.h"
#include "made.h"

#define TENANT "divvy://tenant/" MADE_UID "/main"

/* A request with arbitrary content, as an attacker might send it. */
struct wish {
	const char *uri, *second_uri, *dns, *subject, *password;
	gnutls_pk_algorithm_t algorithm;
	unsigned int bits; /* 0: P-256 */
	bool is_authority;
};

static char *write_request(const struct wish *translation)
{
	gnutls_x509_privkey_t key;
	gnutls_x509_crq_t crq;
	gnutls_datum_t text;
	char *pem;

	assert_ok(gnutls_x509_privkey_init(&key));
	assert_ok(gnutls_x509_privkey_generate(key,
		translation->algorithm ? translation->algorithm : GNUTLS_PK_ECDSA,
		translation->bits ? translation->bits
				  : GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1),
		0));
	assert_ok(gnutls_x509_crq_init(&crq));
	assert_ok(gnutls_x509_crq_set_version(crq, 1));
	assert_ok(gnutls_x509_crq_set_key(crq, key));
	if (translation->subject)
		assert_ok(gnutls_x509_crq_set_dn_by_oid(crq, GNUTLS_OID_X520_COMMON_NAME, 0,
			translation->subject, (unsigned)strlen(translation->subject)));
	if (translation->uri)
		assert_ok(gnutls_x509_crq_set_subject_alt_name(crq, GNUTLS_SAN_URI,
			translation->uri, (unsigned)strlen(translation->uri), GNUTLS_FSAN_SET));
	if (translation->second_uri)
		assert_ok(gnutls_x509_crq_set_subject_alt_name(crq, GNUTLS_SAN_URI,
			translation->second_uri, (unsigned)strlen(translation->second_uri),
			GNUTLS_FSAN_APPEND));
	if (translation->dns)
		assert_ok(gnutls_x509_crq_set_subject_alt_name(crq, GNUTLS_SAN_DNSNAME,
			translation->dns, (unsigned)strlen(translation->dns), GNUTLS_FSAN_APPEND));
	if (translation->is_authority)
		assert_ok(gnutls_x509_crq_set_basic_constraints(crq, 1, -1));
	if (translation->password)
		assert_ok(gnutls_x509_crq_set_challenge_password(crq, translation->password));
	assert_ok(gnutls_x509_crq_sign2(crq, key, GNUTLS_DIG_UNKNOWN, 0));
	assert_ok(gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_PEM, &text));
	pem = str_dup((struct str){(const char *)text.data, text.size});
	gnutls_free(text.data);
	gnutls_x509_crq_deinit(crq);
	gnutls_x509_privkey_deinit(key);
	return pem;
}

static void a_request_is_read_as_it_was_made(void **state)
{
	const struct identity_name name = {
		.kind = IDENTITY_OF_TENANT, .uid = MADE_UID, .container = "main"};
	_cleanup_free_ char *pem = NULL, *pem_key = NULL;
	_cleanup_request_ struct request request = {0};
	gnutls_x509_privkey_t key;
	struct error err = {0};

	if (request_make(&name, &pem, &pem_key, &err) < 0)
		fail_msg("%s", err.msg);
	/* The API server looks for this line. */
	assert_int_equal(strncmp(pem, "-----BEGIN CERTIFICATE REQUEST-----\n", 36), 0);
	if (request_read(str_from(pem), &request, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(identity_name_is_same(&request.name, &name));
	assert_non_null(request.key);
	key = crt_key_read(pem_key);
	assert_non_null(key);
	gnutls_x509_privkey_deinit(key);
}

static void without_a_name_no_request_is_made(void **state)
{
	const struct identity_name name = {.kind = IDENTITY_OF_NODE, .node = "No Name"};
	struct error err;
	char *pem, *key;

	assert_int_equal(request_make(&name, &pem, &key, &err), -EINVAL);
	assert_contains(err.msg, "No Name");
}

static void other_strong_keys_are_accepted(void **state)
{
	_cleanup_free_ char *pem = write_request(&(struct wish){.uri = TENANT,
		.algorithm = GNUTLS_PK_EDDSA_ED25519,
		.bits = GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_ED25519)});
	_cleanup_request_ struct request request = {0};
	struct error err = {0};

	if (request_read(str_from(pem), &request, &err) < 0)
		fail_msg("%s", err.msg);
}

static void a_request_with_more_or_less_than_a_name_is_refused(void **state)
{
	static const struct {
		struct wish wish;
		const char *says;
	} cases[] = {
		{{.uri = TENANT, .algorithm = GNUTLS_PK_RSA, .bits = 1024}, "RSA of 1024 bits"},
		{{.uri = TENANT, .algorithm = GNUTLS_PK_RSA, .bits = 2048}, "RSA of 2048 bits"},
		{{.uri = TENANT, .bits = GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP384R1)},
			"384 bits"},
		{{.uri = TENANT, .subject = "system:admin"}, "the request has a subject"},
		{{.uri = TENANT, .second_uri = "divvy://node/n1"}, "second alternative name"},
		{{.uri = TENANT, .dns = "divvy-controller.divvy-system.svc"},
			"second alternative name"},
		{{.dns = "divvy-controller.divvy-system.svc"}, "not a URI"},
		{{.uri = TENANT, .is_authority = true}, "extension"},
		{{.is_authority = true}, "extension"},
		{{.uri = TENANT, .password = "let me in"}, "attribute"},
		{{.uri = "spiffe://tenant/x"}, "neither divvy://node"},
		{{.uri = NULL}, "the request has no attribute"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *pem = write_request(&cases[i].wish);
		_cleanup_request_ struct request request = {0};
		struct error err = {0};

		assert_int_equal(request_read(str_from(pem), &request, &err), -EINVAL);
		assert_contains(err.msg, cases[i].says);
		assert_null(request.key);
	}
}

/* A copied request in which the name was changed. */
static void a_changed_request_is_refused(void **state)
{
	const struct identity_name name = {.kind = IDENTITY_OF_NODE, .node = "n1"};
	_cleanup_free_ char *pem = NULL, *key = NULL;
	_cleanup_request_ struct request request = {0};
	gnutls_datum_t text, der;
	gnutls_x509_crq_t crq;
	struct error err;
	uint8_t *at;

	assert_ok(request_make(&name, &pem, &key, NULL));
	text = (gnutls_datum_t){(unsigned char *)pem, (unsigned)strlen(pem)};
	assert_ok(gnutls_pem_base64_decode2(NULL, &text, &der));
	at = memmem(der.data, der.size, "divvy://node/n1", 15);
	assert_non_null(at);
	at[14] = '2';
	assert_ok(gnutls_x509_crq_init(&crq));
	assert_ok(gnutls_x509_crq_import(crq, &der, GNUTLS_X509_FMT_DER));
	gnutls_free(der.data);
	assert_ok(gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_PEM, &text));
	assert_int_equal(
		request_read((struct str){(const char *)text.data, text.size}, &request, &err),
		-EINVAL);
	assert_contains(err.msg, "not signed by its own key");
	gnutls_free(text.data);
	gnutls_x509_crq_deinit(crq);
}

static void rubbish_is_refused(void **state)
{
	static const char *const bad[] = {"", "rubbish",
		"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"};
	_cleanup_free_ char *large = calloc(1, REQUEST_PEM_MAX + 2);
	_cleanup_request_ struct request request = {0};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(request_read(str_from(bad[i]), &request, &err), -EINVAL);
	memset(large, 'a', REQUEST_PEM_MAX + 1);
	assert_int_equal(request_read(str_from(large), &request, &err), -EINVAL);
	assert_contains(err.msg, "8193 bytes");
}

UNIT_MAIN(UNIT(a_request_is_read_as_it_was_made), UNIT(without_a_name_no_request_is_made),
	UNIT(other_strong_keys_are_accepted),
	UNIT(a_request_with_more_or_less_than_a_name_is_refused),
	UNIT(a_changed_request_is_refused), UNIT(rubbish_is_refused))
