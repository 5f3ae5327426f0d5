/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The current credential: a fixed token; a token file, read again each minute and after a refusal;
 * or a plugin, run again when its answer expires. One thread.
 */
#ifndef KUBE_CREDENTIAL_H
#define KUBE_CREDENTIAL_H

#include "base/loop.h"
#include "kube/kube-config.h"

#define CREDENTIAL_FILE_AGE_NS (UINT64_C(60) * 1000000000)
/* a plugin runs again this long before its credential expires */
#define CREDENTIAL_EARLY_NS (UINT64_C(10) * 1000000000)
#define CREDENTIAL_PAUSE_NS (UINT64_C(1) * 1000000000) /* between runs of a failing plugin */

struct credential;

/* Valid until the loop continues. A missing value is NULL. */
struct credential_view {
	const char *token;
	const char *cert_pem, *key_pem;
	uint64_t generation; /* changes with each new credential */
};

/* Called after -EAGAIN when credential_get() may succeed; never within credential_get(). */
typedef void credential_fn(void *data);

int credential_new(struct loop *loop, const struct kube_config *config, credential_fn *changed,
	void *data, struct credential **ret_credential, struct error *err);
void credential_free(struct credential *credential);

/* Returns 0; -EAGAIN while a plugin runs; otherwise the failure. */
int credential_get(
	struct credential *credential, struct credential_view *ret_view, struct error *err);

/*
 * The server refused the credential of that generation. Returns true if the next credential_get()
 * may give another one.
 */
bool credential_refused(struct credential *credential, uint64_t generation);

#endif
