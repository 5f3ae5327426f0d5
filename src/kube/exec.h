/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a credential plugin as a child and reads what it says; the loop goes on. One thread. */
#ifndef KUBE_EXEC_H
#define KUBE_EXEC_H

#include "base/loop.h"
#include "kube/config.h"

#define EXEC_TIMEOUT_NS (UINT64_C(60) * 1000000000)
#define EXEC_OUTPUT_MAX (1u << 20)

/* Owned texts, NULL where it said nothing. */
struct exec_result {
	char *token;
	char *cert_pem, *key_pem;
	uint64_t expires_real_ns; /* CLOCK_NEVER: not said */
};
void exec_result_done(struct exec_result *result);

struct exec_run;

/* r is 0 or -errno, then err has the sentence. result may be taken apart; the rest is freed. */
typedef void exec_fn(void *data, int r, struct exec_result *result, const struct error *err);

/* done is called once, never from within; not after exec_cancel(). config is borrowed. */
int exec_start(struct loop *loop, const struct kube_config *config, uint64_t timeout_ns,
	exec_fn *done, void *data, struct exec_run **ret_run, struct error *err);

/* Kills the child. NULL is fine. Not from within done, after which the run is gone. */
void exec_cancel(struct exec_run *run);

/* What a plugin writes: an ExecCredential of that version. */
int exec_parse(struct str text, const char *api_version, struct exec_result *ret_result,
	struct error *err);

#endif
