/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's view of a machine's devices, through a management library that simulates them. */
#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/device.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "../../patience.h"

static char folder[] = "/tmp/divvy-test-device-XXXXXX";
static struct device_set *set;

/*
 * A machine with more than four simulated devices has half of them on each NUMA node. Devices of
 * the same model have NVLinks if the model has NVLink.
 */
static int open_devices(void **state)
{
	const struct device_params params = {
		.simulate = "2xH200-141Gi,6xT4", .runtime_dir = folder};
	const char *build = getenv("DIVVY_BUILD");
	char path[256];
	struct error err = {0};

	if (!mkdtemp(folder) || !build)
		return -1;
	snprintf(path, sizeof(path), "%s/src/simgpu", build);
	setenv("DIVVY_SIM_LIBS", path, 1);
	snprintf(path, sizeof(path), "%s/sim", folder);
	setenv("DIVVY_SIM", path, 1);
	if (folder_make(path, 0755, &err) < 0)
		return -1;
	if (device_set_open(&params, &set, &err) < 0) {
		print_error("%s\n", err.msg);
		return -1;
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int close_devices(void **state)
{
	const uint64_t end = clock_now_ns() + patience_ns(60 * NSEC_PER_SEC);
	char path[256];

	device_set_close(set);
	/* The simulated machine ends with its last user, and removes its socket first. */
	snprintf(path, sizeof(path), "%s/sim/engine.sock", folder);
	while (access(path, F_OK) == 0 && clock_now_ns() < end)
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void links_match_the_drivers_report(void **state)
{
	assert_int_equal(set->n, 8);
	for (uint32_t a = 0; a < set->n; a++)
		for (uint32_t b = 0; b < set->n; b++) {
			const enum nvml_link want = a == b ? NVML_LINK_NONE
				: a < 2 && b < 2           ? NVML_LINK_NVLINK
				: a / 4 == b / 4           ? NVML_LINK_NUMA
							   : NVML_LINK_NONE;

			if (device_link(set, a, b) != want)
				fail_msg("%u to %u: %d", a, b, (int)device_link(set, a, b));
		}
}

static void each_device_has_its_numa_node(void **state)
{
	for (uint32_t i = 0; i < set->n; i++)
		assert_int_equal(set->devices[i].info.numa, i / 4);
}

static struct device some(const char *uuid, const char *parent, uint32_t gpu_instance)
{
	struct device d = {.info.is_mig = parent != NULL, .info.gpu_instance = gpu_instance};

	snprintf(d.info.uuid, sizeof(d.info.uuid), "%s", uuid);
	snprintf(d.info.parent, sizeof(d.info.parent), "%s", parent ? parent : "");
	return d;
}

/* Xid errors of two devices, and of two MIG instances of a third device. */
static const struct {
	const char *uuid;
	uint32_t gpu_instance;
	uint64_t xid;
	uint64_t counted, faulty; /* a bit for each device */
} xids[] = {
	{"GPU-a", NVML_NO_INSTANCE, 79, 0x1, 0x1}, {"GPU-b", NVML_NO_INSTANCE, 48, 0x2, 0x2},
	{"GPU-b", NVML_NO_INSTANCE, 13, 0x2, 0}, {"GPU-b", NVML_NO_INSTANCE, 31, 0x2, 0},
	{"GPU-b", NVML_NO_INSTANCE, 43, 0x2, 0}, {"GPU-b", NVML_NO_INSTANCE, 45, 0x2, 0},
	{"GPU-b", NVML_NO_INSTANCE, 68, 0x2, 0}, {"GPU-b", NVML_NO_INSTANCE, 94, 0x2, 0},
	{"GPU-b", NVML_NO_INSTANCE, 109, 0x2, 0}, {"GPU-b", NVML_NO_INSTANCE, 63, 0x2, 0},
	{"GPU-b", NVML_NO_INSTANCE, 154, 0x2, 0}, {"GPU-b", NVML_NO_INSTANCE, 999, 0x2, 0x2},
	{"GPU-c", NVML_NO_INSTANCE, 79, 0xc, 0xc}, {"GPU-c", 2, 79, 0x8, 0x8},
	{"GPU-c", 7, 79, 0, 0}, {"GPU-d", NVML_NO_INSTANCE, 79, 0, 0},
	{"", NVML_NO_INSTANCE, 79, 0xf, 0xf}, /* the Xid names no device */
};

static void xid_errors_that_no_program_causes_make_a_device_unhealthy(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(xids); i++) {
		struct device devices[] = {some("GPU-a", NULL, NVML_NO_INSTANCE),
			some("GPU-b", NULL, NVML_NO_INSTANCE), some("MIG-1", "GPU-c", 1),
			some("MIG-2", "GPU-c", 2)};
		struct device_set some_set = {.devices = devices, .n = ARRAY_SIZE(devices)};
		struct nvml_xid xid = {.gpu_instance = xids[i].gpu_instance, .xid = xids[i].xid};

		snprintf(xid.uuid, sizeof(xid.uuid), "%s", xids[i].uuid);
		assert_int_equal(device_note_xid(&some_set, &xid, 1), xids[i].faulty);
		for (uint32_t k = 0; k < some_set.n; k++) {
			assert_int_equal(devices[k].n_xids, xids[i].counted >> k & 1);
			assert_int_equal(device_is_faulty(&devices[k]), xids[i].faulty >> k & 1);
		}
	}
}

/* Notes that Xid on the device, and returns whether the device became faulty. */
static bool note(struct device *device, uint64_t number, uint64_t real_ns)
{
	struct device_set some_set = {.devices = device, .n = 1};
	struct nvml_xid xid = {
		.gpu_instance = NVML_NO_INSTANCE, .xid = number, .recovery = NVML_RECOVERY_UNKNOWN};

	return device_note_xid(&some_set, &xid, real_ns) != 0;
}

static void the_first_fatal_xid_is_reported(void **state)
{
	struct device device = some("GPU-a", NULL, NVML_NO_INSTANCE);

	assert_true(note(&device, 62, 1));
	assert_false(note(&device, 79, 2));
	assert_string_equal(device_fault_text(&device),
		"had Xid 62 (internal micro-controller halt), which no program causes");
	assert_int_equal(device.n_xids, 2);
}

static void xids_of_programs_are_counted(void **state)
{
	struct device device = some("GPU-a", NULL, NVML_NO_INSTANCE);

	assert_false(note(&device, 31, 1));
	assert_false(note(&device, 154, 1));
	assert_int_equal(device.n_xids, 2);
	assert_int_equal(device.n_program_xids, 1);
}

static void assert_taint(const struct device *device, enum device_fault fault, const char *text)
{
	struct device_taint taint;
	char made[96] = "";

	if (device_taint(device, fault, &taint))
		snprintf(made, sizeof(made), "%s=%s:%s@%d", taint.key, taint.value,
			taint.is_no_execute ? "NoExecute" : "NoSchedule", (int)taint.since_ns);
	assert_string_equal(made, text);
}

static void each_fault_has_a_taint_since_its_begin(void **state)
{
	struct device device = some("GPU-a", NULL, NVML_NO_INSTANCE);
	struct device_answer answer = {.is_answered = true};

	for (enum device_fault fault = 0; fault < DEVICE_FAULTS; fault++)
		assert_taint(&device, fault, "");
	note(&device, 48, 10);
	assert_taint(&device, DEVICE_XID, "divvy.gpu/xid=48:NoExecute@10");
	answer.recovery = NVML_RECOVERY_DRAIN_AND_RESET;
	device_note_answer(&device, &answer, 11);
	device_note_answer(&device, &answer, 12);
	assert_taint(&device, DEVICE_XID, "divvy.gpu/xid=48:NoExecute@10");
	assert_taint(&device, DEVICE_RECOVERY, "divvy.gpu/recovery=drain-and-reset:NoExecute@11");
	device_note_answer(&device, &(struct device_answer){.is_lost = true}, 13);
	assert_taint(&device, DEVICE_LOST, "divvy.gpu/lost=:NoExecute@13");
	assert_string_equal(
		device_fault_text(&device), "is lost: the driver cannot reach it any more");

	device = some("GPU-b", NULL, NVML_NO_INSTANCE);
	note(&device, 999, 10);
	assert_taint(&device, DEVICE_XID, "divvy.gpu/xid=999:NoSchedule@10");
	device_note_answer(&device, &(struct device_answer){.is_answered = false}, 11);
	assert_taint(&device, DEVICE_SILENT, "");
	device_note_answer(&device, &(struct device_answer){.is_answered = false}, 12);
	assert_taint(&device, DEVICE_SILENT, "divvy.gpu/silent=:NoSchedule@12");
	answer.recovery = NVML_RECOVERY_DRAIN_P2P;
	device_note_answer(&device, &answer, 13);
	assert_taint(&device, DEVICE_RECOVERY, "divvy.gpu/recovery=drain-p2p:NoSchedule@13");
	assert_taint(&device, DEVICE_SILENT, "");
}

/* Answers of the driver after an Xid, and whether the device is then faulty. */
static const struct {
	struct device_answer answers[3];
	bool is_faulty;
} returns[] = {
	/* An old driver, or one that asks for nothing, does not show that the device is healthy. */
	{{{.is_answered = true, .recovery = NVML_RECOVERY_UNKNOWN}}, true},
	{{{.is_answered = true}, {.is_answered = true}}, true},
	{{{.is_answered = true, .recovery = NVML_RECOVERY_RESET}}, true},
	{{{.is_answered = true, .recovery = NVML_RECOVERY_RESET}, {.is_answered = true}}, false},
	{{{.is_answered = true, .recovery = NVML_RECOVERY_RESET}, {.is_lost = true},
		 {.is_answered = true}},
		false},
	{{{.is_lost = true}}, true},
	{{{.is_lost = true}, {.is_answered = true, .recovery = NVML_RECOVERY_UNKNOWN}}, false},
	{{{.is_lost = true}, {.is_answered = true, .recovery = NVML_RECOVERY_REBOOT}}, true},
};

static void a_device_returns_when_the_driver_shows_it(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(returns); i++) {
		struct device device = some("GPU-a", NULL, NVML_NO_INSTANCE);

		note(&device, 79, 1);
		for (size_t k = 0; k < ARRAY_SIZE(returns[i].answers); k++)
			if (returns[i].answers[k].is_answered || returns[i].answers[k].is_lost)
				device_note_answer(&device, &returns[i].answers[k], 2 + k);
		if (device_is_faulty(&device) != returns[i].is_faulty)
			fail_msg("case %zu: faulty %d", i, device_is_faulty(&device));
	}
}

static void a_lost_device_stays_lost_until_it_answers(void **state)
{
	struct device device = some("GPU-a", NULL, NVML_NO_INSTANCE);

	device_note_answer(&device, &(struct device_answer){.is_lost = true}, 1);
	device_note_answer(&device, &(struct device_answer){.is_lost = false}, 2);
	assert_true(device_is_faulty(&device));
	assert_taint(&device, DEVICE_LOST, "divvy.gpu/lost=:NoExecute@1");
	device_note_answer(&device, &(struct device_answer){.is_answered = true}, 3);
	assert_false(device_is_faulty(&device));
}

static void a_failed_read_ends_no_recovery(void **state)
{
	struct device device = some("GPU-a", NULL, NVML_NO_INSTANCE);
	struct device_answer answer = {.is_answered = true, .recovery = NVML_RECOVERY_RESET};

	device_note_answer(&device, &answer, 1);
	answer.recovery = NVML_RECOVERY_UNKNOWN;
	device_note_answer(&device, &answer, 2);
	assert_taint(&device, DEVICE_RECOVERY, "divvy.gpu/recovery=reset:NoExecute@1");
	answer.recovery = NVML_RECOVERY_NONE;
	device_note_answer(&device, &answer, 3);
	assert_false(device_is_faulty(&device));
}

/* The device may have been reset before the next query. Xid 154 reports a change of the action. */
static void a_recovery_that_only_an_xid_reported_counts(void **state)
{
	for (int is_later = 0; is_later < 2; is_later++) {
		struct device device = some("GPU-a", NULL, NVML_NO_INSTANCE);
		struct device_set some_set = {.devices = &device, .n = 1};
		struct nvml_xid xid = {.gpu_instance = NVML_NO_INSTANCE, .xid = 48};

		xid.recovery = is_later ? NVML_RECOVERY_NONE : NVML_RECOVERY_RESET;
		assert_int_equal(device_note_xid(&some_set, &xid, 1), 1);
		xid.xid = 154;
		xid.recovery = NVML_RECOVERY_RESET;
		if (is_later)
			assert_int_equal(device_note_xid(&some_set, &xid, 2), 0);
		device_note_answer(&device, &(struct device_answer){.is_answered = true}, 3);
		assert_false(device_is_faulty(&device));
	}
}

static void an_administrator_clears_the_xid_only(void **state)
{
	struct device device = some("GPU-a", NULL, NVML_NO_INSTANCE);

	assert_false(device_clear(&device));
	note(&device, 79, 1);
	assert_true(device_clear(&device));
	assert_false(device_is_faulty(&device));
	assert_true(note(&device, 79, 5));
	assert_taint(&device, DEVICE_XID, "divvy.gpu/xid=79:NoExecute@5");
	device_note_answer(&device, &(struct device_answer){.is_lost = true}, 6);
	assert_true(device_clear(&device));
	assert_taint(&device, DEVICE_LOST, "divvy.gpu/lost=:NoExecute@6");
}

/* ---- the simulated driver ---- */

/* Sets the faults of the simulated machine. */
static void set_faults(const char *text)
{
	const char *build = getenv("DIVVY_BUILD");
	char command[512];
	FILE *simctl;

	snprintf(command, sizeof(command), "%s/src/simgpu/divvy-simctl --dir %s/sim faults -",
		build ? build : ".", folder);
	simctl = popen(command, "we");
	assert_non_null(simctl);
	assert_true(fputs(text, simctl) >= 0);
	assert_int_equal(pclose(simctl), 0);
}

static int query(const char *uuid)
{
	struct nvml_process processes[4];
	nvml_handle handle = nvml_find(set->nvml, uuid);

	return handle ? nvml_processes(set->nvml, handle, processes, ARRAY_SIZE(processes))
		      : -ENODEV;
}

/* Waits for the next Xid; each wait of the driver is short, as in the daemon. */
static struct nvml_xid await_xid(void)
{
	const uint64_t end = clock_now_ns() + patience_ns(60 * NSEC_PER_SEC);
	struct nvml_xid xid = {.xid = 0};

	while (nvml_await_xid(set->nvml, 100, &xid) == 0)
		if (clock_now_ns() > end)
			fail_msg("no Xid came");
	return xid;
}

static void a_lost_device_is_back_after_the_driver_is_opened_again(void **state)
{
	const char *uuid = set->devices[1].info.uuid;
	struct nvml_xid xid;
	uint64_t took_ns;

	for (uint32_t i = 0; i < 2; i++)
		assert_ok(nvml_watch_xids(set->nvml, i));
	assert_true(query(uuid) >= 0);
	set_faults("lost device=1 at=1ms\n");
	xid = await_xid();
	assert_int_equal(xid.xid, 79);
	assert_string_equal(xid.uuid, uuid);
	assert_int_equal(query(uuid), -ENODEV);
	assert_ok(nvml_reopen(set->nvml, &took_ns));
	assert_int_equal(query(uuid), -ENODEV);
	assert_true(query(set->devices[0].info.uuid) >= 0);

	/* As with the real driver, a process that lost the device does not reach it by itself. */
	set_faults("reset device=1 at=1ms\nxid device=0 code=13 at=1ms\n");
	assert_int_equal(await_xid().xid, 13);
	assert_int_equal(query(uuid), -ENODEV);
	assert_ok(nvml_reopen(set->nvml, &took_ns));
	assert_true(query(uuid) >= 0);
	set_faults("xid device=1 code=31 at=1ms\n");
	xid = await_xid();
	assert_int_equal(xid.xid, 31);
	assert_string_equal(xid.uuid, uuid);
}

static enum nvml_recovery recovery_of(uint32_t device)
{
	return nvml_recovery(set->nvml, nvml_find(set->nvml, set->devices[device].info.uuid));
}

static void the_driver_asks_for_a_recovery_until_the_reset(void **state)
{
	assert_int_equal(recovery_of(0), NVML_RECOVERY_NONE);
	set_faults("xid device=0 code=48 action=reset at=1ms\n");
	assert_int_equal(await_xid().xid, 48);
	assert_int_equal(recovery_of(0), NVML_RECOVERY_RESET);
	assert_int_equal(recovery_of(1), NVML_RECOVERY_NONE);
	set_faults("reset device=0 at=1ms\nxid device=1 code=13 at=1ms\n");
	assert_int_equal(await_xid().xid, 13);
	assert_int_equal(recovery_of(0), NVML_RECOVERY_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {UNIT(links_match_the_drivers_report),
		UNIT(each_device_has_its_numa_node),
		UNIT(xid_errors_that_no_program_causes_make_a_device_unhealthy),
		UNIT(the_first_fatal_xid_is_reported), UNIT(xids_of_programs_are_counted),
		UNIT(each_fault_has_a_taint_since_its_begin),
		UNIT(a_device_returns_when_the_driver_shows_it),
		UNIT(a_lost_device_stays_lost_until_it_answers),
		UNIT(a_failed_read_ends_no_recovery),
		UNIT(a_recovery_that_only_an_xid_reported_counts),
		UNIT(an_administrator_clears_the_xid_only),
		UNIT(a_lost_device_is_back_after_the_driver_is_opened_again),
		UNIT(the_driver_asks_for_a_recovery_until_the_reset)};

	return cmocka_run_group_tests(tests, open_devices, close_devices);
}
