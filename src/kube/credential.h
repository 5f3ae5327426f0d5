/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What proves who we are, now: a fixed token, a file that is read again each minute and when the
 * server refuses what was in it, or a plugin that is run again when its answer expires. One thread.
 */
#ifndef KUBE_CREDENTIAL_H
#define KUBE_CREDENTIAL_H

#include "base/loop.h"
#include "kube/config.h"

#define CREDENTIAL_FILE_AGE_NS (UINT64_C(60) * 1000000000)
#define CREDENTIAL_EARLY_NS (UINT64_C(10) * 1000000000) /* before it expires */
#define CREDENTIAL_PAUSE_NS (UINT64_C(1) * 1000000000)  /* between two plugins that failed */

struct credential;

/* Borrowed until the loop goes on. NULL where there is none. */
struct credential_view {
	const char *token;
	const char *cert_pem, *key_pem;
	uint64_t generation; /* another one, another credential */
};

/* changed: after -EAGAIN, when it is worth asking again; never from within credential_get(). */
typedef void credential_fn(void *data);

int credential_new(struct loop *loop, const struct kube_config *config, credential_fn *changed,
	void *data, struct credential **ret_credential, struct error *err);
void credential_free(struct credential *credential);

/* 0; -EAGAIN while a plugin runs; else there is none, and err says why. */
int credential_get(
	struct credential *credential, struct credential_view *ret_view, struct error *err);

/* The server refused that one. True when the next get may bring another. */
bool credential_refused(struct credential *credential, uint64_t generation);

#endif
