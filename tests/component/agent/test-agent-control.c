/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control protocol: what requests create, list, change and refuse, and the error messages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "fake-client.h"
#include "rig.h"
#include "../../patience.h"
/* cmocka.h comes after our headers, because its fail() is a macro */
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static void refused(struct rig *rig, const char *spec, const char *code, const char *sentence)
{
	json_t *answer = rig_ask(
		rig, "{s:s, s:o}", "cmd", "create", "spec", json_loads(spec, 0, NULL));

	assert_true(json_is_false(rig_get(answer, "ok")));
	if (!strstr(rig_text(answer, "error"), sentence))
		fail_msg("'%s' is not in '%s'", sentence, rig_text(answer, "error"));
	assert_string_equal(rig_text(answer, "code"), code);
	json_decref(answer);
}

static void ping_describes_the_daemon(void **state)
{
	struct rig rig;
	json_t *a;

	rig_start(&rig, "2xTest-80Gi", NULL);
	a = rig_do(&rig, "{s:s}", "cmd", "ping");
	assert_int_equal(rig_number(a, "pid"), rig.daemon);
	assert_true(json_is_true(rig_get(a, "simulated")));
	assert_int_equal(rig_number(a, "devices"), 2);
	assert_string_equal(rig_text(a, "socket"), rig.socket);
	json_decref(a);
	rig_stop(&rig);
}

static void impossible_requests_are_refused_with_a_reason(void **state)
{
	char secret[33];
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	refused(&rig, "{\"request\": \"1.5\"}", "EINVAL", "1.5");
	refused(&rig, "{\"request\": \"0.5\", \"memory\": \"200Gi\"}", "EINVAL",
		"memory 200Gi: larger than the device, which has 80Gi");
	refused(&rig, "{\"request\": \"0.5\", \"count\": \"3\"}", "EINVAL",
		"count 3: this machine has 1 device");
	refused(&rig, "{\"request\": \"0.5\", \"model\": \"A100\"}", "EINVAL", "model 'A100'");
	refused(&rig, "{\"request\": \"0.5\", \"device\": \"GPU-nowhere\"}", "EINVAL",
		"device 'GPU-nowhere'");
	refused(&rig, "{\"request\": \"0.5\", \"model\": \"A100,!Test\"}", "EINVAL",
		"model 'A100,!Test'");
	refused(&rig, "{\"request\": \"0.5\", \"affinity\": \"red\"}", "EINVAL",
		"affinity 'red': only a pod in a cluster has this field");
	refused(&rig, "{\"reqest\": \"0.5\"}", "ENOENT", "reqest");
	rig_tenant(&rig, "{\"request\": \"0.4\", \"model\": \"A100,test\"}", secret);
	rig_tenant(&rig, "{\"request\": \"0.3\"}", secret);
	refused(&rig, "{\"request\": \"0.5\"}", "ENOSPC",
		"has 0.3 free (0.7 requested by 2 tenants)");
	refused(&rig, "{\"request\": \"1\"}", "ENOSPC", "request 1");
	refused(&rig, "{\"request\": \"0.1\", \"memory\": \"60Gi\"}", "ENOSPC", "memory 60Gi");
	rig_stop(&rig);
}

static void unknown_commands_and_members_are_refused_with_a_reason(void **state)
{
	struct rig rig;
	json_t *a;

	rig_start(&rig, "1xTest-80Gi", NULL);
	a = rig_ask(&rig, "{s:s}", "cmd", "dance");
	assert_string_equal(rig_text(a, "code"), "EOPNOTSUPP");
	json_decref(a);
	a = rig_ask(&rig, "{s:s, s:i}", "cmd", "list", "tenat", 3);
	assert_string_equal(rig_text(a, "code"), "EINVAL");
	assert_non_null(strstr(rig_text(a, "error"), "tenat"));
	json_decref(a);
	a = rig_ask(&rig, "[i]", 3);
	assert_string_equal(rig_text(a, "code"), "EINVAL");
	assert_non_null(strstr(rig_text(a, "error"), "[3]: expected an object"));
	json_decref(a);
	a = rig_ask(&rig, "{s:s, s:s}", "cmd", "why", "tenant", "nobody");
	assert_string_equal(rig_text(a, "code"), "ENOENT");
	json_decref(a);
	rig_stop(&rig);
}

static void errors_name_the_wrong_value(void **state)
{
	static const char *const bad[][2] = {
		{"{\"cmd\": \"usage\", \"last_ms\": \"soon\"}",
			"last_ms \"soon\": expected a whole"},
		{"{\"cmd\": \"usage\", \"last_ms\": 3}",
			"last_ms 3: expected a whole number from 10"},
		{"{\"cmd\": \"create\", \"spec\": {\"request\": \"0.1\"}, \"lifetime\": \"long\"}",
			"lifetime \"long\": expected process, processes or keep"},
		{"{\"cmd\": \"create\", \"spec\": {\"request\": \"0.1\"}, \"container\": 1}",
			"container 1: expected true or false"},
		{"{\"cmd\": \"create\", \"spec\": {\"request\": \"0.1\"}, \"name\": [1]}",
			"name [1]: expected a text"},
		{"{\"cmd\": \"create\", \"spec\": {\"request\": {}}}",
			"request {}: expected a text"},
		{"{\"cmd\": \"create\", \"spec\": 7}", "spec 7: expected an object"},
		{"{\"cmd\": \"apply\", \"path\": \"here\"}", "path \"here\": expected an absolute"},
		{"{\"cmd\": \"apply\"}", "path is missing"},
		{"{\"cmd\": \"why\", \"tenant\": "
		 "[\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"]}",
			"aaa...: expected an id or a name"},
		{"{\"cmd\": \"why\"}", "tenant is missing: expected an id"},
	};
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		json_t *a = rig_ask(&rig, "o", json_loads(bad[i][0], 0, NULL));

		assert_string_equal(rig_text(a, "code"), "EINVAL");
		if (!strstr(rig_text(a, "error"), bad[i][1]))
			fail_msg("'%s' is not in '%s'", bad[i][1], rig_text(a, "error"));
		json_decref(a);
	}
	rig_stop(&rig);
}

static void tenants_are_listed_changed_and_removed(void **state)
{
	struct rig rig;
	char secret[33];
	json_t *a;
	int id;

	rig_start(&rig, "1xTest-80Gi", NULL);
	id = rig_tenant(
		&rig, "{\"request\": \"0.25\", \"limit\": 0.5, \"memory\": \"4Gi\"}", secret);
	assert_int_equal(strlen(secret), 32);
	a = rig_do(&rig, "{s:s, s:i}", "cmd", "list", "tenant", id);
	assert_int_equal(rig_number(a, "tenants.0.id"), id);
	assert_int_equal(rig_number(a, "tenants.0.spec.request_permille"), 250);
	assert_int_equal(rig_number(a, "tenants.0.spec.limit_permille"), 500);
	assert_int_equal(rig_number(a, "tenants.0.devices.0.memory_quota_bytes"), 4ll << 30);
	assert_int_equal(rig_number(a, "tenants.0.uid"), getuid());
	json_decref(a);
	a = rig_do(&rig, "{s:s, s:i, s:{s:s, s:s}, s:s}", "cmd", "set", "tenant", id, "spec",
		"limit", "0.75", "memory", "8Gi", "name", "other");
	assert_int_equal(rig_number(a, "tenant.spec.limit_permille"), 750);
	assert_int_equal(rig_number(a, "tenant.devices.0.memory_quota_bytes"), 8ll << 30);
	json_decref(a);
	a = rig_ask(&rig, "{s:s, s:s, s:{s:s}}", "cmd", "set", "tenant", "other", "spec", "limit",
		"0.1");
	assert_string_equal(rig_text(a, "code"), "EINVAL");
	json_decref(a);
	a = rig_ask(
		&rig, "{s:s, s:s, s:{s:s}}", "cmd", "set", "tenant", "other", "spec", "model", "x");
	assert_string_equal(rig_text(a, "code"), "EINVAL");
	json_decref(a);
	a = rig_do(&rig, "{s:s, s:s}", "cmd", "why", "tenant", "other");
	assert_string_equal(rig_text(a, "why.0.why"), "idle");
	assert_true(strlen(rig_text(a, "why.0.sentence")) > 10);
	json_decref(a);
	a = rig_do(&rig, "{s:s}", "cmd", "devices");
	assert_int_equal(rig_number(a, "devices.0.request_permille"), 250);
	assert_int_equal(rig_number(a, "devices.0.memory_promised_bytes"), 8ll << 30);
	json_decref(a);
	json_decref(rig_do(&rig, "{s:s, s:i}", "cmd", "remove", "tenant", id));
	a = rig_do(&rig, "{s:s}", "cmd", "list");
	assert_int_equal(json_array_size(rig_get(a, "tenants")), 0);
	json_decref(a);
	a = rig_do(&rig, "{s:s}", "cmd", "report");
	assert_int_equal(rig_number(a, "tenants.0.id"), id);
	assert_true(json_is_false(rig_get(a, "tenants.0.alive")));
	json_decref(a);
	a = rig_do(&rig, "{s:s, s:i, s:i}", "cmd", "usage", "last_ms", 1000, "step_ms", 100);
	assert_int_equal(rig_number(a, "step_ms"), 100);
	json_decref(a);
	json_decref(rig_do(&rig, "{s:s}", "cmd", "doctor"));
	a = rig_do(&rig, "{s:s}", "cmd", "audit");
	assert_true(json_is_array(rig_get(a, "unmanaged_processes")));
	/* The old name has the same value. */
	assert_true(json_equal(rig_get(a, "unmanaged_processes"), rig_get(a, "strangers")));
	json_decref(a);
	rig_stop(&rig);
}

static void tenants_get_whole_devices_and_several_devices(void **state)
{
	struct rig rig;
	char secret[33];
	json_t *a;
	int id;

	rig_start(&rig, "3xTest-80Gi", NULL);
	id = rig_tenant(&rig, "{\"request\": \"2\"}", secret);
	a = rig_do(&rig, "{s:s, s:i}", "cmd", "list", "tenant", id);
	assert_int_equal(json_array_size(rig_get(a, "tenants.0.devices")), 2);
	json_decref(a);
	/* One of three devices is free. */
	refused(&rig, "{\"request\": \"0.5\", \"count\": \"2\"}", "ENOSPC",
		"count 2: 1 device has capacity");
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	refused(&rig, "{\"request\": \"1\", \"limit\": \"1\", \"count\": \"1\"}", "ENOSPC",
		"has 1 tenant");
	json_decref(rig_do(&rig, "{s:s, s:i}", "cmd", "remove", "tenant", id));
	rig_tenant(&rig, "{\"request\": \"0.5\", \"count\": \"2\"}", secret);
	rig_stop(&rig);
}

static void best_fit_keeps_whole_devices_free(void **state)
{
	struct rig rig;
	char secret[33];
	json_t *a;

	rig_start(&rig, "2xTest-80Gi", NULL);
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	a = rig_do(&rig, "{s:s}", "cmd", "devices");
	assert_int_equal(rig_number(a, "devices.0.request_permille") *
			rig_number(a, "devices.1.request_permille"),
		0);
	json_decref(a);
	rig_stop(&rig);
}

static void a_request_waits_for_capacity(void **state)
{
	struct rig rig;
	char secret[33];
	json_t *a;
	pid_t waiter;
	int id;

	rig_start(&rig, "1xTest-80Gi", NULL);
	id = rig_tenant(&rig, "{\"request\": \"0.8\"}", secret);
	a = rig_ask(&rig, "{s:s, s:{s:s}, s:i}", "cmd", "create", "spec", "request", "0.5",
		"wait_ms", 30);
	assert_string_equal(rig_text(a, "code"), "ETIMEDOUT");
	json_decref(a);
	waiter = fork();
	if (!waiter) {
		a = rig_do(&rig, "{s:s, s:{s:s}, s:i}", "cmd", "create", "spec", "request", "0.5",
			"wait_ms", patience_ms(60000));
		_exit(rig_number(a, "tenant") > id ? 0 : 1);
	}
	usleep(50000);
	json_decref(rig_do(&rig, "{s:s, s:i}", "cmd", "remove", "tenant", id));
	assert_int_equal(rig_wait(waiter), 0);
	rig_stop(&rig);
}

static void a_second_daemon_is_refused(void **state)
{
	struct rig rig, other;
	pid_t pid;

	rig_start(&rig, "1xTest-80Gi", NULL);
	assert_int_equal(rig_another(&rig, "1xTest-80Gi", NULL, &pid), 1);
	/* A second folder with the same devices is refused, too. */
	other = rig;
	snprintf(other.folder, sizeof(other.folder), "%.50s/test-b", rig.folder);
	setenv("DIVVY_TEST_SIM", rig.folder, 1);
	assert_int_equal(rig_another(&other, "1xTest-80Gi", NULL, &pid), 1);
	unsetenv("DIVVY_TEST_SIM");
	rig_stop(&rig);
}

static void usage_has_the_requested_number_of_points(void **state)
{
	static const struct {
		long long last_ms, step_ms, points, step;
	} cases[] = {
		{60000, 100, 600, 100},
		{600000, 0, 600, 1000},
		{20000, 10, 500, 40},
		{10, 1, 1, 10},
		/* A step longer than the history gives one point for the whole history. */
		{60000, 1LL << 40, 1, 1LL << 40},
	};
	struct rig rig;
	char secret[33];
	json_t *a;

	rig_start(&rig, "2xTest-80Gi", NULL);
	rig_tenant(&rig, "{\"request\": \"0.1\"}", secret);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		a = rig_do(&rig, "{s:s, s:I, s:I}", "cmd", "usage", "last_ms",
			(json_int_t)cases[i].last_ms, "step_ms",
			(json_int_t)MAX(cases[i].step_ms, 1));
		assert_int_equal(json_array_size(rig_get(a, "series")), 1);
		assert_int_equal(json_array_size(rig_get(a, "series.0.permille")), cases[i].points);
		assert_int_equal(
			json_array_size(rig_get(a, "series.0.memory_bytes")), cases[i].points);
		assert_int_equal(rig_number(a, "series.0.permille.0"), 0);
		assert_true(rig_number(a, "step_ms") >= cases[i].step);
		json_decref(a);
	}
	rig_stop(&rig);
}

static void refused_inside(struct rig *inside, json_t *answer)
{
	assert_true(json_is_false(rig_get(answer, "ok")));
	assert_string_equal(rig_text(answer, "code"), "EPERM");
	assert_non_null(strstr(rig_text(answer, "error"), "divvy's commands use"));
	json_decref(answer);
}

/*
 * A container gets a folder with one socket. Programs register there. No client of this socket, not
 * even root, can read or change anything else.
 */
static void the_containers_socket_serves_programs_only(void **state)
{
	struct rig rig, inside;
	struct fake_client c;
	struct stat before, after;
	struct dirent *e;
	char secret[33], folder[96];
	json_t *a;
	DIR *dir;
	int id;

	rig_start(&rig, "1xTest-80Gi", NULL);
	inside = rig;
	snprintf(folder, sizeof(folder), "%s/programs", rig.folder);
	snprintf(inside.socket, sizeof(inside.socket), "%s/divvyd.sock", folder);
	id = rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	a = rig_do(&rig, "{s:s, s:{s:s}}", "cmd", "create", "spec", "request", "0.1");
	assert_string_equal(rig_text(a, "programs"), folder);
	json_decref(a);
	refused_inside(&inside, rig_ask(&inside, "{s:s}", "cmd", "ping"));
	refused_inside(&inside, rig_ask(&inside, "{s:s}", "cmd", "list"));
	refused_inside(&inside, rig_ask(&inside, "{s:s}", "cmd", "replace"));
	refused_inside(&inside, rig_ask(&inside, "{s:s, s:i}", "cmd", "remove", "tenant", id));
	refused_inside(&inside,
		rig_ask(&inside, "{s:s, s:i, s:{s:s}}", "cmd", "set", "tenant", id, "spec", "limit",
			"1"));
	refused_inside(
		&inside, rig_ask(&inside, "{s:s, s:s}", "cmd", "apply", "path", "/etc/passwd"));
	refused_inside(&inside, rig_ask(&inside, "{s:s}", "cmd", "no such"));
	fake_start(&c);
	assert_int_equal(fake_hello(&c, inside.socket, secret, false), 0);
	fake_end(&c);
	dir = opendir(folder);
	assert_non_null(dir);
	while ((e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			assert_string_equal(e->d_name, "divvyd.sock");
	closedir(dir);
	/* Containers have mounted this folder: a restarted daemon must use the same inode. */
	assert_int_equal(stat(folder, &before), 0);
	rig_kill(&rig);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	fake_start(&c);
	assert_int_equal(fake_hello(&c, inside.socket, secret, false), 0);
	fake_end(&c);
	kill(rig.daemon, SIGTERM);
	assert_int_equal(rig_wait(rig.daemon), 0);
	assert_int_not_equal(access(inside.socket, F_OK), 0);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	assert_int_equal(stat(folder, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	refused_inside(&inside, rig_ask(&inside, "{s:s}", "cmd", "ping"));
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ping_describes_the_daemon),
		cmocka_unit_test(usage_has_the_requested_number_of_points),
		cmocka_unit_test(impossible_requests_are_refused_with_a_reason),
		cmocka_unit_test(unknown_commands_and_members_are_refused_with_a_reason),
		cmocka_unit_test(errors_name_the_wrong_value),
		cmocka_unit_test(tenants_are_listed_changed_and_removed),
		cmocka_unit_test(tenants_get_whole_devices_and_several_devices),
		cmocka_unit_test(best_fit_keeps_whole_devices_free),
		cmocka_unit_test(a_request_waits_for_capacity),
		cmocka_unit_test(a_second_daemon_is_refused),
		cmocka_unit_test(the_containers_socket_serves_programs_only),
	};

	return cmocka_run_group_tests_name("agent-control", tests, NULL, NULL);
}
