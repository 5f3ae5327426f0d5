/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificate requests. The first byte chooses the input: a name, a request in PEM, a
 * CertificateSigningRequest object with its pod, the DER bytes of a request in a valid object, or
 * an identity's texts. Accepted names format to the same text. The signer accepts no request
 * without a name, or with the name of another requester.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "controller/sign.h"
#include "fuzz.h"
#include "identity/crt.h"
#include "identity/identity.h"
#include "kube/kube-json.h"

#define NOW (UINT64_C(1700000000) * 1000000000)

static void read_name(struct str text)
{
	struct identity_name name;
	struct error err = {0};
	char uri[IDENTITY_URI];

	if (identity_name_parse(text, &name, &err) < 0) {
		FUZZ_CHECK(err.msg[0]);
		return;
	}
	FUZZ_CHECK(identity_name_format(&name, uri) == 0 && str_is(text, uri));
}

static void read_request(struct str text)
{
	_cleanup_request_ struct request request = {0};
	struct error err = {0};
	char uri[IDENTITY_URI];

	if (request_read(text, &request, &err) < 0)
		FUZZ_CHECK(err.msg[0] && !request.key);
	else
		FUZZ_CHECK(request.key && identity_name_format(&request.name, uri) == 0);
}

static void decide(const json_t *object, const json_t *tenant)
{
	_cleanup_sign_ask_ struct sign_ask ask = {0};
	struct sign_facts facts = {
		.ns = "divvy-system", .asker = {"u", "n1"}, .tenant = tenant, .real_ns = NOW};
	struct error why = {0};
	uint64_t again = 0;
	enum sign_act act;

	sign_ask_read(object, &ask);
	act = sign_decide(&ask, &facts, &again, &why);
	FUZZ_CHECK((act != SIGN_DENY && act != SIGN_FAIL) || why.msg[0]);
	if (act == SIGN_APPROVE || act == SIGN_ISSUE) {
		FUZZ_CHECK(ask.request.key && !ask.wrong.code &&
			!strcmp(ask.by.user, "system:serviceaccount:divvy-system:divvyd"));
		FUZZ_CHECK(ask.request.name.kind == IDENTITY_OF_TENANT
				? tenant != NULL
				: !strcmp(ask.request.name.node, "n1"));
	}
	json_decref(sign_condition(object, "Denied", why.msg));
}

/* Decides about the object; its member "pod" is the pod that the request is about. */
static void read_object(struct str text)
{
	_cleanup_json_ json_t *object = NULL;

	if (kube_json_parse(text, &object, NULL) == 0)
		decide(object, json_object_get(object, "pod"));
}

/* Puts the bytes as a request into an otherwise valid object. */
static void read_der(struct str text)
{
	_cleanup_buf_ struct buf pem = BUF_INIT(1 << 17), twice = BUF_INIT(1 << 18);
	_cleanup_json_ json_t *object = NULL;

	buf_add_text(&pem, "-----BEGIN CERTIFICATE REQUEST-----\n");
	base64_encode(text, &pem);
	buf_add_text(&pem, "\n-----END CERTIFICATE REQUEST-----\n");
	if (base64_encode(buf_str(&pem), &twice) < 0)
		return;
	object = json_pack("{s:{s:s, s:s, s:s, s:[s, s, s], s:{s:[s], s:[s]}}}", "spec", "request",
		buf_text(&twice), "signerName", IDENTITY_SIGNER, "username",
		"system:serviceaccount:divvy-system:divvyd", "usages", "digital signature",
		"client auth", "server auth", "extra", OWN_POD_NAME, "d", OWN_POD_UID, "u");
	decide(object, NULL);
}

static void read_identity(struct str text)
{
	_cleanup_free_ char *all = str_dup(text);
	const struct identity identity = {all, all, all};
	struct identity_facts facts;
	struct error err = {0};

	if (identity_check(&identity, NOW, &facts, &err) < 0)
		FUZZ_CHECK(err.msg[0]);
	else
		FUZZ_CHECK(facts.name.kind != IDENTITY_NOBODY && facts.from_ns <= NOW);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static void (*const readers[])(struct str text) = {
		read_name, read_request, read_object, read_der, read_identity};
	const struct str text = {(const char *)data + 1, n - 1};

	if (!n || n > 1 << 15)
		return 0;
	readers[data[0] % ARRAY_SIZE(readers)](text);
	return 0;
}
