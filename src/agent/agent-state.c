/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file: see agent-state.h. Lines:
 *   H abi boot-id next-tenant n   first line; after another boot the rest is ignored. The file
 *                                 was written with n more lines, before any was appended
 *   T {json}                      a tenant's present state
 *   U id at used lag              used time and lag of a tenant on its device number `at`, in ns
 *   R id                          a tenant was removed
 *   P {json}                      a process has registered
 *   X tenant index pid            a process was removed
 *
 * The loop's thread appends lines. The disk worker rewrites a grown file: it writes the last line
 * of each tenant and process into a new file, and then copies the lines that were appended
 * meanwhile. If that fails, or takes so long that the file grows large, the loop's thread writes
 * the file anew.
 */
#include "agent/agent-state.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/device.h"
#include "agent/register.h"
#include "agent/spec-json.h"
#include "agent/usage.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"
#include "threads/thread-worker.h"

#define STATE_MAX (64u << 20)
#define APPENDED_MAX (1u << 20)
#define REWRITE_NS (5 * NSEC_PER_SEC)
/*
 * Longest wait for processes of the earlier daemon. Running processes register again within a
 * second; stopped processes may never do so.
 */
#define HOLD_NS (3 * NSEC_PER_SEC)

struct state {
	struct agent *agent;
	char path[PATH_MAX];
	char boot_id[PROCESS_BOOT_ID_SIZE];
	int fd;
	size_t length;   /* size of the complete lines in the file */
	size_t appended; /* part of `length` that was appended since the last rewrite */
	bool is_torn;    /* a torn line follows the complete lines */
	bool is_behind;  /* some change could not be appended */
	bool is_loading;
	uint64_t written; /* state.written when the job began; a change voids the result */
	struct compaction *compaction;
	struct loop_timer timer;
};

static void state_compact_file(struct state *s);

/* ---- writing ---- */

static json_t *pod_json(const struct tenant_pod *pod)
{
	return pod
		? json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:I, s:i}", "uid", pod->uid,
			  "namespace", pod->space, "name", pod->name, "container", pod->container,
			  "slot", pod->slot, "claim", pod->claim[0] ? pod->claim : NULL, "epoch",
			  (json_int_t)pod->epoch, "overcommit", (int)pod->overcommit)
		: NULL;
}

static json_t *state_tenant_json(const struct tenant *t)
{
	json_t *devices = json_array();
	uint64_t now = clock_now_ns();
	json_t *spec = spec_to_json(&t->spec);

	for (uint32_t i = 0; i < t->n; i++) {
		const struct tenant_device *td = &t->devices[i];
		struct arbiter_usage usage = {0};

		arbiter_usage_get(t->agent->arbiter, t->id, td->device->index, now, &usage);
		json_array_append_new(devices,
			json_pack("{s:s, s:I, s:I, s:I, s:I}", "uuid", td->device->info.uuid,
				"quota", (json_int_t)td->quota_bytes, "inode",
				(json_int_t)td->inode, "used_ns", (json_int_t)usage.used_ns,
				"lag_ns", (json_int_t)usage.lag_ns));
	}
	return json_pack("{s:I, s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:i, s:s, s:o, s:o, s:o*}",
		"id", (json_int_t)t->id, "name", t->name, "uid", (json_int_t)t->uid, "source",
		tenant_source_name(t->source), "origin", t->origin, "lifetime",
		tenant_lifetime_name(t->lifetime), "owner",
		(json_int_t)(t->owner_fd >= 0 ? t->owner : 0), "owner_start",
		(json_int_t)t->owner_start, "created_s", (json_int_t)t->created_s, "container",
		(int)t->container, "cgroup", t->cgroup, "spec", spec, "devices", devices, "pod",
		pod_json(t->pod));
}

static void add_json(struct buf *out, const char *tag, json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	if (text)
		buf_addf(out, "%s ", tag);
	if (text)
		buf_add_text(out, text);
	if (text)
		buf_add_byte(out, '\n');
	else
		out->error = out->error ? out->error : -ENOMEM;
	free(text);
	json_decref(json);
}

static void state_add_tenant(struct buf *out, const struct tenant *t)
{
	json_t *json = state_tenant_json(t);
	char secret[TENANT_SECRET_TEXT];

	tenant_secret_format(t, secret);
	if (json)
		json_object_set_new(json, "secret", json_string(secret));
	explicit_bzero(secret, sizeof(secret));
	add_json(out, "T", json);
}

static void add_process(struct buf *out, const struct process *p)
{
	add_json(out, "P",
		json_pack("{s:I, s:I, s:I, s:I, s:I}", "tenant", (json_int_t)p->tenant->id, "pid",
			(json_int_t)p->pid, "start", (json_int_t)p->start, "index",
			(json_int_t)p->index, "inode", (json_int_t)p->devices[0].up_inode));
}

static void state_add_tenants(struct state *s, struct buf *out)
{
	struct agent *agent = s->agent;
	struct process *p;
	struct tenant *t;
	size_t n = 0;

	LIST_FOREACH(t, &agent->tenants, link)
		n += t->is_ending ? 0 : 1 + t->n_processes;
	buf_addf(out, "H %d %s %u %zu\n", STATE_ABI, s->boot_id, agent->next_tenant, n);
	LIST_FOREACH(t, &agent->tenants, link) {
		if (t->is_ending)
			continue;
		state_add_tenant(out, t);
		LIST_FOREACH(p, &t->processes, of_tenant)
			add_process(out, p);
	}
}

/*
 * Writes a new file and renames it over the old one, unsynced: see agent-state.h. Returns the new
 * file open for appending: a later open by path might fail, and lines would then go to the old
 * file.
 */
static int state_replace_file(const char *path, struct str text)
{
	char temporary[PATH_MAX + 8];
	_cleanup_close_ int fd = -1;
	int r;

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	fd = open(temporary, O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, text.p, text.n);
	if (r >= 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(temporary);
		return r;
	}
	return TAKE_FD(fd);
}

static int state_rewrite_file(struct state *s)
{
	_cleanup_buf_ struct buf out = BUF_INIT(STATE_MAX);
	int r;

	state_add_tenants(s, &out);
	r = buf_error(&out);
	if (r >= 0)
		r = state_replace_file(s->path, buf_str(&out));
	if (r < 0)
		return r;
	fd_close(s->fd);
	s->fd = r;
	s->length = out.n;
	s->appended = 0;
	s->is_torn = s->is_behind = false;
	s->written++;
	return 0;
}

/* Makes the loop's thread write the file anew from memory. */
static void fall_behind(struct state *s)
{
	s->is_behind = true;
	state_touch(s->agent);
}

/*
 * Appends a line. After a torn line, a new line would continue that one and be unreadable, and a
 * tenant that the daemon has acknowledged would be lost. So a torn line is cut off first.
 */
static int state_append_line(struct state *s, const struct buf *line)
{
	int r = buf_error(line);

	if (s->is_loading || r < 0)
		return r;
	if (s->is_torn && ftruncate(s->fd, (off_t)s->length) < 0)
		return -errno;
	r = fd_write_all(s->fd, line->p, line->n);
	s->is_torn = r < 0 && ftruncate(s->fd, (off_t)s->length) < 0;
	if (r < 0)
		return r;
	s->length += line->n;
	s->appended += line->n;
	/* A compaction may wait long for the disk, and state_load() reads at most STATE_MAX. */
	if (s->length > STATE_MAX / 2 && s->appended > APPENDED_MAX)
		fall_behind(s);
	if (s->appended > APPENDED_MAX && s->appended > s->length / 2)
		state_compact_file(s);
	return 0;
}

/*
 * Records the end of a tenant or process. The tenant or process ends even if the file cannot be
 * written.
 */
static void append_end(struct state *s, const struct buf *line)
{
	int r = state_append_line(s, line);

	if (r >= 0)
		return;
	log_warn("cannot write '%s': %s", s->path, strerror(-r));
	fall_behind(s);
}

int state_tenant(struct tenant *t, struct error *err)
{
	_cleanup_buf_ struct buf line = BUF_INIT(STATE_MAX);
	int r;

	state_add_tenant(&line, t);
	r = state_append_line(t->agent->state, &line);
	return r < 0 ? fail_errno(err, -r, "write '%s'", t->agent->state->path) : 0;
}

void state_tenant_removed(const struct tenant *t)
{
	_cleanup_buf_ struct buf line = BUF_INIT(64);

	buf_addf(&line, "R %u\n", t->id);
	append_end(t->agent->state, &line);
}

int state_process_added(const struct process *p)
{
	_cleanup_buf_ struct buf line = BUF_INIT(4096);

	add_process(&line, p);
	return state_append_line(p->agent->state, &line);
}

void state_process_exited(const struct process *p)
{
	_cleanup_buf_ struct buf line = BUF_INIT(128);

	buf_addf(&line, "X %u %u %d\n", p->tenant->id, p->index, (int)p->pid);
	append_end(p->agent->state, &line);
}

void state_touch(struct agent *agent)
{
	struct state *s = agent->state;

	if (s && !loop_timer_is_armed(&s->timer))
		loop_set_timer(&s->timer, clock_now_ns() + REWRITE_NS);
}

/* Debts change with each turn, so a changed debt costs one short line, not the tenant's line. */
static void add_used(struct tenant_device *td, uint64_t now, struct buf *out)
{
	struct arbiter_usage usage;

	if (arbiter_usage_get(td->tenant->agent->arbiter, td->tenant->id, td->device->index, now,
		    &usage) < 0 ||
		(usage.used_ns == td->kept_used_ns && usage.lag_ns == td->kept_lag_ns))
		return;
	buf_addf(out, "U %u %u %llu %lld\n", td->tenant->id, td->at,
		(unsigned long long)usage.used_ns, (long long)usage.lag_ns);
	td->kept_used_ns = usage.used_ns;
	td->kept_lag_ns = usage.lag_ns;
}

static int append_used(struct state *s)
{
	_cleanup_buf_ struct buf out = BUF_INIT(STATE_MAX);
	const uint64_t now = clock_now_ns();
	struct tenant *t;

	LIST_FOREACH(t, &s->agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++)
			add_used(&t->devices[i], now, &out);
	return out.n ? state_append_line(s, &out) : 0;
}

static void state_on_timer(struct loop_timer *timer, uint64_t now)
{
	struct state *s = timer->data;
	int r = s->is_behind ? state_rewrite_file(s) : append_used(s);

	if (r < 0) {
		log_warn("cannot write '%s': %s", s->path, strerror(-r));
		fall_behind(s);
	}
	usage_flush(s->agent);
}

/* ---- reading ---- */

/* The last line of each tenant and process, in order of their first lines. */
struct reading {
	json_t *tenants;   /* id -> object */
	json_t *processes; /* "tenant/index" -> object */
	uint64_t next_tenant;
	uint64_t last_tenant; /* highest tenant id of all lines */
	uint64_t n_least;     /* lines after the head that must exist */
	uint64_t n_lines;     /* lines that exist */
	uint32_t n_broken;    /* lines that are unreadable */
	bool is_torn;         /* the last line is incomplete */
};

static void state_format_key(char *ret, size_t size, json_int_t tenant, json_int_t index)
{
	snprintf(ret, size, "%lld/%lld", (long long)tenant, (long long)index);
}

static void read_used(struct reading *reading, struct str rest)
{
	struct str id, at, used, lag;
	uint64_t index, used_ns;
	json_t *td;
	char key[64], *end;
	long long lag_ns;

	if (!str_word(&rest, &id) || !str_word(&rest, &at) || !str_word(&rest, &used) ||
		!str_word(&rest, &lag) || str_copy(key, sizeof(key), lag) < 0)
		return;
	lag_ns = strtoll(key, &end, 10);
	if (*end || parse_uint(at, 0, SPEC_DEVICES_MAX - 1, &index, NULL) < 0 ||
		parse_uint(used, 0, INT64_MAX, &used_ns, NULL) < 0)
		return;
	snprintf(key, sizeof(key), "%" STR_FMT, STR_ARG(id));
	td = json_array_get(
		json_object_get(json_object_get(reading->tenants, key), "devices"), index);
	if (!td)
		return;
	json_object_set_new(td, "used_ns", json_integer((json_int_t)used_ns));
	json_object_set_new(td, "lag_ns", json_integer(lag_ns));
}

static void note_tenant(struct reading *reading, const json_t *tenant)
{
	const json_int_t id = json_integer_value(json_object_get(tenant, "id"));

	if (id > 0 && id < UINT32_MAX)
		reading->last_tenant = MAX(reading->last_tenant, (uint64_t)id);
}

static void state_read_line(struct reading *reading, struct str line)
{
	struct str rest = line, tag, a, b;
	json_error_t why;
	json_t *json;
	char key[64];

	if (!str_word(&rest, &tag))
		return;
	if (str_is(tag, "T") || str_is(tag, "P")) {
		json = json_loadb(rest.p, rest.n, 0, &why);
		if (!json) {
			reading->n_broken++;
			return;
		}
		if (str_is(tag, "T"))
			note_tenant(reading, json);
		if (str_is(tag, "T"))
			snprintf(key, sizeof(key), "%lld",
				(long long)json_integer_value(json_object_get(json, "id")));
		else
			state_format_key(key, sizeof(key),
				json_integer_value(json_object_get(json, "tenant")),
				json_integer_value(json_object_get(json, "index")));
		json_object_set_new(
			str_is(tag, "T") ? reading->tenants : reading->processes, key, json);
	} else if (str_is(tag, "U")) {
		read_used(reading, rest);
	} else if (str_is(tag, "R") && str_word(&rest, &a)) {
		snprintf(key, sizeof(key), "%" STR_FMT, STR_ARG(a));
		json_object_del(reading->tenants, key);
	} else if (str_is(tag, "X") && str_word(&rest, &a) && str_word(&rest, &b)) {
		snprintf(key, sizeof(key), "%" STR_FMT "/%" STR_FMT, STR_ARG(a), STR_ARG(b));
		json_object_del(reading->processes, key);
	}
}

/*
 * Returns 1 for a file of this boot, 0 for a file of another boot, and -EBADMSG for a head that
 * this version does not know.
 */
static int read_head(struct state *s, struct reading *reading, struct str line)
{
	struct str rest = line, tag, abi, boot, next, least;
	uint64_t n = 0;

	if (!str_word(&rest, &tag) || !str_is(tag, "H") || !str_word(&rest, &abi) ||
		!str_word(&rest, &boot) || !str_word(&rest, &next) ||
		parse_uint(abi, STATE_ABI > 1 ? STATE_ABI - 1 : 1, STATE_ABI, &n, NULL) < 0 ||
		parse_uint(next, 1, UINT32_MAX, &reading->next_tenant, NULL) < 0)
		return -EBADMSG;
	/* The head that an older daemon wrote lacks this last number. */
	if (str_word(&rest, &least) &&
		parse_uint(least, 0, UINT32_MAX, &reading->n_least, NULL) < 0)
		return -EBADMSG;
	return str_is(boot, s->boot_id);
}

static int restore_devices(struct agent *agent, const json_t *devices, struct tenant_saved *saved,
	int64_t *ret_used, int64_t *ret_lag, struct error *err)
{
	saved->n = (uint32_t)json_array_size(devices);
	if (!saved->n || saved->n > SPEC_DEVICES_MAX)
		return fail(err, EINVAL, "%u devices", saved->n);
	for (uint32_t i = 0; i < saved->n; i++) {
		json_int_t quota, inode, used, lag;
		struct device *device;
		const char *uuid;

		if (json_unpack(json_array_get(devices, i), "{s:s, s:I, s:I, s:I, s:I}", "uuid",
			    &uuid, "quota", &quota, "inode", &inode, "used_ns", &used, "lag_ns",
			    &lag) < 0 ||
			quota < 0)
			return fail(err, EINVAL, "cannot read device %u", i);
		device = device_find(agent->devices, uuid);
		if (!device)
			return fail(err, ENODEV, "device %s does not exist any more", uuid);
		saved->devices[i] = device->index;
		saved->quota[i] = (uint64_t)quota;
		saved->inode[i] = (uint64_t)inode;
		ret_used[i] = used;
		ret_lag[i] = lag;
	}
	return 0;
}

static int state_copy_text(const json_t *json, const char *key, char *ret, size_t size)
{
	const char *text = json_string_value(json_object_get(json, key));

	return text ? str_copy(ret, size, str_from(text)) : -EINVAL;
}

static int restore_pod(const json_t *json, struct tenant_pod *ret, struct error *err)
{
	struct tenant_pod pod = {0};
	const json_int_t epoch = json_integer_value(json_object_get(json, "epoch"));

	if (state_copy_text(json, "uid", pod.uid, sizeof(pod.uid)) < 0 ||
		state_copy_text(json, "namespace", pod.space, sizeof(pod.space)) < 0 ||
		state_copy_text(json, "name", pod.name, sizeof(pod.name)) < 0 ||
		state_copy_text(json, "container", pod.container, sizeof(pod.container)) < 0 ||
		state_copy_text(json, "slot", pod.slot, sizeof(pod.slot)) < 0 || epoch < 0)
		return fail(err, EINVAL, "cannot read its pod");
	if (json_object_get(json, "claim") &&
		state_copy_text(json, "claim", pod.claim, sizeof(pod.claim)) < 0)
		return fail(err, EINVAL, "cannot read its claim");
	pod.epoch = (uint64_t)epoch;
	pod.overcommit = (uint32_t)json_integer_value(json_object_get(json, "overcommit"));
	*ret = pod;
	return 0;
}

static int restore_tenant(struct agent *agent, const json_t *json, struct error *err)
{
	int64_t used[SPEC_DEVICES_MAX], lag[SPEC_DEVICES_MAX];
	const char *name, *secret, *source, *origin, *lifetime, *cgroup = "";
	/* The lines that an older daemon wrote lack the member `container`. */
	int container = TENANT_NO_CONTAINER;
	json_int_t id, uid, owner, owner_start, created;
	struct tenant_saved saved = {0};
	struct tenant_params params = {0};
	json_t *spec, *devices, *of_pod = NULL;
	struct tenant_pod pod;
	struct tenant *t;
	int r;

	if (json_unpack((json_t *)json,
		    "{s:I, s:s, s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s?i, s?s, s:o, s:o, s?o}",
		    "id", &id, "name", &name, "secret", &secret, "uid", &uid, "source", &source,
		    "origin", &origin, "lifetime", &lifetime, "owner", &owner, "owner_start",
		    &owner_start, "created_s", &created, "container", &container, "cgroup", &cgroup,
		    "spec", &spec, "devices", &devices, "pod", &of_pod) < 0 ||
		container < TENANT_NO_CONTAINER || container > TENANT_CONTAINER_BOUND || id < 1 ||
		id >= UINT32_MAX || tenant_source_parse(source, &params.source) < 0 ||
		tenant_lifetime_parse(lifetime, &params.lifetime) < 0 ||
		parse_hex(str_from(secret), saved.secret, sizeof(saved.secret), NULL) < 0)
		return fail(err, EINVAL, "cannot read its line");
	r = spec_from_json(spec, &params.spec, err);
	if (r >= 0 && of_pod) {
		r = restore_pod(of_pod, &pod, err);
		params.pod = &pod;
	}
	if (r >= 0)
		r = restore_devices(agent, devices, &saved, used, lag, err);
	if (r < 0)
		return r;
	params.name = name;
	params.origin = origin;
	params.container = (enum tenant_container)container;
	params.cgroup = cgroup;
	params.uid = (uid_t)uid;
	params.owner = (pid_t)owner;
	saved.id = (uint32_t)id;
	saved.created_s = (uint64_t)created;
	saved.owner_start = (uint64_t)owner_start;
	r = tenant_restore(agent, &params, &saved, &t, err);
	if (r < 0)
		return r;
	agent->next_tenant = MAX(agent->next_tenant, t->id + 1);
	for (uint32_t i = 0; i < t->n; i++) {
		arbiter_restore(agent->arbiter, t->id, t->devices[i].device->index,
			MAX(used[i] > 0 ? (uint64_t)used[i] : 0, usage_used_before(&t->devices[i])),
			lag[i]);
		usage_tenant_restored(&t->devices[i]);
	}
	return 0;
}

static void restore_process(struct agent *agent, const json_t *json)
{
	json_int_t tenant, pid, start, index, inode;
	struct tenant *t;

	if (json_unpack((json_t *)json, "{s:I, s:I, s:I, s:I, s:I}", "tenant", &tenant, "pid", &pid,
		    "start", &start, "index", &index, "inode", &inode) < 0)
		return;
	t = tenant_by_id(agent, (uint32_t)tenant);
	if (t &&
		process_restore(
			t, (pid_t)pid, (uint64_t)start, (uint32_t)index, (uint64_t)inode, "") >= 0)
		t->hold_ns = clock_now_ns() + HOLD_NS;
}

static void state_restore_tenants(struct state *s, const struct reading *reading)
{
	struct agent *agent = s->agent;
	struct tenant *t, *next;
	struct error err;
	const char *key;
	json_t *json;

	json_object_foreach(reading->tenants, key, json)
		if (restore_tenant(agent, json, &err) < 0)
			log_warn("cannot take over tenant %s of the former daemon: %s", key,
				err.msg);
	json_object_foreach(reading->processes, key, json)
		restore_process(agent, json);
	for (t = LIST_FIRST(&agent->tenants); t; t = next) {
		next = LIST_NEXT(t, link);
		if (!t->n_processes)
			for (uint32_t i = 0; i < t->n; i++)
				if (tenant_page(&t->devices[i], &err) < 0)
					log_warn("%s", err.msg);
	}
}

/*
 * Ends tenants whose programs ended while no daemon ran. Otherwise these tenants would still occupy
 * their capacity when the first request comes.
 */
static void end_dead(struct agent *agent)
{
	const uint64_t now = clock_now_ns();
	struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		if (!t->is_ending && tenant_has_ended(t, now))
			tenant_end(t);
}

/*
 * Keeps the file under another name: running programs belong to tenants that are lost now, and an
 * administrator may need the file's contents.
 */
static void state_set_file_aside(const struct state *s, const char *why)
{
	char aside[PATH_MAX + 8];

	snprintf(aside, sizeof(aside), "%s.bad", s->path);
	unlink(aside);
	if (link(s->path, aside) < 0)
		log_warn("'%s': %s; cannot keep the file as '%s': %s", s->path, why, aside,
			strerror(errno));
	else
		log_warn("'%s': %s; kept the file as '%s'", s->path, why, aside);
}

static void read_state(struct state *s, struct reading *reading)
{
	_cleanup_buf_ struct buf text = BUF_INIT(STATE_MAX);
	struct str rest, line;
	struct error err;
	int r = file_read(s->path, &text, &err);

	if (r == -ENOENT || (r >= 0 && !text.n))
		return;
	rest = buf_str(&text);
	if (r < 0)
		state_set_file_aside(s, err.msg);
	else if (!str_split(&rest, '\n', &line) || (r = read_head(s, reading, line)) < 0)
		state_set_file_aside(
			s, "cannot read the first line, so the former daemon's tenants are lost");
	if (r <= 0)
		return;
	while (rest.p && str_find(rest, '\n') < rest.n && str_split(&rest, '\n', &line)) {
		reading->n_lines++;
		state_read_line(reading, line);
	}
	reading->is_torn = rest.p && rest.n;
	s->agent->next_tenant = MAX(s->agent->next_tenant,
		(uint32_t)MAX(reading->next_tenant, reading->last_tenant + 1));
	if (reading->n_broken)
		state_set_file_aside(s, "cannot read some lines; took over the others");
	else if (reading->is_torn)
		state_set_file_aside(s, "the last line is incomplete; took over the others");
	else if (reading->n_lines < reading->n_least)
		state_set_file_aside(s, "lines are missing at the end; took over the others");
	state_restore_tenants(s, reading);
	end_dead(s->agent);
}

/* ---- compaction ---- */

struct compaction {
	struct worker_job job;
	struct agent *agent;
	char path[PATH_MAX + 16], boot_id[PROCESS_BOOT_ID_SIZE];
	uint64_t written; /* state.written when the job began; a change voids the result */
	uint64_t next_tenant;
	size_t length; /* bytes that were read */
	int from, to;
	size_t new_length;
	int r;
};

static int state_read_part(int fd, size_t from, size_t n, struct buf *ret)
{
	int r = buf_reserve(ret, n);

	while (r >= 0 && ret->n < n) {
		ssize_t got = pread(fd, ret->p + ret->n, n - ret->n, (off_t)(from + ret->n));

		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		ret->n += (size_t)got;
	}
	return r;
}

static bool has_tenant(const struct reading *reading, const json_t *process)
{
	char key[64];

	snprintf(key, sizeof(key), "%lld",
		(long long)json_integer_value(json_object_get(process, "tenant")));
	return json_object_get(reading->tenants, key) != NULL;
}

static void add_reading(const struct compaction *c, const struct reading *reading, struct buf *out)
{
	size_t n = json_object_size(reading->tenants);
	const char *key;
	json_t *json;

	json_object_foreach(reading->processes, key, json)
		n += has_tenant(reading, json);
	buf_addf(out, "H %d %s %llu %zu\n", STATE_ABI, c->boot_id,
		(unsigned long long)MAX(c->next_tenant, reading->last_tenant + 1), n);
	json_object_foreach(reading->tenants, key, json)
		add_json(out, "T", json_incref(json));
	json_object_foreach(reading->processes, key, json)
		if (has_tenant(reading, json))
			add_json(out, "P", json_incref(json));
}

static int write_lines(struct compaction *c)
{
	_cleanup_buf_ struct buf text = BUF_INIT(STATE_MAX), out = BUF_INIT(STATE_MAX);
	struct reading reading = {.tenants = json_object(), .processes = json_object()};
	int r = reading.tenants && reading.processes ? state_read_part(c->from, 0, c->length, &text)
						     : -ENOMEM;
	struct str rest = buf_str(&text), line;

	if (r >= 0)
		str_split(&rest, '\n', &line); /* the head */
	while (r >= 0 && rest.n && str_split(&rest, '\n', &line))
		state_read_line(&reading, line);
	if (r >= 0) {
		add_reading(c, &reading, &out);
		r = reading.n_broken ? -EBADMSG : buf_error(&out);
	}
	json_decref(reading.tenants);
	json_decref(reading.processes);
	if (r < 0)
		return r;
	c->to = open(c->path, O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (c->to < 0)
		return -errno;
	c->new_length = out.n;
	return fd_write_all(c->to, out.p, out.n);
}

static void run_compaction(struct worker_job *job)
{
	struct compaction *c = (struct compaction *)job;

	c->r = write_lines(c);
}

/* Copies the lines that were appended meanwhile, and then renames the new file. */
static int take_over_file(struct state *s, struct compaction *c)
{
	_cleanup_buf_ struct buf text = BUF_INIT(STATE_MAX);
	const size_t tail = s->length - c->length;
	int r = state_read_part(c->from, c->length, tail, &text);

	if (r >= 0)
		r = fd_write_all(c->to, text.p, tail);
	if (r >= 0 && rename(c->path, s->path) < 0)
		r = -errno;
	if (r < 0)
		return r;
	fd_close(s->fd);
	s->fd = TAKE_FD(c->to);
	s->length = c->new_length + tail;
	s->appended = tail;
	s->is_torn = false;
	s->written++;
	return 0;
}

static void compaction_done(struct worker_job *job)
{
	struct compaction *c = (struct compaction *)job;
	struct state *s = c->agent->state;
	bool is_wanted = s && s->written == c->written;

	if (s)
		s->compaction = NULL;
	if (c->r >= 0 && is_wanted)
		c->r = take_over_file(s, c);
	if (c->r < 0 && is_wanted) {
		log_warn("cannot rewrite '%s': %s", s->path, strerror(-c->r));
		s->appended = 0; /* so that the next rewrite does not follow at once */
		fall_behind(s);
	}
	if (c->to >= 0)
		unlink(c->path);
	fd_close(c->to);
	fd_close(c->from);
	free(c);
}

static void state_compact_file(struct state *s)
{
	struct compaction *c = s->compaction ? NULL : calloc(1, sizeof(*c));

	if (!c)
		return;
	c->job = (struct worker_job){.run = run_compaction, .done = compaction_done};
	c->agent = s->agent;
	snprintf(c->path, sizeof(c->path), "%s.next", s->path);
	memcpy(c->boot_id, s->boot_id, sizeof(c->boot_id));
	c->written = s->written;
	c->next_tenant = s->agent->next_tenant;
	c->length = s->length;
	c->to = -1;
	c->from = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
	if (c->from < 0) {
		free(c);
		return;
	}
	s->compaction = c;
	worker_submit(s->agent->disk, &c->job);
}

int state_load(struct agent *agent, struct error *err)
{
	struct state *s = calloc(1, sizeof(*s));
	struct reading reading = {.tenants = json_object(), .processes = json_object()};
	int r;

	if (!s || !reading.tenants || !reading.processes) {
		free(s);
		json_decref(reading.tenants);
		json_decref(reading.processes);
		return fail(err, ENOMEM, "out of memory");
	}
	agent->state = s;
	s->agent = agent;
	s->fd = -1;
	s->is_loading = true;
	s->timer.data = s;
	snprintf(s->path, sizeof(s->path), "%s/state", agent->runtime_dir);
	if (process_boot_id(s->boot_id) < 0)
		snprintf(s->boot_id, sizeof(s->boot_id), "unknown");
	r = loop_add_timer(agent->loop, &s->timer, state_on_timer);
	if (r >= 0) {
		usage_load(agent);
		read_state(s, &reading);
	}
	json_decref(reading.tenants);
	json_decref(reading.processes);
	s->is_loading = false;
	if (r >= 0)
		r = state_rewrite_file(s);
	return r < 0 ? fail_errno(err, -r, "write '%s'", s->path) : 0;
}

void state_free(struct agent *agent)
{
	struct state *s = agent->state;

	if (!s)
		return;
	if (s->fd >= 0 && state_rewrite_file(s) < 0)
		log_warn("cannot write '%s'", s->path);
	usage_flush(agent);
	loop_remove_timer(&s->timer);
	fd_close(s->fd);
	free(s);
	agent->state = NULL;
}
