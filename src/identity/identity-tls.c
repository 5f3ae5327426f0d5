/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up GnuTLS sessions and checks the certificate of the peer. GnuTLS calls
 * identity_tls_verify_peer() within the handshake: the callback checks the chain, the key purpose
 * and the name. A negative result of identity_tls_verify_peer() ends the handshake before a client
 * sends its own certificate. `why` keeps the fault that identity_tls_verify_peer() found, since
 * GnuTLS passes on only a code. identity_session_check() refuses a session whose peer
 * identity_tls_verify_peer() has not identified. Sessions use no tickets, so every connection
 * verifies a certificate.
 */
#include "identity/identity-tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "identity/crt.h"

#define NO_MORE GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE

struct identity_tls {
	gnutls_certificate_credentials_t credentials;
};

int identity_crt_name(gnutls_x509_crt_t crt, struct identity_name *ret_name, struct error *err)
{
	char uri[IDENTITY_URI];
	size_t size = sizeof(uri);
	struct identity_name name;
	int r = gnutls_x509_crt_get_subject_alt_name(crt, 0, uri, &size, NULL);

	if (r < 0)
		return fail(err, EINVAL, "the certificate has no name: %s", gnutls_strerror(r));
	if (r != GNUTLS_SAN_URI)
		return fail(err, EINVAL, "the certificate's alternative name is not a URI");
	r = identity_name_parse((struct str){uri, size}, &name, err);
	if (r < 0)
		return r;
	size = sizeof(uri);
	if (gnutls_x509_crt_get_subject_alt_name(crt, 1, uri, &size, NULL) != NO_MORE)
		return fail(err, EINVAL, "the certificate has a second alternative name");
	*ret_name = name;
	return 0;
}

/* ---- the peer's certificate ---- */

static int identity_tls_read_peer(
	gnutls_session_t tls, struct identity_name *ret_name, struct error *err)
{
	const gnutls_datum_t *chain;
	gnutls_x509_crt_t crt = NULL;
	unsigned int n = 0;
	int r;

	chain = gnutls_certificate_get_peers(tls, &n);
	if (!chain || !n)
		return fail(err, EACCES, "the peer has shown no certificate");
	if (gnutls_x509_crt_init(&crt) < 0)
		return fail(err, ENOMEM, "out of memory");
	r = gnutls_x509_crt_import(crt, chain, GNUTLS_X509_FMT_DER);
	r = r < 0 ? fail(err, EINVAL, "the peer's certificate: %s", gnutls_strerror(r))
		  : identity_crt_name(crt, ret_name, err);
	gnutls_x509_crt_deinit(crt);
	return r;
}

static int check_vouched_for(const struct identity_session *session, struct error *err)
{
	gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
		.data = (unsigned char *)(session->node ? GNUTLS_KP_TLS_WWW_SERVER
							: GNUTLS_KP_TLS_WWW_CLIENT)};
	gnutls_datum_t text = {NULL, 0};
	unsigned int wrong = 0;
	int r = gnutls_certificate_verify_peers(session->tls, &purpose, 1, &wrong);

	if (r < 0)
		return fail(err, EACCES, "the peer's certificate: %s", gnutls_strerror(r));
	if (!wrong)
		return 0;
	if (gnutls_certificate_verification_status_print(wrong, GNUTLS_CRT_X509, &text, 0) < 0)
		return fail(err, EACCES, "the peer's certificate is not trusted");
	r = fail(err, EACCES, "the peer's certificate as %s: %.150s",
		session->node ? "a server" : "a client", (const char *)text.data);
	gnutls_free(text.data);
	return r;
}

/* A negative result ends the handshake before a client sends its certificate. */
static int identity_tls_verify_peer(gnutls_session_t tls)
{
	struct identity_session *session = gnutls_session_get_ptr(tls);
	struct identity_name peer = {0};
	struct error err = {0};
	int r = check_vouched_for(session, &err);

	r = r < 0 ? r : identity_tls_read_peer(tls, &peer, &err);
	if (r == 0 && session->node &&
		(peer.kind != IDENTITY_OF_NODE || strcmp(peer.node, session->node)))
		r = fail(&err, EACCES, "the peer is %s '%.100s'; expected node '%.100s'",
			peer.kind == IDENTITY_OF_NODE ? "node" : "a container of pod",
			peer.kind == IDENTITY_OF_NODE ? peer.node : peer.uid, session->node);
	if (r < 0) {
		session->why = err;
		return GNUTLS_E_CERTIFICATE_ERROR;
	}
	session->peer = peer;
	return 0;
}

int identity_session_check(const struct identity_session *session, int r, struct error *err)
{
	if (session->why.code)
		return fail(err, EACCES, "%s", session->why.msg);
	if (r < 0)
		return fail(err, EACCES, "the TLS handshake failed: %s", gnutls_strerror(r));
	/*
	 * In case the library skips the callback: refuses a peer that identity_tls_verify_peer()
	 * has not checked.
	 */
	if (session->peer.kind == IDENTITY_NOBODY ||
		gnutls_auth_get_type(session->tls) != GNUTLS_CRD_CERTIFICATE)
		return fail(err, EACCES, "the peer has shown no certificate");
	return 0;
}

/* ---- our own certificate ---- */

static gnutls_datum_t identity_tls_datum(const char *text)
{
	return (gnutls_datum_t){(unsigned char *)text, (unsigned int)strlen(text)};
}

int identity_tls_new(
	const struct identity *identity, struct identity_tls **ret_tls, struct error *err)
{
	struct identity_tls *tls = calloc(1, sizeof(*tls));
	int r;

	if (!tls)
		return fail(err, ENOMEM, "out of memory");
	r = gnutls_certificate_allocate_credentials(&tls->credentials);
	if (r >= 0) {
		const gnutls_datum_t crt = identity_tls_datum(identity->crt),
				     key = identity_tls_datum(identity->key),
				     authority = identity_tls_datum(identity->authority);

		r = gnutls_certificate_set_x509_key_mem(
			tls->credentials, &crt, &key, GNUTLS_X509_FMT_PEM);
		if (r >= 0)
			r = gnutls_certificate_set_x509_trust_mem(
				tls->credentials, &authority, GNUTLS_X509_FMT_PEM);
		if (r == 0)
			r = GNUTLS_E_NO_CERTIFICATE_FOUND;
	}
	if (r < 0) {
		identity_tls_free(tls);
		return fail(err, EINVAL, "load the identity for TLS: %s", gnutls_strerror(r));
	}
	gnutls_certificate_set_verify_function(tls->credentials, identity_tls_verify_peer);
	*ret_tls = tls;
	return 0;
}

void identity_tls_free(struct identity_tls *tls)
{
	if (tls && tls->credentials)
		gnutls_certificate_free_credentials(tls->credentials);
	free(tls);
}

int identity_session_init(
	struct identity_session *session, struct identity_tls *tls, const char *node)
{
	/* No session tickets: every connection has to show a certificate. */
	const unsigned int flags = GNUTLS_NO_TICKETS | GNUTLS_NO_SIGNAL |
		(node ? GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT : GNUTLS_SERVER);
	int r;

	*session = (struct identity_session){.node = node};
	r = gnutls_init(&session->tls, flags);
	r = r < 0 ? r : gnutls_priority_set_direct(session->tls, IDENTITY_PRIORITY, NULL);
	r = r < 0 ? r
		  : gnutls_credentials_set(session->tls, GNUTLS_CRD_CERTIFICATE, tls->credentials);
	if (r < 0) {
		identity_session_done(session);
		return -ENOMEM;
	}
	gnutls_session_set_ptr(session->tls, session);
	if (!node) {
		gnutls_certificate_server_set_request(session->tls, GNUTLS_CERT_REQUIRE);
		/* Unauthenticated peers need not learn which authorities we trust. */
		gnutls_certificate_send_x509_rdn_sequence(session->tls, 1);
	}
	return 0;
}

void identity_session_done(struct identity_session *session)
{
	if (session->tls)
		gnutls_deinit(session->tls);
	session->tls = NULL;
}
