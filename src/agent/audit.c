/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: see audit.h. An unmanaged process is identified by pid, start time and device, so its
 * rounds belong to that very process. A round is an answer of the devices (agent-memory.c). The
 * audit asks for a round every ROUND_NS while the daemon does anything, and sooner if a tenant
 * seems to use more memory than was counted. An answer that another part of the daemon requested
 * adds no round: a process has at most one round in ROUND_NS.
 */
#include "agent/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent-client.h"
#include "agent/device.h"
#include "agent/agent-memory.h"
#include "agent/tenant.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"

#define ROUND_NS (10 * NSEC_PER_SEC)
#define SOON_NS (2 * NSEC_PER_SEC)
/* The audit looks once a second, so a round may come this much before ROUND_NS have passed. */
#define TICK_NS NSEC_PER_SEC
#define UNMANAGED_MAX 1024u
#define LISTED_MAX 4096u
#define EXCESSES_SHOWN 16u
/* Memory beyond the counted bytes that is normal: granularity, and the driver's own memory. */
#define SLACK_BYTES (64ull << 20)

struct unmanaged {
	pid_t pid;
	uint64_t start;
	uint32_t device, seen; /* rounds with this process, at most one each ROUND_NS */
	uint64_t seen_ns;
	uint64_t bytes;
	uint64_t term_ns; /* --police: time of SIGTERM; 0: not yet */
	bool has_got_kill;
	bool is_graphics, is_taken;
	char name[PROCESS_NAME_SIZE];
};

struct audit {
	struct unmanaged unmanaged[UNMANAGED_MAX];
	uint32_t n;
	uint64_t generation, asked_ns;
};

/* ---- the owner of a process ---- */

/* The tenants' processes, sorted by pid, because the devices may list thousands of processes. */
struct audit_processes {
	struct process **by_pid;
	size_t n;
};

static int compare_pids(const void *a, const void *b)
{
	const struct process *const *p = a, *const *q = b;

	return ((*p)->pid > (*q)->pid) - ((*p)->pid < (*q)->pid);
}

/* Includes ended processes, because the devices may list them for some time. */
static int audit_list_processes(struct agent *agent, struct audit_processes *ret)
{
	struct audit_processes processes = {0};
	struct process *p;
	size_t n = 0;

	LIST_FOREACH(p, &agent->processes, link)
		n++;
	processes.by_pid = calloc(n + 1, sizeof(*processes.by_pid));
	if (!processes.by_pid)
		return -ENOMEM;
	LIST_FOREACH(p, &agent->processes, link)
		processes.by_pid[processes.n++] = p;
	qsort(processes.by_pid, processes.n, sizeof(*processes.by_pid), compare_pids);
	*ret = processes;
	return 0;
}

static struct process *audit_find_process(const struct audit_processes *processes, pid_t pid)
{
	struct process key = {.pid = pid}, *at = &key, **found;

	found = bsearch(
		&at, processes->by_pid, processes->n, sizeof(*processes->by_pid), compare_pids);
	return found ? *found : NULL;
}

static const struct unmanaged *audit_find_unmanaged(
	const struct unmanaged *list, uint32_t n, const struct unmanaged *key)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].pid == key->pid && list[i].start == key->start &&
			list[i].device == key->device)
			return &list[i];
	return NULL;
}

/* ---- --police ---- */

/* Never waits for a file system in user space. */
static bool audit_stat_file(const char *path, struct statx *ret)
{
	return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC,
		       STATX_TYPE | STATX_MODE | STATX_UID | STATX_INO, ret) == 0;
}

/*
 * A container can have any file at a path. So the path must lead to the executable in the host's
 * file system, too.
 */
static bool audit_is_file_at(const struct statx *exe, const char *path)
{
	static const char *const roots[] = {"", "/proc/1/root"};
	char full[PATH_MAX + 16];
	struct statx stx;

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		snprintf(full, sizeof(full), "%s%s", roots[i], path);
		if (audit_stat_file(full, &stx) && S_ISREG(stx.stx_mode) &&
			stx.stx_ino == exe->stx_ino && stx.stx_dev_major == exe->stx_dev_major &&
			stx.stx_dev_minor == exe->stx_dev_minor)
			return true;
	}
	return false;
}

static bool read_executable(pid_t pid, struct statx *ret)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	return audit_stat_file(link, ret);
}

/*
 * Folders in which the audit looks for an executable that --police-allow names without a folder.
 * Only root can write there.
 */
static const char *const folders[] = {"/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin",
	"/usr/local/sbin", "/usr/lib/xorg", "/usr/libexec"};

/* Looks only at paths of the administrator, never at a path that the process shows. */
static bool is_executable(const struct statx *exe, const char *entry)
{
	char path[PATH_MAX + 24];

	if (entry[0] == '/')
		return audit_is_file_at(exe, entry);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "%s/%s", folders[i], entry);
		if (!strchr(entry, '/') && audit_is_file_at(exe, path))
			return true;
	}
	return false;
}

static int parse_user(struct str entry, uid_t *ret, struct error *err)
{
	uint64_t uid;

	if (!str_skip_prefix(&entry, STR("uid:")))
		return 0;
	if (parse_uint(entry, 0, UINT32_MAX - 1, &uid, NULL) < 0)
		return fail(err, EINVAL,
			"--police-allow 'uid:%" STR_FMT
			"': expected the number of a user, such as uid:1000",
			STR_ARG(entry));
	*ret = (uid_t)uid;
	return 1;
}

/* The process's name does not count, because a process can choose it. */
static bool audit_is_allowed_process(const struct agent *agent, pid_t pid)
{
	struct str rest = str_from(agent->options.police_allow), piece;
	struct statx exe;
	const bool has_exe = read_executable(pid, &exe);
	uid_t real = 0, effective = 0, uid = 0;
	const bool has_uid = process_uids(pid, &real, &effective) == 0;
	char entry[PATH_MAX];

	while (agent->options.police_allow && str_split(&rest, ',', &piece)) {
		piece = str_trim(piece);
		if (parse_user(piece, &uid, NULL)) {
			if (has_uid && real == uid && effective == uid)
				return true;
		} else if (has_exe && piece.n && str_copy(entry, sizeof(entry), piece) == 0 &&
			is_executable(&exe, entry)) {
			return true;
		}
	}
	return false;
}

static int check_allow(const struct agent *agent, struct error *err)
{
	struct str rest = str_from(agent->options.police_allow), piece;
	uid_t uid;

	while (agent->options.police_allow && str_split(&rest, ',', &piece)) {
		int r = parse_user(str_trim(piece), &uid, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static void send_signal(struct unmanaged *s, int sig, const char *why)
{
	int pidfd = process_open(s->pid, s->start), r;

	if (pidfd < 0)
		return; /* the process has just ended */
	r = pidfd_kill(pidfd, sig);
	if (r < 0)
		log_warn("unmanaged process %d (%s) on device %u: --police cannot signal it: %s",
			(int)s->pid, s->name, s->device, strerror(-r));
	else
		log_warn("unmanaged process %d (%s) on device %u: --police %s", (int)s->pid,
			s->name, s->device, why);
	fd_close(pidfd);
}

static void audit_end_unmanaged(struct agent *agent, struct unmanaged *s)
{
	const uint64_t now = clock_now_ns();

	if (!agent->options.police || s->seen < AUDIT_CONFIRM || s->is_graphics || s->pid <= 1 ||
		s->has_got_kill || s->pid == getpid() || audit_is_allowed_process(agent, s->pid))
		return;
	if (!s->term_ns) {
		s->term_ns = now;
		send_signal(s, SIGTERM, "sent SIGTERM");
	} else if (clock_since_ns(now, s->term_ns) >= ROUND_NS) {
		s->has_got_kill = true;
		send_signal(s, SIGKILL, "sent SIGKILL, since it ignored SIGTERM");
	}
}

/* Logs the end of signalled processes that have exited, not only left the device. */
static void note_ends(const struct audit *audit, const struct unmanaged *now, uint32_t n)
{
	for (uint32_t i = 0; i < audit->n; i++) {
		const struct unmanaged *s = &audit->unmanaged[i];

		if (s->term_ns && !audit_find_unmanaged(now, n, s) &&
			!process_is_alive(s->pid, s->start))
			log_info("unmanaged process %d (%s) has exited after --police", (int)s->pid,
				s->name);
	}
}

/* ---- tenants that use more than was counted ---- */

static struct tenant_device *audit_tenant_device(const struct process *p, uint32_t device)
{
	for (uint32_t i = 0; i < p->tenant->n; i++)
		if (p->tenant->devices[i].device->index == device)
			return &p->tenant->devices[i];
	return NULL;
}

static void note_episode(struct tenant_device *td)
{
	const struct tenant *t = td->tenant;

	if (td->excess_rounds == AUDIT_REPORTED)
		log_warn("tenant %u (%s) of user %u uses %s of device %u, but divvy counts %s",
			t->id, t->name, (unsigned int)t->uid, format_bytes(td->says_bytes).s,
			td->device->index, format_bytes(td->counted_bytes).s);
}

static void note_device(struct tenant_device *td)
{
	const uint64_t counted = memory_used(td);

	/* The device's answer is older than `counted`: the last tick's count may fit it better. */
	td->counted_bytes = MAX(counted, td->counted_before);
	if (td->says_bytes > td->counted_bytes + SLACK_BYTES) {
		td->excess_rounds++;
		note_episode(td);
		return;
	}
	if (td->excess_rounds >= AUDIT_REPORTED)
		log_info("tenant %u (%s) uses only counted memory of device %u again",
			td->tenant->id, td->tenant->name, td->device->index);
	td->excess_rounds = 0;
}

uint64_t audit_excess(const struct tenant_device *td)
{
	return td->excess_rounds >= AUDIT_REPORTED ? td->says_bytes - td->counted_bytes : 0;
}

uint32_t audit_excesses(struct agent *agent)
{
	const struct tenant *t;
	uint32_t n = 0;

	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++)
			n += audit_excess(&t->devices[i]) > 0;
	return n;
}

static void note_tenants(struct agent *agent)
{
	struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++)
			note_device(&t->devices[i]);
}

static bool is_any_suspected(const struct agent *agent)
{
	const struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++)
			if (t->devices[i].excess_rounds &&
				t->devices[i].excess_rounds < AUDIT_REPORTED)
				return true;
	return false;
}

/* ---- rounds ---- */

/*
 * Adds a round only if ROUND_NS have passed since the last one. Earlier answers, which other parts
 * requested, add none.
 */
static void audit_carry_over_unmanaged(struct unmanaged *s, const struct unmanaged *before)
{
	const bool is_round = s->seen_ns + TICK_NS >= before->seen_ns + ROUND_NS;

	s->seen = before->seen + is_round;
	s->seen_ns = is_round ? MAX(s->seen_ns, before->seen_ns + ROUND_NS) : before->seen_ns;
	s->term_ns = before->term_ns;
	s->has_got_kill = before->has_got_kill;
	s->is_taken = before->is_taken;
}

/*
 * Returns false if the process has ended, or uses a device that another device plugin shares out.
 */
static bool audit_check_unmanaged(
	struct agent *agent, const struct memory_unmanaged *listed, struct unmanaged *ret)
{
	const struct audit *audit = agent->audit;
	const struct unmanaged *before;
	struct process_stat stat;
	struct unmanaged s = {
		.pid = listed->pid,
		.device = listed->device,
		.bytes = listed->bytes == UINT64_MAX ? 0 : listed->bytes,
		.is_graphics = listed->is_graphics,
		.seen = 1,
		.seen_ns = clock_now_ns(),
	};

	if (agent->devices->devices[s.device].is_native || process_read_stat(s.pid, &stat) < 0)
		return false;
	s.start = stat.start_ticks;
	memcpy(s.name, stat.name, sizeof(s.name));
	before = audit_find_unmanaged(audit->unmanaged, audit->n, &s);
	if (before) {
		audit_carry_over_unmanaged(&s, before);
	} else {
		log_info("unmanaged process %d (%s) on device %u", (int)s.pid, s.name, s.device);
	}
	audit_end_unmanaged(agent, &s);
	*ret = s;
	return true;
}

static void audit_check_processes(struct agent *agent, const struct audit_processes *processes,
	const struct memory_unmanaged *listed, size_t n_listed, struct unmanaged *now)
{
	struct audit *audit = agent->audit;
	struct tenant *t;
	uint32_t n = 0;

	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n; i++)
			t->devices[i].says_bytes = 0;
	for (size_t i = 0; i < n_listed; i++) {
		const struct process *p = audit_find_process(processes, listed[i].pid);
		struct tenant_device *td = p && !p->is_dead
			? audit_tenant_device(p, listed[i].device)
			: NULL;

		if (td)
			td->says_bytes += listed[i].bytes == UINT64_MAX ? 0 : listed[i].bytes;
		if (!p && n < UNMANAGED_MAX)
			n += audit_check_unmanaged(agent, &listed[i], &now[n]);
	}
	note_tenants(agent);
	note_ends(audit, now, n);
	memcpy(audit->unmanaged, now, n * sizeof(*now));
	audit->n = n;
}

static void audit_check_devices(struct agent *agent)
{
	struct memory_unmanaged *listed = calloc(LISTED_MAX, sizeof(*listed));
	struct unmanaged *now = calloc(UNMANAGED_MAX, sizeof(*now));
	struct audit_processes processes = {0};

	if (listed && now && audit_list_processes(agent, &processes) >= 0)
		audit_check_processes(
			agent, &processes, listed, memory_listed(agent, listed, LISTED_MAX), now);
	free(processes.by_pid);
	free(listed);
	free(now);
}

static void keep_counted(struct agent *agent)
{
	struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n; i++)
			t->devices[i].counted_before = memory_used(&t->devices[i]);
}

void audit_tick(struct agent *agent, uint64_t now)
{
	struct audit *audit = agent->audit;

	if (memory_generation(agent) != audit->generation) {
		audit->generation = memory_generation(agent);
		if (clock_since_ns(now, audit->asked_ns) < ROUND_NS)
			audit_check_devices(agent);
	}
	keep_counted(agent);
	if (clock_since_ns(now, audit->asked_ns) >=
		(is_any_suspected(agent) ? SOON_NS : ROUND_NS)) {
		audit->asked_ns = now;
		memory_refresh(agent);
	}
}

uint32_t audit_n_unmanaged(const struct agent *agent)
{
	return agent->audit->n;
}

/* On a machine with a screen, graphics processes are normal: they are not reported. */
bool audit_take_unmanaged(struct agent *agent, struct audit_unmanaged *ret)
{
	for (uint32_t i = 0; i < agent->audit->n; i++) {
		struct unmanaged *s = &agent->audit->unmanaged[i];

		if (s->is_taken || s->is_graphics || s->seen < AUDIT_REPORTED)
			continue;
		s->is_taken = true;
		*ret = (struct audit_unmanaged){.pid = s->pid, .device = s->device};
		snprintf(ret->name, sizeof(ret->name), "%s", s->name);
		return true;
	}
	return false;
}

json_t *audit_json(struct agent *agent)
{
	const struct audit *audit = agent->audit;
	json_t *unmanaged = json_array(), *over = json_array();
	struct tenant *t;

	for (uint32_t i = 0; i < audit->n; i++) {
		const struct unmanaged *s = &audit->unmanaged[i];

		json_array_append_new(unmanaged,
			json_pack("{s:i, s:i, s:s, s:I, s:i, s:b}", "pid", (int)s->pid, "index",
				(int)s->device, "command", s->name, "memory_bytes",
				(json_int_t)s->bytes, "seen", (int)s->seen, "graphics",
				(int)s->is_graphics));
	}
	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++) {
			const struct tenant_device *td = &t->devices[i];

			if (audit_excess(td))
				json_array_append_new(over,
					json_pack("{s:i, s:i, s:I, s:I}", "tenant", (int)t->id,
						"index", (int)td->device->index, "device_bytes",
						(json_int_t)td->says_bytes, "counted_bytes",
						(json_int_t)td->counted_bytes));
		}
	/* `strangers` is the old name, for one release. */
	return json_pack("{s:O, s:o, s:o}", "unmanaged_processes", unmanaged, "strangers",
		unmanaged, "over", over);
}

static void audit_add_finding(json_t *list, const char *level, const char *what, const char *advice)
{
	json_t *text = json_string(what);

	json_array_append_new(list,
		json_pack("{s:s, s:o, s:s}", "level", level, "what", text ? text : json_string("?"),
			"do", advice));
}

static void find_devices(struct agent *agent, json_t *list)
{
	const struct device_set *set = agent->devices;
	char text[512];

	for (uint32_t i = 0; i < set->n; i++) {
		const struct device *d = &set->devices[i];

		const char *note = device_note(d);

		snprintf(text, sizeof(text), "device %u: %s, %s, %s%s%s%s", i, d->info.model,
			format_bytes(d->info.memory_bytes).s, d->info.uuid,
			set->is_simulated ? " (simulated)" : "", note[0] ? "; " : "", note);
		audit_add_finding(list,
			device_is_faulty(d) ? "problem"
				: note[0]   ? "note"
					    : "ok",
			text,
			!device_is_faulty(d) ? ""
				: set->is_simulated
				? "send the fault `reset` by divvy-simctl; the device then returns"
				: "see `nvidia-smi` and the kernel's log (Xid); stop the device's "
				  "programs and reset the device; it then returns by itself; with "
				  "drivers before R570, run `kubectl divvy clear-gpu NODE/UUID` in "
				  "a cluster, or restart the daemon");
	}
	if (set->is_simulated)
		audit_add_finding(list, "note", "the devices are simulated: no GPU computes here",
			"on a machine with an NVIDIA driver, start the daemon without --simulate");
}

/*
 * Adds a finding for each device whose kernels can access all memory of their process.
 * docs/remote.md says what divvy serve and divvyd --remote-listen do with such devices.
 */
static void find_host_access(const struct agent *agent, json_t *list)
{
	char text[300];

	for (uint32_t i = 0; i < agent->devices->n; i++) {
		const char *how = device_host_access(&agent->devices->devices[i]);

		if (!how)
			continue;
		snprintf(text, sizeof(text),
			"kernels on device %u can access all memory of their process (%s), so "
			"remote workers serve no other user there",
			i, how);
		audit_add_finding(list, "note", text,
			"for programs that you trust, use divvy serve --allow-host-access or "
			"divvyd --remote-host-access");
	}
}

/* Only the owner of a tenant sees its name. */
static void find_excesses(struct agent *agent, uid_t uid, json_t *list)
{
	char text[300], name[TENANT_NAME + 8], advice[300];
	uint32_t n = 0;
	struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++) {
			const struct tenant_device *td = &t->devices[i];

			if (!audit_excess(td) || n++ >= EXCESSES_SHOWN)
				continue;
			name[0] = '\0';
			if (tenant_may_see(agent, t, uid))
				snprintf(name, sizeof(name), " (%s)", t->name);
			snprintf(text, sizeof(text),
				"tenant %u%s of user %u uses %s of device %u, but divvy counts %s",
				t->id, name, (unsigned int)t->uid, format_bytes(td->says_bytes).s,
				td->device->index, format_bytes(td->counted_bytes).s);
			snprintf(advice, sizeof(advice),
				"divvy does not count memory of OptiX, Vulkan or OpenGL, or "
				"memory allocated without its libraries; `divvy remove %u` "
				"removes the tenant",
				t->id);
			audit_add_finding(list, "warning", text, advice);
		}
}

json_t *audit_findings(struct agent *agent, uid_t uid)
{
	const struct audit *audit = agent->audit;
	json_t *list = json_array();
	struct rlimit files = {0};
	char text[300];

	find_devices(agent, list);
	find_host_access(agent, list);
	if (agent->options.is_gate_off)
		audit_add_finding(list, "warning",
			"DIVVY_GATE=off opens all gates; no share is enforced",
			"unset DIVVY_GATE and restart the daemon");
	for (uint32_t i = 0; i < audit->n && i < 16; i++) {
		const struct unmanaged *s = &audit->unmanaged[i];

		snprintf(text, sizeof(text),
			"unmanaged process: pid %d (%s) uses device %u and belongs to no tenant%s",
			(int)s->pid, s->name, s->device, s->is_graphics ? " (graphics)" : "");
		audit_add_finding(list, s->is_graphics ? "note" : "warning", text,
			"start it with `divvy run`, or add a rule to tenants.conf");
	}
	find_excesses(agent, uid, list);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		snprintf(text, sizeof(text),
			"limit of %llu open files: enough for about %llu processes",
			(unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_cur / 2);
		audit_add_finding(list, files.rlim_cur < 4096 ? "warning" : "ok", text,
			files.rlim_cur < 4096 ? "raise the daemon's LimitNOFILE" : "");
	}
	if (!agent->is_system)
		audit_add_finding(list, "note",
			"the daemon runs as an ordinary user and serves this user only",
			"run divvyd as root to serve several users");
	return list;
}

int audit_new(struct agent *agent, struct error *err)
{
	int r = check_allow(agent, err);

	if (r < 0)
		return r;
	agent->audit = calloc(1, sizeof(*agent->audit));
	return agent->audit ? 0 : fail(err, ENOMEM, "out of memory");
}

void audit_free(struct agent *agent)
{
	free(agent->audit);
	agent->audit = NULL;
}
