/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file learns the memory that one CUDA context takes. A tenant that has measured one expects
 * its own last figure. The others expect the least of several tenants' figures, so that no single
 * tenant decides what the others are charged. Nothing is kept over a restart.
 */
#include "agent/context-cost.h"

#include <stdatomic.h>

#include "agent/client.h"
#include "agent/device.h"
#include "agent/tenant.h"

uint64_t context_cost_expected(const struct tenant_device *td)
{
	return td->context_bytes ? td->context_bytes : td->device->context_bytes;
}

static void show(const struct tenant_device *td)
{
	struct process *p;

	LIST_FOREACH(p, &td->tenant->processes, of_tenant)
		if (p->devices[td->at].down)
			atomic_store_explicit(&p->devices[td->at].down->context_bytes,
				context_cost_expected(td), memory_order_relaxed);
}

/* `gone` counts no more. */
static void expect(struct agent *agent, struct device *device, const struct tenant *gone)
{
	uint64_t least = UINT64_MAX;
	struct tenant *t;
	uint32_t n = 0;

	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && t != gone && !t->is_dead; i++)
			if (t->devices[i].device == device && t->devices[i].context_bytes) {
				least = MIN(least, t->devices[i].context_bytes);
				n++;
			}
	device->context_bytes = n > 1 ? least : device->context_guess_bytes;
	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n; i++)
			if (t->devices[i].device == device)
				show(&t->devices[i]);
}

void context_cost_learn(struct tenant_device *td, uint64_t bytes)
{
	struct device *device = td->device;

	if (!bytes ||
		bytes > MIN(CONTEXT_COST_GUESSES_MAX * device->context_guess_bytes,
				CONTEXT_COST_MAX_BYTES))
		return;
	td->context_bytes = bytes;
	expect(td->tenant->agent, device, NULL);
}

void context_cost_tenant_gone(struct tenant *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		expect(t->agent, t->devices[i].device, t);
}
