/* SPDX-License-Identifier: Apache-2.0 */
#include "own-agent.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/device.h"
#include "base/log.h"

#define MEMORY_BYTES (80ull << 30)

static void make_device(struct device *d, uint32_t index)
{
	d->index = index;
	d->lock = LOCK_NONE;
	d->context_bytes = d->context_guess_bytes = 512ull << 20;
	d->info = (struct nvml_info){.memory_bytes = MEMORY_BYTES,
		.usable_bytes = MEMORY_BYTES,
		.compute_mode = "default",
		.model = "Unit"};
	snprintf(d->info.uuid, sizeof(d->info.uuid), "GPU-00000000-0000-0000-0000-00000000000%u",
		index);
	device_parse_uuid(d->info.uuid, d->uuid);
	assert_ok(ledger_new(MEMORY_BYTES, 1000, &d->ledger));
}

static struct device_set *make_devices(const char *folder)
{
	struct device_set *set = calloc(1, sizeof(*set));
	struct device *devices = calloc(RIG_DEVICES, sizeof(*devices));

	assert_true(set && devices);
	set->devices = devices;
	set->is_simulated = true;
	for (; set->n < RIG_DEVICES; set->n++)
		make_device(&devices[set->n], set->n);
	snprintf(set->sim_dir, sizeof(set->sim_dir), "%s", folder);
	return set;
}

void rig_start(struct rig *rig)
{
	struct agent_options options = {
		.tenants_conf = "/dev/null", .does_ignore_passrights = true};
	struct error err;

	log_set_level(LOG_LEVEL_ERROR);
	*rig = (struct rig){.folder = "/tmp/divvy-unit-XXXXXX"};
	assert_non_null(mkdtemp(rig->folder));
	options.runtime_dir = rig->folder;
	options.devices = make_devices(rig->folder);
	if (agent_new(&options, &rig->agent, &err) < 0)
		fail_msg("%s", err.msg);
}

void rig_stop(struct rig *rig)
{
	static const char *const names[] = {"state", "usage", "usage-log", "tally", "lock", "door"};
	char path[96];

	agent_free(rig->agent);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", rig->folder, names[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/programs", rig->folder);
	rmdir(path);
	assert_ok(rmdir(rig->folder)); /* fails if the daemon left a file that is not in names */
}

int rig_make_tenant(struct rig *rig, uid_t uid, struct tenant **ret_tenant)
{
	struct tenant_params params = {.name = "unit", .lifetime = TENANT_KEEP, .uid = uid};
	struct error err;

	spec_init(&params.spec);
	assert_ok(spec_set(&params.spec, "request", "0.001", &err));
	assert_ok(spec_finish(&params.spec, &err));
	return tenant_new(rig->agent, &params, ret_tenant, &err);
}
