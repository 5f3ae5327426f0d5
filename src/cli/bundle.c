/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file collects the archive of `divvy doctor --bundle` in memory, and writes the file at the
 * end. Each collector notes what it could not read in `left` and goes on, so one missing source
 * stops nothing. The README comes last, because it lists these notes. The daemon's answers pass
 * bundle_redact(), which judges a member by its name. Logs and the output of programs enter the
 * archive without any redaction.
 */
#include "cli/bundle.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/spawn.h"
#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-path.h"
#include "cli/tar.h"
#include "wire/msg.h"

#define PROGRAM_S 20 /* time limit of one program */
#define TEXT_MAX (8u << 20)
#define README_MAX (1u << 20)

#define REDACTED "(left out)"

/* ---- redaction ---- */

/* bundle_redact() replaces each member whose name, in lower case, contains one of these words. */
static const char *const secret[] = {"secret", "token", "password", "passwd", "credential",
	"privatekey", "private_key", "apikey", "api_key", "tls.key", "cabundle"};

static bool sounds_secret(const char *name)
{
	char lower[128];
	size_t n = 0;

	for (; name[n] && n + 1 < sizeof(lower); n++)
		lower[n] = (char)tolower((unsigned char)name[n]);
	lower[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(secret); i++)
		if (strstr(lower, secret[i]))
			return true;
	return false;
}

void bundle_redact(json_t *value)
{
	const char *name;
	json_t *member;
	size_t i;
	void *next;

	json_object_foreach_safe(value, next, name, member)
	{
		if (sounds_secret(name) && !json_is_boolean(member))
			json_object_set_new(value, name, json_string(REDACTED));
		else
			bundle_redact(member);
	}
	json_array_foreach(value, i, member)
		bundle_redact(member);
}

/* Annotations and labels of other software may contain secrets. */
static void keep_ours(json_t *annotations)
{
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach_safe(annotations, next, key, value) if (!strstr(key, "divvy.gpu/"))
		json_object_set_new(annotations, key, json_string(REDACTED));
}

void bundle_redact_pod(json_t *pod)
{
	static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};
	static const char *const members[] = {"env", "envFrom", "command", "args", "lifecycle",
		"livenessProbe", "readinessProbe", "startupProbe"};
	json_t *spec = json_object_get(pod, "spec"), *metadata = json_object_get(pod, "metadata");

	keep_ours(json_object_get(metadata, "annotations"));
	json_object_del(metadata, "managedFields");
	for (size_t l = 0; l < ARRAY_SIZE(lists); l++) {
		json_t *one, *list = json_object_get(spec, lists[l]);
		size_t i;

		json_array_foreach(list, i, one)
			for (size_t m = 0; m < ARRAY_SIZE(members); m++) {
				if (json_object_get(one, members[m]))
					json_object_set_new(one, members[m], json_string(REDACTED));
			}
	}
}

/* ---- writing into the archive ---- */

void bundle_miss(struct bundle *b, const char *what, const char *why)
{
	buf_addf(&b->left, "%s: %s\n", what, why);
}

void bundle_add(struct bundle *b, const char *name, struct str text)
{
	struct error err;

	if (tar_add(&b->tar, name, text, b->now_s, &err) < 0)
		bundle_miss(b, name, err.msg);
	else
		b->n_files++;
}

void bundle_add_json(struct bundle *b, const char *name, const json_t *value)
{
	char *text = json_dumps(value, JSON_INDENT(1) | JSON_ENCODE_ANY);

	if (text)
		bundle_add(b, name, str_from(text));
	else
		bundle_miss(b, name, "out of memory");
	free(text);
}

/* Adds the last BUNDLE_LOG_MAX bytes of the file. */
static void add_file(struct bundle *b, const char *name, const char *path)
{
	_cleanup_buf_ struct buf text = BUF_INIT(BUNDLE_LOG_MAX);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	size_t n;

	if (!f) {
		if (errno != ENOENT)
			bundle_miss(b, path, strerror(errno));
		return;
	}
	/* A file that cannot seek is read from its beginning. */
	if (fseek(f, -(long)BUNDLE_LOG_MAX, SEEK_END) < 0)
		rewind(f);
	if (buf_reserve(&text, BUNDLE_LOG_MAX) < 0)
		return;
	n = fread(text.p, 1, BUNDLE_LOG_MAX, f);
	bundle_add(b, name, (struct str){text.p, n});
}

/* Adds the output of a program; adds nothing if the program is not installed. */
static void add_output(struct bundle *b, const char *name, const char *const *argv)
{
	_cleanup_buf_ struct buf said = BUF_INIT(TEXT_MAX);
	_cleanup_close_ int in = -1, out = -1;
	int fds[2], status, r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	in = fds[0];
	out = fds[1];
	if (spawn_run(&(struct spawn){.argv = argv, .stdio_fds = (int[]){-1, out, out}}, &pid,
		    NULL) < 0)
		return;
	out = fd_close(out);
	/* nvidia-smi hangs on a lost device, and a bundle is most needed then. */
	r = spawn_read(pid, in, clock_now_ns() + PROGRAM_S * NSEC_PER_SEC, &said, &status);
	if (r < 0)
		bundle_miss(b, name,
			r == -ETIMEDOUT ? "the program did not end in time" : strerror(-r));
	bundle_add(b, name, buf_str(&said));
}

/* ---- the sources ---- */

static void add_versions(struct bundle *b)
{
	_cleanup_buf_ struct buf text = BUF_INIT(4096);
	struct utsname system;

	buf_addf(&text, "divvy %s (abi %u)\n", DIVVY_VERSION, MSG_ABI);
	if (uname(&system) == 0)
		buf_addf(&text, "%s %s %s %s\n", system.sysname, system.release, system.version,
			system.machine);
	bundle_add(b, "versions.txt", buf_str(&text));
	add_file(b, "os-release.txt", "/etc/os-release");
	add_file(b, "gpus/driver.txt", "/proc/driver/nvidia/version");
}

static void bundle_add_daemon(struct bundle *b, const char *socket)
{
	static const char *const asked[] = {"ping", "devices", "list", "report", "audit", "doctor"};
	_cleanup_client_ struct client c = CLIENT_NONE;
	struct error err = {0};

	if (client_connect(&c, socket, &err) < 0) {
		bundle_miss(b, "daemon", err.msg);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		_cleanup_json_ json_t *answer = NULL;
		char name[64];

		snprintf(name, sizeof(name), "daemon/%s.json", asked[i]);
		if (client_ask(&c, asked[i], NULL, &answer, &err) < 0) {
			bundle_miss(b, name, err.msg);
			continue;
		}
		bundle_redact(answer);
		bundle_add_json(b, name, answer);
	}
}

static void bundle_add_logs(struct bundle *b)
{
	static const char *const journal[] = {
		"journalctl", "--unit=divvyd", "--no-pager", "--lines=20000", NULL};
	static const char *const gpus[] = {"nvidia-smi", "--query", NULL};
	char socket[PLACES_PATH], name[64];

	for (size_t i = 0; cli_path_socket(i, socket, sizeof(socket)); i++) {
		char *slash = strrchr(socket, '/');

		if (!slash || sizeof(socket) - (size_t)(slash - socket) < sizeof("/divvyd.log"))
			continue;
		memcpy(slash, "/divvyd.log", sizeof("/divvyd.log"));
		snprintf(name, sizeof(name), "logs/divvyd-%zu.log", i);
		add_file(b, name, socket);
	}
	add_output(b, "logs/journal.txt", journal);
	add_output(b, "gpus/nvidia-smi.txt", gpus);
}

static void add_readme(struct bundle *b)
{
	_cleanup_buf_ struct buf text = BUF_INIT(README_MAX);

	buf_add_text(&text, TEXT_BUNDLE_README "\n");
	if (b->left.n)
		buf_addf(&text, "\nNot available:\n%s", buf_text(&b->left));
	/* The README also fits into a full archive, because it lists what did not. */
	b->tar.max += 2 * README_MAX;
	bundle_add(b, "README.txt", buf_str(&text));
}

static int write_tar(const char *path, struct str tar, struct error *err)
{
	int r;

	if (strcmp(path, "-"))
		return file_replace(path, tar, 0600, err);
	r = fd_write_all(STDOUT_FILENO, tar.p, tar.n);
	return r < 0 ? fail_errno(err, -r, "write the archive") : 0;
}

int bundle_write(const struct bundle_options *options, size_t *ret_n, struct error *err)
{
	struct bundle b = {.tar = BUF_INIT(BUNDLE_MAX),
		.left = BUF_INIT(1u << 20),
		.now_s = clock_real_ns() / NSEC_PER_SEC};
	int r;

	add_versions(&b);
	bundle_add_json(&b, "doctor.json", options->findings);
	bundle_add_daemon(&b, options->socket);
	bundle_add_logs(&b);
	bundle_cluster(&b, options->kubeconfig);
	add_readme(&b);
	r = tar_end(&b.tar);
	r = r < 0 ? fail(err, -r, "the archive is too large")
		  : write_tar(options->path, buf_str(&b.tar), err);
	if (r >= 0)
		*ret_n = b.n_files;
	buf_done(&b.tar);
	buf_done(&b.left);
	return r;
}
