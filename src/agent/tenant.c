/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: see tenant.h. Making a tenant goes place -> ledger -> arbiter -> pages; if a step fails,
 * the earlier steps are undone in reverse order. All functions run in the loop's thread.
 */
#include "agent/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/container-watch.h"
#include "agent/agent-client.h"
#include "agent/control.h"
#include "agent/device.h"
#include "agent/agent-memory.h"
#include "agent/user-names.h"
#include "agent/agent-place.h"
#include "agent/register.h"
#include "agent/agent-share.h"
#include "agent/agent-state.h"
#include "agent/token.h"
#include "agent/usage.h"
#include "agent/user.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/rand.h"

static const char *const lifetimes[] = {
	[TENANT_PROCESS] = "process",
	[TENANT_PROCESSES] = "processes",
	[TENANT_KEEP] = "keep",
};
static const char *const sources[] = {
	[TENANT_RUN] = "run",
	[TENANT_CONF] = "conf",
	[TENANT_APPLY] = "apply",
	[TENANT_DEFAULT] = "default",
	[TENANT_POD] = "pod",
};

const char *tenant_lifetime_name(enum tenant_lifetime lifetime)
{
	return lifetimes[lifetime];
}

const char *tenant_source_name(enum tenant_source source)
{
	return sources[source];
}

static int name_parse(const char *const *names, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], text))
			return (int)i;
	return -EINVAL;
}

int tenant_lifetime_parse(const char *text, enum tenant_lifetime *ret)
{
	int r = name_parse(lifetimes, ARRAY_SIZE(lifetimes), text);

	if (r >= 0)
		*ret = (enum tenant_lifetime)r;
	return r < 0 ? r : 0;
}

int tenant_source_parse(const char *text, enum tenant_source *ret)
{
	int r = name_parse(sources, ARRAY_SIZE(sources), text);

	if (r >= 0)
		*ret = (enum tenant_source)r;
	return r < 0 ? r : 0;
}

void tenant_secret_format(const struct tenant *t, char ret[static TENANT_SECRET_TEXT])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < TENANT_SECRET; i++) {
		ret[2 * i] = digits[t->secret[i] >> 4];
		ret[2 * i + 1] = digits[t->secret[i] & 15];
	}
	ret[2 * TENANT_SECRET] = '\0';
}

/* ---- pages ---- */

#define TENANT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

int tenant_page(struct tenant_device *td, struct error *err)
{
	struct map map = MAP_NONE;
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	if (td->page)
		return 0;
	fd = memfd_new("divvy-tenant", sizeof(struct page_tenant));
	if (fd < 0)
		return fail_errno(err, -fd, "shared page of tenant %u", td->tenant->id);
	r = map_fd(fd, sizeof(struct page_tenant), PROT_READ | PROT_WRITE, &map);
	if (r < 0)
		return fail_errno(err, -r, "map the shared page of tenant %u", td->tenant->id);
	td->page = map.p;
	td->page->magic = PAGE_MAGIC;
	td->page->abi = PAGE_ABI;
	td->page->device = (uint16_t)td->device->index;
	td->page->size = sizeof(struct page_tenant);
	r = memfd_seal(fd, TENANT_SEALS | F_SEAL_SEAL);
	if (r < 0 || fstat(fd, &st) < 0) {
		map_done(&map);
		td->page = NULL;
		return fail(err, EIO, "seal the shared page of tenant %u", td->tenant->id);
	}
	td->inode = st.st_ino;
	td->fd = TAKE_FD(fd);
	return 0;
}

int tenant_page_reuse(struct tenant_device *td, int fd, struct error *err)
{
	_cleanup_map_ struct map map = MAP_NONE;
	struct stat st;
	int kept, r;

	/* Checks the seals first: see register_reuse_up(). */
	if (!memfd_has_seals(fd, TENANT_SEALS) || fstat(fd, &st) < 0 || st.st_ino != td->inode ||
		st.st_size != sizeof(struct page_tenant))
		return fail(err, ESTALE, "the returned shared page is not the page of tenant %u",
			td->tenant->id);
	if (td->page)
		return 0;
	r = map_fd(fd, sizeof(struct page_tenant), PROT_READ | PROT_WRITE, &map);
	if (r < 0)
		return fail_errno(err, -r, "map the shared page of tenant %u", td->tenant->id);
	kept = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (kept < 0)
		return fail_errno(
			err, errno, "duplicate the shared page of tenant %u", td->tenant->id);
	td->fd = kept;
	td->page = TAKE_PTR(map.p);
	return 0;
}

static void page_done(struct tenant_device *td)
{
	struct map map = {td->page, sizeof(struct page_tenant)};

	share_done(td);
	map_done(&map);
	td->page = NULL;
	td->fd = fd_close(td->fd);
}

/* ---- making tenants ---- */

/* Whether the tenant has a guarantee. The default tenant has none: it takes free capacity only. */
static bool is_promised(const struct tenant *t)
{
	return t->source != TENANT_DEFAULT;
}

static void describe_devices(struct agent *agent, const struct spec *spec,
	const struct tenant *without, struct place_device *ret)
{
	const struct device_set *set = agent->devices;
	const bool is_label = spec->preferred_anti_affinity[0];
	struct tenant *t;

	for (uint32_t i = 0; i < set->n; i++) {
		const struct device *d = &set->devices[i];

		ret[i] = (struct place_device){
			.uuid = d->info.uuid,
			.model = d->info.model,
			.memory_bytes = d->info.usable_bytes,
			.room_bytes = ledger_room(d->ledger, spec->memory_policy),
			.fault = device_fault_text(d),
		};
	}
	LIST_FOREACH(t, &agent->tenants, link) {
		if (t->is_dead || t == without)
			continue;
		for (uint32_t i = 0; i < t->n; i++) {
			struct place_device *p = &ret[t->devices[i].device->index];

			p->n_conflicts += is_label &&
				!strcmp(spec->preferred_anti_affinity,
					t->spec.preferred_anti_affinity);
			if (is_promised(t)) {
				p->requested += t->spec.request;
				p->tenants++;
				p->is_exclusive |= t->spec.exclusive;
			} else if (spec->exclusive && t->n_processes) {
				p->tenants++;
			}
		}
	}
}

uint32_t tenant_n_conflicts(const struct tenant *t)
{
	struct place_device places[ARBITER_DEVICES];
	uint32_t n = 0;

	describe_devices(t->agent, &t->spec, t, places);
	for (uint32_t i = 0; i < t->n; i++)
		n += places[t->devices[i].device->index].n_conflicts;
	return n;
}

static struct tenant *tenant_allocate(
	struct agent *agent, const struct tenant_params *params, uint32_t n)
{
	struct tenant *t = calloc(1, sizeof(*t) + n * sizeof(t->devices[0]));

	if (t && params->pod)
		t->pod = malloc(sizeof(*t->pod));
	if (!t || (params->pod && !t->pod)) {
		free(t);
		return NULL;
	}
	if (params->pod)
		*t->pod = *params->pod;
	t->agent = agent;
	names_user(agent, params->uid); /* asks the name service early */
	t->spec = params->spec;
	t->uid = params->uid;
	t->lifetime = params->lifetime;
	t->source = params->source;
	t->owner_fd = -1;
	t->slots[0] = 1; /* index 0 is the daemon's */
	t->n = n;
	t->alone_ns = clock_now_ns();
	snprintf(t->name, sizeof(t->name), "%s", params->name ? params->name : "tenant");
	snprintf(t->origin, sizeof(t->origin), "%s", params->origin ? params->origin : "");
	t->container = params->container;
	snprintf(t->cgroup, sizeof(t->cgroup), "%s", params->cgroup ? params->cgroup : "");
	for (uint32_t i = 0; i < n; i++)
		t->devices[i] = (struct tenant_device){
			.tenant = t, .at = i, .fd = -1, .look_ns = CLOCK_NEVER};
	return t;
}

static void tenant_on_owner_exit(struct loop_io *io, uint32_t events)
{
	struct tenant *t = io->data;

	loop_remove_io(&t->owner_io);
	t->owner_fd = fd_close(t->owner_fd);
	t->alone_ns = loop_now_ns(t->agent->loop);
	t->owner_end = clock_boot_ns() / (NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
	if (tenant_has_ended(t, t->alone_ns))
		tenant_end(t);
}

static int watch_owner(struct tenant *t, pid_t owner, uint64_t start, struct error *err)
{
	int r = 0;

	if (!start)
		r = process_start_ticks(owner, &start);
	if (r >= 0)
		r = process_open(owner, start);
	if (r < 0)
		return fail(err, ESRCH, "pid %d: no such process", (int)owner);
	t->owner = owner;
	t->owner_start = start;
	t->owner_fd = r;
	t->owner_io.data = t;
	r = loop_add_io(t->agent->loop, &t->owner_io, t->owner_fd, EPOLLIN, tenant_on_owner_exit);
	if (r < 0)
		return fail_errno(err, -r, "watch pid %d", (int)owner);
	return 0;
}

static void leave_ledger(struct tenant *t, uint32_t n)
{
	for (uint32_t i = 0; i < n && is_promised(t); i++) {
		ledger_remove(t->devices[i].device->ledger, t->id);
		memory_settled(t->agent, t->devices[i].device);
	}
}

/* Enters a tenant with devices and quotas into ledger, arbiter and list. Undone on failure. */
static int tenant_join_parts(struct tenant *t, struct error *err)
{
	struct agent *agent = t->agent;
	uint64_t mask = 0, now = clock_now_ns();
	int r = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		struct tenant_device *td = &t->devices[i];

		mask |= 1ull << td->device->index;
		if (is_promised(t))
			r = ledger_add(td->device->ledger, t->id, td->quota_bytes,
				t->spec.memory_policy, err);
		if (r < 0) {
			leave_ledger(t, i);
			return r;
		}
	}
	r = arbiter_add(agent->arbiter, t->id, &t->spec, mask, now, err);
	if (r < 0) {
		leave_ledger(t, t->n);
		return r;
	}
	r = usage_tenant_added(t);
	if (r < 0) {
		arbiter_remove(agent->arbiter, t->id, now);
		leave_ledger(t, t->n);
		return fail(err, -r, "out of memory for another tenant");
	}
	LIST_INSERT_HEAD(&agent->tenants, t, link);
	agent->n_tenants++;
	token_touch(agent);
	tenant_update_defaults(agent);
	return 0;
}

static void tenant_leave_parts(struct tenant *t)
{
	arbiter_remove(t->agent->arbiter, t->id, clock_now_ns());
	memory_tenant_removed(
		t); /* memory that the tenant's processes still hold stays reserved in the ledger */
	leave_ledger(t, t->n);
	token_tenant_removed(t);
	t->is_ending = t->is_dead = true;
	t->agent->has_dead = true;
	t->agent->n_tenants--;
	token_touch(t->agent);
}

/* The default tenant sees each device that no tenant has exclusively. */
static int tenant_choose_devices(struct agent *agent, const struct tenant_params *params,
	uint32_t *ret_devices, uint32_t *ret_n, struct error *err)
{
	struct place_device places[ARBITER_DEVICES];
	uint32_t n = 0;
	int r;

	describe_devices(agent, &params->spec, NULL, places);
	if (params->places) {
		for (r = 0, n = 0; r >= 0 && n < params->spec.count; n++) {
			const struct tenant_place *at = &params->places[n];

			ret_devices[n] = at->device;
			r = place_at(&params->spec, &places[at->device], at->quota_bytes, err);
		}
		*ret_n = n;
		return r;
	}
	if (params->source != TENANT_DEFAULT) {
		r = place(&params->spec, places, agent->devices->n, ret_devices, err);
		*ret_n = params->spec.count;
		return r;
	}
	for (uint32_t i = 0; i < agent->devices->n && n < SPEC_DEVICES_MAX; i++)
		if (!places[i].is_exclusive)
			ret_devices[n++] = i;
	*ret_n = n;
	return n ? 0 : fail(err, ENOSPC, "other tenants have all devices exclusively");
}

/* A tenant has one descriptor for each device and one for its owner. */
static uint32_t count_files(uint32_t n_devices)
{
	return n_devices + 1;
}

/* Whether a user's processes made the tenant. */
static bool is_of_user(enum tenant_source source)
{
	return source == TENANT_RUN || source == TENANT_CONF;
}

/* Bounds the tenants of one user, so that other users keep slots and descriptors. */
static int check_user(const struct agent *agent, const struct tenant_params *params, uint32_t n,
	struct error *err)
{
	uint32_t n_tenants = 0, files = count_files(n);
	const struct tenant *t;

	if (!is_of_user(params->source) || params->uid == 0 || params->uid == getuid())
		return 0;
	LIST_FOREACH(t, &agent->tenants, link)
		if (t->uid == params->uid && is_of_user(t->source) && !t->is_dead) {
			n_tenants++;
			files += count_files(t->n);
		}
	if (n_tenants >= TENANTS_PER_USER)
		return fail(err, EUSERS,
			"user %u has %u tenants, the maximum for one user; remove some",
			(unsigned int)params->uid, n_tenants);
	if (files > users_files_max(agent->users))
		return fail(err, EUSERS,
			"user %u has %u tenants, whose file descriptors are the maximum for one "
			"user; remove some",
			(unsigned int)params->uid, n_tenants);
	return 0;
}

static bool tenant_has_id(const struct agent *agent, uint32_t id)
{
	const struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		if (t->id == id)
			return true;
	return usage_has_record(agent, id);
}

/*
 * Returns the next id. The id is never 0, which means no tenant; after 2^32 tenants it is never one
 * that is still known.
 */
static uint32_t next_id(struct agent *agent)
{
	uint32_t id;

	do {
		id = agent->next_tenant++;
		agent->next_tenant = MAX(agent->next_tenant, 1u);
	} while (!id || tenant_has_id(agent, id));
	return id;
}

static int tenant_make(struct agent *agent, const struct tenant_params *params,
	struct tenant **ret_tenant, struct error *err)
{
	uint32_t chosen[SPEC_DEVICES_MAX], n = 0;
	struct tenant *t;
	int r;

	if (agent->n_tenants >= TENANTS_MAX)
		return fail(err, EUSERS, "the daemon has %u tenants, the maximum; remove some",
			TENANTS_MAX);
	r = tenant_choose_devices(agent, params, chosen, &n, err);
	if (r >= 0)
		r = check_user(agent, params, n, err);
	if (r < 0)
		return r;
	t = tenant_allocate(agent, params, n);
	if (!t)
		return fail(err, ENOMEM, "out of memory for another tenant");
	t->id = next_id(agent);
	t->created_s = clock_real_ns() / NSEC_PER_SEC;
	r = random_bytes(t->secret, sizeof(t->secret));
	if (r < 0) {
		r = fail_errno(err, -r, "read random numbers for a secret");
		goto broken;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct tenant_device *td = &t->devices[i];

		td->device = &agent->devices->devices[chosen[i]];
		td->quota_bytes = params->places
			? params->places[i].quota_bytes
			: spec_memory_on(&params->spec, td->device->info.usable_bytes);
		r = tenant_page(td, err);
		if (r < 0)
			goto broken;
	}
	if (params->owner > 0) {
		r = watch_owner(t, params->owner, 0, err);
		if (r < 0)
			goto broken;
	}
	r = tenant_join_parts(t, err);
	if (r < 0)
		goto broken;
	r = state_tenant(t, err);
	if (r < 0) {
		tenant_leave_parts(t);
		return r;
	}
	*ret_tenant = t;
	return 0;
broken:
	tenant_free(t);
	return r;
}

int tenant_new(struct agent *agent, const struct tenant_params *params, struct tenant **ret_tenant,
	struct error *err)
{
	struct place_device places[ARBITER_DEVICES];
	struct tenant_params named = *params;
	int r = 0;

	describe_devices(agent, &params->spec, NULL, places);
	if (!params->places)
		r = place_name_devices(&named.spec, places, agent->devices->n, err);
	return r < 0 ? r : tenant_make(agent, &named, ret_tenant, err);
}

int tenant_restore(struct agent *agent, const struct tenant_params *params,
	const struct tenant_saved *saved, struct tenant **ret_tenant, struct error *err)
{
	struct tenant *t = tenant_allocate(agent, params, saved->n);
	int r;

	if (!t)
		return fail(err, ENOMEM, "out of memory for another tenant");
	t->id = saved->id;
	t->created_s = saved->created_s;
	memcpy(t->secret, saved->secret, sizeof(t->secret));
	for (uint32_t i = 0; i < saved->n; i++) {
		struct tenant_device *td = &t->devices[i];

		td->device = &agent->devices->devices[saved->devices[i]];
		td->quota_bytes = saved->quota[i];
		td->inode = saved->inode[i];
	}
	if (params->owner > 0 && watch_owner(t, params->owner, saved->owner_start, NULL) < 0)
		t->owner = params->owner; /* the owner has ended; other processes may still live */
	r = tenant_join_parts(t, err);
	if (r < 0) {
		tenant_free(t);
		return r;
	}
	*ret_tenant = t;
	return 0;
}

/* ---- changing and ending tenants ---- */

/* "0.5 on 2 devices", "2 whole devices" */
static void describe_share(const struct spec *spec, char *ret, size_t size)
{
	const char *s = spec->count == 1 ? "" : "s";

	if (spec->exclusive)
		snprintf(ret, size, "%u whole device%s", spec->count, s);
	else
		snprintf(ret, size, "%s on %u device%s", format_share(spec->request).s, spec->count,
			s);
}

int tenant_check_change(const struct tenant *t, const struct spec *spec, struct error *err)
{
	char wanted[48], now[48];

	if (spec->memory_policy != t->spec.memory_policy)
		return fail(err, EBUSY,
			"memory-policy %s: the tenant has %s, which cannot change; create "
			"another tenant",
			spec_memory_policy_name(spec->memory_policy),
			spec_memory_policy_name(t->spec.memory_policy));
	if (spec->exclusive == t->spec.exclusive && spec->count == t->spec.count)
		return 0;
	describe_share(spec, wanted, sizeof(wanted));
	describe_share(&t->spec, now, sizeof(now));
	return fail(err, EBUSY,
		"request %s: the tenant has %s; a running tenant cannot change its number of "
		"devices, or between a share and whole devices",
		wanted, now);
}

int tenant_change(struct tenant *t, const struct spec *spec, struct error *err)
{
	uint64_t quota[SPEC_DEVICES_MAX];

	for (uint32_t i = 0; i < t->n; i++)
		quota[i] = spec_memory_on(spec, t->devices[i].device->info.usable_bytes);
	return tenant_change_to(t, spec, quota, err);
}

int tenant_change_to(
	struct tenant *t, const struct spec *spec, const uint64_t *quota, struct error *err)
{
	struct place_device places[ARBITER_DEVICES];
	uint64_t now = clock_now_ns();
	int r = tenant_check_change(t, spec, err);

	if (r < 0)
		return r;
	describe_devices(t->agent, spec, t, places);
	for (uint32_t i = 0; i < t->n && is_promised(t); i++) {
		r = place_change(spec, &places[t->devices[i].device->index], err);
		if (r < 0)
			return r;
	}
	for (uint32_t i = 0; i < t->n; i++) {
		struct tenant_device *td = &t->devices[i];

		if (!is_promised(t) || quota[i] == td->quota_bytes)
			continue;
		r = ledger_change(td->device->ledger, t->id, quota[i], err);
		if (r < 0) {
			while (i--)
				ledger_change(t->devices[i].device->ledger, t->id,
					t->devices[i].quota_bytes, NULL);
			return r;
		}
	}
	r = arbiter_change(t->agent->arbiter, t->id, spec, now, err);
	if (r < 0)
		return r;
	t->spec = *spec;
	for (uint32_t i = 0; i < t->n && is_promised(t); i++) {
		t->devices[i].quota_bytes = quota[i];
		memory_set_quota(&t->devices[i]);
		memory_settled(t->agent, t->devices[i].device);
	}
	usage_tenant_changed(t);
	token_tenant_changed(t);
	token_touch(t->agent);
	tenant_update_defaults(t->agent);
	control_room(t->agent);
	return state_tenant(t, err);
}

void tenant_kill(struct tenant *t)
{
	struct process *p, *next;

	if (t->is_ending)
		return;
	t->is_ending = true; /* otherwise the last process's end would kill the tenant again */
	usage_tenant_removed(t);
	for (p = LIST_FIRST(&t->processes); p; p = next) {
		next = LIST_NEXT(p, of_tenant);
		if (p->conn)
			client_refuse(p->conn, 0, ENOENT, "the tenant has been removed");
		process_kill(p);
	}
	tenant_leave_parts(t);
	state_tenant_removed(t);
	tenant_update_defaults(t->agent);
	control_room(t->agent);
}

void tenant_free(struct tenant *t)
{
	if (!t)
		return;
	loop_remove_io(&t->owner_io);
	fd_close(t->owner_fd);
	for (uint32_t i = 0; i < t->n; i++)
		page_done(&t->devices[i]);
	usage_tenant_freed(t);
	explicit_bzero(t->secret, sizeof(t->secret));
	free(t->pod);
	free(t);
}

/* ---- finding tenants ---- */

struct tenant *tenant_by_id(struct agent *agent, uint32_t id)
{
	struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		if (t->id == id && !t->is_dead)
			return t;
	return NULL;
}

bool tenant_may_see(const struct agent *agent, const struct tenant *t, uid_t uid)
{
	/* A pod's processes run as any uid, so an equal uid gives no right to see its tenant. */
	return uid == 0 || uid == getuid() || (uid == t->uid && t->source != TENANT_POD);
}

struct tenant *tenant_by_text(struct agent *agent, const char *text, uid_t uid)
{
	struct tenant *t, *newest = NULL;
	uint64_t id = 0;

	if (parse_uint(str_from(text), 1, UINT32_MAX, &id, NULL) == 0) {
		t = tenant_by_id(agent, (uint32_t)id);
		if (t && tenant_may_see(agent, t, uid))
			return t;
	}
	LIST_FOREACH(t, &agent->tenants, link)
		if (!t->is_dead && !strcmp(t->name, text) && tenant_may_see(agent, t, uid) &&
			(!newest || t->id > newest->id))
			newest = t;
	return newest;
}

struct tenant *tenant_by_secret(struct agent *agent, const uint8_t secret[static TENANT_SECRET])
{
	struct tenant *t, *found = NULL;

	LIST_FOREACH(t, &agent->tenants, link) {
		uint8_t differs = 0;

		for (size_t i = 0; i < TENANT_SECRET; i++)
			differs = (uint8_t)(differs | (t->secret[i] ^ secret[i]));
		if (!differs && !t->is_dead)
			found = t;
	}
	return found;
}

struct tenant *tenant_by_origin(struct agent *agent, enum tenant_source source, const char *origin)
{
	struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		if (!t->is_dead && t->source == source && !strcmp(t->origin, origin))
			return t;
	return NULL;
}

/* ---- process indexes ---- */

int tenant_take_slot(struct tenant *t, uint32_t *ret_index)
{
	for (uint32_t i = 0; i < PAGE_PROCESSES / 64; i++) {
		int bit;

		if (t->slots[i] == UINT64_MAX)
			continue;
		bit = __builtin_ctzll(~t->slots[i]);
		t->slots[i] |= 1ull << bit;
		*ret_index = i * 64 + (uint32_t)bit;
		return 0;
	}
	return -EUSERS;
}

void tenant_give_slot(struct tenant *t, uint32_t index)
{
	if (index)
		t->slots[index / 64] &= ~(1ull << index % 64);
}

/* ---- default tenants and lifetimes ---- */

void tenant_update_defaults(struct agent *agent)
{
	uint32_t n[ARBITER_DEVICES] = {0};
	struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && t->source == TENANT_DEFAULT && !t->is_dead; i++)
			n[t->devices[i].device->index]++;
	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && t->source == TENANT_DEFAULT && !t->is_dead; i++) {
			struct tenant_device *td = &t->devices[i];
			uint64_t room = spec_memory_whole(
				ledger_room(td->device->ledger, SPEC_MEMORY_FAIL) /
				n[td->device->index]);

			if (room == td->quota_bytes)
				continue;
			td->quota_bytes = room;
			memory_set_quota(td);
		}
}

/*
 * Whether the tenant still has shared memory, because devices list its processes or descriptors are
 * open. In that case visit_left() in agent-memory.c ends the tenant later.
 */
static bool has_shares(const struct tenant *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (share_is_any(&t->devices[i]))
			return true;
	return false;
}

bool tenant_has_ended(const struct tenant *t, uint64_t now)
{
	if (t->n_processes || t->owner_fd >= 0 || has_shares(t))
		return false;
	switch (t->lifetime) {
	case TENANT_PROCESS: return true;
	case TENANT_PROCESSES: return clock_since_ns(now, t->alone_ns) > TENANT_LINGER_NS;
	case TENANT_KEEP: break;
	}
	return false;
}

bool tenant_is_any_settling(const struct agent *agent)
{
	const uint64_t now = clock_now_ns();
	const struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		if (!t->is_ending && !t->n_processes && t->owner_fd < 0 &&
			t->lifetime == TENANT_PROCESS &&
			clock_since_ns(now, t->alone_ns) < MEMORY_GRACE_NS)
			return true;
	return false;
}

void tenant_end(struct tenant *t)
{
	if (t->container == TENANT_NO_CONTAINER)
		tenant_kill(t);
	else
		container_watch_seek(t);
}

/* Gives up waiting for processes from before the restart. */
static void end_hold(struct tenant *t, uint64_t now)
{
	if (!t->hold_ns || now < t->hold_ns)
		return;
	t->hold_ns = 0;
	memory_recount(t);
	memory_look_at_held(t->agent);
}

void tenant_tick(struct agent *agent, uint64_t now)
{
	struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link) {
		if (t->is_dead)
			continue;
		end_hold(t, now);
		if (!t->is_ending && tenant_has_ended(t, now))
			tenant_end(t);
	}
}
