/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name service that answers late or never. Only the user whose name the daemon looks up waits,
 * and for a bounded time. A preloaded library is the service (tests/programs/slow-names.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/fd.h"
#include "fake-client.h"
#include "rig.h"
/* cmocka.h comes after our headers, because its fail() is a macro */
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONG_MS 120000
#define USER 60001
#define GROUP 4242
#define NEVER_MS 3600000

struct world {
	struct rig rig;
	char conf[64];
	const char *args[3];
};

/* Sets the environment of the next daemon's name service. */
static void set_service(unsigned int ms)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", ms);
	setenv("DIVVY_TEST_NAMES_MS", text, 1);
	snprintf(text, sizeof(text), "%u", USER);
	setenv("DIVVY_TEST_NAMES_UID", text, 1);
	snprintf(text, sizeof(text), "%u", GROUP);
	setenv("DIVVY_TEST_NAMES_GID", text, 1);
}

static void restart(struct world *w, unsigned int ms)
{
	set_service(ms);
	setenv("LD_PRELOAD", SLOW_NAMES, 1);
	rig_restart(&w->rig, "1xTest-80Gi", w->args);
	unsetenv("LD_PRELOAD");
}

static void start(struct world *w, unsigned int ms, const char *rules)
{
	int fd;

	if (getuid() != 0)
		skip();
	snprintf(w->conf, sizeof(w->conf), "/tmp/divvy-test-conf-XXXXXX");
	fd = mkstemp(w->conf);
	assert_int_equal(fd_write_all(fd, rules, strlen(rules)), 0);
	close(fd);
	w->args[0] = "--tenants";
	w->args[1] = w->conf;
	w->args[2] = NULL;
	set_service(ms);
	setenv("LD_PRELOAD", SLOW_NAMES, 1);
	rig_start(&w->rig, "1xTest-80Gi", w->args);
	unsetenv("LD_PRELOAD");
	assert_int_equal(chmod(w->rig.folder, 0755), 0);
}

static void stop(struct world *w)
{
	rig_stop(&w->rig);
	unlink(w->conf);
}

static void start_user(struct fake_client *c)
{
	fake_start(c);
	fake_become(c, USER);
}

static json_t *tenant(struct world *w, uint64_t id)
{
	return rig_do(&w->rig, "{s:s, s:i}", "cmd", "list", "tenant", (int)id);
}

static void a_users_group_is_known_after_a_restart(void **state)
{
	struct fake_client c;
	struct world w;
	uint64_t id;
	json_t *a;

	start(&w, 0, "gid 4242 request=0.2 limit=0.4 memory=2Gi\ndefault refuse\n");
	start_user(&c);
	assert_int_equal(fake_hello(&c, w.rig.socket, NULL, false), 0);
	id = c.welcome.tenant;
	a = tenant(&w, id);
	assert_string_equal(rig_text(a, "tenants.0.source"), "conf");
	assert_string_equal(rig_text(a, "tenants.0.name"), "far-away");
	assert_string_equal(rig_text(a, "tenants.0.user"), "far-away");
	json_decref(a);
	rig_kill(&w.rig);
	restart(&w, NEVER_MS);
	assert_int_equal(fake_hello(&c, w.rig.socket, NULL, true), 0);
	assert_int_equal(c.welcome.tenant, id);
	fake_end(&c);
	stop(&w);
}

static void a_silent_name_service_blocks_no_registration(void **state)
{
	struct fake_client c, other;
	char secret[33];
	struct world w;
	json_t *a;

	start(&w, NEVER_MS, "gid 4242 request=0.2 limit=0.4 memory=2Gi\n");
	start_user(&c);
	fake_hello_send(&c, w.rig.socket, NULL, false);
	rig_tenant(&w.rig, "{\"request\": \"0.5\"}", secret);
	fake_start(&other);
	assert_int_equal(fake_hello(&other, w.rig.socket, secret, false), 0);
	/* The daemon decides by the kernel's data: the process's primary group alone. */
	assert_int_equal(fake_hello_wait(&c), 0);
	a = tenant(&w, c.welcome.tenant);
	assert_string_equal(rig_text(a, "tenants.0.source"), "default");
	assert_string_equal(rig_text(a, "tenants.0.name"), "default-60001");
	assert_string_equal(rig_text(a, "tenants.0.user"), "60001");
	json_decref(a);
	/* The daemon's exit does not wait for the name service either. */
	fake_end(&c);
	fake_end(&other);
	stop(&w);
}

struct named {
	struct world *w;
	uint64_t id;
};

static bool is_named(void *data)
{
	const struct named *n = data;
	json_t *a = tenant(n->w, n->id);
	bool is = !strcmp(rig_text(a, "tenants.0.name"), "default-far-away") &&
		!strcmp(rig_text(a, "tenants.0.user"), "far-away");

	json_decref(a);
	return is;
}

static void a_late_answer_renames_the_tenant(void **state)
{
	struct fake_client c;
	struct named named;
	struct world w;

	/* Two queries of 2 s take longer than a registration waits. */
	start(&w, 2000, "");
	start_user(&c);
	assert_int_equal(fake_hello(&c, w.rig.socket, NULL, false), 0);
	named = (struct named){&w, c.welcome.tenant};
	assert_true(rig_until(is_named, &named, LONG_MS));
	fake_end(&c);
	stop(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_users_group_is_known_after_a_restart),
		cmocka_unit_test(a_silent_name_service_blocks_no_registration),
		cmocka_unit_test(a_late_answer_renames_the_tenant),
	};

	return cmocka_run_group_tests_name("agent-names", tests, NULL, NULL);
}
