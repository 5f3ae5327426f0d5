/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: see audit.h. A stranger is known by pid, start time and device, so that its rounds are
 * counted for that very process. A round is an answer of the devices (memory.c), one every
 * ROUND_NS at most while the daemon does anything at all.
 */
#include "agent/audit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/client.h"
#include "agent/device.h"
#include "agent/memory.h"
#include "agent/tenant.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/log.h"
#include "base/process.h"

#define ROUND_NS (10 * NSEC_PER_SEC)
#define STRANGERS_MAX 1024u
#define LISTED_MAX 4096u
/* What a process may use beyond what was counted: granularity and the driver's own. */
#define SLACK_BYTES (64ull << 20)

struct stranger {
	pid_t pid;
	uint64_t start;
	uint32_t device, seen;
	uint64_t bytes;
	bool is_graphics, is_stopped, is_taken;
	char name[PROCESS_NAME_SIZE];
};

struct audit {
	struct stranger strangers[STRANGERS_MAX];
	uint32_t n;
	uint64_t generation, asked_ns;
};

static bool is_tenants(struct agent *agent, pid_t pid)
{
	const struct process *p;

	LIST_FOREACH(p, &agent->processes, link)
		if (p->pid == pid)
			return true;
	return false;
}

static const struct stranger *find(
	const struct stranger *list, uint32_t n, const struct stranger *key)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].pid == key->pid && list[i].start == key->start &&
			list[i].device == key->device)
			return &list[i];
	return NULL;
}

static bool is_allowed(const struct agent *agent, const char *name)
{
	struct str rest = str_from(agent->options.police_allow), piece;

	while (agent->options.police_allow && str_split(&rest, ',', &piece))
		if (str_is(str_trim(piece), name))
			return true;
	return false;
}

static void police(struct agent *agent, struct stranger *s)
{
	int pidfd;

	if (!agent->options.police || s->seen < AUDIT_CONFIRM || s->is_graphics || s->pid <= 1 ||
		s->is_stopped || s->pid == getpid() || is_allowed(agent, s->name))
		return;
	pidfd = process_open(s->pid, s->start);
	if (pidfd < 0)
		return;
	log_warn("pid %d (%s) uses device %u and belongs to no tenant: stopped (--police)",
		(int)s->pid, s->name, s->device);
	if (pidfd_kill(pidfd, SIGTERM) < 0)
		log_warn("pid %d could not be stopped", (int)s->pid);
	s->is_stopped = true;
	fd_close(pidfd);
}

static void look(struct agent *agent)
{
	struct audit *audit = agent->audit;
	struct memory_stranger *listed = calloc(LISTED_MAX, sizeof(*listed));
	struct stranger *now = calloc(STRANGERS_MAX, sizeof(*now));
	size_t n_listed = listed ? memory_listed(agent, listed, LISTED_MAX) : 0;
	uint32_t n = 0;

	for (size_t i = 0; i < n_listed && now && n < STRANGERS_MAX; i++) {
		struct stranger s = {
			.pid = listed[i].pid,
			.device = listed[i].device,
			.bytes = listed[i].bytes == UINT64_MAX ? 0 : listed[i].bytes,
			.is_graphics = listed[i].is_graphics,
			.seen = 1,
		};
		struct process_stat stat;
		const struct stranger *before;

		if (agent->devices->devices[s.device].is_native || is_tenants(agent, s.pid) ||
			process_read_stat(s.pid, &stat) < 0)
			continue;
		s.start = stat.start_ticks;
		memcpy(s.name, stat.name, sizeof(s.name));
		before = find(audit->strangers, audit->n, &s);
		if (before) {
			s.seen = before->seen + 1;
			s.is_stopped = before->is_stopped;
			s.is_taken = before->is_taken;
		} else {
			log_info("pid %d (%s) uses device %u and belongs to no tenant", (int)s.pid,
				s.name, s.device);
		}
		police(agent, &s);
		now[n++] = s;
	}
	if (now)
		memcpy(audit->strangers, now, n * sizeof(*now));
	audit->n = now ? n : 0;
	free(listed);
	free(now);
}

void audit_tick(struct agent *agent, uint64_t now)
{
	struct audit *audit = agent->audit;

	if (memory_generation(agent) != audit->generation) {
		audit->generation = memory_generation(agent);
		if (clock_since_ns(now, audit->asked_ns) < ROUND_NS)
			look(agent);
	}
	if (clock_since_ns(now, audit->asked_ns) >= ROUND_NS) {
		audit->asked_ns = now;
		memory_refresh(agent);
	}
}

uint32_t audit_strangers(const struct agent *agent)
{
	return agent->audit->n;
}

/* Who draws is no stranger to a machine with a screen. */
bool audit_take_stranger(struct agent *agent, struct audit_stranger *ret)
{
	for (uint32_t i = 0; i < agent->audit->n; i++) {
		struct stranger *s = &agent->audit->strangers[i];

		if (s->is_taken || s->is_graphics || s->seen < AUDIT_TOLD)
			continue;
		s->is_taken = true;
		*ret = (struct audit_stranger){.pid = s->pid, .device = s->device};
		snprintf(ret->name, sizeof(ret->name), "%s", s->name);
		return true;
	}
	return false;
}

static uint64_t device_says(struct agent *agent, const struct tenant_device *td)
{
	uint64_t sum = 0, bytes;
	const struct process *p;

	LIST_FOREACH(p, &td->tenant->processes, of_tenant) {
		bytes = memory_device_says(agent, td->device, p->pid);
		sum += bytes == UINT64_MAX ? 0 : bytes;
	}
	return sum;
}

static bool is_excess(struct agent *agent, const struct tenant_device *td)
{
	return device_says(agent, td) > memory_used(td) + SLACK_BYTES;
}

uint32_t audit_excesses(struct agent *agent)
{
	const struct tenant *t;
	uint32_t n = 0;

	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++)
			n += is_excess(agent, &t->devices[i]);
	return n;
}

json_t *audit_json(struct agent *agent)
{
	const struct audit *audit = agent->audit;
	json_t *strangers = json_array(), *over = json_array();
	struct tenant *t;

	for (uint32_t i = 0; i < audit->n; i++) {
		const struct stranger *s = &audit->strangers[i];

		json_array_append_new(strangers,
			json_pack("{s:i, s:i, s:s, s:I, s:i, s:b}", "pid", (int)s->pid, "index",
				(int)s->device, "command", s->name, "memory_bytes",
				(json_int_t)s->bytes, "seen", (int)s->seen, "graphics",
				(int)s->is_graphics));
	}
	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++) {
			uint64_t says = device_says(agent, &t->devices[i]);
			uint64_t counted = memory_used(&t->devices[i]);

			if (is_excess(agent, &t->devices[i]))
				json_array_append_new(over,
					json_pack("{s:i, s:i, s:I, s:I}", "tenant", (int)t->id,
						"index", (int)t->devices[i].device->index,
						"device_bytes", (json_int_t)says, "counted_bytes",
						(json_int_t)counted));
		}
	return json_pack("{s:o, s:o}", "strangers", strangers, "over", over);
}

static void found(json_t *list, const char *level, const char *what, const char *advice)
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
		found(list,
			device_is_ill(d)  ? "problem"
				: note[0] ? "note"
					  : "ok",
			text,
			!device_is_ill(d) ? ""
				: set->is_simulated
				? "end its programs and restart the daemon"
				: "look at `nvidia-smi` and the kernel's log (Xid); "
				  "reset the device and restart the daemon");
	}
	if (set->is_simulated)
		found(list, "note", "the devices are simulated: nothing here was computed by a GPU",
			"on a machine with an NVIDIA driver, start the daemon without --simulate");
}

/* What divvy serve and divvyd --remote-listen do about it: docs/remote.md. */
static void find_host_access(const struct agent *agent, json_t *list)
{
	char text[300];

	for (uint32_t i = 0; i < agent->devices->n; i++) {
		const char *how = device_host_access(&agent->devices->devices[i]);

		if (!how)
			continue;
		snprintf(text, sizeof(text),
			"kernels on device %u reach ordinary memory of their process (%s): workers "
			"of remote programs serve no other users there",
			i, how);
		found(list, "note", text,
			"for programs that you trust: divvy serve --allow-host-access, or divvyd "
			"--remote-host-access");
	}
}

json_t *audit_findings(struct agent *agent)
{
	const struct audit *audit = agent->audit;
	json_t *list = json_array();
	struct rlimit files = {0};
	char text[300];

	find_devices(agent, list);
	find_host_access(agent, list);
	if (agent->options.is_gate_off)
		found(list, "warning", "DIVVY_GATE=off: every gate is open, no share is enforced",
			"unset DIVVY_GATE and restart the daemon");
	for (uint32_t i = 0; i < audit->n && i < 16; i++) {
		const struct stranger *s = &audit->strangers[i];

		snprintf(text, sizeof(text),
			"pid %d (%s) uses device %u and belongs to no tenant%s", (int)s->pid,
			s->name, s->device, s->is_graphics ? " (graphics)" : "");
		found(list, s->is_graphics ? "note" : "warning", text,
			"start it with `divvy run`, or add a rule to tenants.conf");
	}
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		snprintf(text, sizeof(text), "%llu open files: room for about %llu processes",
			(unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_cur / 2);
		found(list, files.rlim_cur < 4096 ? "warning" : "ok", text,
			files.rlim_cur < 4096 ? "raise the daemon's LimitNOFILE" : "");
	}
	if (!agent->is_system)
		found(list, "note", "the daemon runs as an ordinary user: it serves this user only",
			"run divvyd as root to share among users");
	return list;
}

int audit_new(struct agent *agent, struct error *err)
{
	agent->audit = calloc(1, sizeof(*agent->audit));
	return agent->audit ? 0 : fail(err, ENOMEM, "no memory");
}

void audit_free(struct agent *agent)
{
	free(agent->audit);
	agent->audit = NULL;
}
