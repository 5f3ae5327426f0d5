/* SPDX-License-Identifier: Apache-2.0 */
#include "divvyd/man.h"

#include "base/cleanup.h"
#include "base/man.h"
#include "spec/spec.h"

static const struct man_page conf_page = {
	.name = "tenants.conf",
	.section = 5,
	.summary = "who a program belongs to that was not started with divvy run",
	.made_by = "divvyd",
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

int man_dump_conf(const char *folder, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);

	man_add_head(&out, &conf_page);
	buf_add_text(&out, ".I /etc/divvy/tenants.conf\n.SH DESCRIPTION\n");
	man_add_paragraphs(&out,
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
	buf_add_text(&out, ".SH RULES\n");
	add_terms(&out, rules, ARRAY_SIZE(rules));
	add_fields(&out);
	buf_add_text(&out, ".SH EXAMPLES\n.nf\n");
	man_add_text(&out,
		"# the notebook service, the students, and nobody else\n"
		"uid jupyter request=0.5 memory=40% class=latency\n"
		"gid students request=0.1 limit=0.5 memory=8Gi\n"
		"cgroup /system.slice/batch* request=0.2 class=opportunistic\n"
		"default refuse\n");
	buf_add_text(&out, ".fi\n.SH SEE ALSO\n\\fBdivvyd\\fR(8),\n\\fBdivvy\\-run\\fR(1)\n");
	return man_write(folder, &conf_page, &out, err);
}
