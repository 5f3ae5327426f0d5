/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy-simctl inspects and controls a simulated machine. A table has one entry for each command,
 * and commands that list something accept --json. All output comes from the machine's files or from
 * its engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/program.h"
#include "base/table.h"
#include "simgpu/simgpu-proto.h"
#include "simgpu/simctl-text.h"
#include "simgpu/trace.h"

struct options {
	char dir[4096];
	bool json, summary;
	pid_t pid;  /* 0: all */
	int device; /* -1: all */
	/* only events that ended within the last `last_ns` nanoseconds; 0: all events */
	uint64_t last_ns;
};

typedef int command_fn(const struct options *o, int argc, char **argv, struct error *err);

static const char *const kind_names[] = {"kernel", "memset", "copy", "switch", "migrate"};
static const char *const engine_names[] = {"compute", "h2d", "d2h"};
static const char *const reason_names[] = {
	"alloc", "free", "context", "module", "pool", "vmm", "migrate", "death"};

#define NAME(names, i) ((i) < ARRAY_SIZE(names) ? names[i] : "?")

/* ---- trace ---- */

static bool simctl_is_wanted(const struct options *o, uint32_t pid, int device)
{
	return (!o->pid || o->pid == (pid_t)pid) && (o->device < 0 || o->device == device);
}

static void print_record(const struct options *o, const struct simgpu_trace_record *r, uint64_t t0)
{
	if (o->json) {
		printf("{\"start_ns\": %" PRIu64 ", \"end_ns\": %" PRIu64 ", \"device\": %u, "
		       "\"engine\": \"%s\", \"kind\": \"%s\", \"pid\": %u, \"context\": %u, "
		       "\"stream\": %u, \"op\": %" PRIu64 ", \"permille\": %u, \"bytes\": %" PRIu64
		       ", \"flags\": %u, \"simulated\": true}\n",
			r->start_ns, r->end_ns, r->device, NAME(engine_names, r->engine),
			NAME(kind_names, r->kind), r->pid, r->context, r->stream, r->op,
			r->permille, r->bytes, r->flags);
		return;
	}
	printf("%14.6f ms %12.3f us  dev %u %-7s %-7s pid %-7u ctx %-4u stream %-4u "
	       "%4u/1000%s%s%s%s\n",
		(double)(r->start_ns - t0) / 1e6, (double)(r->end_ns - r->start_ns) / 1e3,
		r->device, NAME(engine_names, r->engine), NAME(kind_names, r->kind), r->pid,
		r->context, r->stream, r->permille, r->flags & SIMGPU_TRACE_LAST ? "" : " (more)",
		r->flags & SIMGPU_TRACE_GRAPH ? " graph" : "",
		r->flags & SIMGPU_TRACE_SPIN                   ? " spin"
			: r->flags & SIMGPU_TRACE_COMPUTE_TIME ? " computing-time"
			: r->flags & SIMGPU_TRACE_COMPUTED     ? " computed"
							       : "",
		r->flags & SIMGPU_TRACE_ABORTED ? " aborted" : "");
}

struct share {
	uint32_t pid;
	int device;
};

/* Prints for each process and device the length of the union of the process's kernels. */
static int print_summary(const struct options *o, const struct simgpu_trace *t, uint64_t from_ns)
{
	static const struct table_column columns[] = {
		{"PID", true}, {"DEVICE", true}, {"BUSY", true}, {"SHARE", true}};
	_cleanup_table_ struct table table = {0};
	_cleanup_buf_ struct buf out = BUF_INIT(TABLE_MAX_BYTES);
	struct share seen[256];
	size_t n = 0;
	uint64_t end = simgpu_trace_written(t), t0 = UINT64_MAX, t1 = 0;

	table_init(&table, columns, ARRAY_SIZE(columns));
	for (uint64_t i = simgpu_trace_lost(t); i < end; i++) {
		struct simgpu_trace_record r;
		size_t k;

		if (simgpu_trace_get(t, i, &r) < 0 || r.engine != SIMGPU_ENGINE_COMPUTE ||
			r.kind == SIMGPU_TRACE_SWITCH || r.end_ns < from_ns ||
			!simctl_is_wanted(o, r.pid, r.device))
			continue;
		t0 = MIN(t0, MAX(r.start_ns, from_ns));
		t1 = MAX(t1, r.end_ns);
		for (k = 0; k < n && (seen[k].pid != r.pid || seen[k].device != r.device); k++)
			;
		if (k == n && n < ARRAY_SIZE(seen))
			seen[n++] = (struct share){r.pid, r.device};
	}
	for (size_t k = 0; k < n; k++) {
		pid_t pid = (pid_t)seen[k].pid;
		struct simgpu_busy busy;
		uint64_t ns;

		if (simgpu_busy_load(
			    t, &pid, 1, seen[k].device, SIMGPU_ENGINE_COMPUTE, t0, t1, &busy) < 0)
			return -ENOMEM;
		ns = simgpu_busy_ns(&busy, t0, t1);
		simgpu_busy_done(&busy);
		if (o->json) {
			printf("{\"pid\": %d, \"device\": %d, \"busy_ns\": %" PRIu64
			       ", \"span_ns\": %" PRIu64 ", \"simulated\": true}\n",
				pid, seen[k].device, ns, t1 - t0);
			continue;
		}
		table_addf(&table, "%d", pid);
		table_addf(&table, "%d", seen[k].device);
		table_add(&table, format_duration(ns).s);
		table_add(&table,
			format_percent((uint32_t)(ns * 1000 / MAX(t1 - t0, UINT64_C(1)))).s);
	}
	if (o->json || table_format(&table, true, &out) < 0)
		return 0;
	printf("%s(simulated; %s)\n", buf_text(&out), format_duration(n ? t1 - t0 : 0).s);
	return 0;
}

static int cmd_trace(const struct options *o, int argc, char **argv, struct error *err)
{
	_cleanup_(simgpu_trace_closep) struct simgpu_trace *t = NULL;
	uint64_t end, from, lost;
	int r = simgpu_trace_open(o->dir, &t, err);

	if (r < 0)
		return r;
	end = simgpu_trace_written(t);
	lost = simgpu_trace_lost(t);
	from = o->last_ns ? simgpu_trace_now_ns(t) - MIN(o->last_ns, simgpu_trace_now_ns(t)) : 0;
	if (o->summary)
		return print_summary(o, t, from);
	if (lost && !o->json)
		printf("# %" PRIu64 " older records were overwritten\n", lost);
	for (uint64_t n = lost; n < end; n++) {
		struct simgpu_trace_record rec;

		if (simgpu_trace_get(t, n, &rec) >= 0 && rec.end_ns >= from &&
			simctl_is_wanted(o, rec.pid, rec.device))
			print_record(o, &rec, simgpu_trace_start_ns(t));
	}
	return 0;
}

static int cmd_account(const struct options *o, int argc, char **argv, struct error *err)
{
	_cleanup_(simgpu_trace_closep) struct simgpu_trace *t = NULL;
	int r = simgpu_trace_open(o->dir, &t, err);
	uint64_t end, n = 0, from;

	if (r < 0)
		return r;
	end = simgpu_account_written(t);
	from = o->last_ns ? clock_now_ns() - MIN(o->last_ns, clock_now_ns()) : 0;
	for (; n < end; n++) {
		struct simgpu_account_record a;

		if (simgpu_account_get(t, n, &a) < 0 || a.t_ns < from ||
			!simctl_is_wanted(o, a.pid, a.device))
			continue;
		if (o->json)
			printf("{\"t_ns\": %" PRIu64
			       ", \"pid\": %u, \"device\": %u, \"bytes\": %" PRIu64
			       ", \"device_bytes\": %" PRIu64
			       ", \"reason\": \"%s\", \"simulated\": true}\n",
				a.t_ns, a.pid, a.device, a.bytes, a.device_bytes,
				NAME(reason_names, a.reason));
		else
			printf("%14.6f ms  dev %u pid %-7u %10s of %10s  %s\n",
				(double)(a.t_ns - simgpu_trace_start_ns(t)) / 1e6, a.device, a.pid,
				format_bytes(a.bytes).s, format_bytes(a.device_bytes).s,
				NAME(reason_names, a.reason));
	}
	return 0;
}

/* ---- devices ---- */

static int open_state(const struct options *o, struct map *ret_map, struct error *err)
{
	_cleanup_close_ int fd = -1;
	char path[4200];
	int r;

	snprintf(path, sizeof(path), "%s/%s", o->dir, SIMGPU_FILE_STATE);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return fail(err, ENOENT,
			"no simulated device runs in '%s'; start a program that uses one, or "
			"divvy-sim-engine --stay",
			o->dir);
	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", path);
	r = map_fd(fd, sizeof(struct simgpu_state), PROT_READ, ret_map);
	if (r < 0)
		return fail_errno(err, -r, "map '%s'", path);
	if (((struct simgpu_state *)ret_map->p)->magic != SIMGPU_MAGIC) {
		map_done(ret_map);
		return fail(err, EBADMSG, "'%s' is not the state of a simulated device", path);
	}
	return 0;
}

static uint32_t simctl_recent_use(uint64_t sample_ns, uint32_t permille)
{
	return clock_since_ns(clock_now_ns(), sample_ns) < NSEC_PER_SEC ? permille : 0;
}

static int cmd_devices(const struct options *o, int argc, char **argv, struct error *err)
{
	static const struct table_column columns[] = {{"DEVICE", true}, {"NAME (SIMULATED)", false},
		{"UUID", false}, {"MEMORY", true}, {"USED", true}, {"BUSY", true}, {"SMS", true},
		{"PROCESSES", true}};
	_cleanup_map_ struct map map = MAP_NONE;
	_cleanup_table_ struct table table = {0};
	_cleanup_buf_ struct buf out = BUF_INIT(TABLE_MAX_BYTES);
	const struct simgpu_state *s;
	int r = open_state(o, &map, err);

	if (r < 0)
		return r;
	s = map.p;
	table_init(&table, columns, ARRAY_SIZE(columns));
	for (uint32_t i = 0; i < s->device_count && i < SIMGPU_MAX_DEVICES; i++) {
		const struct simgpu_state_device *d = &s->devices[i];
		uint32_t procs = 0, busy = simctl_recent_use(d->sample_ns, d->sm_permille);

		for (uint32_t k = 0; k < MIN(s->proc_slots, (uint32_t)SIMGPU_MAX_STATE_PROCS); k++)
			procs += s->procs[k].pid && s->procs[k].device == i;
		if (o->json) {
			printf("{\"device\": %u, \"name\": \"%s\", \"uuid\": \"%s\", \"memory\": "
			       "%" PRIu64 ", \"used\": %" PRIu64
			       ", \"busy_permille\": %u, \"sm_count\": %u, \"processes\": %u, "
			       "\"lost\": %s, \"simulated\": true}\n",
				i, d->name, d->uuid, d->mem_total, (uint64_t)d->mem_used, busy,
				d->sm_count, procs, d->lost ? "true" : "false");
			continue;
		}
		table_addf(&table, "%u", i);
		table_add(&table, d->name);
		table_add(&table, d->uuid);
		table_add(&table, format_bytes(d->mem_total).s);
		table_add(&table, format_bytes(d->mem_used).s);
		table_add(&table, d->lost ? "lost" : format_percent(busy).s);
		table_addf(&table, "%u", d->sm_count);
		table_addf(&table, "%u", procs);
	}
	if (!o->json && table_format(&table, true, &out) >= 0)
		printf("%s", buf_text(&out));
	return 0;
}

/* ---- the engine ---- */

/* Makes one call to the engine; ret_reply is set on success. */
static int simctl_call_engine(int sock, struct simgpu_request q, int fd,
	struct simgpu_reply *ret_reply, struct error *err)
{
	struct simgpu_reply a;

	if (fd_send(sock, &q, sizeof(q), &fd, fd >= 0, 0) != sizeof(q) ||
		fd_recv(sock, &a, sizeof(a), NULL, 0) != sizeof(a))
		return fail(err, EPIPE, "the engine exited before it answered");
	if (a.status)
		return fail(err, EINVAL, "the engine refused: %s",
			a.text[0] ? a.text : "no reason given");
	*ret_reply = a;
	return 0;
}

static int connect_engine(const struct options *o, int *ret_sock, struct error *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct simgpu_reply a;
	int r;

	if (sock < 0)
		return fail_errno(err, errno, "socket");
	if (snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", o->dir, SIMGPU_FILE_SOCKET) >=
		(int)sizeof(addr.sun_path))
		return fail(err, ENAMETOOLONG, "folder '%s'", o->dir);
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno == ENOENT || errno == ECONNREFUSED)
			return fail(err, ENOENT, "no engine runs in '%s'", o->dir);
		return fail_errno(err, errno, "connect to '%s'", addr.sun_path);
	}
	r = simctl_call_engine(sock,
		(struct simgpu_request){
			.type = SIMGPU_MSG_HELLO, .arg = {SIMGPU_ABI, SIMGPU_ROLE_ADMIN}},
		-1, &a, err);
	if (r < 0)
		return r;
	*ret_sock = TAKE_FD(sock);
	return 0;
}

static int cmd_status(const struct options *o, int argc, char **argv, struct error *err)
{
	_cleanup_close_ int sock = -1;
	struct simgpu_reply a = {0};
	int r = connect_engine(o, &sock, err);

	if (r >= 0)
		r = simctl_call_engine(
			sock, (struct simgpu_request){.type = SIMGPU_MSG_STATUS}, -1, &a, err);
	if (r < 0)
		return r;
	if (o->json)
		printf("{\"dir\": \"%s\", \"pid\": %" PRIu64 ", \"clients\": %" PRIu64
		       ", \"simulated\": true}\n",
			o->dir, a.arg[0], a.arg[1]);
	else
		printf("engine %" PRIu64 " simulates %s for %" PRIu64 " connection(s)\n", a.arg[0],
			o->dir, a.arg[1]);
	return 0;
}

static int cmd_stop(const struct options *o, int argc, char **argv, struct error *err)
{
	_cleanup_close_ int sock = -1;
	struct simgpu_reply a;
	char byte;
	int r = connect_engine(o, &sock, err);

	if (r >= 0)
		r = simctl_call_engine(
			sock, (struct simgpu_request){.type = SIMGPU_MSG_STOP}, -1, &a, err);
	if (r < 0)
		return r;
	/* The engine closes the connection after its clean-up. */
	while (recv(sock, &byte, 1, 0) > 0)
		;
	return 0;
}

static int cmd_faults(const struct options *o, int argc, char **argv, struct error *err)
{
	_cleanup_close_ int sock = -1, fd = -1;
	struct simgpu_reply a;
	int r;

	fd = !strcmp(argv[0], "-") ? fcntl(0, F_DUPFD_CLOEXEC, 3)
				   : open(argv[0], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", argv[0]);
	r = connect_engine(o, &sock, err);
	if (r >= 0)
		r = simctl_call_engine(
			sock, (struct simgpu_request){.type = SIMGPU_MSG_FAULTS}, fd, &a, err);
	return r < 0 ? fail_within(err, r, "%s", argv[0]) : 0;
}

/* ---- commands ---- */

/* X(name, operands, number of operands, help) */
#define COMMANDS(X) \
	X(devices, "", 0, "the simulated devices") \
	X(trace, "", 0, "what was executed, when; --summary: busy time per process") \
	X(account, "", 0, "device memory held, at every change") \
	X(status, "", 0, "the engine and its clients") \
	X(faults, " FILE", 1, \
		"sets faults (oom, ecc, lost, hang, slow, xid, reset); an empty file: none") \
	X(stop, "", 0, "ends the engine; its clients see a lost device")

static const struct command {
	const char *name, *operands;
	int n_operands;
	command_fn *run;
} commands[] = {
#define X(name, operands, n, help) {#name, operands, n, cmd_##name},
	COMMANDS(X)
#undef X
};

static const char *const command_terms[][2] = {
#define X(name, operands, n, help) {#name operands, help},
	COMMANDS(X)
#undef X
};

static int set_dir(void *data, const char *value, struct error *err)
{
	struct options *o = data;

	return str_copy(o->dir, sizeof(o->dir), str_from(value)) < 0
		? fail(err, ENAMETOOLONG, "folder '%.60s...'", value)
		: 0;
}

static int set_pid(void *data, const char *value, struct error *err)
{
	struct options *o = data;
	uint64_t pid;
	int r = parse_uint(str_from(value), 1, INT32_MAX, &pid, err);

	if (r >= 0)
		o->pid = (pid_t)pid;
	return r;
}

static int simctl_set_device(void *data, const char *value, struct error *err)
{
	struct options *o = data;
	uint64_t device;
	int r = parse_uint(str_from(value), 0, SIMGPU_MAX_DEVICES - 1, &device, err);

	if (r >= 0)
		o->device = (int)device;
	return r;
}

static int set_last(void *data, const char *value, struct error *err)
{
	struct options *o = data;

	return parse_duration(str_from(value), &o->last_ns, err);
}

static const struct option_row table[] = {
	{"dir", "DIR", "the machine's folder (default: $DIVVY_SIM, or /dev/shm/divvy-sim-UID)",
		.set = set_dir},
	{"json", NULL, "one JSON object a line", offsetof(struct options, json)},
	{"summary", NULL, "of trace: busy time per process and device",
		offsetof(struct options, summary)},
	{"pid", "N", "of trace and account: this process's", .set = set_pid},
	{"device", "N", "of trace and account: this device's", .set = simctl_set_device},
	{"last", "TIME", "of trace and account: what ended in the last so long, as 2s",
		.set = set_last},
	{0},
};

static const char *const costs[][2] = {
#define COST(field, key, scale, value, comment) {#key "=" #value, comment},
#include "simgpu/costs.def"
#undef COST
};

static const struct program_section sections[] = {
	{"FAULTS", TEXT_SIMCTL_FAULTS},
	{"COSTS", TEXT_SIMCTL_COSTS, costs, ARRAY_SIZE(costs)},
	{"EXIT STATUS", "0; 1 when it failed; 2 when the command line is not right."},
};

static const struct program program = {
	.name = "divvy-simctl",
	.operands = "COMMAND",
	.summary = "look at simulated GPUs, and make them fail",
	.sentence = "Looks at simulated GPUs, and makes them fail.",
	.text = TEXT_SIMCTL_TEXT,
	.see_also = "divvyd(8) divvy(1)",
	.options = table,
	.commands = {"COMMANDS", NULL, command_terms, ARRAY_SIZE(command_terms)},
	.sections = sections,
	.n_sections = ARRAY_SIZE(sections),
	.is_tool = true,
};

/* argv[1] is the command's name, argv[2] its first operand. */
static int simctl_run_command(const struct options *o, int argc, char **argv, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const struct command *c = &commands[i];
		int r;

		if (strcmp(argv[1], c->name) != 0)
			continue;
		if (argc - 2 != c->n_operands) {
			log_error("usage: divvy-simctl [OPTION...] %s%s", c->name, c->operands);
			return 2;
		}
		r = c->run(o, argc - 2, argv + 2, err);
		if (r < 0)
			log_error("%s", err->msg);
		return r < 0;
	}
	log_error("'%s': no such command", argv[1]);
	program_print_help(&program, stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct options o = {.device = -1};
	struct error err = {0};
	int r;

	log_init("divvy-simctl");
	if (argc == 3 && !strcmp(argv[1], "--dump-man")) {
		r = program_dump_man(&program, argv[2], &err);
		return r < 0 ? log_error("%s", err.msg), 1 : 0;
	}
	r = simgpu_dir(o.dir, sizeof(o.dir));
	if (r < 0)
		r = fail(&err, ENAMETOOLONG, "$%s is too long", SIMGPU_ENV_DIR);
	else
		r = program_parse(&program, &o, argc, argv, &err);
	if (r > 0)
		return 0;
	if (r < 0) {
		log_error("%s", err.msg);
		return 2;
	}
	for (argc = 1; argv[argc];)
		argc++;
	if (argc > 1)
		return simctl_run_command(&o, argc, argv, &err);
	program_print_help(&program, stderr);
	return 2;
}
