/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file writes certificate requests, and reads the requests of other parties. The reader
 * accepts one exact form: one attribute, one extension, one URI and an empty subject. check_only()
 * asks for a second entry and accepts no answer but NO_MORE, so an unreadable entry fails too.
 * check_key() verifies the signature with the key in the request, which proves that the author has
 * the private key. The writer wipes GnuTLS's copy of the private key's text.
 */
#include "identity/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/x509.h>

#include "base/cleanup.h"

#define OID_EXTENSIONS "1.2.840.113549.1.9.14" /* PKCS #9: extensionRequest */
#define OID_ALTERNATIVE "2.5.29.17"
#define OID_MAX 128u
#define NO_MORE GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE

/* ---- our own requests ---- */

static char *request_take_text(gnutls_datum_t *text)
{
	char *copy = str_dup((struct str){(const char *)text->data, text->size});

	explicit_bzero(text->data, text->size);
	gnutls_free(text->data);
	return copy;
}

static int request_export_pem(
	gnutls_x509_crq_t crq, gnutls_x509_privkey_t key, char **ret_request, char **ret_key)
{
	gnutls_datum_t text = {NULL, 0}, der = {NULL, 0};
	int r = gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_DER, &der);

	/*
	 * Writes the header of RFC 7468. GnuTLS itself writes an older header, which API servers
	 * refuse.
	 */
	if (r >= 0)
		r = gnutls_pem_base64_encode2("CERTIFICATE REQUEST", &der, &text);
	gnutls_free(der.data);
	if (r < 0)
		return r;
	*ret_request = request_take_text(&text);
	r = gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text);
	if (r >= 0)
		*ret_key = request_take_text(&text);
	return r < 0 ? r : *ret_request && *ret_key ? 0 : GNUTLS_E_MEMORY_ERROR;
}

int request_make(
	const struct identity_name *name, char **ret_request, char **ret_key, struct error *err)
{
	_cleanup_free_ char *request = NULL;
	char uri[IDENTITY_URI], *pem_key = NULL;
	gnutls_x509_privkey_t key = NULL;
	gnutls_x509_crq_t crq = NULL;
	int r;

	if (identity_name_format(name, uri) < 0)
		return fail(err, EINVAL, "'%.200s' is not a name that a certificate can have",
			name->kind == IDENTITY_OF_NODE ? name->node : name->uid);
	r = gnutls_x509_privkey_init(&key);
	r = r < 0 ? r
		  : gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
			    GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
	r = r < 0 ? r : gnutls_x509_crq_init(&crq);
	r = r < 0 ? r : gnutls_x509_crq_set_version(crq, 1);
	r = r < 0 ? r : gnutls_x509_crq_set_key(crq, key);
	r = r < 0 ? r
		  : gnutls_x509_crq_set_subject_alt_name(
			    crq, GNUTLS_SAN_URI, uri, (unsigned int)strlen(uri), GNUTLS_FSAN_SET);
	r = r < 0 ? r : gnutls_x509_crq_sign2(crq, key, GNUTLS_DIG_SHA256, 0);
	r = r < 0 ? r : request_export_pem(crq, key, &request, &pem_key);
	if (crq)
		gnutls_x509_crq_deinit(crq);
	if (key)
		gnutls_x509_privkey_deinit(key);
	if (r < 0) {
		str_wipe(&pem_key);
		return fail(err, EIO, "create the request for the certificate of %s: %s", uri,
			gnutls_strerror(r));
	}
	*ret_request = TAKE_PTR(request);
	*ret_key = pem_key;
	return 0;
}

/* ---- other parties' requests ---- */

/* Gets the object identifier of entry i. check_only() requires exactly one entry, `only`. */
typedef int oid_fn(gnutls_x509_crq_t crq, unsigned int i, char *oid, size_t *size);

static int attribute_oid(gnutls_x509_crq_t crq, unsigned int i, char *oid, size_t *size)
{
	return gnutls_x509_crq_get_attribute_info(crq, i, oid, size);
}

static int extension_oid(gnutls_x509_crq_t crq, unsigned int i, char *oid, size_t *size)
{
	unsigned int is_critical;

	return gnutls_x509_crq_get_extension_info(crq, i, oid, size, &is_critical);
}

static int check_only(
	gnutls_x509_crq_t crq, oid_fn *get, const char *only, const char *what, struct error *err)
{
	char oid[OID_MAX] = "";
	size_t size = sizeof(oid);
	int r = get(crq, 0, oid, &size);

	if (r < 0)
		return fail(err, EINVAL,
			"the request has no %s %s; expected the owner's name as a URI", what, only);
	if (strcmp(oid, only))
		return fail(err, EINVAL, "%s %s is not allowed; expected %s only", what, oid, only);
	size = sizeof(oid);
	r = get(crq, 1, oid, &size);
	if (r != NO_MORE)
		return fail(
			err, EINVAL, "a second %s is not allowed; expected %s once", what, only);
	return 0;
}

static int check_subject(gnutls_x509_crq_t crq, struct error *err)
{
	char oid[OID_MAX] = "";
	size_t size = sizeof(oid);
	int r = gnutls_x509_crq_get_dn_oid(crq, 0, oid, &size);

	if (r != NO_MORE)
		return fail(err, EINVAL,
			"the request has a subject (%s); expected none, since the URI is the name",
			r < 0 ? gnutls_strerror(r) : oid);
	return 0;
}

static int request_read_name(
	gnutls_x509_crq_t crq, struct identity_name *ret_name, struct error *err)
{
	char uri[IDENTITY_URI];
	size_t size = sizeof(uri);
	unsigned int type = 0, is_critical;
	int r = gnutls_x509_crq_get_subject_alt_name(crq, 0, uri, &size, &type, &is_critical);

	if (r < 0)
		return fail(
			err, EINVAL, "the alternative name of the request: %s", gnutls_strerror(r));
	if (type != GNUTLS_SAN_URI)
		return fail(err, EINVAL, "the alternative name of the request is not a URI");
	r = identity_name_parse((struct str){uri, size}, ret_name, err);
	if (r < 0)
		return r;
	size = sizeof(uri);
	r = gnutls_x509_crq_get_subject_alt_name(crq, 1, uri, &size, &type, &is_critical);
	if (r != NO_MORE)
		return fail(
			err, EINVAL, "the request has a second alternative name; expected one URI");
	return 0;
}

static int check_key(gnutls_x509_crq_t crq, gnutls_pubkey_t key, struct error *err)
{
	gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;
	unsigned int bits = 0;
	int r, algorithm;

	r = gnutls_pubkey_import_x509_crq(key, crq, 0);
	if (r < 0)
		return fail(err, EINVAL, "the key of the request: %s", gnutls_strerror(r));
	algorithm = gnutls_pubkey_get_pk_algorithm(key, &bits);
	if (algorithm == GNUTLS_PK_ECDSA)
		gnutls_pubkey_export_ecc_raw2(key, &curve, NULL, NULL, 0);
	if (algorithm != GNUTLS_PK_EDDSA_ED25519 && curve != GNUTLS_ECC_CURVE_SECP256R1)
		return fail(err, EINVAL,
			"the key of the request is %s of %u bits; expected P-256 or Ed25519",
			gnutls_pk_get_name((gnutls_pk_algorithm_t)algorithm), bits);
	r = gnutls_x509_crq_verify(crq, 0);
	if (r < 0)
		return fail(err, EINVAL, "the request is not signed by its own key: %s",
			gnutls_strerror(r));
	return 0;
}

static int request_read_crq(gnutls_x509_crq_t crq, struct request *request, struct error *err)
{
	int r = check_key(crq, request->key, err);

	r = r < 0 ? r : check_subject(crq, err);
	r = r < 0 ? r : check_only(crq, attribute_oid, OID_EXTENSIONS, "attribute", err);
	r = r < 0 ? r : check_only(crq, extension_oid, OID_ALTERNATIVE, "extension", err);
	return r < 0 ? r : request_read_name(crq, &request->name, err);
}

int request_read(struct str pem, struct request *ret_request, struct error *err)
{
	const gnutls_datum_t text = {(unsigned char *)pem.p, (unsigned int)pem.n};
	_cleanup_request_ struct request request = {0};
	gnutls_x509_crq_t crq = NULL;
	int r;

	if (!pem.n || pem.n > REQUEST_PEM_MAX)
		return fail(err, EINVAL, "the request has %zu bytes; expected 1 to %u", pem.n,
			REQUEST_PEM_MAX);
	if (gnutls_x509_crq_init(&crq) < 0 || gnutls_pubkey_init(&request.key) < 0)
		r = fail(err, ENOMEM, "out of memory");
	else if ((r = gnutls_x509_crq_import(crq, &text, GNUTLS_X509_FMT_PEM)) < 0)
		r = fail(err, EINVAL, "the text is not a certificate request in PEM: %s",
			gnutls_strerror(r));
	else
		r = request_read_crq(crq, &request, err);
	if (crq)
		gnutls_x509_crq_deinit(crq);
	if (r < 0)
		return r;
	*ret_request = request;
	request.key = NULL;
	return 0;
}

void request_done(struct request *request)
{
	if (request->key)
		gnutls_pubkey_deinit(request->key);
	request->key = NULL;
}
