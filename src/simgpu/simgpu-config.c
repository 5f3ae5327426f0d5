/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file parses the grammar of simgpu-config.h. The table of models holds public figures from
 * the makers' data sheets. Every other model name selects a small test device, which then needs a
 * memory size.
 */
#include "simgpu/simgpu-config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"

#define GIB (UINT64_C(1) << 30)
#define CONFIG_MAX (64 * 1024)

struct model_entry {
	const char *key;
	struct simgpu_model model;
};

/* key, name, SMs, compute capability, memory, bytes/s, GFLOPS, PCI id, clocks, bus, L2, W, links */
#define MODEL( \
	key, name, sm, major, minor, gib, gbps, gflops, pci, mhz, mem_mhz, bus, l2, watts, nv) \
	{ \
		key, \
		{ \
			name, sm, major, minor, gib *GIB, gbps *UINT64_C(1000000000), gflops, \
				((uint32_t)(pci) << 16) | 0x10de, mhz * 1000, mem_mhz * 1000, bus, \
				l2 * 1024 * 1024, watts * 1000, nv \
		} \
	}

static const struct model_entry models[] = {
	MODEL("H200", "NVIDIA H200", 132, 9, 0, 141, 4800, 66900, 0x2335, 1980, 3201, 6144, 60, 700,
		18),
	MODEL("H100", "NVIDIA H100 80GB HBM3", 132, 9, 0, 80, 3350, 66900, 0x2330, 1980, 2619, 5120,
		50, 700, 18),
	MODEL("A100", "NVIDIA A100-SXM4-80GB", 108, 8, 0, 80, 2039, 19500, 0x20b2, 1410, 1593, 5120,
		40, 400, 12),
	MODEL("B200", "NVIDIA B200", 148, 10, 0, 180, 8000, 75000, 0x2901, 1965, 3996, 8192, 126,
		1000, 18),
	MODEL("V100", "Tesla V100-SXM2-32GB", 80, 7, 0, 32, 900, 15700, 0x1db5, 1530, 877, 4096, 6,
		300, 6),
	MODEL("L40S", "NVIDIA L40S", 142, 8, 9, 48, 864, 91600, 0x26b9, 2520, 9001, 384, 96, 350,
		0),
	MODEL("L4", "NVIDIA L4", 58, 8, 9, 24, 300, 30300, 0x27b8, 2040, 6251, 192, 48, 72, 0),
	MODEL("A10", "NVIDIA A10", 72, 8, 6, 24, 600, 31200, 0x2236, 1695, 6251, 384, 6, 150, 0),
	MODEL("T4", "Tesla T4", 40, 7, 5, 16, 320, 8100, 0x1eb8, 1590, 5001, 256, 4, 70, 0),
	MODEL("4090", "NVIDIA GeForce RTX 4090", 128, 8, 9, 24, 1008, 82600, 0x2684, 2520, 10501,
		384, 72, 450, 0),
};

static const struct simgpu_model small_model = {
	.sm_count = 16,
	.cc_major = 9,
	.cc_minor = 0,
	.mem_rate = UINT64_C(1000000000000),
	.gflops = 10000,
	.pci_id = 0x000010de,
	.clock_khz = 1500000,
	.mem_clock_khz = 2000000,
	.mem_bus_bits = 1024,
	.l2_bytes = 4 * 1024 * 1024,
	.power_mw = 100000,
};

static const struct simgpu_costs default_costs = {
#define COST(field, key, scale, value, comment) .field = UINT64_C(value) * UINT64_C(scale),
#include "simgpu/costs.def"
#undef COST
};

struct cost_entry {
	const char *key;
	size_t offset;
	uint64_t scale;
};

static const struct cost_entry cost_entries[] = {
#define COST(field, key, scale, value, comment) {#key, offsetof(struct simgpu_costs, field), scale},
#include "simgpu/costs.def"
#undef COST
};

static const struct model_entry *find_model(struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(models); i++)
		if (str_is(name, models[i].key))
			return &models[i];
	return NULL;
}

static void link_all(struct simgpu_config *c)
{
	memset(c->links, 0, sizeof(c->links));
	memset(c->numa, 0, sizeof(c->numa));
	for (uint32_t i = 0; i < c->n; i++) {
		/*
		 * As on common machines with eight devices, half of the devices are on each socket.
		 */
		c->numa[i] = c->n > 4 && i >= c->n / 2;
		for (uint32_t j = 0; j < c->n; j++) {
			if (i != j && !strcmp(c->devices[i].name, c->devices[j].name))
				c->links[i][j] = c->devices[i].nvlinks;
		}
	}
}

void simgpu_config_init(struct simgpu_config *c)
{
	*c = (struct simgpu_config){
		.n = 1,
		.costs = default_costs,
		.trace_records = UINT64_C(1) << 21,
		.account_records = UINT64_C(1) << 20,
		.linger_ns = UINT64_C(1000000000),
	};
	c->devices[0] = models[0].model;
}

static int simgpu_config_parse_device(struct simgpu_config *c, struct str item, struct error *err)
{
	struct str name = item, mem = STR_NONE;
	const struct model_entry *m;
	struct simgpu_model model;
	uint64_t count = 1;
	size_t x = str_find(item, 'x');
	int r;

	if (x < item.n && parse_uint((struct str){item.p, x}, 0, UINT64_MAX, &count, NULL) >= 0) {
		name = (struct str){item.p + x + 1, item.n - x - 1};
		if (!count || count > SIMGPU_MAX_DEVICES)
			return fail(err, EINVAL,
				"devices: '%" STR_FMT "': %" PRIu64 " devices; expected 1 to %d",
				STR_ARG(item), count, SIMGPU_MAX_DEVICES);
	}
	for (size_t i = name.n; i-- > 0;) {
		uint64_t bytes;
		struct str tail = {name.p + i + 1, name.n - i - 1};

		if (name.p[i] != '-' || parse_bytes(tail, &bytes, NULL) < 0)
			continue;
		mem = tail;
		name.n = i;
		break;
	}
	if (!name.n || name.n >= SIMGPU_NAME_MAX)
		return fail(err, EINVAL,
			"devices: '%" STR_FMT
			"' has no model name; expected a form such as 2xH200-141Gi",
			STR_ARG(item));
	m = find_model(name);
	model = m ? m->model : small_model;
	if (!m)
		str_copy(model.name, sizeof(model.name), name);
	if (mem.p) {
		r = parse_bytes(mem, &model.mem_bytes, err);
		if (r < 0)
			return fail_within(err, r, "devices");
	}
	model.mem_bytes &= ~(SIMGPU_GRANULE - 1);
	if (model.mem_bytes < 16 * SIMGPU_GRANULE || model.mem_bytes > SIMGPU_VA_SIZE / 32)
		return fail(err, EINVAL,
			"devices: '%" STR_FMT
			"': expected a memory of 32Mi to 1Ti%s, such as 2xH200-141Gi",
			STR_ARG(item), m ? "" : ", which an unknown model requires");
	if (c->n + count > SIMGPU_MAX_DEVICES)
		return fail(err, EINVAL, "devices: at most %d are allowed", SIMGPU_MAX_DEVICES);
	while (count--)
		c->devices[c->n++] = model;
	return 0;
}

static int parse_compute(struct str value, enum simgpu_compute *ret, struct error *err)
{
	static const char *const names[] = {[SIMGPU_COMPUTE_AUTO] = "auto",
		[SIMGPU_COMPUTE_OFF] = "off",
		[SIMGPU_COMPUTE_REQUIRE] = "require"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_is(value, names[i])) {
			*ret = (enum simgpu_compute)i;
			return 0;
		}
	}
	return fail(err, EINVAL, "compute=%" STR_FMT ": use auto, off or require", STR_ARG(value));
}

int simgpu_config_parse_devices(struct simgpu_config *c, struct str spec, struct error *err)
{
	struct simgpu_config out = *c;
	struct str item;
	int r;

	out.n = 0;
	memset(out.devices, 0, sizeof(out.devices));
	while (str_split(&spec, ',', &item)) {
		item = str_trim(item);
		r = str_skip_prefix(&item, STR("compute="))
			? parse_compute(item, &out.compute, err)
			: simgpu_config_parse_device(&out, item, err);
		if (r < 0)
			return r;
	}
	if (!out.n)
		return fail(err, EINVAL, "no device is named; use for example 1xH200-141Gi");
	link_all(&out);
	*c = out;
	return 0;
}

static int set_cost(struct simgpu_costs *c, struct str key, struct str value, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(cost_entries); i++) {
		uint64_t v;
		int r;

		if (!str_is(key, cost_entries[i].key))
			continue;
		r = parse_uint(value, 0, UINT64_C(1) << 40, &v, err);
		if (r < 0)
			return fail_within(err, r, "cost %s", cost_entries[i].key);
		*(uint64_t *)((char *)c + cost_entries[i].offset) = v * cost_entries[i].scale;
		if (!c->slice_ns || !c->queue_ops || !c->poll_ns || !c->catch_up_ns ||
			!c->h2d_rate || !c->d2h_rate || !c->pageable_rate || !c->peer_rate ||
			!c->peer_pci_rate || !c->migrate_rate)
			return fail(
				err, ERANGE, "cost %s: expected more than 0", cost_entries[i].key);
		return 0;
	}
	return fail(err, EINVAL, "cost '%" STR_FMT "' is unknown; divvy-simctl(1) lists the costs",
		STR_ARG(key));
}

int simgpu_config_parse_costs(struct simgpu_costs *c, struct str text, struct error *err)
{
	struct str item, key;
	int r;

	while (str_split(&text, ',', &item)) {
		item = str_trim(item);
		if (!item.n)
			continue;
		if (!str_split(&item, '=', &key) || !item.p)
			return fail(err, EINVAL, "cost '%" STR_FMT "': expected key=value",
				STR_ARG(key));
		r = set_cost(c, str_trim(key), str_trim(item), err);
		if (r < 0)
			return r;
	}
	return 0;
}

static const char *const fault_names[SIMGPU_FAULT_KINDS] = {
	"oom", "ecc", "lost", "hang", "slow", "xid", "reset"};
/* The fields that each fault allows besides device=. */
static const char *const fault_fields[SIMGPU_FAULT_KINDS] = {"nth= and count=, from 1 on",
	"at= or after=", "at= or after=", "after=", "factor=, 1 to 1000, and after=",
	"code=, 1 to 999, at= or after=, pid= and action=reset or reboot", "at="};

/* Values of action=: see nvmlDeviceGpuRecoveryAction_t. */
static const char *const fault_actions[] = {"none", "reset", "reboot"};

static int parse_fault_field(
	struct simgpu_fault *f, struct str key, struct str value, struct error *err)
{
	uint64_t v;
	int r;

	if (str_is(key, "at")) {
		if (f->kind != SIMGPU_FAULT_ECC && f->kind != SIMGPU_FAULT_LOST &&
			f->kind != SIMGPU_FAULT_XID && f->kind != SIMGPU_FAULT_RESET)
			return fail(err, EINVAL, "fault %s cannot have at=", fault_names[f->kind]);
		r = parse_duration(value, &f->at_ns, err);
		if (r >= 0 && !f->at_ns)
			f->at_ns = 1;
		return fail_within(err, r, "at");
	}
	if (str_is(key, "action") && f->kind == SIMGPU_FAULT_XID) {
		for (uint32_t i = 0; i < ARRAY_SIZE(fault_actions); i++)
			if (str_is(value, fault_actions[i])) {
				f->action = i;
				return 0;
			}
		return fail(err, EINVAL,
			"fault xid: action '%" STR_FMT "': expected none, reset or reboot",
			STR_ARG(value));
	}
	r = parse_uint(value, 0, UINT64_C(1) << 40, &v, err);
	if (r < 0)
		return fail_within(err, r, "fault %s", fault_names[f->kind]);
	if (str_is(key, "device") && v < SIMGPU_MAX_DEVICES)
		f->device = (uint32_t)v;
	else if (str_is(key, "after") && f->kind != SIMGPU_FAULT_OOM &&
		f->kind != SIMGPU_FAULT_RESET)
		f->after = v;
	else if (str_is(key, "nth") && f->kind == SIMGPU_FAULT_OOM && v)
		f->after = v - 1;
	else if (str_is(key, "count") && f->kind == SIMGPU_FAULT_OOM && v)
		f->count = v;
	else if (str_is(key, "factor") && f->kind == SIMGPU_FAULT_SLOW && v && v <= 1000)
		f->count = v;
	else if (str_is(key, "code") && f->kind == SIMGPU_FAULT_XID && v && v <= 999)
		f->count = v;
	else if (str_is(key, "pid") && f->kind == SIMGPU_FAULT_XID && v && v <= INT32_MAX)
		f->pid = (uint32_t)v;
	else
		return fail(err, EINVAL,
			"fault %s: '%" STR_FMT "=%" STR_FMT
			"' is not a field of this fault; expected device= (0 to %d), %s",
			fault_names[f->kind], STR_ARG(key), STR_ARG(value), SIMGPU_MAX_DEVICES - 1,
			fault_fields[f->kind]);
	return 0;
}

enum fault_key {
	KEY_AT,
	KEY_DEVICE,
	KEY_AFTER,
	KEY_NTH,
	KEY_COUNT,
	KEY_FACTOR,
	KEY_CODE,
	KEY_PID,
	KEY_ACTION,
	KEYS
};

static const char *const fault_keys[KEYS] = {
	[KEY_AT] = "at",
	[KEY_DEVICE] = "device",
	[KEY_AFTER] = "after",
	[KEY_NTH] = "nth",
	[KEY_COUNT] = "count",
	[KEY_FACTOR] = "factor",
	[KEY_CODE] = "code",
	[KEY_PID] = "pid",
	[KEY_ACTION] = "action",
};

/* Refuses a key that appears twice. parse_fault_field() refuses unknown keys. */
static int note_fault_key(
	const struct simgpu_fault *f, struct str key, uint32_t *seen, struct error *err)
{
	for (int i = 0; i < KEYS; i++) {
		if (!str_is(key, fault_keys[i]))
			continue;
		if (*seen & 1u << i)
			return fail(err, EINVAL, "fault %s: %s= occurs twice", fault_names[f->kind],
				fault_keys[i]);
		*seen |= 1u << i;
	}
	return 0;
}

static int check_fault_keys(const struct simgpu_fault *f, uint32_t seen, struct error *err)
{
	if (f->kind == SIMGPU_FAULT_OOM && !(seen & 1u << KEY_NTH))
		return fail(err, EINVAL,
			"fault oom: nth= is missing; set it to the number of the first "
			"allocation that fails");
	if (f->kind == SIMGPU_FAULT_SLOW && !(seen & 1u << KEY_FACTOR))
		return fail(err, EINVAL,
			"fault slow: factor= is missing; set it to the factor by which kernels "
			"take longer");
	if (f->kind == SIMGPU_FAULT_XID && !(seen & 1u << KEY_CODE))
		return fail(err, EINVAL, "fault xid: code= is missing; set it to the Xid");
	if (f->kind == SIMGPU_FAULT_RESET && !(seen & 1u << KEY_AT))
		return fail(err, EINVAL,
			"fault reset: at= is missing; set it to the time until the reset, such as "
			"at=1s");
	if (seen & 1u << KEY_AT && seen & 1u << KEY_AFTER)
		return fail(err, EINVAL, "fault %s: at= and after= exclude each other; keep one",
			fault_names[f->kind]);
	return 0;
}

int simgpu_faults_check(const struct simgpu_faults *f, uint32_t devices, struct error *err)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->v[i].device >= devices)
			return fail(err, ERANGE,
				"fault %s: device=%u: no such device; expected 0 to %u",
				fault_names[f->v[i].kind], f->v[i].device, devices - 1);
	return 0;
}

static int parse_fault(struct simgpu_faults *faults, struct str line, struct error *err)
{
	struct simgpu_fault f = {.kind = SIMGPU_FAULT_KINDS, .count = 1};
	uint32_t seen = 0;
	struct str word, key;
	int r;

	if (!str_word(&line, &word))
		return 0;
	for (int i = 0; i < SIMGPU_FAULT_KINDS; i++)
		if (str_is(word, fault_names[i]))
			f.kind = (enum simgpu_fault_kind)i;
	if (f.kind == SIMGPU_FAULT_KINDS)
		return fail(err, EINVAL,
			"fault '%" STR_FMT
			"': unknown fault; expected oom, ecc, lost, hang, slow, xid or "
			"reset",
			STR_ARG(word));
	while (str_word(&line, &word)) {
		if (!str_split(&word, '=', &key) || !word.p)
			return fail(err, EINVAL, "fault %s: '%" STR_FMT "': expected key=value",
				fault_names[f.kind], STR_ARG(key));
		r = note_fault_key(&f, key, &seen, err);
		r = r < 0 ? r : parse_fault_field(&f, key, word, err);
		if (r < 0)
			return r;
	}
	r = check_fault_keys(&f, seen, err);
	if (r < 0)
		return r;
	if (faults->n >= SIMGPU_MAX_FAULTS)
		return fail(err, E2BIG, "the file has more than %d faults", SIMGPU_MAX_FAULTS);
	faults->v[faults->n++] = f;
	return 0;
}

static struct str without_comment(struct str line)
{
	line.n = str_find(line, '#');
	return str_trim(line);
}

int simgpu_config_parse_faults(struct simgpu_faults *f, struct str text, struct error *err)
{
	struct simgpu_faults out = {.n = 0};
	struct str line;
	int r, n = 0;

	while (str_split(&text, '\n', &line)) {
		n++;
		r = parse_fault(&out, without_comment(line), err);
		if (r < 0)
			return fail_within(err, r, "line %d", n);
	}
	*f = out;
	return 0;
}

static int parse_pair(struct simgpu_config *c, struct str key, struct str value, struct error *err)
{
	struct str a, b = key;
	uint64_t i, j, v;

	if (!str_split(&b, '.', &a) || !str_split(&b, '.', &a) ||
		parse_uint(a, 0, c->n - 1, &i, NULL) < 0 ||
		(b.p ? parse_uint(b, 0, c->n - 1, &j, NULL) < 0 : (j = 0, false)) ||
		parse_uint(value, 0, 64, &v, NULL) < 0)
		return fail(err, EINVAL,
			"%" STR_FMT " = %" STR_FMT
			": expected device numbers below %u and a value up to 64",
			STR_ARG(key), STR_ARG(value), c->n);
	if (str_has_prefix(key, STR("numa."))) {
		c->numa[i] = (uint32_t)v;
	} else {
		if (i == j || !b.p)
			return fail(err, EINVAL, "%" STR_FMT ": expected two different devices",
				STR_ARG(key));
		c->links[i][j] = c->links[j][i] = (uint32_t)v;
	}
	return 0;
}

static int simgpu_config_parse_key(
	struct simgpu_config *c, struct str key, struct str value, struct error *err)
{
	struct str rest = key;
	uint64_t max = UINT64_C(1) << 26;

	if (str_is(key, "devices"))
		return simgpu_config_parse_devices(c, value, err);
	if (str_skip_prefix(&rest, STR("cost.")))
		return set_cost(&c->costs, rest, value, err);
	if (str_has_prefix(key, STR("link.")) || str_has_prefix(key, STR("numa.")))
		return parse_pair(c, key, value, err);
	if (str_is(key, "trace.records"))
		return parse_uint(value, 64, max, &c->trace_records, err);
	if (str_is(key, "account.records"))
		return parse_uint(value, 64, max, &c->account_records, err);
	if (str_is(key, "compute"))
		return parse_compute(value, &c->compute, err);
	if (str_is(key, "linger"))
		return parse_duration(value, &c->linger_ns, err);
	if (str_is(key, "stay"))
		return parse_bool(value, &c->stay, err);
	if (str_is(key, "fault"))
		return parse_fault(&c->faults, value, err);
	return fail(err, EINVAL, "key '%" STR_FMT "' is unknown", STR_ARG(key));
}

int simgpu_config_parse(struct simgpu_config *c, struct str text, struct error *err)
{
	struct str line, key;
	int r, n = 0;

	while (str_split(&text, '\n', &line)) {
		n++;
		line = without_comment(line);
		if (!line.n)
			continue;
		if (!str_split(&line, '=', &key) || !line.p)
			return fail(err, EINVAL, "line %d: expected key = value", n);
		r = simgpu_config_parse_key(c, str_trim(key), str_trim(line), err);
		if (r < 0)
			return fail_within(err, r, "line %d", n);
	}
	return 0;
}

static int read_optional(const char *dir, const char *name, struct buf *b, struct error *err)
{
	char path[4096];
	struct error e = {0};
	int r;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return fail(err, ENAMETOOLONG, "folder '%s'", dir);
	r = file_read(path, b, &e);
	if (r == -ENOENT)
		return 0;
	if (r < 0 && err)
		*err = e;
	return r;
}

int simgpu_config_load(
	struct simgpu_config *c, const char *dir, const char *devices, struct error *err)
{
	_cleanup_buf_ struct buf config = BUF_INIT(CONFIG_MAX), faults = BUF_INIT(CONFIG_MAX);
	const char *env_devices = getenv(SIMGPU_ENV_DEVICES), *env_costs = getenv(SIMGPU_ENV_COSTS);
	struct simgpu_faults more = {.n = 0};
	int r;

	simgpu_config_init(c);
	r = read_optional(dir, SIMGPU_FILE_CONFIG, &config, err);
	if (r >= 0)
		r = simgpu_config_parse(c, buf_str(&config), err);
	if (r < 0)
		return fail_within(err, r, "%s/%s", dir, SIMGPU_FILE_CONFIG);
	r = read_optional(dir, SIMGPU_FILE_FAULTS, &faults, err);
	if (r >= 0)
		r = simgpu_config_parse_faults(&more, buf_str(&faults), err);
	if (r < 0)
		return fail_within(err, r, "%s/%s", dir, SIMGPU_FILE_FAULTS);
	for (uint32_t i = 0; i < more.n && c->faults.n < SIMGPU_MAX_FAULTS; i++)
		c->faults.v[c->faults.n++] = more.v[i];
	if (!devices || !*devices)
		devices = env_devices;
	if (devices && *devices) {
		r = simgpu_config_parse_devices(c, str_from(devices), err);
		if (r < 0)
			return r;
	}
	if (env_costs) {
		r = simgpu_config_parse_costs(&c->costs, str_from(env_costs), err);
		if (r < 0)
			return fail_within(err, r, "%s", SIMGPU_ENV_COSTS);
	}
	r = simgpu_faults_check(&c->faults, c->n, err);
	return r < 0 ? fail_within(err, r, "%s", dir) : 0;
}
