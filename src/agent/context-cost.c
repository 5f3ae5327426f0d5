/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file learns the memory that one CUDA context takes; context-cost.h has the rule. Among the
 * measured tenants there are two with different owners and different cgroups, unless all have one
 * owner or all have one cgroup. So one pass over the tenants shows whether two owners have
 * measured. An unknown cgroup equals no other.
 */
#include "agent/context-cost.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/agent-client.h"
#include "agent/conf.h"
#include "agent/device.h"
#include "agent/tenant.h"

static bool has_owner_of(const struct tenant *t, const struct tenant *other)
{
	if (t->pod || other->pod)
		return t->pod && other->pod && !strcmp(t->pod->space, other->pod->space);
	return t->uid == other->uid;
}

uint64_t context_cost_expected(const struct tenant_device *td)
{
	const struct device *device = td->device;

	if (td->context_bytes)
		return td->context_bytes;
	return device->context_owner && has_owner_of(td->tenant, device->context_owner)
		? device->context_owner_bytes
		: device->context_bytes;
}

static void show(const struct tenant_device *td)
{
	struct process *p;

	LIST_FOREACH(p, &td->tenant->processes, of_tenant)
		if (p->devices[td->at].down)
			atomic_store_explicit(&p->devices[td->at].down->context_bytes,
				context_cost_expected(td), memory_order_relaxed);
}

struct figures {
	const struct tenant_device *first;
	uint64_t least;
	uint32_t n;
	bool has_one_owner, has_one_cgroup;
};

static void figures_add(struct figures *f, const struct tenant_device *td)
{
	if (!f->n++)
		*f = (struct figures){td, td->context_bytes, 1, true, td->context_cgroup != 0};
	f->least = MIN(f->least, td->context_bytes);
	f->has_one_owner &= has_owner_of(td->tenant, f->first->tenant);
	f->has_one_cgroup &= td->context_cgroup == f->first->context_cgroup;
}

/* Sets the device's expected context sizes from its tenants' figures, without those of `gone`. */
static void expect(struct agent *agent, struct device *device, const struct tenant *gone)
{
	struct figures f = {.n = 0};
	struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && t != gone && !t->is_dead; i++)
			if (t->devices[i].device == device && t->devices[i].context_bytes)
				figures_add(&f, &t->devices[i]);
	device->context_bytes = device->context_guess_bytes;
	if (f.n > 1 && !f.has_one_owner && !f.has_one_cgroup)
		device->context_bytes = f.least;
	device->context_owner = f.n > 1 && f.has_one_owner ? f.first->tenant : NULL;
	device->context_owner_bytes = f.least;
	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n; i++)
			if (t->devices[i].device == device)
				show(&t->devices[i]);
}

void context_cost_learn(struct tenant_device *td, const char *cgroup, uint64_t bytes)
{
	struct device *device = td->device;

	if (!bytes ||
		bytes > MIN(CONTEXT_COST_GUESSES_MAX * device->context_guess_bytes,
				CONTEXT_COST_MAX_BYTES))
		return;
	td->context_bytes = bytes;
	td->context_cgroup = conf_cgroup_id(cgroup);
	expect(td->tenant->agent, device, NULL);
}

void context_cost_tenant_gone(struct tenant *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		expect(t->agent, t->devices[i].device, t);
}
