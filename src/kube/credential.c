/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the current token or key pair and gets another one from a file or a plugin. `generation`
 * grows with each new credential, so a late refusal of an old one does not discard its successor.
 * At most one plugin runs at a time, and a failed plugin starts again only after
 * CREDENTIAL_PAUSE_NS. A token from a file stays in use while the file cannot be read.
 */
#include "kube/credential.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fd.h"
#include "kube/exec.h"

struct credential {
	struct loop *loop;
	const struct kube_config *config;
	credential_fn *changed;
	void *data;
	char *token; /* token from the file */
	uint64_t read_ns;
	bool must_refresh;
	uint64_t generation;
	struct exec_run *run;
	struct exec_result said; /* credential from the plugin */
	bool has_said;
	uint64_t said_ns;
	uint64_t failed_ns;
	struct error failure; /* of the plugin or the file; code 0: none */
};

int credential_new(struct loop *loop, const struct kube_config *config, credential_fn *changed,
	void *data, struct credential **ret_credential, struct error *err)
{
	struct credential *c = calloc(1, sizeof(*c));

	if (!c)
		return fail(err, ENOMEM, "out of memory for a credential");
	*c = (struct credential){.loop = loop, .config = config, .changed = changed, .data = data};
	*ret_credential = c;
	return 0;
}

static void forget_token(struct credential *c)
{
	str_wipe(&c->token);
}

void credential_free(struct credential *c)
{
	if (!c)
		return;
	exec_cancel(c->run);
	exec_result_done(&c->said);
	forget_token(c);
	free(c);
}

/* If the file cannot be read, the old token stays: the file is probably being replaced. */
static int credential_read_file(struct credential *c, struct error *err)
{
	const uint64_t now_ns = clock_now_ns();
	_cleanup_buf_ struct buf text = BUF_INIT(KUBE_TOKEN_MAX);
	struct str token;
	int r;

	if (c->token && !c->must_refresh && now_ns - c->read_ns < CREDENTIAL_FILE_AGE_NS)
		return 0;
	r = file_read(c->config->token_file, &text, err);
	token = str_trim(buf_str(&text));
	if (r == 0 && (!token.n || memchr(token.p, '\n', token.n) || memchr(token.p, 0, token.n)))
		r = fail(err, EBADMSG, "'%s': the file has no token", c->config->token_file);
	if (r < 0)
		return c->token ? 0 : r;
	c->read_ns = now_ns;
	c->must_refresh = false;
	if (c->token && str_is(token, c->token))
		return 0;
	forget_token(c);
	c->token = str_dup(token);
	c->generation++;
	return c->token ? 0 : fail(err, ENOMEM, "out of memory for a token");
}

static void credential_on_answer(
	void *data, int r, struct exec_result *result, const struct error *err)
{
	struct credential *c = data;

	c->run = NULL;
	if (r < 0) {
		c->failure = *err;
		c->failed_ns = clock_now_ns();
	} else {
		exec_result_done(&c->said);
		c->said = *result;
		*result = (struct exec_result){0};
		c->has_said = true;
		c->said_ns = clock_now_ns();
		c->must_refresh = false;
		c->failure.code = 0;
		c->generation++;
	}
	c->changed(c->data);
}

/*
 * A new answer is used for a moment even if it has expired by our clock. Otherwise a wrong clock
 * would make the plugin run again and again.
 */
static bool is_fresh(const struct credential *c)
{
	return c->has_said && !c->must_refresh &&
		(clock_now_ns() - c->said_ns < CREDENTIAL_PAUSE_NS ||
			c->said.expires_real_ns == CLOCK_NEVER ||
			clock_real_ns() + CREDENTIAL_EARLY_NS < c->said.expires_real_ns);
}

static int ask_plugin(struct credential *c, struct error *err)
{
	int r;

	if (is_fresh(c))
		return 0;
	if (c->run)
		return -EAGAIN;
	if (c->failure.code && clock_now_ns() - c->failed_ns < CREDENTIAL_PAUSE_NS)
		return fail(err, c->failure.code, "%s", c->failure.msg);
	c->failure.code = 0;
	r = exec_start(
		c->loop, c->config, EXEC_TIMEOUT_NS, credential_on_answer, c, &c->run, &c->failure);
	if (r == 0)
		return -EAGAIN;
	c->failed_ns = clock_now_ns();
	return fail(err, -r, "%s", c->failure.msg);
}

int credential_get(struct credential *c, struct credential_view *ret_view, struct error *err)
{
	const struct kube_config *config = c->config;
	struct credential_view view = {
		.token = config->token, .cert_pem = config->cert_pem, .key_pem = config->key_pem};
	int r = 0;

	if (config->token_file) {
		r = credential_read_file(c, err);
		view.token = c->token;
	} else if (config->exec) {
		r = ask_plugin(c, err);
		view.token = c->said.token ? c->said.token : view.token;
		view.cert_pem = c->said.cert_pem ? c->said.cert_pem : view.cert_pem;
		view.key_pem = c->said.key_pem ? c->said.key_pem : view.key_pem;
	}
	if (r < 0)
		return r;
	view.generation = c->generation;
	*ret_view = view;
	return 0;
}

bool credential_refused(struct credential *c, uint64_t generation)
{
	if (!c->config->token_file && !c->config->exec)
		return false;
	if (generation != c->generation)
		return true;
	c->must_refresh = true;
	return true;
}
