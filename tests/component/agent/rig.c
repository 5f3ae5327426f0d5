/* SPDX-License-Identifier: Apache-2.0 */
/* The rig: see rig.h. One thread. */
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "wire/msg.h"
#include "../../patience.h"

#define DIE(...) \
	do { \
		fprintf(stderr, "rig: " __VA_ARGS__); \
		fputc('\n', stderr); \
		abort(); \
	} while (0)
#define ARGS_MAX 16

static pid_t spawn_daemon(struct rig *rig, const char *simulate, const char *const *args, int ready)
{
	const char *argv[ARGS_MAX + 8] = {
		DIVVYD, "--simulate", simulate, "--runtime-dir", rig->folder};
	char fd[16];
	pid_t pid;
	int n = 5;

	snprintf(fd, sizeof(fd), "%d", ready);
	argv[n++] = "--ready-fd";
	argv[n++] = fd;
	for (int i = 0; args && args[i] && i < ARGS_MAX; i++)
		argv[n++] = args[i];
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (rig->files_max) {
		const struct rlimit files = {rig->files_max, rig->files_max};

		setrlimit(RLIMIT_NOFILE, &files);
	}
	setenv("DIVVY_SIM_LIBS", FAKE_NVML_FOLDER, 1);
	setenv("DIVVY_FAKE_NVML", rig->processes, 1);
	if (getenv("DIVVY_TEST_SIM")) {
		char sim[128];

		snprintf(sim, sizeof(sim), "%s/sim", getenv("DIVVY_TEST_SIM"));
		setenv("DIVVY_SIM", sim, 1);
	} else {
		unsetenv("DIVVY_SIM");
	}
	fd_set_cloexec(ready, false);
	execv(DIVVYD, (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* True once the daemon serves; false if it has exited. */
static bool await_ready(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	char line[16];

	if (poll(&pfd, 1, patience_ms(60000)) <= 0)
		DIE("the daemon does not get ready");
	return read(fd, line, sizeof(line)) > 0;
}

int rig_another(struct rig *rig, const char *simulate, const char *const *args, pid_t *ret_pid)
{
	int fds[2], status;
	bool is_ready;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		DIE("pipe: %m");
	pid = spawn_daemon(rig, simulate, args, fds[1]);
	close(fds[1]);
	is_ready = await_ready(fds[0]);
	close(fds[0]);
	if (is_ready) {
		*ret_pid = pid;
		return -1;
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void rig_restart(struct rig *rig, const char *simulate, const char *const *args)
{
	if (rig_another(rig, simulate, args, &rig->daemon) >= 0)
		DIE("the daemon does not start");
}

void rig_start_with_files(
	struct rig *rig, const char *simulate, const char *const *args, unsigned int files_max)
{
	memset(rig, 0, sizeof(*rig));
	rig->files_max = files_max;
	snprintf(rig->folder, sizeof(rig->folder), "/tmp/divvy-test-XXXXXX");
	if (!mkdtemp(rig->folder))
		DIE("mkdtemp: %m");
	snprintf(rig->socket, sizeof(rig->socket), "%s/divvyd.sock", rig->folder);
	snprintf(rig->processes, sizeof(rig->processes), "%s/processes", rig->folder);
	rig_restart(rig, simulate, args);
}

void rig_start(struct rig *rig, const char *simulate, const char *const *args)
{
	rig_start_with_files(rig, simulate, args, 0);
}

void rig_kill(struct rig *rig)
{
	kill(rig->daemon, SIGKILL);
	waitpid(rig->daemon, NULL, 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void check_leftovers(const struct rig *rig)
{
	static const char *const allowed[] = {".", "..", "state", "usage", "usage-log", "tally",
		"lock", "sim", "programs", "processes"};
	DIR *dir = opendir(rig->folder);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		bool is_allowed = false;

		for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
			is_allowed |= !strcmp(allowed[i], e->d_name);
		/* Files with this prefix belong to the tests. */
		if (!is_allowed && strncmp(e->d_name, "test-", 5))
			DIE("the daemon has left %s behind", e->d_name);
	}
	if (dir)
		closedir(dir);
}

void rig_stop(struct rig *rig)
{
	int status;

	kill(rig->daemon, SIGTERM);
	waitpid(rig->daemon, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		DIE("the daemon ended with status %#x", (unsigned int)status);
	check_leftovers(rig);
	nftw(rig->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- control ---- */

static json_t *ask(struct rig *rig, json_t *request)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct msg_control *part = calloc(1, MSG_MAX);
	char *text = json_dumps(request, JSON_COMPACT);
	_cleanup_buf_ struct buf answer = BUF_INIT(64u << 20);
	json_error_t why;
	json_t *json;

	if (!text || !part)
		DIE("a request of the test is not JSON");
	memcpy(address.sun_path, rig->socket, sizeof(address.sun_path));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		DIE("connect %s: %m", rig->socket);
	msg_head_init(&part->head, MSG_CONTROL, (uint32_t)(sizeof(*part) + strlen(text)), 3);
	memcpy(part->text, text, strlen(text));
	if (send(fd, part, part->head.size, MSG_NOSIGNAL) < 0)
		DIE("send: %m");
	do {
		ssize_t n = recv(fd, part, MSG_MAX, 0);

		if (n < (ssize_t)sizeof(*part) || msg_check(part, (uint32_t)n, NULL) < 0)
			DIE("no answer to %s", text);
		buf_add(&answer, (struct str){part->text, (size_t)n - sizeof(*part)});
	} while (part->more);
	json = json_loadb(answer.p, answer.n, 0, &why);
	if (!json)
		DIE("the answer to %s is not JSON: %s", text, why.text);
	json_decref(request);
	free(part);
	free(text);
	return json;
}

static json_t *pack(const char *format, va_list ap)
{
	json_error_t why;
	json_t *request = json_vpack_ex(&why, 0, format, ap);

	if (!request)
		DIE("%s: %s", format, why.text);
	return request;
}

json_t *rig_ask(struct rig *rig, const char *format, ...)
{
	json_t *request;
	va_list ap;

	va_start(ap, format);
	request = pack(format, ap);
	va_end(ap);
	return ask(rig, request);
}

json_t *rig_do(struct rig *rig, const char *format, ...)
{
	json_t *request, *answer;
	va_list ap;

	va_start(ap, format);
	request = pack(format, ap);
	va_end(ap);
	answer = ask(rig, request);
	if (!json_is_true(json_object_get(answer, "ok")))
		DIE("%s: %s", format, rig_text(answer, "error"));
	return answer;
}

int rig_tenant(struct rig *rig, const char *spec, char ret_secret[static 33])
{
	json_t *fields = json_loads(spec, 0, NULL);
	json_t *answer = rig_do(rig, "{s:s, s:o}", "cmd", "create", "spec", fields);
	int id = (int)rig_number(answer, "tenant");

	snprintf(ret_secret, 33, "%s", rig_text(answer, "secret"));
	json_decref(answer);
	return id;
}

const json_t *rig_get(const json_t *json, const char *path)
{
	const json_t *at = json;
	struct str rest = str_from(path), piece;

	while (at && str_split(&rest, '.', &piece)) {
		char key[64];

		str_copy(key, sizeof(key), piece);
		at = json_is_array(at) ? json_array_get(at, strtoul(key, NULL, 10))
				       : json_object_get(at, key);
	}
	if (!at) {
		char *text = json_dumps(json, JSON_COMPACT);

		DIE("no %s in %s", path, text);
	}
	return at;
}

long long rig_number(const json_t *json, const char *path)
{
	return json_integer_value(rig_get(json, path));
}

const char *rig_text(const json_t *json, const char *path)
{
	const char *text = json_string_value(rig_get(json, path));

	return text ? text : "";
}

int rig_wait(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		DIE("waitpid: %m");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool rig_until(bool (*fn)(void *data), void *data, int timeout_ms)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;

	while (!fn(data)) {
		if (clock_now_ns() > deadline)
			return false;
		clock_sleep_until_ns(clock_now_ns() + 2 * NSEC_PER_MSEC);
	}
	return true;
}
