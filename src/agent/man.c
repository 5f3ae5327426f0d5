/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/man.h"

#include "agent/options.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/man.h"
#include "core/spec.h"

static const struct man_page daemon_page = {
	.name = "divvyd",
	.section = 8,
	.summary = "share the machine's GPUs among tenants",
	.made_by = "divvyd",
};

static const struct man_page conf_page = {
	.name = "tenants.conf",
	.section = 5,
	.summary = "who a program belongs to that was not started with divvy run",
	.made_by = "divvyd",
};

static const char *const environment[][2] = {
	{"DIVVY_RUNTIME_DIR", "folder of the socket and the state, where --runtime-dir names none"},
	{"DIVVY_GATE", "off leaves every gate open: nothing is enforced"},
	{"DIVVY_LOG", "error, warn, info or debug, where --log says nothing"},
	{"DIVVY_DRIVER",
		"folder of the driver's libnvidia-ml.so.1, where the loader does not find it"},
	{"STATE_DIRECTORY", "see --usage-dir"},
	{"DIVVY_SIM", "folder of the simulated machine (default: sim in the runtime folder)"},
	{"DIVVY_SIM_COSTS", "what things cost there, such as switch_us=450,slice_us=1000"},
	{"DIVVY_SIM_LIBS",
		"folder of the simulated driver's libraries, where they are neither beside divvyd "
		"nor installed"},
};

static const char *const files[][2] = {
	{"/etc/divvy/tenants.conf", "rules for programs without a tenant: see tenants.conf(5)"},
	{"/run/divvy/divvyd.sock",
		"the socket of root's daemon; another user's is in $XDG_RUNTIME_DIR/divvy, or in "
		"/tmp/divvy-UID"},
	{"/run/divvy/programs",
		"the folder with the socket of programs in containers, which answers no "
		"commands: to be mounted read-only there, and nothing else of /run/divvy"},
	{"/run/divvy/state",
		"tenants and processes, beside the socket: with it the next daemon goes on where "
		"this one has ended; one that cannot be read is kept as state.bad"},
	{"/var/lib/divvy/usage",
		"sums for reports, where systemd runs it; else in the folder of --usage-dir, or "
		"beside the state"},
	{"/run/divvy/tally",
		"what reports do not have in their file yet, so that a daemon that is killed loses "
		"at most the last 50 ms; time in which none runs is charged to nobody"},
	{"/run/lock/divvy-UUID.lock",
		"names the one daemon that shares out that device; in /tmp where that folder is "
		"not to be written, and root's in both"},
};

static const char *const signals[][2] = {
	{"SIGHUP", "reads tenants.conf again; one that is not right changes nothing"},
	{"SIGTERM, SIGINT",
		"save the state and end; programs that run go on without limits until the next "
		"daemon takes them up"},
};

static const char *const faults[][2] = {
	{"oom device=0 nth=5 count=2",
		"the fifth allocation from now on fails, and the one after it"},
	{"ecc device=0 after=100", "a memory error after so many kernels; at=2s: after that time"},
	{"lost device=1 at=2s", "the device is lost; after=100: after so many kernels"},
	{"hang device=0 after=10", "the kernel after so many never ends"},
	{"slow device=0 factor=3", "kernels take that many times as long; after=100: later ones"},
};

static const char *const rules[][2] = {
	{"uid USER FIELD=VALUE...", "programs of that user, by name or number: one tenant"},
	{"gid GROUP FIELD=VALUE...",
		"programs of the group's members, by name or number: a tenant for each user"},
	{"cgroup PATTERN FIELD=VALUE...",
		"programs in a matching cgroup: a tenant for each cgroup and user. The pattern is "
		"the shell's (fnmatch(3)) on the path that /proc/PID/cgroup shows, * also over a "
		"/"},
	{"default allow FIELD=VALUE...",
		"everybody else: a tenant for each user, which gets what is free (default: request "
		"0.001, class opportunistic)"},
	{"default refuse", "nobody else may use a device"},
};

static void add_terms(struct buf *out, const char *const (*terms)[2], size_t n)
{
	for (size_t i = 0; i < n; i++)
		man_add_term(out, terms[i][0], terms[i][1]);
}

static void man_daemon(struct buf *out)
{
	struct man_option option;

	man_add_head(out, &daemon_page);
	buf_add_text(out, ".B divvyd\n[\\fIOPTION\\fR...]\n.SH DESCRIPTION\n");
	man_add_paragraphs(out,
		"divvyd decides who may use a GPU when, and how much of its memory. It shares out "
		"all devices of the machine, one daemon for each device; without a GPU it offers a "
		"simulated one.\n\n"
		"divvy-run(1) starts one when none runs, for the user alone and until it is idle. "
		"A machine with several users has root's: `systemctl enable --now divvyd`. "
		"A user's daemon gives way to it.");
	buf_add_text(out, ".SH OPTIONS\n");
	for (size_t i = 0; options_describe(i, &option); i++)
		man_add_option(out, &option);
	buf_add_text(out, ".SH SIMULATED DEVICES\n");
	man_add_paragraphs(out,
		"SPEC is COUNTxMODEL-MEMORY, several with commas between: "
		"2xH200-141Gi,1xTest-1Gi. Models that are known by name (such as H200, H100, A100, "
		"L4, T4) have their own speed and memory; any other is a small device, of which "
		"the "
		"memory must be said.\n\n"
		"They fail as the file faults in the simulated machine's folder says; "
		"`divvy-simctl "
		"--dir FOLDER faults FILE` sets it while they run, an empty one ends all faults. "
		"One a line, of device 0 where none is named; without at= or after= the next "
		"kernel has it:");
	add_terms(out, faults, ARRAY_SIZE(faults));
	buf_add_text(out, ".SH SIGNALS\n");
	add_terms(out, signals, ARRAY_SIZE(signals));
	buf_add_text(out, ".SH EXIT STATUS\n");
	man_add_paragraphs(out,
		"0 when it was told to end or was idle, 1 on failure, 2 when an option, its value "
		"or tenants.conf is not right.");
	buf_add_text(out, ".SH ENVIRONMENT\n");
	add_terms(out, environment, ARRAY_SIZE(environment));
	buf_add_text(out, ".SH FILES\n");
	add_terms(out, files, ARRAY_SIZE(files));
	buf_add_text(out,
		".SH SEE "
		"ALSO\n\\fBdivvy\\fR(1),\n\\fBdivvy\\-simctl\\fR(1),\n\\fBtenants.conf\\fR(5)\n");
}

static void add_fields(struct buf *out)
{
	static const char *const field[][2] = {
#define X(name, help) {#name, help},
		SPEC_FIELDS(X)
#undef X
	};

	buf_add_text(out, ".SH FIELDS\nrequest is needed, except behind default.\n");
	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		char spelled[32];

		str_copy(spelled, sizeof(spelled), str_from(field[i][0]));
		for (char *p = spelled; *p; p++)
			*p = *p == '_' ? '-' : *p;
		man_add_term(out, spelled, field[i][1]);
	}
}

static void man_conf(struct buf *out)
{
	man_add_head(out, &conf_page);
	buf_add_text(out, ".I /etc/divvy/tenants.conf\n.SH DESCRIPTION\n");
	man_add_paragraphs(out,
		"A program that divvy-run(1) has started belongs to the tenant that was made for "
		"it. Any other program that uses a device through divvy's libraries belongs to the "
		"tenant that this file says; the tenant is made when the first such program comes "
		"and goes a minute after the last.\n\n"
		"Each line is one rule, and the first that matches counts; default is for those "
		"that none matches, wherever it stands, and there is one at most. Empty lines and "
		"lines that begin with # "
		"are comments. "
		"Without the file everybody has what `default allow` gives, or nothing when divvyd "
		"runs with --refuse-strangers.\n\n"
		"divvyd(8) reads it when it starts and on SIGHUP. A line that is not right is "
		"named "
		"in its log, and the rules stay as they are; at the start it is an error. Tenants "
		"that there are already keep what they have.");
	buf_add_text(out, ".SH RULES\n");
	add_terms(out, rules, ARRAY_SIZE(rules));
	add_fields(out);
	buf_add_text(out, ".SH EXAMPLES\n.nf\n");
	man_add_text(out,
		"# the notebook service, the students, and nobody else\n"
		"uid jupyter request=0.5 memory=40% class=latency\n"
		"gid students request=0.1 limit=0.5 memory=8Gi\n"
		"cgroup /system.slice/batch* request=0.2 class=opportunistic\n"
		"default refuse\n");
	buf_add_text(out, ".fi\n.SH SEE ALSO\n\\fBdivvyd\\fR(8),\n\\fBdivvy\\-run\\fR(1)\n");
}

static int dump_one(const char *folder, const struct man_page *page, void (*make)(struct buf *out),
	struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);

	make(&out);
	return man_write(folder, page, &out, err);
}

int man_dump(const char *folder, struct error *err)
{
	int r = folder_make(folder, 0755, err);

	r = r < 0 ? r : dump_one(folder, &daemon_page, man_daemon, err);
	return r < 0 ? r : dump_one(folder, &conf_page, man_conf, err);
}
