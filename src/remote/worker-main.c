/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy-remote-worker FD WHOSE: serves the program at the other end of the socket FD, and ends with
 * the program. WHOSE is room for the program's pid in this command line. divvy-remote-server starts
 * the worker with the tenant's secret in the environment and with the interception library
 * preloaded before the driver. Main thread.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "remote/confine.h"
#include "remote/host-access.h"
#include "remote/worker-start.h"
#include "remote/store.h"
#include "remote/worker.h"

/*
 * Sends the reason of a refusal, for the program's stderr. A program that selects no device gets
 * "", which is not printed.
 */
static void worker_main_refuse_program(int sock, CUresult why, const struct remote_note *hello)
{
	struct remote_note note = {.type = REMOTE_REFUSED,
		.abi = REMOTE_ABI,
		.lane = why,
		.link_role = hello->link_role};
	const bool is_ours = hello->type == REMOTE_HELLO && why == CUDA_ERROR_NO_DEVICE;
	const char *visible = is_ours ? hello->text : "!";
	char said[REMOTE_VISIBLE];

	diagnostic_last(said, sizeof(said));
	if (hello->abi != REMOTE_ABI)
		snprintf(note.text, sizeof(note.text),
			"the program has libdivvy-remote.so of version %u and the worker "
			"version %u; restart the program with the installed library",
			hello->abi, REMOTE_ABI);
	else if (why == CUDA_ERROR_NOT_PERMITTED)
		snprintf(note.text, sizeof(note.text), "%s", HOST_ACCESS_WORDS);
	else if (said[0])
		snprintf(note.text, sizeof(note.text), "%s", said);
	else if (!strcmp(visible, "!"))
		snprintf(note.text, sizeof(note.text),
			"the driver on the server has no device for this program; see the log "
			"of divvyd or divvy serve there");
	else if (visible[0] && strcmp(visible, "-1") != 0)
		snprintf(note.text, sizeof(note.text),
			"'%.100s' is not a list of granted devices, which count from 0, each once",
			visible);
	fd_send(sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL);
}

/*
 * Accepts the characters of lists such as "0,1" and "GPU-..."; a driver understands no other
 * characters.
 */
static bool set_visible(const char *text)
{
	if (!strcmp(text, "!"))
		return true;
	for (const char *c = text; *c; c++)
		if (!strchr("0123456789,-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/ ",
			    *c))
			return false;
	return setenv("CUDA_VISIBLE_DEVICES", text, 1) == 0;
}

static CUresult worker_main_begin(const struct remote_note *hello)
{
	CUresult r;

	if ((hello->type != REMOTE_HELLO && hello->type != REMOTE_HELLO_NVML) ||
		hello->abi != REMOTE_ABI || hello->machine != REMOTE_MACHINE ||
		strnlen(hello->text, sizeof(hello->text)) == sizeof(hello->text))
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	if (hello->type == REMOTE_HELLO_NVML)
		return CUDA_SUCCESS;
	if (!set_visible(hello->text))
		return CUDA_ERROR_NO_DEVICE;
	diagnostic_begin();
	if (driver_load(&driver) < 0)
		return CUDA_ERROR_NO_DEVICE;
	r = driver.cuInit(0);
	return r || host_access_is_permitted() ? r : CUDA_ERROR_NOT_PERMITTED;
}

static void open_lane(struct remote_session *session, unsigned index)
{
	struct serve *s = worker_lane_opens(index) ? calloc(1, sizeof(*s)) : NULL;
	pthread_attr_t attr;
	pthread_t thread;

	if (!s || serve_init(s) < 0)
		_exit(1);
	s->lane = index;
	ring_attach_consumer(&s->up, session, index, RING_UP);
	ring_attach_producer(&s->down, session, index, RING_DOWN);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, worker_lane, s))
		_exit(1);
	pthread_attr_destroy(&attr);
}

static void take_window(int sock, struct remote_note *note, const struct fd_list *fds)
{
	if (fds->n != 1 || window_arrived(note->lane, note->bytes, fds->fd[0]) < 0)
		note->lane = 0;
	fd_send(sock, note, sizeof(*note), NULL, 0, MSG_NOSIGNAL);
}

/* The interception library sends the name to the daemon, for `divvy ps`. */
static void show_program(const struct remote_note *hello)
{
	char name[sizeof(hello->program) + 1];

	snprintf(name, sizeof(name), "%.*s", (int)sizeof(hello->program), hello->program);
	str_blank_controls(name, strlen(name));
	if (name[0])
		setenv("DIVVY_COMMAND", name, 1);
}

/* Writes the program's pid into the command line, for people and for worker-nvml.c. */
static void show_whose(const struct remote_note *hello, char *whose)
{
	const size_t room = strlen(whose);
	char text[sizeof(WORKER_WHOSE)];

	if (room == sizeof(text) - 1 && hello->bytes > 0 && hello->bytes <= INT32_MAX) {
		memset(whose, '\0', room);
		snprintf(text, sizeof(text), "%d", (int)hello->bytes);
		memcpy(whose, text, strlen(text));
	}
}

static void find_store(void)
{
	const char *text = getenv(STORE_ENV);
	uint64_t fd;

	if (!text || parse_uint(str_from(text), 0, INT32_MAX, &fd, NULL) < 0)
		return;
	store_open((int)fd);
	close((int)fd);
	unsetenv(STORE_ENV);
}

/*
 * The process that starts the worker passes the tenant's devices if they are known. Without
 * Landlock the worker can open all devices.
 */
static int keep_to_devices(void)
{
	const char *text = getenv(CONFINE_MINORS_ENV);
	uint64_t minors;
	int r;

	if (!text || parse_uint(str_from(text), 1, UINT64_MAX, &minors, NULL) < 0)
		return 0;
	r = confine_devices("/", minors);
	return r == -ENOSYS ? 0 : r;
}

/* If memory is short, workers should be killed before divvyd, in whose cgroup they are. */
static void go_first(void)
{
	FILE *f = fopen("/proc/self/oom_score_adj", "we");

	if (!f)
		return;
	fputs("1000", f);
	fclose(f);
}

static int worker_main_serve(int sock, char *whose)
{
	struct remote_note note = {0};
	struct map map = MAP_NONE;
	enum remote_link_role link_role;
	bool is_nvml;
	int fd = -1;
	CUresult r;

	if (fd_recv(sock, &note, sizeof(note), NULL, 0) != sizeof(note))
		return 1;
	show_whose(&note, whose);
	show_program(&note);
	link_role = (enum remote_link_role)note.link_role;
	r = worker_main_begin(&note);
	is_nvml = note.type == REMOTE_HELLO_NVML;
	if (!r && session_new(link_role, &map, &fd) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (!r && !is_nvml && reverse_start(map.p) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r) {
		worker_main_refuse_program(sock, r, &note);
		return 1;
	}
	/* serve_nvml() confines this process later. */
	if (!is_nvml && confine() < 0) {
		worker_main_refuse_program(sock, CUDA_ERROR_OPERATING_SYSTEM, &note);
		return 1;
	}
	note = (struct remote_note){.type = REMOTE_WELCOME, .abi = REMOTE_ABI};
	if (fd_send(sock, &note, sizeof(note), &fd, 1, MSG_NOSIGNAL) != sizeof(note))
		return 1;
	close(fd);
	if (is_nvml)
		return serve_nvml(sock);
	diagnostic_welcome(sock, link_role);
	/*
	 * The end of the socket is the program's end. The process then ends, whatever its lanes
	 * wait for.
	 */
	for (;;) {
		_cleanup_fd_list_ struct fd_list fds = {.n = 0};

		if (fd_recv(sock, &note, sizeof(note), &fds, 0) != sizeof(note))
			return 0;
		if (note.type == REMOTE_OPEN && note.lane > 0 && note.lane < REMOTE_LANES)
			open_lane(map.p, note.lane);
		else if (note.type == REMOTE_WINDOW)
			take_window(sock, &note, &fds);
	}
}

int main(int argc, char **argv)
{
	uint64_t fd;

	if (argc != 3 || parse_uint(str_from(argv[1]), 0, INT32_MAX, &fd, NULL) < 0) {
		fprintf(stderr,
			"usage: divvy-remote-worker FD WHOSE (started by divvy-remote-server)\n");
		return 2;
	}
	/*
	 * The worker must start no program, gain no rights and leave no copy of the program's
	 * memory.
	 */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	fd_set_cloexec((int)fd, true);
	go_first();
	find_store();
	if (keep_to_devices() < 0) {
		fprintf(stderr, "divvy-remote-worker: cannot confine the worker to its devices\n");
		_exit(1);
	}
	/*
	 * Skips exit handlers of the driver and destructors, because the worker has nothing to wait
	 * for.
	 */
	_exit(worker_main_serve((int)fd, argv[2]));
}
