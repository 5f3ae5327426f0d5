/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tenants.conf: see conf.h. The origin of a tenant (struct tenant) consists of its rule's
 * kind and key. If the rule gives each user or cgroup a tenant of its own, the origin also has the
 * user or cgroup. Different users never get the same tenant, because they must not share writable
 * pages. All functions run in the loop's thread, except conf_load() and conf_parse(), which a
 * worker may call.
 */
#include "agent/conf.h"

#include <errno.h>
#include <fnmatch.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/user-names.h"
#include "agent/agent-state.h"
#include "agent/tenant.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "kubelet/cgroup.h"

#define CONF_USUAL "/etc/divvy/tenants.conf"
#define CONF_MAX (1u << 20)
#define RULES_MAX 4096u

enum rule_kind { RULE_UID, RULE_GID, RULE_CGROUP };

struct rule {
	enum rule_kind kind;
	uint32_t number; /* uid or gid */
	char pattern[200];
	struct spec spec;
};

struct conf {
	struct rule *rules;
	uint32_t n;
	bool refuses;
	bool has_default; /* the file has a `default` line */
	struct spec default_spec;
};

static bool is_same_field(struct str a, struct str b)
{
	bool is_same = a.n == b.n;

	for (size_t i = 0; i < a.n && is_same; i++)
		is_same = a.p[i] == b.p[i] || (strchr("-_", a.p[i]) && strchr("-_", b.p[i]));
	return is_same;
}

/* Whether one of the words before `end` sets that field. */
static bool is_set_before(struct str words, const char *end, struct str field)
{
	struct str word;

	while (str_word(&words, &word) && word.p < end)
		if (is_same_field((struct str){word.p, str_find(word, '=')}, field))
			return true;
	return false;
}

static int parse_fields(struct str words, struct spec *spec, struct error *err)
{
	struct str rest = words, word;

	while (str_word(&rest, &word)) {
		size_t at = str_find(word, '=');
		char field[32], value[128];
		int r;

		if (at == word.n)
			return fail(
				err, EINVAL, "'%" STR_FMT "': expected field=value", STR_ARG(word));
		if (str_copy(field, sizeof(field), (struct str){word.p, at}) < 0 ||
			str_copy(value, sizeof(value),
				(struct str){word.p + at + 1, word.n - at - 1}) < 0)
			return fail(
				err, EINVAL, "'%" STR_FMT "': the word is too long", STR_ARG(word));
		if (is_set_before(words, word.p, (struct str){word.p, at}))
			return fail(err, EINVAL, "field %s occurs twice", field);
		r = spec_set(spec, field, value, err);
		if (r < 0)
			return r;
	}
	return spec_finish(spec, err);
}

static int conf_find_user(struct str key, bool is_group, uint32_t *ret, struct error *err)
{
	char name[128];
	uint64_t n;

	if (parse_uint(key, 0, UINT32_MAX, &n, NULL) == 0) {
		*ret = (uint32_t)n;
		return 0;
	}
	if (str_copy(name, sizeof(name), key) == 0) {
		struct passwd *pw = is_group ? NULL : getpwnam(name);
		struct group *gr = is_group ? getgrnam(name) : NULL;

		if (pw || gr) {
			*ret = pw ? pw->pw_uid : gr->gr_gid;
			return 0;
		}
	}
	return fail(err, EINVAL,
		"%s '%" STR_FMT "': no such name; expected a known name or a number",
		is_group ? "gid" : "uid", STR_ARG(key));
}

static int parse_default(struct conf *conf, struct str rest, struct error *err)
{
	struct str word = STR_NONE;

	if (!str_word(&rest, &word) || (!str_is(word, "allow") && !str_is(word, "refuse")))
		return fail(err, EINVAL, "default '%" STR_FMT "': expected allow or refuse",
			STR_ARG(word));
	if (conf->has_default)
		return fail(err, EINVAL,
			"default %" STR_FMT ": a line above sets the default already",
			STR_ARG(word));
	conf->has_default = true;
	conf->refuses = str_is(word, "refuse");
	return parse_fields(rest, &conf->default_spec, err);
}

static int conf_parse_line(struct conf *conf, struct str line, struct error *err)
{
	struct rule *grown, rule = {0};
	struct str rest = line, kind, key;
	int r = 0;

	if (!str_word(&rest, &kind) || kind.p[0] == '#')
		return 0;
	if (str_is(kind, "default"))
		return parse_default(conf, rest, err);
	if (!str_is(kind, "uid") && !str_is(kind, "gid") && !str_is(kind, "cgroup"))
		return fail(err, EINVAL, "'%" STR_FMT "': expected uid, gid, cgroup or default",
			STR_ARG(kind));
	if (!str_word(&rest, &key))
		return fail(err, EINVAL, "%" STR_FMT " has no value; expected %s", STR_ARG(kind),
			str_is(kind, "cgroup") ? "a pattern of cgroups" : "a name or a number");
	rule.kind = str_is(kind, "uid") ? RULE_UID : str_is(kind, "gid") ? RULE_GID : RULE_CGROUP;
	if (rule.kind != RULE_CGROUP)
		r = conf_find_user(key, rule.kind == RULE_GID, &rule.number, err);
	else if (str_copy(rule.pattern, sizeof(rule.pattern), key) < 0)
		r = fail(err, EINVAL,
			"cgroup '%.40s...': the pattern has %zu characters; at most %zu are "
			"allowed",
			key.p, key.n, sizeof(rule.pattern) - 1);
	else if (!strchr("/*?[", rule.pattern[0]))
		r = fail(err, EINVAL,
			"cgroup '%s': expected a pattern that begins with / or *, as paths of "
			"cgroups begin with /",
			rule.pattern);
	if (r < 0)
		return r;
	spec_init(&rule.spec);
	r = parse_fields(rest, &rule.spec, err);
	if (r < 0)
		return r;
	if (conf->n >= RULES_MAX)
		return fail(err, EINVAL, "the file has more than %u rules", RULES_MAX);
	grown = reallocarray(conf->rules, conf->n + 1, sizeof(*grown));
	if (!grown)
		return fail(err, ENOMEM, "out of memory");
	conf->rules = grown;
	conf->rules[conf->n++] = rule;
	return 0;
}

int conf_parse(struct str text, struct conf **ret_conf, struct error *err)
{
	struct conf *conf = calloc(1, sizeof(*conf));
	struct str rest = text, line;
	unsigned int number = 0;
	int r = 0;

	if (!conf)
		return fail(err, ENOMEM, "out of memory");
	spec_init(&conf->default_spec);
	r = spec_set(&conf->default_spec, "request", "0.001", err);
	if (r >= 0)
		r = spec_set(&conf->default_spec, "class", "opportunistic", err);
	while (r >= 0 && str_split(&rest, '\n', &line)) {
		number++;
		r = conf_parse_line(conf, line, err);
		if (r < 0)
			fail_within(err, r, "line %u", number);
	}
	if (r >= 0 && !conf->has_default)
		r = spec_finish(&conf->default_spec, err);
	if (r < 0) {
		conf_free(conf);
		return r;
	}
	*ret_conf = conf;
	return 0;
}

void conf_free(struct conf *conf)
{
	if (!conf)
		return;
	free(conf->rules);
	free(conf);
}

int conf_load(const char *path, struct conf **ret_conf, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CONF_MAX);
	const bool may_miss = !path;
	int r;

	path = path ? path : CONF_USUAL;
	r = file_read(path, &text, err);
	if (r < 0 && (r != -ENOENT || !may_miss))
		return r;
	r = conf_parse(buf_str(&text), ret_conf, err);
	return r < 0 ? fail_within(err, r, "%s", path) : 0;
}

/* ---- the tenant of a process ---- */

/* The line of cgroup v2 is "0::/path". */
int conf_cgroup_parse(struct str text, char ret[static CONF_CGROUP], struct error *err)
{
	struct str line, field, best = STR("");

	while (str_split(&text, '\n', &line)) {
		/* A line is "5:memory:/path" or "0::/path". */
		if (!str_split(&line, ':', &field) || !str_split(&line, ':', &field))
			continue;
		str_skip_suffix(&line, STR(" (deleted)"));
		if (line.n > best.n)
			best = line;
	}
	if (str_copy(ret, CONF_CGROUP, best) < 0)
		return fail(err, ENAMETOOLONG,
			"the path of cgroup '%.60s...' has %zu characters; at most %d are allowed",
			best.p, best.n, CONF_CGROUP - 1);
	return 0;
}

int conf_cgroup(pid_t pid, char ret[static CONF_CGROUP], struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(64u << 10);
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (file_read(path, &text, NULL) < 0)
		buf_clear(&text);
	r = conf_cgroup_parse(buf_str(&text), ret, err);
	return r < 0 ? fail_within(err, r, "process %d", (int)pid) : 0;
}

uint64_t conf_cgroup_id(const char *cgroup)
{
	return cgroup[0] && cgroup[1] ? str_hash(str_from(cgroup)) : 0;
}

static const struct rule *conf_match_rule(
	struct agent *agent, uid_t uid, gid_t gid, const char *cgroup)
{
	const struct conf *conf = agent->conf;

	for (uint32_t i = 0; i < conf->n; i++) {
		const struct rule *rule = &conf->rules[i];

		if ((rule->kind == RULE_UID && rule->number == uid) ||
			(rule->kind == RULE_GID &&
				(gid == rule->number ||
					names_is_member(agent, uid, rule->number))) ||
			(rule->kind == RULE_CGROUP && !fnmatch(rule->pattern, cgroup, 0)))
			return rule;
	}
	return NULL;
}

static bool asks_for_cgroups(const struct conf *conf)
{
	for (uint32_t i = 0; i < conf->n; i++)
		if (conf->rules[i].kind == RULE_CGROUP)
			return true;
	return false;
}

static void user_name(struct agent *agent, uid_t uid, char *ret, size_t size)
{
	const char *name = names_user(agent, uid);

	if (!name || str_copy(ret, size, str_from(name)) < 0)
		snprintf(ret, size, "%u", (unsigned int)uid);
}

static void tenant_name(enum tenant_source source, const char *user, char ret[static TENANT_NAME])
{
	snprintf(ret, TENANT_NAME, "%s%s", source == TENANT_DEFAULT ? "default-" : "", user);
}

void conf_user_known(struct agent *agent, uid_t uid, const char *user)
{
	char number[16], before[TENANT_NAME];
	struct error err;
	struct tenant *t;

	snprintf(number, sizeof(number), "%u", (unsigned int)uid);
	LIST_FOREACH(t, &agent->tenants, link) {
		if (t->is_ending || t->uid != uid ||
			(t->source != TENANT_DEFAULT && t->source != TENANT_CONF))
			continue;
		tenant_name(t->source, number, before);
		if (strcmp(t->name, before) != 0)
			continue;
		tenant_name(t->source, user, t->name);
		if (state_tenant(t, &err) < 0)
			log_warn("%s", err.msg);
	}
}

int conf_tenant(struct agent *agent, pid_t pid, uid_t uid, gid_t gid, struct tenant **ret_tenant,
	struct error *err)
{
	char cgroup[CONF_CGROUP] = "", user[40], origin[TENANT_ORIGIN], name[TENANT_NAME];
	const struct conf *conf = agent->conf;
	struct tenant_params params = {.uid = uid, .origin = origin, .name = name};
	const struct rule *rule;
	struct cgroup_pod pod;
	struct error why;
	int r = asks_for_cgroups(conf) ? conf_cgroup(pid, cgroup, err) : 0;

	if (r < 0)
		return r;
	if (names_is_awaited(agent, uid))
		return fail(err, EAGAIN,
			"user %u: the name service has not answered yet; try again",
			(unsigned int)uid);
	rule = conf_match_rule(agent, uid, gid, cgroup);
	user_name(agent, uid, user, sizeof(user));
	if (!rule && agent->has_pods && cgroup_read_pod(pid, agent->pod_cgroups, &pod, &why) >= 0)
		return fail(err, EACCES,
			"process %d belongs to pod %s; pods must use the socket in their "
			"container, not the machine's socket",
			(int)pid, pod.uid);
	if (!rule && (conf->has_default ? conf->refuses : agent->options.refuse_unmanaged))
		return fail(err, EACCES,
			"this process belongs to no tenant (no DIVVY_TENANT, no rule for user "
			"%s); start it with `divvy run`",
			user);
	if (!rule) {
		params.source = TENANT_DEFAULT;
		params.spec = conf->default_spec;
		snprintf(origin, sizeof(origin), "default %u", (unsigned int)uid);
	} else {
		params.source = TENANT_CONF;
		params.spec = rule->spec;
		if (rule->kind == RULE_CGROUP)
			snprintf(origin, sizeof(origin), "cgroup %u %s", (unsigned int)uid, cgroup);
		else
			snprintf(origin, sizeof(origin), "%s %u user %u",
				rule->kind == RULE_UID ? "uid" : "gid", rule->number,
				(unsigned int)uid);
	}
	tenant_name(params.source, user, name);
	params.lifetime = TENANT_PROCESSES;
	*ret_tenant = tenant_by_origin(agent, params.source, origin);
	if (*ret_tenant)
		return 0;
	return tenant_new(agent, &params, ret_tenant, err);
}
