/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control commands: see control.h and docs/control-protocol.md. Each command is a function of
 * one request. It fills a reply, returns -errno with a message, or returns -EINPROGRESS for a
 * `create` that waits and is answered later.
 */
#include "agent/control.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/apply.h"
#include "agent/audit.h"
#include "agent/agent-client.h"
#include "agent/conf.h"
#include "agent/context-cost.h"
#include "agent/device.h"
#include "agent/agent-memory.h"
#include "agent/user-names.h"
#include "agent/register.h"
#include "agent/agent-share.h"
#include "agent/spec-json.h"
#include "agent/agent-state.h"
#include "agent/tenant.h"
#include "agent/usage.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"

#define WAITING_CREATES_MAX 1024u
#define SETTLE_MS ((int64_t)(MEMORY_GRACE_NS / NSEC_PER_MSEC))
#define ANSWER_MAX (CLIENT_OUT_MAX - (64u << 10)) /* leaves room for the heads of the parts */

struct waiting_create { /* a waiting `create` */
	TAILQ_ENTRY(waiting_create) link;
	struct conn *conn;
	uint32_t request;
	uint64_t deadline_ns;
	bool does_not_wait; /* waits only for tenants that are about to end */
	json_t *json;
};

struct control {
	struct agent *agent;
	TAILQ_HEAD(, waiting_create) pending_creates;
	uint32_t n_pending_creates;
	struct loop_timer timer;
	bool is_trying;
	bool is_last_try; /* the request does not wait, so the present try is its last */
	/* a pass over pending_creates runs: connections that end must remove nothing from it */
	bool is_in_pending_creates;
};

struct call {
	struct agent *agent;
	struct conn *conn;
	uint32_t request;
	const json_t *json;
	json_t *reply;   /* an object; commands add members */
	struct buf text; /* members of the reply as JSON text, instead of `reply` */
};

struct command {
	const char *name;
	const char *members; /* allowed in a request, separated by spaces */
	int (*fn)(struct call *call, struct error *err);
};

static void control_add_member(struct call *call, const char *key, json_t *value)
{
	json_object_set_new(call->reply, key, value);
}

static void control_merge_object(struct call *call, json_t *object)
{
	json_object_update(call->reply, object);
	json_decref(object);
}

static json_t *control_number_json(uint64_t n)
{
	return json_integer((json_int_t)MIN(n, (uint64_t)INT64_MAX));
}

/* ---- members of requests ---- */

static int get_number(const json_t *json, const char *key, int64_t min, int64_t max, int64_t *ret,
	struct error *err)
{
	const json_t *value = json_object_get(json, key);
	char shown[SPEC_JSON_SHOWN];

	if (!value)
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < min ||
		json_integer_value(value) > max)
		return fail(err, EINVAL, "%s %s: expected a whole number from %lld to %lld", key,
			spec_json_show(value, shown), (long long)min, (long long)max);
	*ret = json_integer_value(value);
	return 1;
}

/* *ret is NULL if there is no such member. */
static int get_name(const json_t *json, const char **ret, struct error *err)
{
	const json_t *value = json_object_get(json, "name");
	char shown[SPEC_JSON_SHOWN];

	*ret = json_string_value(value);
	if (value && !*ret)
		return fail(err, EINVAL, "name %s: expected a text", spec_json_show(value, shown));
	return value ? spec_name_check(*ret, err) : 0;
}

static int get_tenant(struct call *call, struct tenant **ret, struct error *err)
{
	const json_t *value = json_object_get(call->json, "tenant");
	char text[TENANT_NAME + 32] = "", shown[SPEC_JSON_SHOWN];

	if (json_is_integer(value))
		snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
	else if (json_is_string(value) &&
		str_copy(text, sizeof(text), str_from(json_string_value(value))) < 0)
		return fail(err, EINVAL,
			"tenant %s: the name is too long; at most %u characters are allowed",
			spec_json_show(value, shown), TENANT_NAME - 1);
	if (!text[0])
		return fail(err, EINVAL, "tenant %s: expected an id or a name",
			value ? spec_json_show(value, shown) : "is missing");
	*ret = tenant_by_text(call->agent, text, call->conn->uid);
	if (!*ret)
		return fail(err, ENOENT, "tenant %s: no such tenant; `divvy ps` lists the tenants",
			text);
	return 0;
}

/* ---- ping, devices ---- */

static int do_ping(struct call *call, struct error *err)
{
	struct agent *a = call->agent;

	control_merge_object(call,
		json_pack("{s:s, s:i, s:i, s:i, s:b, s:b, s:b, s:I, s:f, s:s, s:s, s:i, s:i, s:i, "
			  "s:s}",
			"version", DIVVY_VERSION, "abi", (int)msg_newest(), "pid", (int)getpid(),
			"uid", (int)getuid(), "system", (int)a->is_system, "simulated",
			(int)a->devices->is_simulated, "gate", (int)!a->options.is_gate_off,
			"epoch", (json_int_t)a->epoch, "uptime_s",
			(double)(clock_now_ns() - a->started_ns) / NSEC_PER_SEC, "socket",
			a->socket_path, "runtime_dir", a->runtime_dir, "devices",
			(int)a->devices->n, "tenants", (int)a->n_tenants, "clients",
			(int)a->n_processes, "policy",
			a->options.policy ? a->options.policy : "share"));
	if (a->devices->is_simulated) {
		control_add_member(call, "sim", json_string(a->devices->sim_dir));
		control_add_member(call, "driver", json_string(a->devices->sim_libs));
	}
	return 0;
}

static json_t *device_json(struct agent *a, struct device *d)
{
	json_t *holders = json_array(), *waiting = json_array(), *tenants = json_array();
	uint64_t now = clock_now_ns(), promised = 0;
	uint32_t asked = 0, holder = 0, busy = 0;
	bool is_exclusive = false;
	struct tenant *t;
	json_t *json;

	LIST_FOREACH(t, &a->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++) {
			struct tenant_device *td = &t->devices[i];

			if (td->device != d)
				continue;
			json_array_append_new(tenants, json_integer(t->id));
			if (t->source != TENANT_DEFAULT) {
				asked += t->spec.request;
				promised += td->quota_bytes;
				is_exclusive |= t->spec.exclusive;
			}
			if (td->is_open) {
				holder = t->id;
				json_array_append_new(holders, json_integer(t->id));
			} else if (td->does_want) {
				json_array_append_new(waiting, json_integer(t->id));
			}
			busy += usage_permille(td, NSEC_PER_SEC, now);
		}
	json = json_pack("{s:i, s:s, s:s, s:b, s:b, s:s, s:i, s:s, s:s, s:s, s:s}", "index",
		(int)d->index, "uuid", d->info.uuid, "model", d->info.model, "simulated",
		(int)a->devices->is_simulated, "mig", (int)d->info.is_mig, "parent", d->info.parent,
		"nvml_index", (int)d->info.nvml_index, "pci", d->info.pci, "driver",
		nvml_driver_version(a->devices->nvml), "compute_mode", d->info.compute_mode, "note",
		device_note(d));
	json_object_set_new(json, "memory_bytes", control_number_json(d->info.memory_bytes));
	json_object_set_new(json, "memory_usable_bytes", control_number_json(d->info.usable_bytes));
	json_object_set_new(json, "memory_used_bytes", control_number_json(d->used_bytes));
	json_object_set_new(json, "memory_promised_bytes", control_number_json(promised));
	json_object_set_new(json, "memory_free_bytes",
		control_number_json(ledger_room(d->ledger, SPEC_MEMORY_FAIL)));
	json_object_set_new(json, "request_permille", json_integer(asked));
	json_object_set_new(json, "request_free_permille",
		json_integer(is_exclusive || asked > SPEC_SHARE_ONE ? 0 : SPEC_SHARE_ONE - asked));
	json_object_set_new(json, "exclusive", json_boolean(is_exclusive));
	json_object_set_new(json, "busy_permille", json_integer(MIN(busy, 1000u)));
	json_object_set_new(json, "holder", json_integer(holder));
	json_object_set_new(json, "holders", holders);
	json_object_set_new(json, "waiting", waiting);
	json_object_set_new(json, "tenants", tenants);
	return json;
}

static int do_devices(struct call *call, struct error *err)
{
	json_t *list = json_array();

	memory_refresh(call->agent);
	for (uint32_t i = 0; i < call->agent->devices->n; i++)
		json_array_append_new(
			list, device_json(call->agent, &call->agent->devices->devices[i]));
	control_add_member(call, "simulated", json_boolean(call->agent->devices->is_simulated));
	control_add_member(call, "devices", list);
	return 0;
}

/* ---- list, why ---- */

static const char *const why_names[] = {
	[ARBITER_WHY_IDLE] = "idle",
	[ARBITER_WHY_HOLDS] = "holds",
	[ARBITER_WHY_TURN] = "turn",
	[ARBITER_WHY_LIMIT] = "limit",
	[ARBITER_WHY_CLASS] = "class",
	[ARBITER_WHY_DRAIN] = "drain",
	[ARBITER_WHY_RESERVED] = "reserved",
};

static uint64_t device_says(struct agent *a, const struct tenant_device *td)
{
	uint64_t sum = 0, bytes;
	const struct process *p;

	LIST_FOREACH(p, &td->tenant->processes, of_tenant) {
		bytes = memory_device_says(a, td->device, p->pid);
		sum += bytes == UINT64_MAX ? 0 : bytes;
	}
	return sum;
}

static json_t *tenant_device_json(
	struct agent *a, struct tenant_device *td, struct arbiter_usage *ret_usage)
{
	uint64_t now = clock_now_ns();
	const int used_1s = (int)usage_permille(td, NSEC_PER_SEC, now),
		  used_10s = (int)usage_permille(td, 10 * NSEC_PER_SEC, now);
	struct arbiter_usage u = {0};
	json_t *json;

	arbiter_usage_get(a->arbiter, td->tenant->id, td->device->index, now, &u);
	*ret_usage = u;
	json = json_pack("{s:i, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:b, s:b, s:b, s:s, s:i}",
		"index", (int)td->device->index, "uuid", td->device->info.uuid, "used_permille",
		used_1s, "used_10s_permille", used_10s, "entitlement_permille", (int)u.entitlement,
		"used_ns", (json_int_t)u.used_ns, "waited_ns", (json_int_t)u.waited_ns, "lag_ns",
		(json_int_t)u.lag_ns, "wants", (int)td->does_want, "holds", (int)td->is_open,
		"corun", (int)u.corun, "why", why_names[u.why], "why_tenant", (int)u.why_tenant);
	/* The old names of the used_* members, for one release. */
	json_object_set_new(json, "got_permille", json_integer(used_1s));
	json_object_set_new(json, "got_10s_permille", json_integer(used_10s));
	json_object_set_new(json, "memory_used_bytes", control_number_json(memory_used(td)));
	json_object_set_new(json, "memory_quota_bytes", control_number_json(td->quota_bytes));
	json_object_set_new(
		json, "device_memory_used_bytes", control_number_json(device_says(a, td)));
	json_object_set_new(json, "excess_bytes", control_number_json(audit_excess(td)));
	return json;
}

static json_t *control_tenant_json(struct agent *a, struct tenant *t)
{
	json_t *devices = json_array(), *processes = json_array(), *json, *remote;
	struct arbiter_usage usage;
	const struct process *p;
	const char *user = names_user(a, t->uid);
	char number_text[16];

	snprintf(number_text, sizeof(number_text), "%u", (unsigned int)t->uid);
	for (uint32_t i = 0; i < t->n; i++)
		json_array_append_new(devices, tenant_device_json(a, &t->devices[i], &usage));
	LIST_FOREACH(p, &t->processes, of_tenant) {
		json_t *indexes = json_array(), *command = json_string(p->command);

		for (uint32_t i = 0; i < t->n; i++)
			json_array_append_new(indexes, json_integer(t->devices[i].device->index));
		json_array_append_new(processes,
			json_pack("{s:i, s:o, s:o, s:b}", "pid", (int)p->pid, "command",
				command ? command : json_string("?"), "devices", indexes, "orphan",
				(int)!p->conn));
	}
	json = json_pack("{s:i, s:s, s:i, s:s, s:i, s:s, s:I, s:b, s:s, s:o, s:o, s:o}", "id",
		(int)t->id, "name", t->name, "uid", (int)t->uid, "user", user ? user : number_text,
		"pid", (int)t->owner, "lifetime", tenant_lifetime_name(t->lifetime), "created_s",
		(json_int_t)t->created_s, "default", (int)(t->source == TENANT_DEFAULT), "source",
		tenant_source_name(t->source), "spec", spec_to_json(&t->spec), "devices", devices,
		"processes", processes);
	if (t->pod)
		json_object_set_new(json, "pod",
			json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*}", "uid", t->pod->uid,
				"namespace", t->pod->space, "name", t->pod->name, "container",
				t->pod->container, "slot", t->pod->slot, "claim",
				t->pod->claim[0] ? t->pod->claim : NULL));
	remote = remote_reach_json(&t->remote, clock_now_ns());
	if (remote)
		json_object_set_new(json, "remote", remote);
	return json;
}

static int do_list(struct call *call, struct error *err)
{
	json_t *list;
	struct tenant *t = NULL, *only = NULL;
	int r;

	memory_refresh(call->agent);
	if (json_object_get(call->json, "tenant")) {
		r = get_tenant(call, &only, err);
		if (r < 0)
			return r;
	}
	list = json_array();
	LIST_FOREACH(t, &call->agent->tenants, link)
		if (!t->is_ending && (!only || t == only) &&
			tenant_may_see(call->agent, t, call->conn->uid))
			json_array_insert_new(list, 0, control_tenant_json(call->agent, t));
	control_add_member(call, "simulated", json_boolean(call->agent->devices->is_simulated));
	control_add_member(call, "now_ns", control_number_json(clock_now_ns()));
	control_add_member(call, "tenants", list);
	return 0;
}

static void control_explain_device(struct agent *a, const struct tenant_device *td,
	const struct arbiter_usage *u, char *ret, size_t size)
{
	const struct tenant *t = td->tenant, *other = tenant_by_id(a, u->why_tenant);
	char before[TENANT_NAME + 32] = "another tenant";
	uint32_t got = (uint32_t)(u->window_used_ns * 1000 / ARBITER_WINDOW_NS);

	if (other)
		snprintf(before, sizeof(before), "tenant %u (%s)", other->id, other->name);
	switch (u->why) {
	case ARBITER_WHY_IDLE:
		snprintf(ret, size,
			t->n_processes ? "has no work for the device now"
				       : "has no registered process; check that its program "
					 "uses CUDA and loads libdivvy-cuda.so");
		break;
	case ARBITER_WHY_HOLDS:
		snprintf(ret, size, "holds the device%s",
			u->corun ? ", together with another tenant" : "");
		break;
	case ARBITER_WHY_TURN:
		snprintf(ret, size,
			"waits for its turn: %s goes first (this tenant used %s of the last "
			"second, entitled to %s)",
			before, format_share(got).s, format_share(u->entitlement).s);
		break;
	case ARBITER_WHY_LIMIT:
		snprintf(ret, size, "is at its limit: used %s of the last second, limit %s",
			format_share(got).s, format_share(t->spec.limit).s);
		break;
	case ARBITER_WHY_CLASS:
		snprintf(ret, size, "waits: %s of class latency is active", before);
		break;
	case ARBITER_WHY_DRAIN:
		snprintf(ret, size, "is next, when %s%s on the device completes",
			other == t ? "its own earlier work" : "work of ", other == t ? "" : before);
		break;
	case ARBITER_WHY_RESERVED:
		snprintf(ret, size, "waits until its %u devices are free at the same time", t->n);
		break;
	}
}

/* Adds the note on preference conflicts and on memory that only open descriptors hold. */
static void add_note(struct call *call, const struct tenant *t)
{
	const uint32_t n_conflicts = tenant_n_conflicts(t);
	char met[SPEC_CONFLICTS], text[256];
	uint64_t left_bytes = 0;

	for (uint32_t i = 0; i < t->n; i++)
		left_bytes += share_left_bytes(&t->devices[i]);
	if (left_bytes) {
		snprintf(text, sizeof(text),
			"only exported descriptors still hold %s of its memory; divvy charges "
			"it until they are closed",
			format_bytes(left_bytes).s);
		control_add_member(call, "note", json_string(text));
		return;
	}
	for (uint32_t i = 0; i < t->n; i++) {
		const struct tenant_device *td = &t->devices[i];
		const uint64_t context_bytes = context_cost_expected(td);

		if (td->quota_bytes >= context_bytes)
			continue;
		snprintf(text, sizeof(text),
			"memory %s: a CUDA context alone takes about %s, so the first call may "
			"fail with CUDA_ERROR_OUT_OF_MEMORY; request more",
			format_bytes(td->quota_bytes).s, format_bytes(context_bytes).s);
		control_add_member(call, "note", json_string(text));
		return;
	}
	if (n_conflicts)
		control_add_member(call, "note",
			json_string(spec_conflicts_format(
				t->spec.preferred_anti_affinity, n_conflicts, met)));
}

static int do_why(struct call *call, struct error *err)
{
	json_t *list;
	struct tenant *t;
	int r = get_tenant(call, &t, err);

	if (r < 0)
		return r;
	list = json_array();
	for (uint32_t i = 0; i < t->n; i++) {
		struct arbiter_usage usage;
		json_t *json = tenant_device_json(call->agent, &t->devices[i], &usage);
		char sentence[256] = "";

		control_explain_device(
			call->agent, &t->devices[i], &usage, sentence, sizeof(sentence));
		json_object_set_new(json, "sentence", json_string(sentence));
		json_array_append_new(list, json);
	}
	control_add_member(call, "tenant", json_integer(t->id));
	control_add_member(call, "name", json_string(t->name));
	control_add_member(call, "why", list);
	add_note(call, t);
	return 0;
}

/* ---- create, set, remove ---- */

static json_t *control_environment_json(struct agent *a, const struct tenant *t)
{
	char secret[TENANT_SECRET_TEXT];
	json_t *env = json_object();

	tenant_secret_format(t, secret);
	json_object_set_new(env, "DIVVY_TENANT", json_string(secret));
	json_object_set_new(env, "DIVVY_SOCKET", json_string(a->socket_path));
	if (a->devices->is_simulated) {
		json_object_set_new(env, "DIVVY_SIM", json_string(a->devices->sim_dir));
		json_object_set_new(env, "DIVVY_DRIVER", json_string(a->devices->sim_libs));
	}
	explicit_bzero(secret, sizeof(secret));
	return env;
}

static void describe_new(struct call *call, struct tenant *t)
{
	json_t *devices = json_array(), *env = control_environment_json(call->agent, t);

	for (uint32_t i = 0; i < t->n; i++)
		json_array_append_new(devices,
			json_pack("{s:i, s:s, s:s, s:I}", "index", (int)t->devices[i].device->index,
				"uuid", t->devices[i].device->info.uuid, "model",
				t->devices[i].device->info.model, "quota_bytes",
				(json_int_t)t->devices[i].quota_bytes));
	control_add_member(call, "tenant", json_integer(t->id));
	control_add_member(call, "name", json_string(t->name));
	control_add_member(call, "secret", json_incref(json_object_get(env, "DIVVY_TENANT")));
	control_add_member(call, "socket", json_string(call->agent->socket_path));
	control_add_member(call, "programs", json_string(call->agent->programs_dir));
	control_add_member(call, "simulated", json_boolean(call->agent->devices->is_simulated));
	control_add_member(call, "devices", devices);
	control_add_member(call, "spec", spec_to_json(&t->spec));
	add_note(call, t);
	control_add_member(call, "env", env);
}

/* The pid must be the caller's own process; root may name any. */
static int control_check_owner(const struct conn *c, pid_t pid, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(64u << 10);
	char path[64];
	struct str rest, line, word;
	uint64_t uid = UINT64_MAX;

	if (pid == c->pid || c->uid == 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file_read(path, &text, NULL) < 0)
		return fail(err, ESRCH, "pid %d: no such process", (int)pid);
	rest = buf_str(&text);
	while (str_split(&rest, '\n', &line))
		if (str_skip_prefix(&line, STR("Uid:")) && str_word(&line, &word))
			parse_uint(word, 0, UINT32_MAX, &uid, NULL);
	if (uid != c->uid)
		return fail(err, EPERM, "pid %d belongs to another user", (int)pid);
	return 0;
}

static int get_lifetime(const json_t *json, enum tenant_lifetime *ret_lifetime, struct error *err)
{
	const json_t *value = json_object_get(json, "lifetime");
	const char *text = json_string_value(value);
	char shown[SPEC_JSON_SHOWN];

	if (value && (!text || tenant_lifetime_parse(text, ret_lifetime) < 0))
		return fail(err, EINVAL, "lifetime %s: expected process, processes or keep",
			spec_json_show(value, shown));
	return 0;
}

static int get_container(const json_t *json, bool *ret_is_container, struct error *err)
{
	const json_t *value = json_object_get(json, "container");
	char shown[SPEC_JSON_SHOWN];

	if (value && !json_is_boolean(value))
		return fail(err, EINVAL, "container %s: expected true or false",
			spec_json_show(value, shown));
	*ret_is_container = json_is_true(value);
	return 0;
}

static int control_create_tenant(struct call *call, struct tenant **ret, struct error *err)
{
	const json_t *fields = json_object_get(call->json, "spec");
	char cgroup[CONF_CGROUP];
	struct conn *c = call->conn;
	struct tenant_params params = {.uid = c->uid, .source = TENANT_RUN};
	struct process_stat stat;
	char own_name[PROCESS_NAME_SIZE];
	bool is_container = false;
	int64_t pid = c->pid;
	int r;

	spec_init(&params.spec);
	r = spec_set_json(&params.spec, fields, err);
	if (r >= 0)
		r = spec_finish(&params.spec, err);
	if (r >= 0)
		r = get_name(call->json, &params.name, err);
	if (r >= 0)
		r = get_lifetime(call->json, &params.lifetime, err);
	if (r >= 0)
		r = get_container(call->json, &is_container, err);
	if (r >= 0)
		r = get_number(call->json, "pid", 1, INT32_MAX, &pid, err);
	if (r >= 0)
		r = control_check_owner(c, (pid_t)pid, err);
	if (r < 0)
		return r;
	params.owner = params.lifetime == TENANT_PROCESS ? (pid_t)pid : 0;
	if (is_container) {
		/* The engine's command keeps the tenant alive while it still fetches the image. */
		params.owner = params.lifetime == TENANT_KEEP ? 0 : (pid_t)pid;
		r = conf_cgroup((pid_t)pid, cgroup, err);
		if (r < 0)
			return r;
		params.container = TENANT_CONTAINER_AWAITED;
		params.cgroup = cgroup;
	}
	if (!params.name && process_read_stat((pid_t)pid, &stat) == 0) {
		memcpy(own_name, stat.name, sizeof(own_name));
		for (char *p = own_name; *p; p++)
			if (!strchr("._-", *p) && !((*p | 32) >= 'a' && (*p | 32) <= 'z') &&
				!(*p >= '0' && *p <= '9'))
				*p = '_';
		params.name = own_name;
	}
	return tenant_new(call->agent, &params, ret, err);
}

static int check_waiting(const struct call *call, struct error *err)
{
	const struct control *control = call->agent->control;
	const uid_t uid = call->conn->uid;
	const struct waiting_create *w;
	uint32_t n = 0;

	TAILQ_FOREACH(w, &control->pending_creates, link)
		n += w->conn && w->conn->uid == uid;
	if (!call->conn->user->is_trusted && n >= CONTROL_WAITING_PER_USER)
		return fail(err, EUSERS,
			"%u requests of user %u wait already, the maximum for one user; cancel "
			"one, or try again later",
			n, (unsigned int)uid);
	if (control->n_pending_creates >= WAITING_CREATES_MAX)
		return fail(err, EUSERS, "%u requests wait already, the maximum; try again later",
			control->n_pending_creates);
	return 0;
}

static int do_create(struct call *call, struct error *err)
{
	struct control *control = call->agent->control;
	bool does_settle;
	struct tenant *t = NULL;
	int64_t wait_ms = 0;
	struct waiting_create *w;
	int r;

	r = get_number(call->json, "wait_ms", -1, INT64_C(1) << 40, &wait_ms, err);
	if (r < 0)
		return r;
	/* Waiting requests come first, unless this one does not wait. */
	if (wait_ms && !TAILQ_EMPTY(&control->pending_creates) && !control->is_trying)
		r = fail(err, ENOSPC, "earlier requests wait for the same free capacity");
	else
		r = control_create_tenant(call, &t, err);
	if (r >= 0)
		describe_new(call, t);
	if (r != -ENOSPC || control->is_trying || control->is_last_try)
		return r;
	does_settle = !wait_ms && tenant_is_any_settling(call->agent) &&
		check_waiting(call, NULL) >= 0;
	if (!wait_ms && !does_settle)
		return r;
	if (!does_settle && (r = check_waiting(call, err)) < 0)
		return r;
	wait_ms = does_settle ? SETTLE_MS : wait_ms;
	w = calloc(1, sizeof(*w));
	if (!w)
		return fail(err, ENOMEM, "out of memory");
	*w = (struct waiting_create){
		.conn = call->conn,
		.request = call->request,
		.does_not_wait = does_settle,
		.json = json_incref((json_t *)call->json),
		.deadline_ns = wait_ms < 0
			? CLOCK_NEVER
			: clock_add_ns(clock_now_ns(), (uint64_t)wait_ms * NSEC_PER_MSEC),
	};
	TAILQ_INSERT_TAIL(&control->pending_creates, w, link);
	control->n_pending_creates++;
	loop_set_timer(&control->timer, clock_now_ns());
	return -EINPROGRESS;
}

/*
 * Refuses a change between a share and whole devices. Runs before the checks between fields, whose
 * errors would name a limit or count that nobody set.
 */
static int control_check_tenant_kind(const struct tenant *t, struct spec spec, struct error *err)
{
	if (spec.exclusive)
		return 0; /* the request is unchanged */
	spec.exclusive = spec.request % SPEC_SHARE_ONE == 0;
	spec.count = MAX(spec.exclusive ? spec.request / SPEC_SHARE_ONE : spec.count, 1u);
	return tenant_check_change(t, &spec, err);
}

static int do_set(struct call *call, struct error *err)
{
	const json_t *fields = json_object_get(call->json, "spec");
	const char *name = NULL;
	struct tenant *t;
	struct spec spec;
	int r = get_tenant(call, &t, err);

	if (r >= 0)
		r = get_name(call->json, &name, err);
	if (r < 0)
		return r;
	spec = t->spec;
	if (fields) {
		const char *key;
		json_t *value;

		json_object_foreach((json_t *)fields, key, value)
			if (strcmp(key, "request") && strcmp(key, "limit") &&
				strcmp(key, "memory") && strcmp(key, "class") &&
				strcmp(key, "priority") && strcmp(key, "memory-policy") &&
				strcmp(key, "memory_policy"))
				return fail(err, EINVAL,
					"%s cannot change while the tenant runs; request, "
					"limit, memory, class and priority can",
					key);
		r = spec_set_json(&spec, fields, err);
		if (r >= 0)
			r = control_check_tenant_kind(t, spec, err);
		if (r >= 0)
			r = spec_finish(&spec, err);
		if (r >= 0)
			r = tenant_change(t, &spec, err);
		if (r < 0)
			return r;
	}
	if (name) {
		snprintf(t->name, sizeof(t->name), "%s", name);
		r = state_tenant(t, err);
		if (r < 0)
			return r;
	}
	control_add_member(call, "tenant", control_tenant_json(call->agent, t));
	add_note(call, t);
	return 0;
}

static int do_remove(struct call *call, struct error *err)
{
	struct tenant *t;
	int r = get_tenant(call, &t, err);

	if (r < 0)
		return r;
	tenant_kill(t);
	return 0;
}

/* ---- usage, report, apply, doctor, audit, replace ---- */

static int do_usage(struct call *call, struct error *err)
{
	int64_t last_ms = 60000, step_ms = 0;
	struct tenant *only = NULL;
	int r = 0;

	if (json_object_get(call->json, "tenant"))
		r = get_tenant(call, &only, err);
	if (r >= 0)
		r = get_number(call->json, "last_ms", 10, INT64_C(1) << 40, &last_ms, err);
	if (r >= 0)
		r = get_number(call->json, "step_ms", 1, INT64_C(1) << 40, &step_ms, err);
	if (r < 0)
		return r;
	buf_add_byte(&call->text, '{');
	r = usage_history(call->agent, only, call->conn->uid, (uint64_t)last_ms, (uint64_t)step_ms,
		json_is_true(json_object_get(call->json, "ended")), &call->text);
	if (r == -EMSGSIZE)
		return fail(err, EMSGSIZE,
			"the history of all tenants does not fit into an answer; name a "
			"tenant, or use a larger step_ms");
	return r < 0 ? fail(err, ENOMEM, "out of memory") : 0;
}

static int do_report(struct call *call, struct error *err)
{
	int64_t since_s = 0;
	int r = get_number(call->json, "since_s", 0, INT64_C(1) << 40, &since_s, err);

	if (r < 0)
		return r;
	control_merge_object(call, usage_report(call->agent, call->conn->uid, (uint64_t)since_s));
	return 0;
}

static int check_owner_of_daemon(const struct call *call, const char *what, struct error *err)
{
	if (call->conn->uid != 0 && call->conn->uid != getuid())
		return fail(
			err, EPERM, "%s: only root and the daemon's own user may do this", what);
	return 0;
}

static int do_apply(struct call *call, struct error *err)
{
	const json_t *path = json_object_get(call->json, "path");
	const json_t *follow = json_object_get(call->json, "follow");
	bool stop = json_is_true(json_object_get(call->json, "stop"));
	char shown[SPEC_JSON_SHOWN];
	json_t *tenants = NULL;
	int r = check_owner_of_daemon(call, "apply", err);

	if (r < 0)
		return r;
	if (!json_is_string(path) || json_string_value(path)[0] != '/')
		return fail(err, EINVAL, "path %s: expected an absolute path",
			path ? spec_json_show(path, shown) : "is missing");
	r = stop ? apply_stop(call->agent, json_string_value(path), &tenants, err)
		 : apply_file(call->agent, json_string_value(path), !json_is_false(follow),
			   &tenants, err);
	if (r < 0)
		return r;
	control_add_member(call, "tenants", tenants);
	return 0;
}

static int do_doctor(struct call *call, struct error *err)
{
	memory_refresh(call->agent);
	control_add_member(call, "findings", audit_findings(call->agent, call->conn->uid));
	return 0;
}

static int do_audit(struct call *call, struct error *err)
{
	int r = check_owner_of_daemon(call, "audit", err);

	if (r < 0)
		return r;
	memory_refresh(call->agent);
	control_merge_object(call, audit_json(call->agent));
	return 0;
}

/*
 * Answers `replace`, with the listening socket if the next daemon wants it. Returns false if the
 * next daemon has gone. A daemon that gives up waiting shuts its end first (ask_to_leave()), so the
 * answer either arrives or fails here.
 */
static bool answer_replace(struct conn *c, uint32_t request, bool does_hand_over)
{
	_Alignas(8) char packet[sizeof(struct msg_control) + 64];
	struct msg_control *msg = (struct msg_control *)packet;
	int n;

	memset(packet, 0, sizeof(packet));
	n = snprintf(msg->text, 64, "{\"ok\":true,\"pid\":%d}", (int)getpid());
	msg_head_init(&msg->head, MSG_CONTROL_REPLY, (uint32_t)(sizeof(*msg) + (size_t)n), request);
	if (fd_send(c->fd, packet, msg->head.size, &c->agent->listen_fd, does_hand_over,
		    MSG_DONTWAIT) >= 0)
		return true;
	conn_close(c);
	return false;
}

static int do_replace(struct call *call, struct error *err)
{
	bool does_hand_over = json_is_true(json_object_get(call->json, "hand_over"));
	struct conn *c = call->conn;
	int r = check_owner_of_daemon(call, "replace", err);

	if (r < 0)
		return r;
	if (!answer_replace(c, call->request, does_hand_over)) {
		log_info("pid %d asked to take over and has exited; continuing", (int)c->pid);
		return -EINPROGRESS;
	}
	log_info("stopping: pid %d takes over", (int)c->pid);
	call->agent->is_replaced = does_hand_over;
	agent_leave(call->agent);
	return -EINPROGRESS;
}

/*
 * The caller is the tenant's link, which knows neither id nor name: the tenant's secret identifies
 * and authorises it.
 */
static int do_remote(struct call *call, struct error *err)
{
	const char *hex = json_string_value(json_object_get(call->json, "secret"));
	uint8_t secret[TENANT_SECRET];
	struct tenant *t = NULL;

	if (hex && strlen(hex) == 2 * sizeof(secret) &&
		parse_hex(str_from(hex), secret, sizeof(secret), NULL) == 0)
		t = tenant_by_secret(call->agent, secret);
	explicit_bzero(secret, sizeof(secret));
	if (!t || !tenant_may_see(call->agent, t, call->conn->uid))
		return fail(err, ENOENT, "secret: no tenant has this secret");
	/* Without a report, the request only asks whether the tenant exists. */
	return json_object_get(call->json, "peer")
		? remote_reach_read(&t->remote, call->json, clock_now_ns(), err)
		: 0;
}

static const struct command commands[] = {
	{"ping", "", do_ping},
	{"devices", "", do_devices},
	{"create", "spec name pid lifetime wait_ms container", do_create},
	{"list", "tenant", do_list},
	{"set", "tenant spec name", do_set},
	{"remove", "tenant", do_remove},
	{"why", "tenant", do_why},
	{"report", "since_s", do_report},
	{"usage", "tenant last_ms step_ms ended", do_usage},
	{"apply", "path follow stop", do_apply},
	{"doctor", "", do_doctor},
	{"audit", "", do_audit},
	{"replace", "hand_over", do_replace},
	{"remote", "secret peer processes rtt_us received_per_s sent_per_s", do_remote},
};

/* ---- requests and replies ---- */

static bool is_member_known(const struct command *command, const char *key)
{
	struct str rest = str_from(command->members), word;

	if (!strcmp(key, "cmd"))
		return true;
	while (str_word(&rest, &word))
		if (str_is(word, key))
			return true;
	return false;
}

/* User ids of a container, root included, give no rights here: the kind of the socket decides. */
static int check_socket(const struct conn *c, struct error *err)
{
	if (!c->is_program)
		return 0;
	return fail(err, EPERM,
		"this socket serves programs in containers only; divvy's commands use '%s' "
		"outside the container",
		c->agent->socket_path);
}

static int find_command(const json_t *json, const struct command **ret, struct error *err)
{
	const char *name = json_string_value(json_object_get(json, "cmd")), *key;
	char shown[SPEC_JSON_SHOWN];
	json_t *value;

	if (!name)
		return fail(err, EINVAL, "%s: expected an object with a \"cmd\"",
			spec_json_show(json, shown));
	*ret = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, name))
			*ret = &commands[i];
	if (!*ret)
		return fail(err, EOPNOTSUPP,
			"cmd '%.40s': unknown to this daemon (version %s); install divvy and "
			"divvyd of one version",
			name, DIVVY_VERSION);
	json_object_foreach((json_t *)json, key, value)
		if (!is_member_known(*ret, key))
			return fail(err, EINVAL, "unknown member '%.40s' of %s; expected: %s", key,
				name, (*ret)->members[0] ? (*ret)->members : "none");
	return 0;
}

/* Replaces bytes that are not ASCII: a text may be invalid UTF-8 or cut within a character. */
static json_t *ascii_string(const char *text)
{
	char ascii[sizeof(((struct error *)NULL)->msg)];
	size_t n = 0;

	for (; text[n] && n < sizeof(ascii) - 1; n++)
		ascii[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
	return json_stringn(ascii, n);
}

static void send_reply(
	struct conn *c, uint32_t request, int r, json_t *reply, const struct error *err)
{
	char *text;

	if (r < 0) {
		const char *code = strerrorname_np(-r);

		json_object_clear(reply);
		json_object_set_new(reply, "ok", json_false());
		json_object_set_new(reply, "code", json_string(code ? code : "EIO"));
		if (json_object_set_new(reply, "error", json_string(err->msg)) < 0)
			json_object_set_new(reply, "error", ascii_string(err->msg));
	} else {
		json_object_set_new(reply, "ok", json_true());
	}
	text = json_dumps(reply, JSON_COMPACT);
	if (text)
		client_reply(c, request, r < 0 ? -r : 0, text, strlen(text));
	else
		conn_close(c);
	free(text);
}

static void send_text(struct conn *c, uint32_t request, struct buf *text)
{
	if (buf_add_text(text, ",\"ok\":true}") < 0)
		conn_close(c);
	else
		client_reply(c, request, 0, text->p, text->n);
}

static int control_send_answer(
	struct agent *agent, struct conn *c, uint32_t request, const json_t *json)
{
	struct call call = {.agent = agent,
		.conn = c,
		.request = request,
		.json = json,
		.text = BUF_INIT(ANSWER_MAX)};
	const struct command *command = NULL;
	struct error err = {0};
	int r;

	call.reply = json_object();
	r = check_socket(c, &err);
	if (r >= 0)
		r = find_command(json, &command, &err);
	if (r >= 0)
		r = command->fn(&call, &err);
	if (r >= 0 && call.text.n)
		send_text(c, request, &call.text);
	else if (r != -EINPROGRESS && !(agent->control->is_trying && r == -ENOSPC))
		send_reply(c, request, r, call.reply, &err);
	json_decref(call.reply);
	buf_done(&call.text);
	return r;
}

void control_request(struct conn *c, uint32_t request, const char *text, size_t n)
{
	json_error_t why;
	json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);

	if (!json) {
		struct error err;
		json_t *reply = json_object();

		fail(&err, EINVAL, "the request is not a JSON object: %s", why.text);
		send_reply(c, request, -EINVAL, reply, &err);
		json_decref(reply);
		return;
	}
	control_send_answer(c->agent, c, request, json);
	json_decref(json);
}

/* ---- waiting requests ---- */

static void control_forget_pending(struct control *control, struct waiting_create *w)
{
	TAILQ_REMOVE(&control->pending_creates, w, link);
	control->n_pending_creates--;
	json_decref(w->json);
	free(w);
}

void control_conn_closed(struct conn *c)
{
	struct control *control = c->agent->control;
	struct waiting_create *w, *next;

	if (!control)
		return;
	for (w = TAILQ_FIRST(&control->pending_creates); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->conn != c)
			continue;
		w->conn = NULL;
		if (control->is_in_pending_creates) /* the loop that walks the list removes it */
			loop_set_timer(&control->timer, clock_now_ns());
		else
			control_forget_pending(control, w);
	}
}

void control_room(struct agent *agent)
{
	struct control *control = agent->control;

	/* Tries later, because the caller is in the middle of a change. */
	if (control && !TAILQ_EMPTY(&control->pending_creates))
		loop_set_timer(&control->timer, clock_now_ns());
}

static void control_expire_pending(struct control *control, struct waiting_create *w)
{
	struct error err;
	json_t *reply;

	if (w->does_not_wait) {
		control->is_last_try = true;
		control_send_answer(control->agent, w->conn, w->request, w->json);
		control->is_last_try = false;
		return;
	}
	reply = json_object();
	fail(&err, ETIMEDOUT, "no free capacity within the waiting time");
	send_reply(w->conn, w->request, -ETIMEDOUT, reply, &err);
	json_decref(reply);
}

static void control_on_wait_over(struct loop_timer *timer, uint64_t now)
{
	struct control *control = timer->data;
	uint64_t next_ns = CLOCK_NEVER;
	struct waiting_create *w, *next;

	control->is_in_pending_creates = true;
	for (w = TAILQ_FIRST(&control->pending_creates); w; w = next) {
		int r;

		control->is_trying = true;
		r = w->conn ? control_send_answer(control->agent, w->conn, w->request, w->json) : 0;
		control->is_trying = false;
		next = TAILQ_NEXT(w, link);
		if (r == -ENOSPC && w->conn && now < w->deadline_ns) {
			next_ns = MIN(next_ns, w->deadline_ns);
			continue;
		}
		if (r == -ENOSPC && w->conn)
			control_expire_pending(control, w);
		control_forget_pending(control, w);
	}
	control->is_in_pending_creates = false;
	if (next_ns != CLOCK_NEVER && !loop_timer_is_armed(timer))
		loop_set_timer(timer, next_ns);
}

int control_new(struct agent *agent, struct error *err)
{
	struct control *control = calloc(1, sizeof(*control));
	int r;

	if (!control)
		return fail(err, ENOMEM, "out of memory");
	agent->control = control;
	control->agent = agent;
	control->timer.data = control;
	TAILQ_INIT(&control->pending_creates);
	r = loop_add_timer(agent->loop, &control->timer, control_on_wait_over);
	return r < 0 ? fail_errno(err, -r, "start a timer") : 0;
}

void control_free(struct agent *agent)
{
	struct control *control = agent->control;
	struct waiting_create *w;

	if (!control)
		return;
	while ((w = TAILQ_FIRST(&control->pending_creates)))
		control_forget_pending(control, w);
	loop_remove_timer(&control->timer);
	free(control);
	agent->control = NULL;
}
