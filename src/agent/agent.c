/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts, runs and ends the daemon: see agent.h. A daemon takes the locks of the runtime folder and
 * of the devices before it loads the state, so only one daemon at a time uses them. With --replace
 * it first asks the running daemon to leave, and may take over its listening socket.
 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/apply.h"
#include "agent/audit.h"
#include "agent/container-watch.h"
#include "agent/agent-client.h"
#include "agent/conf.h"
#include "agent/control.h"
#include "agent/device.h"
#include "agent/agent-memory.h"
#include "agent/metrics-thread.h"
#include "agent/user-names.h"
#include "agent/register.h"
#include "agent/agent-state.h"
#include "agent/tenant.h"
#include "agent/token.h"
#include "agent/usage.h"
#include "agent/xid-watch.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/process.h"
#include "base/rand.h"
#include "threads/thread-worker.h"

#define TICK_NS NSEC_PER_SEC
/* The daemon closes a connection that sent nothing for this long. */
#define SILENT_NS (10 * NSEC_PER_SEC)
#define TAKE_OVER_NS (10 * NSEC_PER_SEC)
#define NO_SOCKET_NS NSEC_PER_SEC
#define BACKLOG 4096
#define SOCKET_NAME "/divvyd.sock"

/* ---- folders and locks ---- */

int agent_runtime_dir(const char *chosen, char *ret_dir, size_t size, struct error *err)
{
	const char *set = chosen ? chosen : getenv("DIVVY_RUNTIME_DIR"),
		   *xdg = getenv("XDG_RUNTIME_DIR");
	int n;

	if (set && *set)
		n = snprintf(ret_dir, size, "%s", set);
	else if (getuid() == 0)
		n = snprintf(ret_dir, size, "/run/divvy");
	else if (xdg && *xdg)
		n = snprintf(ret_dir, size, "%s/divvy", xdg);
	else
		n = snprintf(ret_dir, size, "/tmp/divvy-%u", (unsigned int)getuid());
	if (n < 0 || (size_t)n >= size)
		return fail(err, ENAMETOOLONG,
			"the path of the runtime folder is too long; choose a shorter one with "
			"--runtime-dir");
	if (ret_dir[0] != '/')
		return fail(err, EINVAL, "runtime folder '%s': expected an absolute path", ret_dir);
	return 0;
}

static int make_runtime(struct agent *agent, struct error *err)
{
	struct sockaddr_un address;
	struct stat st;
	int r = agent_runtime_dir(
		agent->options.runtime_dir, agent->runtime_dir, sizeof(agent->runtime_dir), err);

	if (r >= 0)
		r = folder_make(agent->runtime_dir, agent->is_system ? 0755 : 0700, err);
	if (r < 0)
		return r;
	if (lstat(agent->runtime_dir, &st) < 0 || !S_ISDIR(st.st_mode) ||
		(st.st_uid != getuid() && st.st_uid != 0))
		return fail(err, EPERM, "runtime folder '%s' belongs to another user",
			agent->runtime_dir);
	if (agent->is_system && st.st_mode & S_IWOTH)
		return fail(err, EPERM,
			"runtime folder '%s': other users can write to it; make it root's alone "
			"(chmod o-w)",
			agent->runtime_dir);
	snprintf(agent->socket_path, sizeof(agent->socket_path), "%s" SOCKET_NAME,
		agent->runtime_dir);
	snprintf(agent->programs_dir, sizeof(agent->programs_dir), "%s/programs",
		agent->runtime_dir);
	if (strlen(agent->programs_dir) + strlen(SOCKET_NAME) >= sizeof(address.sun_path))
		return fail(err, ENAMETOOLONG,
			"socket '%s" SOCKET_NAME
			"': the path is too long; at most %zu characters are allowed",
			agent->programs_dir, sizeof(address.sun_path) - 1);
	return 0;
}

/* $STATE_DIRECTORY survives a reboot, so divvyd prefers this folder to the runtime folder. */
static int make_usage(struct agent *agent, struct error *err)
{
	const char *dir = agent->options.usage_dir ? agent->options.usage_dir
						   : getenv("STATE_DIRECTORY");
	int r;

	if (!dir || !*dir)
		dir = agent->runtime_dir;
	if (dir[0] != '/')
		return fail(err, EINVAL, "usage folder '%s': expected an absolute path", dir);
	if (str_copy(agent->usage_dir, sizeof(agent->usage_dir), str_from(dir)) < 0)
		return fail(err, ENAMETOOLONG,
			"the path of the usage folder is too long; choose a shorter one with "
			"--usage-dir");
	r = folder_make(dir, agent->is_system ? 0755 : 0700, err);
	return r < 0 ? fail_within(err, r, "usage folder") : 0;
}

/*
 * Asks the daemon at that socket, in that wire version, to save its state and leave. If ret_listen
 * is not NULL, also asks for its listening socket, so that clients that connect meanwhile are not
 * refused; *ret_listen stays -1 if the daemon sends no socket. -EPROTONOSUPPORT: the daemon speaks
 * an older version.
 */
static int ask_to_leave_in(const char *path, uint16_t abi, int *ret_listen)
{
	const char *json = ret_listen ? "{\"cmd\":\"replace\",\"hand_over\":true}"
				      : "{\"cmd\":\"replace\"}";
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	_cleanup_fd_list_ struct fd_list fds = {.n = 0};
	_Alignas(8) char packet[1024] = "";
	struct msg_control *msg = (struct msg_control *)packet;
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	ssize_t n;

	if (fd < 0 || str_copy(address.sun_path, sizeof(address.sun_path), str_from(path)) < 0 ||
		connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -ECONNREFUSED;
	msg_head_init(&msg->head, MSG_CONTROL, (uint32_t)(sizeof(*msg) + strlen(json)), 1);
	msg->head.abi = abi;
	memcpy(msg->text, json, strlen(json));
	if (send(fd, packet, msg->head.size, MSG_NOSIGNAL) < 0)
		return -errno;
	/* Waits for an answer or the connection's end. No answer can arrive after shutdown(). */
	if (poll(&pfd, 1, 5000) <= 0)
		shutdown(fd, SHUT_RDWR);
	n = fd_recv(fd, packet, sizeof(packet), &fds, MSG_DONTWAIT);
	if (n < 0)
		return -ETIMEDOUT;
	if ((size_t)n >= sizeof(msg->head) && msg->head.type == MSG_REFUSED && msg->head.abi < abi)
		return -EPROTONOSUPPORT;
	if (ret_listen && n > 0 && fds.n == 1)
		*ret_listen = TAKE_FD(fds.fd[0]);
	return 0;
}

static int ask_to_leave(const char *path, int *ret_listen)
{
	int r = ask_to_leave_in(path, msg_newest(), ret_listen);

	return r == -EPROTONOSUPPORT ? ask_to_leave_in(path, msg_oldest(), ret_listen) : r;
}

/* Sends SIGTERM, which needs neither a socket nor a path that another user could choose. */
static bool end_daemon(pid_t pid)
{
	_cleanup_close_ int pidfd = pid > 0 ? pidfd_new(pid) : -1;
	struct process_stat stat;

	return pidfd >= 0 && process_read_stat(pid, &stat) == 0 && !strcmp(stat.name, "divvyd") &&
		pidfd_kill(pidfd, SIGTERM) == 0;
}

/* If the daemon's socket is missing (somebody cleaned /tmp), the daemon gets a signal. */
static bool end_without_socket(pid_t pid)
{
	if (!end_daemon(pid))
		return false;
	log_info("sent SIGTERM to divvyd (pid %d), which holds the lock and has no socket",
		(int)pid);
	return true;
}

/*
 * Returns the holder of the lock, as the kernel shows it. If the kernel shows no holder, because
 * the holder is in another pid namespace, returns the pid in the file.
 */
static pid_t runtime_owner(int fd)
{
	struct lock_owner owner;
	char text[64] = "";

	if (lock_find_owner(fd, &owner) == 0)
		return owner.pid;
	return pread(fd, text, sizeof(text) - 1, 0) > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

static int lock_runtime(struct agent *agent, struct error *err)
{
	uint64_t began = clock_now_ns(), deadline = began + TAKE_OVER_NS;
	char path[PATH_MAX], text[64] = "";
	_cleanup_close_ int fd = -1;
	bool has_asked = false;

	snprintf(path, sizeof(path), "%s/lock", agent->runtime_dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", path);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		pid_t pid;

		if (errno != EWOULDBLOCK)
			return fail_errno(err, errno, "lock '%s'", path);
		pid = runtime_owner(fd);
		if (!agent->options.replace)
			return fail(err, EBUSY,
				"divvyd (pid %d) serves '%s' already; use --replace to take over",
				(int)pid, agent->socket_path);
		if (!has_asked)
			has_asked = ask_to_leave(agent->socket_path, &agent->listen_fd) >= 0;
		/* A daemon that has just started has no socket yet. */
		if (!has_asked && access(agent->socket_path, F_OK) < 0 &&
			clock_now_ns() > began + NO_SOCKET_NS)
			has_asked = end_without_socket(pid);
		if (clock_now_ns() > deadline)
			return fail(err, ETIMEDOUT,
				"divvyd (pid %d) at '%s' did not exit in time; stop it, then "
				"start again",
				(int)pid, agent->socket_path);
		clock_sleep_until_ns(clock_now_ns() + NSEC_PER_MSEC);
	}
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0)
		return fail_errno(err, errno, "write '%s'", path);
	agent->lock_fd = TAKE_FD(fd);
	return 0;
}

/* The machine's daemon wins over users' daemons: it sends them SIGTERM and waits TAKE_OVER_NS. */
static int lock_devices(struct agent *agent, struct error *err)
{
	uint64_t deadline = clock_now_ns() + TAKE_OVER_NS;
	pid_t told = 0;

	for (;;) {
		struct lock_owner owner = {0};
		bool is_late = clock_now_ns() > deadline;
		int r = device_set_lock(agent->devices, agent->socket_path, is_late, &owner, err);

		if (r != -EBUSY || !agent->is_system || owner.uid == 0 || is_late)
			return r;
		if (owner.pid != told && end_daemon(owner.pid)) {
			told = owner.pid;
			log_info("sent SIGTERM to user %u's divvyd (pid %d), since this one "
				 "serves the machine",
				(unsigned int)owner.uid, (int)owner.pid);
		}
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
	}
}

static int bind_at(const struct agent *agent, const char *path, int *ret_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	str_copy(address.sun_path, sizeof(address.sun_path), str_from(path));
	/* This daemon holds the lock, so a file here is a dead daemon's. */
	unlink(path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		chmod(path, agent->is_system ? 0666 : 0600) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* *fd: -1, or a socket that is bound already. */
static int agent_listen_at(struct agent *agent, const char *path, int *fd,
	struct listener *listener, void (*knock)(struct listener *listener, int fd))
{
	int r = *fd < 0 ? bind_at(agent, path, fd) : 0;

	listener->data = agent;
	return r < 0 ? r : listener_add(agent->loop, listener, *fd, knock);
}

static void programs_path(const struct agent *agent, char *ret, size_t size)
{
	snprintf(ret, size, "%s" SOCKET_NAME, agent->programs_dir);
}

/* The former daemon may have handed its socket over, together with the connections in its queue. */
static int start_listening(struct agent *agent, struct error *err)
{
	char path[PATH_MAX + sizeof(SOCKET_NAME)];
	int r = folder_make(agent->programs_dir, agent->is_system ? 0755 : 0700, err);

	if (r < 0)
		return r;
	programs_path(agent, path, sizeof(path));
	r = agent_listen_at(
		agent, path, &agent->programs_fd, &agent->programs, client_knock_program);
	if (r < 0)
		return fail_errno(err, -r, "listen on '%s'", path);
	r = agent_listen_at(
		agent, agent->socket_path, &agent->listen_fd, &agent->listen, client_knock);
	return r < 0 ? fail_errno(err, -r, "listen on '%s'", agent->socket_path) : 0;
}

/* The folder stays: running containers mount it, and find the next daemon's socket there. */
static void agent_stop_listening(struct agent *agent)
{
	char path[PATH_MAX + sizeof(SOCKET_NAME)];

	if (agent->programs_fd >= 0) {
		listener_remove(&agent->programs);
		programs_path(agent, path, sizeof(path));
		unlink(path);
		closer_close_listener(agent->closer, TAKE_FD(agent->programs_fd));
	}
	if (agent->listen_fd >= 0) {
		listener_remove(&agent->listen);
		if (!agent->is_replaced)
			unlink(agent->socket_path);
		closer_close_listener(agent->closer, TAKE_FD(agent->listen_fd));
	}
}

/* ---- the tick: lifetimes, silent connections, idle daemon ---- */

/*
 * Whether the tenant keeps an idle daemon from ending. A tenant whose programs have yet to start
 * does so. A tenant that has had its last process and only waits for TENANT_LINGER_NS does not.
 */
static bool is_waited_for(const struct tenant *t)
{
	return t->lifetime != TENANT_PROCESSES || t->owner_fd >= 0 ||
		t->container != TENANT_NO_CONTAINER;
}

static bool is_idle(const struct agent *agent)
{
	const struct tenant *t;

	if (agent->n_conns || agent->n_processes)
		return false;
	LIST_FOREACH(t, &agent->tenants, link)
		if (!t->is_ending && is_waited_for(t))
			return false;
	return true;
}

static void drop_silent(struct agent *agent, uint64_t now)
{
	struct conn *c;

	clock_look(&agent->listener, now);
	LIST_FOREACH(c, &agent->conns, link)
		if (!c->is_dead && !c->process && !c->deferred && !c->rate_ns &&
			clock_silent_ns(&agent->listener, c->since_ns) > SILENT_NS)
			conn_close(c);
		else if (!c->is_dead && !c->process && c->out.n &&
			clock_silent_ns(&agent->listener, c->out_ns) > CLIENT_OUT_WAIT_NS)
			conn_close(c);
}

static void agent_on_tick(struct loop_timer *timer, uint64_t now)
{
	struct agent *agent = timer->data;

	now = clock_now_ns();
	tenant_tick(agent, now);
	usage_tick(agent, now);
	audit_tick(agent, now);
	register_deferred(agent);
	drop_silent(agent, now);
	if (!is_idle(agent))
		agent->idle_since_ns = now;
	if (agent->options.exit_idle_ns &&
		now >= agent->idle_since_ns + agent->options.exit_idle_ns) {
		log_info("stopping: no tenant and no client within the idle time");
		agent_leave(agent);
	}
	if (agent->n_tenants || agent->n_conns || agent->options.exit_idle_ns ||
		agent->options.police)
		loop_set_timer(timer, now + TICK_NS);
}

void agent_wake_tick(struct agent *agent)
{
	if (!loop_timer_is_armed(&agent->tick))
		loop_set_timer(&agent->tick, clock_now_ns() + TICK_NS);
}

/* ---- start and end ---- */

static int start_arbiter(struct agent *agent, struct error *err)
{
	struct arbiter_config config;

	arbiter_config_init(&config);
	if (agent->options.policy)
		config.policy = agent->options.policy;
	config.gate = !agent->options.is_gate_off;
	return arbiter_new(&config, MAX(1u, agent->devices->n), &agent->arbiter, err);
}

/* Returns -EINVAL for a fault of the file: the exit status then says that a restart is useless. */
static int load_conf(struct agent *agent, struct error *err)
{
	int r = conf_load(agent->options.tenants_conf, &agent->conf, err);

	if (r >= 0 || r == -ENOMEM)
		return r;
	if (err)
		err->code = EINVAL;
	return -EINVAL;
}

/* Uses the absolute path, as `divvy apply` does, so that `divvy apply --stop` finds the file. */
static int apply_at_start(struct agent *agent, struct error *err)
{
	_cleanup_free_ char *path = realpath(agent->options.apply, NULL);
	json_t *applied = NULL;
	int r;

	if (!path)
		return fail_errno(err, errno, "--apply %s", agent->options.apply);
	r = apply_file(agent, path, true, &applied, err);
	json_decref(applied);
	return r;
}

static int serve_metrics(struct agent *agent, struct error *err)
{
	const struct metrics_thread_options options = {.local = agent->options.metrics};

	return options.local ? metrics_thread_new(agent, &options, &agent->metrics, err) : 0;
}

/* Files have a worker of their own, so that a slow disk does not delay the devices' answers. */
static int start_workers(struct agent *agent, struct error *err)
{
	int r = worker_new(agent->loop, &agent->worker);

	if (r >= 0)
		r = worker_new(agent->loop, &agent->disk);
	return r < 0 ? fail_errno(err, -r, "worker thread") : 0;
}

static int agent_start_parts(struct agent *agent, struct error *err)
{
	const struct agent_options *o = &agent->options;
	/* The daemon reads tenants.conf before it asks another daemon to leave. */
	int r = load_conf(agent, err);

	if (r >= 0 && o->apply && access(o->apply, R_OK) < 0)
		r = fail_errno(err, errno, "--apply %s", o->apply);
	if (r >= 0)
		r = make_runtime(agent, err);
	if (r >= 0)
		r = make_usage(agent, err);
	if (r >= 0)
		r = lock_runtime(agent, err);
	agent->loop = o->loop;
	if (r >= 0 && !agent->loop && (r = loop_new(&agent->loop)) < 0)
		fail_errno(err, -r, "event loop");
	if (r >= 0 && !o->devices)
		r = device_set_open(&(struct device_params){o->simulate, agent->runtime_dir,
					    o->oversubscribe_permille, o->may_have_no_device},
			&agent->devices, err);
	if (r >= 0)
		r = lock_devices(agent, err);
	if (r >= 0)
		r = start_workers(agent, err);
	agent->tick.data = agent;
	if (r >= 0 && (r = loop_add_timer(agent->loop, &agent->tick, agent_on_tick)) < 0)
		fail_errno(err, -r, "start a timer");
	if (r >= 0)
		r = client_new(agent, err);
	if (r >= 0)
		r = start_arbiter(agent, err);
	if (r >= 0)
		r = token_new(agent, err);
	if (r >= 0)
		r = usage_new(agent, err);
	if (r >= 0)
		r = memory_new(agent, err);
	if (r >= 0)
		r = xid_watch_new(agent, err);
	if (r >= 0)
		r = control_new(agent, err);
	if (r >= 0)
		r = audit_new(agent, err);
	if (r >= 0)
		r = apply_new(agent, err);
	if (r >= 0)
		r = names_new(agent, err);
	if (r >= 0)
		r = state_load(agent, err);
	if (r >= 0)
		r = serve_metrics(agent, err);
	if (r >= 0 && o->apply)
		r = apply_at_start(agent, err);
	return r < 0 ? r : start_listening(agent, err);
}

int agent_new(const struct agent_options *options, struct agent **ret_agent, struct error *err)
{
	struct agent *agent = calloc(1, sizeof(*agent));
	int r;

	if (!agent)
		return fail(err, ENOMEM, "out of memory");
	agent->options = *options;
	agent->devices = options->devices;
	agent->is_system = getuid() == 0;
	agent->started_ns = agent->idle_since_ns = clock_now_ns();
	agent->next_tenant = 1;
	agent->listen_fd = agent->programs_fd = agent->lock_fd = -1;
	LIST_INIT(&agent->tenants);
	LIST_INIT(&agent->processes);
	LIST_INIT(&agent->conns);
	TAILQ_INIT(&agent->turns);
	r = random_bytes(&agent->epoch, sizeof(agent->epoch));
	agent->epoch &= INT64_MAX;
	r = r < 0 ? fail_errno(err, -r, "read random numbers") : agent_start_parts(agent, err);
	if (r < 0) {
		agent_free(agent);
		return r;
	}
	agent_wake_tick(agent);
	*ret_agent = agent;
	return 0;
}

static void agent_free_dead(struct agent *agent)
{
	struct process *p, *next_p;
	struct tenant *t, *next_t;
	struct conn *c, *next_c;

	agent->has_dead = false;
	for (c = LIST_FIRST(&agent->conns); c; c = next_c) {
		next_c = LIST_NEXT(c, link);
		if (!c->is_dead || c->closing != CONN_OURS)
			continue;
		LIST_REMOVE(c, link);
		conn_free(c);
	}
	/* Processes refer to their tenants, so processes are freed first. */
	for (p = LIST_FIRST(&agent->processes); p; p = next_p) {
		next_p = LIST_NEXT(p, link);
		if (p->is_buried) {
			LIST_REMOVE(p, link);
			process_free(p);
		}
	}
	for (t = LIST_FIRST(&agent->tenants); t; t = next_t) {
		next_t = LIST_NEXT(t, link);
		if (t->is_dead) {
			LIST_REMOVE(t, link);
			tenant_free(t);
		}
	}
}

void agent_after_batch(struct agent *agent)
{
	memory_after_batch(agent);
	token_step(agent);
	if (agent->has_dead)
		agent_free_dead(agent);
}

int agent_run(struct agent *agent)
{
	while (!agent->is_leaving) {
		int r;

		/* Acts on changes that the start has made, before the loop first waits. */
		agent_after_batch(agent);
		if (agent->is_leaving)
			break;
		r = loop_run_once(agent->loop, CLOCK_NEVER);
		if (r < 0 && r != -EINTR)
			return r;
	}
	return 0;
}

void agent_leave(struct agent *agent)
{
	agent->is_leaving = true;
}

struct reload {
	struct worker_job job;
	struct agent *agent;
	struct conf *conf;
	int r;
	struct error err;
};

static void run_reload(struct worker_job *job)
{
	struct reload *reload = (struct reload *)job;

	reload->r = conf_load(reload->agent->options.tenants_conf, &reload->conf, &reload->err);
}

static void reload_done(struct worker_job *job)
{
	struct reload *reload = (struct reload *)job;
	struct agent *agent = reload->agent;

	if (reload->r < 0) {
		log_warn("%s; the rules stay as they are", reload->err.msg);
	} else if (agent->is_leaving) {
		conf_free(reload->conf);
	} else {
		conf_free(agent->conf);
		agent->conf = reload->conf;
	}
	free(reload);
}

void agent_reload(struct agent *agent)
{
	struct worker *worker = names_worker(agent);
	struct reload *reload = worker ? calloc(1, sizeof(*reload)) : NULL;

	if (!reload) {
		log_warn("out of memory; the rules stay as they are");
		return;
	}
	reload->job = (struct worker_job){.run = run_reload, .done = reload_done};
	reload->agent = agent;
	worker_submit(worker, &reload->job);
}

void agent_free(struct agent *agent)
{
	struct process *p;
	struct tenant *t;

	if (!agent)
		return;
	agent->is_leaving = true;
	agent_stop_listening(agent);
	/* Without a daemon no gate would ever open again: programs run ungated. */
	LIST_FOREACH(p, &agent->processes, link)
		if (!agent->is_replaced && !p->is_dead)
			process_let_run(p);
	metrics_thread_free(agent->metrics);
	if (agent->devices && agent->arbiter && agent->usage && agent->memory)
		state_free(agent);
	/*
	 * From here on, the daemon waits for threads that may hang in the driver. A manager that
	 * kills the daemon after a time loses nothing, because the state is saved.
	 */
	worker_free(agent->worker);
	worker_leave(agent->disk, WORKER_LEAVE_DISK_S);
	container_watch_free(agent);
	names_free(agent);
	apply_free(agent);
	control_free(agent);
	xid_watch_free(agent);
	client_free(agent);
	while ((p = LIST_FIRST(&agent->processes))) {
		LIST_REMOVE(p, link);
		process_free(p);
	}
	while ((t = LIST_FIRST(&agent->tenants))) {
		LIST_REMOVE(t, link);
		tenant_free(t);
	}
	audit_free(agent);
	memory_free(agent);
	usage_free(agent);
	token_free(agent);
	conf_free(agent->conf);
	arbiter_free(agent->arbiter);
	device_set_close(agent->devices);
	if (!agent->options.loop)
		loop_free(agent->loop);
	if (agent->lock_fd >= 0) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/lock", agent->runtime_dir);
		/* Empties the file instead of removing it: another daemon may wait for its lock. */
		if (ftruncate(agent->lock_fd, 0) < 0)
			log_debug("cannot truncate '%s'", path);
		fd_close(agent->lock_fd);
	}
	free(agent);
}
