/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a credential plugin with pipes for stdout and stderr, which the loop reads while the
 * plugin runs. The plugin's pidfd becomes readable at its exit: exec_on_ended() then reads the
 * rest, reaps the child and calls `done`. The timer only sends SIGKILL, so a started run ends in
 * exec_on_ended() or in exec_cancel(). exec_drain_outlet() closes a pipe that has delivered more
 * than EXEC_OUTPUT_MAX bytes; SIGPIPE may then end the plugin. exec_cancel() blocks until the
 * killed child is reaped.
 * outlet_done() overwrites the output, since stdout carries the credential.
 */
#include "kube/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/base64.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/spawn.h"
#include "kube/time.h"

#define PIECE 4096u

/* A pipe that the child writes to. */
struct outlet {
	struct loop_io io;
	int fd;
	struct buf text;
	bool is_full; /* more than EXEC_OUTPUT_MAX bytes, or more than fit in memory */
};

struct exec_run {
	struct loop *loop;
	const struct kube_exec *exec;
	exec_fn *done;
	void *data;
	pid_t pid;
	int pidfd;
	struct loop_io ended;
	struct loop_timer timer;
	struct outlet out, said; /* out: stdout; said: stderr */
	bool is_late;
};

void exec_result_done(struct exec_result *result)
{
	str_wipe(&result->token);
	str_wipe(&result->cert_pem);
	str_wipe(&result->key_pem);
	*result = (struct exec_result){0};
}

static int exec_take_text(const json_t *status, const char *key, char **ret_text, struct error *err)
{
	const char *text = kube_json_text_at(status, key, NULL);

	if (!text || !text[0])
		return 0;
	*ret_text = str_dup(str_from(text));
	return *ret_text ? 0 : fail(err, ENOMEM, "out of memory for a credential");
}

static int exec_read_status(const json_t *status, struct exec_result *ret, struct error *err)
{
	const char *expires = kube_json_text_at(status, "expirationTimestamp", NULL);
	int r = exec_take_text(status, "token", &ret->token, err);

	if (r == 0)
		r = exec_take_text(status, "clientCertificateData", &ret->cert_pem, err);
	if (r == 0)
		r = exec_take_text(status, "clientKeyData", &ret->key_pem, err);
	if (r < 0)
		return r;
	ret->expires_real_ns = CLOCK_NEVER;
	if (expires && kube_time_parse(str_from(expires), &ret->expires_real_ns) < 0)
		return fail(
			err, EBADMSG, "status.expirationTimestamp: '%s' is not a time", expires);
	if (!ret->cert_pem != !ret->key_pem)
		return fail(err, EBADMSG,
			"status: expected clientCertificateData and clientKeyData, or neither");
	if (!ret->token && !ret->cert_pem)
		return fail(err, EBADMSG, "status: neither token nor clientCertificateData");
	return 0;
}

int exec_parse(
	struct str text, const char *api_version, struct exec_result *ret_result, struct error *err)
{
	_cleanup_json_ json_t *json = NULL;
	struct exec_result result = {0};
	const char *kind, *version;
	int r = kube_json_parse(text, &json, err);

	if (r < 0)
		return r;
	kind = kube_json_text_at(json, "kind", NULL);
	version = kube_json_text_at(json, "apiVersion", NULL);
	if (!kind || strcmp(kind, "ExecCredential") != 0 || !version ||
		strcmp(version, api_version) != 0)
		return fail(err, EBADMSG, "no ExecCredential of %s", api_version);
	r = exec_read_status(json_object_get(json, "status"), &result, err);
	if (r < 0) {
		exec_result_done(&result);
		return r;
	}
	*ret_result = result;
	return 0;
}

static void exec_drain_outlet(struct outlet *outlet)
{
	ssize_t got = 1;

	while (outlet->fd >= 0 && got > 0) {
		if (outlet->text.n > EXEC_OUTPUT_MAX || buf_reserve(&outlet->text, PIECE) < 0) {
			outlet->is_full = true;
			break;
		}
		got = read(outlet->fd, outlet->text.p + outlet->text.n, PIECE);
		if (got > 0)
			outlet->text.n += (size_t)got;
	}
	if (outlet->fd < 0)
		return;
	if (outlet->is_full || got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		loop_remove_io(&outlet->io);
		outlet->fd = fd_close(outlet->fd);
	}
}

static void on_output(struct loop_io *io, uint32_t events)
{
	exec_drain_outlet(io->data);
}

static void outlet_done(struct outlet *outlet)
{
	loop_remove_io(&outlet->io);
	fd_close(outlet->fd);
	buf_wipe(&outlet->text);
}

static void run_free(struct exec_run *run)
{
	loop_remove_io(&run->ended);
	loop_remove_timer(&run->timer);
	outlet_done(&run->out);
	outlet_done(&run->said);
	fd_close(run->pidfd);
	free(run);
}

static int result_of(struct exec_run *run, int status, struct exec_result *ret, struct error *err)
{
	const struct str word = str_last_line(buf_str(&run->said.text));
	const struct kube_exec *exec = run->exec;
	int r;

	if (run->is_late)
		return fail(err, ETIMEDOUT, "%s: '%s' did not answer in time", exec->where,
			exec->argv[0]);
	if (run->out.is_full)
		return fail(err, EMSGSIZE, "%s: '%s' wrote more than %u bytes", exec->where,
			exec->argv[0], EXEC_OUTPUT_MAX);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return fail(err, EACCES, "%s: '%s' failed with status %d: %" STR_FMT, exec->where,
			exec->argv[0],
			WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
			STR_ARG(word));
	r = exec_parse(buf_str(&run->out.text), exec->api_version, ret, err);
	return r < 0 ? fail_within(err, r, "%s: '%s'", exec->where, exec->argv[0]) : 0;
}

static void exec_on_ended(struct loop_io *io, uint32_t events)
{
	struct exec_run *run = io->data;
	struct exec_result result = {0};
	struct error err = {0};
	exec_fn *done = run->done;
	void *data = run->data;
	int status = 0, r;

	exec_drain_outlet(&run->out);
	exec_drain_outlet(&run->said);
	spawn_wait(run->pid, CLOCK_NEVER, &status);
	r = result_of(run, status, &result, &err);
	run_free(run);
	done(data, r, &result, &err);
	exec_result_done(&result);
}

static void on_late(struct loop_timer *timer, uint64_t now_ns)
{
	struct exec_run *run = timer->data;

	run->is_late = true;
	pidfd_kill(run->pidfd, SIGKILL);
}

/* Information about the cluster for a plugin with provideClusterInfo. */
static json_t *cluster_info(const struct kube_config *config)
{
	_cleanup_buf_ struct buf ca = BUF_INIT(2 * KUBE_CONFIG_FILE_MAX);
	json_t *info = json_pack("{ss, s:s*, s:s*, s:b, s:O*}", "server", config->server,
		"tls-server-name", config->tls_server_name, "proxy-url", config->proxy_url,
		"insecure-skip-tls-verify", config->is_insecure, "config",
		config->exec->cluster_config);

	if (config->ca_pem && base64_encode(str_from(config->ca_pem), &ca) == 0)
		json_object_set_new(info, "certificate-authority-data", json_string(buf_text(&ca)));
	return info;
}

/* The environment variable KUBERNETES_EXEC_INFO=... */
static char *exec_info(const struct kube_config *config)
{
	_cleanup_buf_ struct buf b = BUF_INIT(4 * KUBE_CONFIG_FILE_MAX);
	_cleanup_json_ json_t *info = json_pack("{ss, ss, s:{sb}}", "apiVersion",
		config->exec->api_version, "kind", "ExecCredential", "spec", "interactive", 0);
	_cleanup_free_ char *text = NULL;

	if (config->exec->wants_cluster)
		json_object_set_new(json_object_get(info, "spec"), "cluster", cluster_info(config));
	text = kube_json_format(info);
	buf_addf(&b, "KUBERNETES_EXEC_INFO=%s", text ? text : "");
	return buf_take(&b);
}

static int outlet_open(struct exec_run *run, struct outlet *outlet, int *ret_child)
{
	int fds[2], r;

	outlet->text = BUF_INIT(EXEC_OUTPUT_MAX + PIECE);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	outlet->fd = fds[0];
	outlet->io.data = outlet;
	*ret_child = fds[1];
	r = fd_set_nonblock(fds[0], true);
	return r < 0 ? r : loop_add_io(run->loop, &outlet->io, fds[0], EPOLLIN, on_output);
}

static int start_child(struct exec_run *run, const struct kube_config *config, const int *stdio_fds,
	struct error *err)
{
	_cleanup_free_ char *info = exec_info(config);
	_cleanup_free_ const char **env = NULL;
	const char *hint = run->exec->hint;
	struct error why;
	size_t n = 0;
	int r;

	while (run->exec->env[n])
		n++;
	env = calloc(n + 2, sizeof(*env));
	if (!env || !info)
		return fail(err, ENOMEM, "out of memory for '%s'", run->exec->argv[0]);
	for (size_t i = 0; i < n; i++)
		env[i] = run->exec->env[i];
	env[n] = info;
	r = spawn_run(&(struct spawn){.argv = (const char *const *)run->exec->argv,
			      .env = (const char *const *)env,
			      .stdio_fds = stdio_fds},
		&run->pid, &why);
	return r < 0 ? fail(err, -r, "%s: %s%s%s", run->exec->where, why.msg, hint ? ": " : "",
			       hint ? hint : "")
		     : 0;
}

/* Runs when the child exists: after a failure the caller must reap it. */
static int watch_child(struct exec_run *run, uint64_t timeout_ns, struct error *err)
{
	int r = pidfd_new(run->pid);

	if (r >= 0) {
		run->pidfd = r;
		run->ended.data = run;
		r = loop_add_io(run->loop, &run->ended, run->pidfd, EPOLLIN, exec_on_ended);
	}
	if (r >= 0) {
		run->timer.data = run;
		r = loop_add_timer(run->loop, &run->timer, on_late);
	}
	if (r < 0)
		return fail_errno(err, -r, "watch '%s'", run->exec->argv[0]);
	loop_set_timer(&run->timer, clock_add_ns(clock_now_ns(), timeout_ns));
	return 0;
}

int exec_start(struct loop *loop, const struct kube_config *config, uint64_t timeout_ns,
	exec_fn *done, void *data, struct exec_run **ret_run, struct error *err)
{
	struct exec_run *run = calloc(1, sizeof(*run));
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	_cleanup_close_ int out_fd = -1, said_fd = -1;
	int r;

	if (!run)
		return fail(err, ENOMEM, "out of memory for '%s'", config->exec->argv[0]);
	*run = (struct exec_run){.loop = loop,
		.exec = config->exec,
		.done = done,
		.data = data,
		.pidfd = -1,
		.out.fd = -1,
		.said.fd = -1};
	r = outlet_open(run, &run->out, &out_fd);
	if (r >= 0)
		r = outlet_open(run, &run->said, &said_fd);
	if (r < 0)
		r = fail_errno(err, -r, "a pipe for '%s'", run->exec->argv[0]);
	else
		r = start_child(run, config, (const int[]){null_fd, out_fd, said_fd}, err);
	if (r == 0) {
		r = watch_child(run, timeout_ns, err);
		if (r < 0) {
			exec_cancel(run);
			return r;
		}
	}
	if (r < 0) {
		run_free(run);
		return r;
	}
	*ret_run = run;
	return 0;
}

void exec_cancel(struct exec_run *run)
{
	int status;

	if (!run)
		return;
	/* The child is not reaped yet, so no other process can have its pid. */
	kill(run->pid, SIGKILL);
	spawn_wait(run->pid, CLOCK_NEVER, &status);
	run_free(run);
}
