/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy-simctl: looks at a simulated machine and orders it about. One table entry per command; what
 * lists takes --json. All that it prints comes from the machine's own files or its engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
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
#include "base/man.h"
#include "base/parse.h"
#include "base/table.h"
#include "simgpu/proto.h"
#include "simgpu/trace.h"

struct options {
	char dir[4096];
	bool json, summary;
	pid_t pid;        /* 0: all */
	int device;       /* -1: all */
	uint64_t last_ns; /* only what ended in the last so many; 0: all */
};

typedef int command_fn(const struct options *o, int argc, char **argv, struct error *err);

static const char *const kind_names[] = {"kernel", "memset", "copy", "switch", "migrate"};
static const char *const engine_names[] = {"compute", "h2d", "d2h"};
static const char *const reason_names[] = {
	"alloc", "free", "context", "module", "pool", "vmm", "migrate", "death"};

#define NAME(names, i) ((i) < ARRAY_SIZE(names) ? names[i] : "?")

/* ---- trace ---- */

static bool is_wanted(const struct options *o, uint32_t pid, int device)
{
	return (!o->pid || o->pid == (pid_t)pid) && (o->device < 0 || o->device == device);
}

static void print_record(const struct options *o, const struct sim_trace_record *r, uint64_t t0)
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
		r->context, r->stream, r->permille, r->flags & SIM_TRACE_LAST ? "" : " (more)",
		r->flags & SIM_TRACE_GRAPH ? " graph" : "",
		r->flags & SIM_TRACE_SPIN ? " spin" : "",
		r->flags & SIM_TRACE_ABORTED ? " aborted" : "");
}

struct share {
	uint32_t pid;
	int device;
};

/* Busy time per process and device, as a union of its kernels. */
static int print_summary(const struct options *o, const struct sim_trace *t, uint64_t from_ns)
{
	static const struct table_column columns[] = {
		{"PID", true}, {"DEVICE", true}, {"BUSY", true}, {"SHARE", true}};
	_cleanup_table_ struct table table = {0};
	_cleanup_buf_ struct buf out = BUF_INIT(TABLE_MAX_BYTES);
	struct share seen[256];
	size_t n = 0;
	uint64_t end = sim_trace_written(t), t0 = UINT64_MAX, t1 = 0;

	table_init(&table, columns, ARRAY_SIZE(columns));
	for (uint64_t i = sim_trace_lost(t); i < end; i++) {
		struct sim_trace_record r;
		size_t k;

		if (sim_trace_get(t, i, &r) < 0 || r.engine != SIM_ENGINE_COMPUTE ||
			r.kind == SIM_TRACE_SWITCH || r.end_ns < from_ns ||
			!is_wanted(o, r.pid, r.device))
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
		struct sim_busy busy;
		uint64_t ns;

		if (sim_busy_load(t, &pid, 1, seen[k].device, SIM_ENGINE_COMPUTE, t0, t1, &busy) <
			0)
			return -ENOMEM;
		ns = sim_busy_ns(&busy, t0, t1);
		sim_busy_done(&busy);
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
	_cleanup_(sim_trace_closep) struct sim_trace *t = NULL;
	uint64_t end, from, lost;
	int r = sim_trace_open(o->dir, &t, err);

	if (r < 0)
		return r;
	end = sim_trace_written(t);
	lost = sim_trace_lost(t);
	from = o->last_ns ? sim_trace_now_ns(t) - MIN(o->last_ns, sim_trace_now_ns(t)) : 0;
	if (o->summary)
		return print_summary(o, t, from);
	if (lost && !o->json)
		printf("# %" PRIu64 " older records were overwritten\n", lost);
	for (uint64_t n = lost; n < end; n++) {
		struct sim_trace_record rec;

		if (sim_trace_get(t, n, &rec) >= 0 && rec.end_ns >= from &&
			is_wanted(o, rec.pid, rec.device))
			print_record(o, &rec, sim_trace_start_ns(t));
	}
	return 0;
}

static int cmd_account(const struct options *o, int argc, char **argv, struct error *err)
{
	_cleanup_(sim_trace_closep) struct sim_trace *t = NULL;
	int r = sim_trace_open(o->dir, &t, err);
	uint64_t end, n = 0, from;

	if (r < 0)
		return r;
	end = sim_account_written(t);
	from = o->last_ns ? clock_now_ns() - MIN(o->last_ns, clock_now_ns()) : 0;
	for (; n < end; n++) {
		struct sim_account_record a;

		if (sim_account_get(t, n, &a) < 0 || a.t_ns < from ||
			!is_wanted(o, a.pid, a.device))
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
				(double)(a.t_ns - sim_trace_start_ns(t)) / 1e6, a.device, a.pid,
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

	snprintf(path, sizeof(path), "%s/%s", o->dir, SIM_FILE_STATE);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return fail(err, ENOENT,
			"no simulated device runs in '%s'; one starts with the first "
			"program that uses it, or with divvy-sim-engine --stay",
			o->dir);
	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", path);
	r = map_fd(fd, sizeof(struct sim_state), PROT_READ, ret_map);
	if (r < 0)
		return fail_errno(err, -r, "map '%s'", path);
	if (((struct sim_state *)ret_map->p)->magic != SIM_MAGIC) {
		map_done(ret_map);
		return fail(err, EBADMSG, "'%s' is no state of a simulated device", path);
	}
	return 0;
}

static uint32_t recent(uint64_t sample_ns, uint32_t permille)
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
	const struct sim_state *s;
	int r = open_state(o, &map, err);

	if (r < 0)
		return r;
	s = map.p;
	table_init(&table, columns, ARRAY_SIZE(columns));
	for (uint32_t i = 0; i < s->device_count && i < SIM_MAX_DEVICES; i++) {
		const struct sim_state_device *d = &s->devices[i];
		uint32_t procs = 0, busy = recent(d->sample_ns, d->sm_permille);

		for (uint32_t k = 0; k < MIN(s->proc_slots, (uint32_t)SIM_MAX_STATE_PROCS); k++)
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

/* One call; ret_reply is set on success. */
static int talk(
	int sock, struct sim_request q, int fd, struct sim_reply *ret_reply, struct error *err)
{
	struct sim_reply a;

	if (fd_send(sock, &q, sizeof(q), &fd, fd >= 0, 0) != sizeof(q) ||
		fd_recv(sock, &a, sizeof(a), NULL, 0) != sizeof(a))
		return fail(err, EPIPE, "the engine went away");
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
	struct sim_reply a;
	int r;

	if (sock < 0)
		return fail_errno(err, errno, "socket");
	if (snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", o->dir, SIM_FILE_SOCKET) >=
		(int)sizeof(addr.sun_path))
		return fail(err, ENAMETOOLONG, "folder '%s'", o->dir);
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno == ENOENT || errno == ECONNREFUSED)
			return fail(err, ENOENT, "no engine runs in '%s'", o->dir);
		return fail_errno(err, errno, "connect to '%s'", addr.sun_path);
	}
	r = talk(sock,
		(struct sim_request){.type = SIM_MSG_HELLO, .arg = {SIM_ABI, SIM_ROLE_ADMIN}}, -1,
		&a, err);
	if (r < 0)
		return r;
	*ret_sock = TAKE_FD(sock);
	return 0;
}

static int cmd_status(const struct options *o, int argc, char **argv, struct error *err)
{
	_cleanup_close_ int sock = -1;
	struct sim_reply a = {0};
	int r = connect_engine(o, &sock, err);

	if (r >= 0)
		r = talk(sock, (struct sim_request){.type = SIM_MSG_STATUS}, -1, &a, err);
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
	struct sim_reply a;
	char byte;
	int r = connect_engine(o, &sock, err);

	if (r >= 0)
		r = talk(sock, (struct sim_request){.type = SIM_MSG_STOP}, -1, &a, err);
	if (r < 0)
		return r;
	/* It closes this when it has cleaned up. */
	while (recv(sock, &byte, 1, 0) > 0)
		;
	return 0;
}

static int cmd_faults(const struct options *o, int argc, char **argv, struct error *err)
{
	_cleanup_close_ int sock = -1, fd = -1;
	struct sim_reply a;
	int r;

	fd = !strcmp(argv[0], "-") ? fcntl(0, F_DUPFD_CLOEXEC, 3)
				   : open(argv[0], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", argv[0]);
	r = connect_engine(o, &sock, err);
	if (r >= 0)
		r = talk(sock, (struct sim_request){.type = SIM_MSG_FAULTS}, fd, &a, err);
	return r < 0 ? fail_within(err, r, "%s", argv[0]) : 0;
}

/* ---- commands ---- */

struct command {
	const char *name, *args, *help;
	int nargs;
	command_fn *run;
};

static const struct command commands[] = {
	{"devices", "", "the simulated devices", 0, cmd_devices},
	{"trace", "", "what was executed, when; --summary: busy time per process", 0, cmd_trace},
	{"account", "", "device memory held, at every change", 0, cmd_account},
	{"status", "", "the engine and its clients", 0, cmd_status},
	{"faults", " FILE", "sets faults (oom, ecc, lost, hang, slow, xid); an empty file: none", 1,
		cmd_faults},
	{"stop", "", "ends the engine; its clients see a lost device", 0, cmd_stop},
};

static const struct man_option option_list[] = {
	{"dir", 0, "DIR", false,
		"the machine's folder (default: $DIVVY_SIM, or /dev/shm/divvy-sim-UID)"},
	{"json", 0, NULL, false, "one JSON object a line"},
	{"summary", 0, NULL, false, "of trace: busy time per process and device"},
	{"pid", 0, "N", false, "of trace and account: this process's"},
	{"device", 0, "N", false, "of trace and account: this device's"},
	{"last", 0, "TIME", false, "of trace and account: what ended in the last so long, as 2s"},
	{"help", 'h', NULL, false, "says what there is"},
};

static void usage(FILE *f)
{
	fprintf(f, "usage: divvy-simctl [OPTION...] COMMAND\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(f, "  %s%-*s  %s\n", commands[i].name, 14 - (int)strlen(commands[i].name),
			commands[i].args, commands[i].help);
	fputc('\n', f);
	for (size_t i = 0; i < ARRAY_SIZE(option_list); i++) {
		const struct man_option *o = &option_list[i];
		char text[32];

		snprintf(text, sizeof(text), "--%s%s%s", o->name, o->value ? "=" : "",
			o->value ? o->value : "");
		fprintf(f, "  %-14s  %s\n", text, o->help);
	}
}

static int dump_man(const char *folder, struct error *err)
{
	static const struct man_page page = {
		.name = "divvy-simctl",
		.section = 1,
		.summary = "look at simulated GPUs, and make them fail",
		.made_by = "divvy-simctl",
	};
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);

	man_add_head(&out, &page);
	buf_add_text(
		&out, ".B divvy\\-simctl\n[\\fIOPTION\\fR...] \\fICOMMAND\\fR\n.SH DESCRIPTION\n");
	man_add_paragraphs(&out,
		"Where there is no GPU, divvyd(8) and the simulated driver's libraries offer "
		"simulated "
		"ones. One process, their engine, plays the devices of a folder; it starts with "
		"the "
		"first program that uses them and leaves a moment after the last. The folder is "
		"sim "
		"in a daemon's runtime folder. divvy-simctl reads what the engine has written down "
		"there, and gives it orders.");
	buf_add_text(&out, ".SH COMMANDS\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		char term[64];

		snprintf(term, sizeof(term), "%s%s", commands[i].name, commands[i].args);
		man_add_term(&out, term, commands[i].help);
	}
	buf_add_text(&out, ".SH OPTIONS\n");
	for (size_t i = 0; i < ARRAY_SIZE(option_list); i++)
		man_add_option(&out, &option_list[i]);
	buf_add_text(&out, ".SH FAULTS\n");
	man_add_paragraphs(&out,
		"The lines of a faults file are described in divvyd(8). A file named faults in the "
		"folder is in force from the engine's start on; FILE of the command takes its "
		"place "
		"while the engine runs, and - is the standard input.");
	buf_add_text(&out, ".SH COSTS\n");
	man_add_paragraphs(&out,
		"What things cost is that of an H200 unless the environment of the program that "
		"starts the engine has DIVVY_SIM_COSTS, such as switch_us=450,slice_us=1000:");
#define COST(field, key, scale, value, comment) man_add_term(&out, #key "=" #value, comment);
#include "simgpu/costs.def"
#undef COST
	buf_add_text(&out, ".SH EXIT STATUS\n");
	man_add_paragraphs(&out, "0; 1 when it failed; 2 when the command line is not right.");
	buf_add_text(&out, ".SH SEE ALSO\n\\fBdivvyd\\fR(8),\n\\fBdivvy\\fR(1)\n");
	return man_write(folder, &page, &out, err);
}

static int parse_options(struct options *o, int argc, char **argv, struct error *err)
{
	static const struct option longs[] = {
		{"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"summary", no_argument, NULL, 's'},
		{"pid", required_argument, NULL, 'p'},
		{"device", required_argument, NULL, 'g'},
		{"last", required_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	uint64_t v;
	int c, r = 0;

	opterr = 0;
	while (r >= 0 && (c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'd': r = str_copy(o->dir, sizeof(o->dir), str_from(optarg)); break;
		case 'j': o->json = true; break;
		case 's': o->summary = true; break;
		case 'p':
			r = parse_uint(str_from(optarg), 1, INT32_MAX, &v, err);
			if (r >= 0)
				o->pid = (pid_t)v;
			break;
		case 'g':
			r = parse_uint(str_from(optarg), 0, SIM_MAX_DEVICES - 1, &v, err);
			if (r >= 0)
				o->device = (int)v;
			break;
		case 'l': r = parse_duration(str_from(optarg), &o->last_ns, err); break;
		case 'h': usage(stdout); exit(0);
		default:
			return fail(err, EINVAL,
				"%s: unknown, or its value is missing, or it takes none (--help "
				"lists all)",
				argv[optind - 1]);
		}
	}
	return r;
}

int main(int argc, char **argv)
{
	struct options o = {.device = -1};
	struct error err = {0};
	int r;

	log_init("divvy-simctl");
	r = sim_dir(o.dir, sizeof(o.dir));
	if (r < 0)
		r = fail(&err, ENAMETOOLONG, "$%s is too long", SIM_ENV_DIR);
	else if (argc == 3 && !strcmp(argv[1], "--dump-man"))
		return dump_man(argv[2], &err) < 0 ? log_error("%s", err.msg), 1 : 0;
	else
		r = parse_options(&o, argc, argv, &err);
	if (r < 0) {
		log_error("%s", err.msg);
		return 2;
	}
	for (size_t i = 0; optind < argc && i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[optind], commands[i].name))
			continue;
		if (argc - optind - 1 != commands[i].nargs) {
			log_error("usage: divvy-simctl [OPTION...] %s%s", commands[i].name,
				commands[i].args);
			return 2;
		}
		r = commands[i].run(&o, argc - optind - 1, argv + optind + 1, &err);
		if (r < 0)
			log_error("%s", err.msg);
		return r < 0;
	}
	if (optind < argc)
		log_error("'%s': no such command", argv[optind]);
	usage(stderr);
	return 2;
}
