/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a credential plugin as a child process and reads its output; the loop continues meanwhile.
 * One thread.
 */
#ifndef KUBE_EXEC_H
#define KUBE_EXEC_H

#include "base/loop.h"
#include "kube/kube-config.h"

#define EXEC_TIMEOUT_NS (UINT64_C(60) * 1000000000)
#define EXEC_OUTPUT_MAX (1u << 20)

/* Owned texts; NULL if the plugin gave none. */
struct exec_result {
	char *token;
	char *cert_pem, *key_pem;
	uint64_t expires_real_ns; /* CLOCK_NEVER: no expiry */
};
void exec_result_done(struct exec_result *result);

struct exec_run;

/*
 * r is 0 or -errno, with the message in err. The callback may take texts out of result; exec.c then
 * frees the remaining texts.
 */
typedef void exec_fn(void *data, int r, struct exec_result *result, const struct error *err);

/* Calls `done` once, never within exec_start(), and not after exec_cancel(). Borrows config. */
int exec_start(struct loop *loop, const struct kube_config *config, uint64_t timeout_ns,
	exec_fn *done, void *data, struct exec_run **ret_run, struct error *err);

/*
 * Kills the child and waits for its end. Accepts NULL. Do not call it from `done`, after which the
 * run is invalid.
 */
void exec_cancel(struct exec_run *run);

/* Parses a plugin's output, an ExecCredential of version api_version. -EBADMSG, -ENOMEM. */
int exec_parse(struct str text, const char *api_version, struct exec_result *ret_result,
	struct error *err);

#endif
