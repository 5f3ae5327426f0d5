/* SPDX-License-Identifier: Apache-2.0 */
/* The mounts of a container with a slot: none is writable, and none is of another slot. */
#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "node/node-slot.h"

#define SLOT "/run/divvy/slots/7"
#define LIBRARY "/var/lib/divvy/lib/1"
#define SIM "/run/divvy/sim"

static const struct plugin_mount *find(const struct slot_edits *e, const char *place)
{
	for (size_t i = 0; i < e->edits.n_mounts; i++)
		if (!strcmp(e->edits.mounts[i].container_path, place))
			return &e->edits.mounts[i];
	return NULL;
}

static void mounts_are_read_only_and_the_slots_own(void **state)
{
	static const char *const below[] = {SLOT, LIBRARY, SLOT ".preload", SIM};
	const struct slot_plan plan[] = {
		{.folder = SLOT, .library = LIBRARY},
		{.folder = SLOT, .library = LIBRARY, .sim = SIM},
	};

	for (size_t k = 0; k < ARRAY_SIZE(plan); k++) {
		struct slot_edits e;

		slot_edits_fill(&plan[k], &e);
		assert_int_equal(e.edits.n_mounts, 3 + k);
		for (size_t i = 0; i < e.edits.n_mounts; i++) {
			assert_true(e.edits.mounts[i].is_read_only);
			assert_string_equal(e.edits.mounts[i].host_path,
				below[i]); /* never a parent folder, which has all slots */
		}
		/*
		 * No device and no annotation: everything else is allowed in pods under the
		 * restricted profile.
		 */
		assert_int_equal(e.edits.n_nodes, 0);
		assert_int_equal(e.edits.n_annotations, 0);
		assert_string_equal(find(&e, "/run/divvy")->host_path, SLOT);
		assert_string_equal(find(&e, "/etc/ld.so.preload")->host_path, SLOT ".preload");
		assert_string_equal(find(&e, "/opt/divvy")->host_path, LIBRARY);
	}
}

static void the_loaders_list_is_written_at_the_start(void **state)
{
	char top[] = "/tmp/divvy-slot-XXXXXX", slot[64], list[80];
	_cleanup_buf_ struct buf text = BUF_INIT(4096);
	struct stat first, again, other;
	struct error err;

	assert_non_null(mkdtemp(top));
	snprintf(slot, sizeof(slot), "%s/7", top);
	snprintf(list, sizeof(list), "%s.preload", slot);
	assert_int_equal(slot_preload_write(slot, false, &err), 0);
	assert_int_equal(stat(list, &first), 0);
	assert_int_equal(file_read(list, &text, &err), 0);
	assert_string_equal(
		buf_text(&text), "/opt/divvy/libdivvy-cuda.so\n/opt/divvy/libdivvy-nvml.so\n");
	/*
	 * A running container has the file mounted, so a second write of the same list keeps the
	 * file.
	 */
	assert_int_equal(slot_preload_write(slot, false, &err), 0);
	assert_int_equal(stat(list, &again), 0);
	assert_int_equal(again.st_ino, first.st_ino);
	assert_int_equal(slot_preload_write(slot, true, &err), 0);
	assert_int_equal(stat(list, &other), 0);
	assert_int_not_equal(other.st_ino, first.st_ino);
	buf_clear(&text);
	assert_int_equal(file_read(list, &text, &err), 0);
	assert_string_equal(buf_text(&text),
		"/opt/divvy/libdivvy-remote.so\n/opt/divvy/libdivvy-remote-nvml.so\n"
		"/opt/divvy/libdivvy-cudart-12.so\n/opt/divvy/libdivvy-cudart-13.so\n");
	/* The file to mount was missing, so a container runtime has made a folder at its path. */
	unlink(list);
	assert_int_equal(mkdir(list, 0755), 0);
	assert_int_equal(slot_preload_write(slot, false, &err), 0);
	assert_int_equal(stat(list, &other), 0);
	assert_true(S_ISREG(other.st_mode));
	unlink(list);
	rmdir(top);
}

static void the_environment_has_no_secret(void **state)
{
	struct slot_edits e;

	slot_edits_fill(&(struct slot_plan){.folder = SLOT, .library = LIBRARY}, &e);
	assert_int_equal(e.edits.n_env, 1);
	assert_string_equal(e.edits.env[0].name, "DIVVY_ABSENT");
	assert_string_equal(e.edits.env[0].value, "closed");
}

/* ---- devices ---- */

static void devices_come_by_the_slots_name(void **state)
{
	struct slot_plan plan = {.folder = SLOT, .library = LIBRARY, .number = 7};
	struct slot_edits e;

	slot_edits_fill(&plan, &e);
	assert_int_equal(e.edits.n_cdi, 1);
	assert_string_equal(e.edits.cdi[0], "divvy.gpu/slot=7");
	plan.sim = SIM;
	slot_edits_fill(&plan, &e);
	assert_int_equal(e.edits.n_cdi, 1);
	assert_string_equal(e.edits.cdi[0], "divvy.gpu/slot=7");
}

/* Kubelets that drop the name leave the mounts, so the file must not say anything else. */
static void a_simulated_devices_file_agrees_with_the_mounts(void **state)
{
	const struct slot_plan plan = {.folder = SLOT, .library = LIBRARY, .sim = SIM, .number = 7};
	_cleanup_buf_ struct buf text = BUF_INIT(CDI_MAX);
	struct slot_edits e;
	struct slot_sim sim;
	struct error err;

	slot_edits_fill(&plan, &e);
	slot_sim_fill(SIM, &sim);
	assert_non_null(find(&e, sim.mount.container_path));
	assert_string_equal(find(&e, sim.mount.container_path)->host_path, sim.mount.host_path);
	assert_false(sim.mount.is_writable);
	for (size_t i = 0; i < ARRAY_SIZE(sim.env); i++) {
		size_t k = 0;

		while (k < e.edits.n_env && strcmp(e.edits.env[k].name, sim.env[i].name) != 0)
			k++;
		assert_true(k < e.edits.n_env);
		assert_string_equal(e.edits.env[k].value, sim.env[i].value);
	}
	assert_ok(cdi_format(&(struct cdi_slot){.slot = 7,
				     .mounts = &sim.mount,
				     .n_mounts = 1,
				     .env = sim.env,
				     .n_env = ARRAY_SIZE(sim.env)},
		&text, &err));
}

static void without_cdi_real_devices_come_by_the_environment(void **state)
{
	const struct slot_plan plan = {
		.folder = SLOT, .library = LIBRARY, .number = 7, .is_by_environment = true};
	struct slot_edits e;

	slot_edits_fill(&plan, &e);
	assert_int_equal(e.edits.n_cdi, 0);
	assert_int_equal(e.edits.n_env, 3);
	assert_string_equal(e.edits.env[1].name, "NVIDIA_VISIBLE_DEVICES");
	assert_string_equal(e.edits.env[1].value, "all");
	assert_string_equal(e.edits.env[2].name, "NVIDIA_DRIVER_CAPABILITIES");
}

static char dev[64];

static void make_file(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dev, name);
	assert_ok(file_replace(path, STR(""), 0600, NULL));
}

static int make_dev(void **state)
{
	snprintf(dev, sizeof(dev), "/tmp/divvy-dev-XXXXXX");
	return mkdtemp(dev) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int remove_dev(void **state)
{
	return nftw(dev, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void a_container_gets_the_files_of_its_devices(void **state)
{
	static const char *const want[] = {
		"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3", "/dev/nvidia12"};
	const int32_t minor[] = {3, 12}, unknown[] = {3, -1}, missing[] = {4};
	_cleanup_buf_ struct buf text = BUF_INIT(CDI_MAX);
	struct slot_nodes nodes;
	struct error err = {0};

	assert_int_equal(slot_nodes_find(dev, minor, 2, &nodes, &err), -ENOENT);
	assert_contains(err.msg, "nvidiactl is not there");
	make_file("nvidiactl");
	make_file("nvidia-uvm");
	for (int i = 0; i < 4; i++)
		make_file(i == 0         ? "nvidia0"
				: i == 1 ? "nvidia3"
				: i == 2 ? "nvidia12"
					 : "nvidia1");
	assert_ok(slot_nodes_find(dev, minor, 2, &nodes, &err));
	assert_int_equal(nodes.n, ARRAY_SIZE(want));
	for (size_t i = 0; i < nodes.n; i++) {
		assert_string_equal(nodes.nodes[i].host_path, want[i]);
		assert_string_equal(nodes.nodes[i].container_path, want[i]);
		/* without "m" the container may not mknod */
		assert_string_equal(nodes.nodes[i].permissions, "rw");
	}
	assert_ok(
		cdi_format(&(struct cdi_slot){.slot = 7, .nodes = nodes.nodes, .n_nodes = nodes.n},
			&text, &err));
	assert_null(strstr(buf_text(&text), "nvidia0"));
	make_file("nvidia-uvm-tools");
	assert_ok(slot_nodes_find(dev, minor, 2, &nodes, &err));
	assert_int_equal(nodes.n, ARRAY_SIZE(want) + 1);
	assert_int_equal(slot_nodes_find(dev, missing, 1, &nodes, &err), -ENOENT);
	assert_contains(err.msg, "nvidia4 is not there");
	assert_int_equal(slot_nodes_find(dev, unknown, 2, &nodes, &err), -EINVAL);
	assert_contains(err.msg, "does not say");
}

static void a_runtime_that_obeys_a_variable_is_detected(void **state)
{
	assert_false(slot_is_runtime_insecure("all", dev));
	make_file("nvidiactl");
	assert_true(slot_is_runtime_insecure("all", dev));
	assert_true(slot_is_runtime_insecure("0,1", dev));
	/*
	 * With these values the runtime adds no devices, so the device files in dev do not come
	 * from it.
	 */
	assert_false(slot_is_runtime_insecure(NULL, dev));
	assert_false(slot_is_runtime_insecure("", dev));
	assert_false(slot_is_runtime_insecure("void", dev));
	assert_false(slot_is_runtime_insecure("none", dev));
}

#define DEV(fn) cmocka_unit_test_setup_teardown(fn, make_dev, remove_dev)

UNIT_MAIN(UNIT(mounts_are_read_only_and_the_slots_own),
	UNIT(the_loaders_list_is_written_at_the_start), UNIT(the_environment_has_no_secret),
	UNIT(devices_come_by_the_slots_name), UNIT(a_simulated_devices_file_agrees_with_the_mounts),
	UNIT(without_cdi_real_devices_come_by_the_environment),
	DEV(a_container_gets_the_files_of_its_devices),
	DEV(a_runtime_that_obeys_a_variable_is_detected))
