/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what to do with a CertificateSigningRequest of the signer divvy.gpu/remote, from its JSON
 * and the known pods. The API server's data about the author and about pods is trusted. The request
 * itself proves only that its author has the key; the name in the request has to be checked. Each
 * request is checked again before it is signed, because other users may have approved it. Pure: no
 * I/O, no clock. Any thread.
 */
#ifndef CONTROLLER_SIGN_H
#define CONTROLLER_SIGN_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "controller/own-account.h"
#include "identity/request.h"

/* A request about a pod that the caches do not know yet waits at most this long. */
#define SIGN_PATIENCE_NS (UINT64_C(30) * 1000000000)
/* An answered request is deleted at this age; until then its author can read the answer. */
#define SIGN_KEPT_NS (UINT64_C(600) * 1000000000)

/* A request as read; borrows from its JSON. */
struct sign_ask {
	struct own_token by;
	struct request request;
	struct error wrong; /* why the request can never be signed; code 0: no such reason */
	uint64_t created_ns;
	bool is_ours; /* spec.signerName is divvy's signer */
	bool is_approved, is_answered;
};

/* Reads any JSON and cannot fail; the caller frees *ret_ask with sign_ask_done(). */
void sign_ask_read(const json_t *object, struct sign_ask *ret_ask);
void sign_ask_done(struct sign_ask *ask);
#define _cleanup_sign_ask_ __attribute__((cleanup(sign_ask_done)))

struct sign_facts {
	const char *ns;       /* namespace of divvy's service accounts */
	struct own_pod asker; /* the pod in that namespace that the author's token names */
	const json_t *tenant; /* the pod with the UID in the request's name; NULL: unknown */
	uint64_t real_ns;
};

enum sign_act {
	SIGN_NOTHING, /* decide again at *ret_again_ns; 0: never */
	SIGN_APPROVE,
	SIGN_DENY,  /* deny the request: the message gives the reason */
	SIGN_ISSUE, /* the request is approved and valid: sign it */
	SIGN_FAIL,  /* the request is approved, but invalid: the message gives the reason */
	SIGN_DELETE,
};

enum sign_act sign_decide(const struct sign_ask *ask, const struct sign_facts *facts,
	uint64_t *ret_again_ns, struct error *ret_why);

/* Returns a merge patch that adds a condition to those of the object; NULL: no memory. */
json_t *sign_condition(const json_t *object, const char *type, const char *message);

#endif
