/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CertificateSigningRequests of the signer divvy.gpu/remote: decides what to do with one, from its
 * JSON and the known pods. The API server's data about the author and about pods is trusted. The
 * request itself proves only that its writer has the key; its name is a claim to check. Each
 * request is checked again before it is signed, because others may have approved it. Pure: no I/O,
 * no clock. Any thread.
 */
#ifndef CONTROLLER_SIGN_H
#define CONTROLLER_SIGN_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "controller/own-account.h"
#include "identity/request.h"

/* For this long an unknown pod may only be too new for the caches. */
#define SIGN_PATIENCE_NS (UINT64_C(30) * 1000000000)
/*
 * An answered request is kept for its author this long, counted from its creation, and then
 * deleted.
 */
#define SIGN_KEPT_NS (UINT64_C(600) * 1000000000)

/* Borrows from the object. */
struct sign_ask {
	struct own_token by;
	struct request request;
	struct error wrong; /* why it can never be signed; code 0: it may be */
	uint64_t created_ns;
	bool is_ours; /* for our signer */
	bool is_approved, is_answered;
};

/* Reads any JSON and cannot fail; the caller frees *ret_ask with sign_ask_done(). */
void sign_ask_read(const json_t *object, struct sign_ask *ret_ask);
void sign_ask_done(struct sign_ask *ask);
#define _cleanup_sign_ask_ __attribute__((cleanup(sign_ask_done)))

struct sign_facts {
	const char *ns;       /* of divvy's own accounts */
	struct own_pod asker; /* the pod in that namespace that the token names */
	const json_t *tenant; /* the pod with the UID in the request's name; NULL: unknown */
	uint64_t real_ns;
};

enum sign_act {
	SIGN_NOTHING, /* decide again at *ret_again_ns; 0: never */
	SIGN_APPROVE,
	SIGN_DENY,  /* the message says why */
	SIGN_ISSUE, /* it is approved and valid: sign it */
	SIGN_FAIL,  /* it is approved, but invalid: the message says why */
	SIGN_DELETE,
};

enum sign_act sign_decide(const struct sign_ask *ask, const struct sign_facts *facts,
	uint64_t *ret_again_ns, struct error *ret_why);

/* A merge patch that adds a condition to the object's; NULL: no memory. */
json_t *sign_condition(const json_t *object, const char *type, const char *message);

#endif
