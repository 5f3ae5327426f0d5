/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for certificates in the cluster (CertificateSigningRequest, signer divvy.gpu/remote):
 * what is to be done with one, out of its JSON and what is known of the pods. Believed is what the
 * API server says of who has asked, and of pods; of the request itself, which proves that its
 * writer has the key, the name is a claim to be checked. What is decided about a request is
 * decided anew before it is signed: others may have approved it.
 * Pure: no I/O, no clock. Any thread.
 */
#ifndef CONTROLLER_SIGN_H
#define CONTROLLER_SIGN_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "controller/own.h"
#include "identity/request.h"

/* So long a pod that is not known may only be one that is not known yet. */
#define SIGN_PATIENCE_NS (UINT64_C(30) * 1000000000)
/* What has been answered is kept so long for who has asked, then deleted. */
#define SIGN_KEPT_NS (UINT64_C(600) * 1000000000)

/* Borrows from the object. */
struct sign_ask {
	struct own_token by;
	struct request request;
	struct error wrong; /* why it can never be signed; code 0: it might be */
	uint64_t created_ns;
	bool is_ours; /* of our signer */
	bool is_approved, is_answered;
};

/* Of any JSON; sign_ask_done() in any case. */
void sign_ask_read(const json_t *object, struct sign_ask *ret_ask);
void sign_ask_done(struct sign_ask *ask);
#define _cleanup_sign_ask_ __attribute__((cleanup(sign_ask_done)))

struct sign_facts {
	const char *ns;       /* of divvy's own accounts */
	struct own_pod asker; /* the pod there that the token names */
	const json_t *tenant; /* the pod with the UID of the request's name; NULL: none is known */
	uint64_t real_ns;
};

enum sign_act {
	SIGN_NOTHING, /* look again at ret_again_ns; 0: never */
	SIGN_APPROVE,
	SIGN_DENY,  /* the sentence says why */
	SIGN_ISSUE, /* it is approved, and rightly so */
	SIGN_FAIL,  /* it is approved, and may not be signed: the sentence */
	SIGN_DELETE,
};

enum sign_act sign_decide(const struct sign_ask *ask, const struct sign_facts *facts,
	uint64_t *ret_again_ns, struct error *ret_why);

/* A merge patch that adds a condition to those of the object; NULL: no memory. */
json_t *sign_condition(const json_t *object, const char *type, const char *message);

#endif
