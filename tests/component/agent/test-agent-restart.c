/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon is killed, replaced and restarted while programs are registered. Tenants, counters and
 * pages stay the same, and programs that died meanwhile no longer count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/fd.h"
#include "fake-client.h"
#include "rig.h"
#include "../../patience.h"
/* cmocka.h comes after our headers, because its fail() is a macro */
#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS patience_ms(60000)
#define STATE_MAX (1u << 20)

static long long used(struct rig *rig, int tenant)
{
	json_t *a = rig_do(rig, "{s:s, s:i}", "cmd", "list", "tenant", tenant);
	long long bytes = rig_number(a, "tenants.0.devices.0.memory_used_bytes");

	json_decref(a);
	return bytes;
}

struct wanted {
	struct rig *rig;
	int tenant;
	long long bytes;
};

static bool is_used(void *data)
{
	const struct wanted *w = data;

	return used(w->rig, w->tenant) == w->bytes;
}

static void a_killed_daemon_keeps_tenants_and_programs(void **state)
{
	struct fake_client a, b, late;
	char secret[33], other[33];
	struct rig rig;
	uint32_t process;
	json_t *answer;
	int id, id_other;

	rig_start(&rig, "1xTest-80Gi", NULL);
	id = rig_tenant(
		&rig, "{\"request\": \"0.5\", \"limit\": \"0.75\", \"memory\": \"4Gi\"}", secret);
	id_other = rig_tenant(&rig, "{\"request\": \"0.25\"}", other);
	fake_start(&a);
	fake_start(&b);
	fake_start(&late);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	assert_int_equal(fake_hello(&b, rig.socket, other, false), 0);
	assert_true(fake_acquire(&a, 0, LONG_MS));
	fake_submit(&a, 0);
	assert_true(fake_reserve(&a, 64 << 20));
	process = a.devices[0].down->process;
	for (int round = 0; round < 5; round++) {
		rig_kill(&rig);
		rig_restart(&rig, "1xTest-80Gi", NULL);
		/* A new program of that tenant must share the tenant's counter. */
		if (round == 0)
			fake_hello_send(&late, rig.socket, secret, false);
		assert_int_equal(fake_hello(&a, rig.socket, secret, true), 0);
		assert_int_equal(fake_hello(&b, rig.socket, other, true), 0);
		if (round == 0) {
			assert_int_equal(fake_hello_wait(&late), 0);
			assert_int_equal(atomic_load(&late.devices[0].tenant->word),
				atomic_load(&a.devices[0].tenant->word));
		} else {
			assert_int_equal(fake_hello(&late, rig.socket, secret, true), 0);
		}
		assert_int_equal(a.welcome.tenant, id);
		assert_int_equal(b.welcome.tenant, id_other);
		assert_int_equal(a.devices[0].down->process, process);
		assert_int_equal(used(&rig, id), 64 << 20);
		fake_complete(&a, 0);
		assert_true(fake_acquire(&b, 0, LONG_MS));
		fake_submit(&b, 0);
		fake_complete(&b, 0);
		assert_true(fake_acquire(&a, 0, LONG_MS));
		fake_submit(&a, 0);
	}
	answer = rig_do(&rig, "{s:s, s:i}", "cmd", "list", "tenant", id);
	assert_int_equal(rig_number(answer, "tenants.0.spec.limit_permille"), 750);
	assert_int_equal(rig_number(answer, "tenants.0.devices.0.memory_quota_bytes"), 4ll << 30);
	json_decref(answer);
	fake_end(&a);
	fake_end(&b);
	fake_end(&late);
	rig_stop(&rig);
}

static void memory_of_programs_that_died_meanwhile_is_freed(void **state)
{
	struct fake_client a, b;
	struct wanted wanted;
	struct rig rig;
	char secret[33];

	rig_start(&rig, "1xTest-80Gi", NULL);
	wanted = (struct wanted){.rig = &rig};
	wanted.tenant = rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	fake_start(&a);
	fake_start(&b);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	assert_int_equal(fake_hello(&b, rig.socket, secret, false), 0);
	assert_true(fake_reserve(&a, 6 << 20));
	assert_true(fake_reserve(&b, 2 << 20));
	rig_kill(&rig);
	fake_end(&a);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	assert_int_equal(fake_hello(&b, rig.socket, secret, true), 0);
	wanted.bytes = 2 << 20;
	assert_true(rig_until(is_used, &wanted, LONG_MS));
	fake_end(&b);
	wanted.bytes = 0;
	assert_true(rig_until(is_used, &wanted, LONG_MS));
	rig_stop(&rig);
}

static void a_page_of_another_tenant_is_refused(void **state)
{
	struct fake_client a, b;
	struct rig rig;
	char secret[33], other[33];

	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	rig_tenant(&rig, "{\"request\": \"0.25\"}", other);
	fake_start(&a);
	fake_start(&b);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	/* b knows the secret of a's tenant, but its pages are recorded for another tenant. */
	assert_int_equal(fake_hello(&b, rig.socket, other, false), 0);
	assert_true(fake_hello(&b, rig.socket, secret, true) < 0);
	assert_int_equal(fake_hello(&b, rig.socket, other, true), 0);
	fake_end(&a);
	fake_end(&b);
	rig_stop(&rig);
}

static void a_daemon_takes_over_from_another(void **state)
{
	static const char *const replace[] = {"--replace", NULL};
	struct fake_client a;
	struct rig rig;
	char secret[33];
	pid_t next;
	int status, id;

	rig_start(&rig, "1xTest-80Gi", NULL);
	id = rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	fake_start(&a);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	assert_true(fake_acquire(&a, 0, LONG_MS));
	for (int i = 0; i < 4; i++) {
		/* Taking over also works if the old daemon's socket has been removed. */
		if (i == 3)
			assert_return_code(unlink(rig.socket), errno);
		assert_int_equal(rig_another(&rig, "1xTest-80Gi", replace, &next), -1);
		assert_int_equal(waitpid(rig.daemon, &status, 0), rig.daemon);
		assert_int_equal(status, 0);
		rig.daemon = next;
		assert_int_equal(fake_hello(&a, rig.socket, secret, true), 0);
		assert_int_equal(a.welcome.tenant, id);
		assert_true(fake_acquire(&a, 0, LONG_MS));
	}
	fake_end(&a);
	rig_stop(&rig);
}

/*
 * The client gave up while the daemon was stopped. The daemon must then not hand over to a next
 * daemon.
 */
static void a_closed_replace_request_does_not_end_the_daemon(void **state)
{
	static const char *const requests[] = {
		"{\"cmd\":\"replace\"}", "{\"cmd\":\"replace\",\"hand_over\":true}"};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_Alignas(8) char packet[1024] = "";
	struct msg_control *msg = (struct msg_control *)packet;
	struct rig rig;
	int status;

	rig_start(&rig, "1xTest-80Gi", NULL);
	memcpy(address.sun_path, rig.socket, sizeof(address.sun_path));
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		size_t n = strlen(requests[i]);
		json_t *answer;

		kill(rig.daemon, SIGSTOP);
		assert_int_equal(waitpid(rig.daemon, &status, WUNTRACED), rig.daemon);
		assert_return_code(
			connect(fd, (struct sockaddr *)&address, sizeof(address)), errno);
		msg_head_init(&msg->head, MSG_CONTROL, (uint32_t)(sizeof(*msg) + n), 1);
		memcpy(msg->text, requests[i], n);
		assert_int_equal(send(fd, packet, msg->head.size, 0), msg->head.size);
		fd = fd_close(fd);
		kill(rig.daemon, SIGCONT);
		answer = rig_do(&rig, "{s:s}", "cmd", "ping");
		assert_int_equal(rig_number(answer, "pid"), rig.daemon);
		json_decref(answer);
	}
	rig_stop(&rig);
}

/*
 * The daemon may be killed at any byte of a write: the next daemon restores every whole line of the
 * file.
 */
static void a_torn_state_keeps_its_whole_lines(void **state)
{
	_cleanup_buf_ struct buf whole = BUF_INIT(STATE_MAX);
	char path[128], bad[136], secret[3][33], name[64];
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	snprintf(path, sizeof(path), "%s/state", rig.folder);
	for (int i = 0; i < 3; i++) {
		/*
		 * The tenants have lifetime `keep`. Tenants of other lifetimes end with their
		 * owner, or when they have no process.
		 */
		json_t *a = rig_do(&rig, "{s:s, s:{s:s}, s:s}", "cmd", "create", "spec", "request",
			"0.1", "lifetime", "keep");

		snprintf(secret[i], sizeof(secret[i]), "%s", rig_text(a, "secret"));
		json_decref(a);
	}
	rig_kill(&rig);
	assert_int_equal(file_read(path, &whole, NULL), 0);
	for (size_t n = 0; n <= whole.n; n += n + 40 > whole.n && n < whole.n ? whole.n - n : 40) {
		size_t lines = 0;
		json_t *a;

		for (size_t i = 0; i < n; i++)
			lines += whole.p[i] == '\n';
		assert_int_equal(file_replace(path, (struct str){whole.p, n}, 0600, NULL), 0);
		rig_restart(&rig, "1xTest-80Gi", NULL);
		a = rig_do(&rig, "{s:s}", "cmd", "list");
		assert_int_equal(json_array_size(rig_get(a, "tenants")), lines > 1 ? lines - 1 : 0);
		json_decref(a);
		rig_kill(&rig);
		if (n == whole.n)
			break;
	}
	rig_restart(&rig, "1xTest-80Gi", NULL);
	for (int i = 1; i <= 3; i++) {
		snprintf(name, sizeof(name), "%d", i);
		json_decref(rig_do(&rig, "{s:s, s:s}", "cmd", "list", "tenant", name));
	}
	/* With a torn first line the file has no readable tenant. */
	snprintf(bad, sizeof(bad), "%s.bad", path);
	assert_return_code(unlink(bad), errno);
	rig_stop(&rig);
}

/* No crash of the daemon causes this damage: an operator wants to see the file. */
static void a_damaged_state_is_kept_aside(void **state)
{
	_cleanup_buf_ struct buf damaged = BUF_INIT(STATE_MAX), kept = BUF_INIT(STATE_MAX);
	/*
	 * The test changes the last character of each text. The index is the number of tenants that
	 * remain.
	 */
	static const char *const changes[] = {"H", "T {"};
	char path[128], bad[136];
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	snprintf(path, sizeof(path), "%s/state", rig.folder);
	snprintf(bad, sizeof(bad), "%s.bad", path);
	for (size_t i = ARRAY_SIZE(changes); i--;) {
		json_t *a;
		size_t at;

		for (int k = 0; k < 2; k++)
			json_decref(rig_do(&rig, "{s:s, s:{s:s}, s:s}", "cmd", "create", "spec",
				"request", "0.1", "lifetime", "keep"));
		rig_kill(&rig);
		buf_clear(&damaged);
		assert_int_equal(file_read(path, &damaged, NULL), 0);
		at = (size_t)(strstr(buf_text(&damaged), changes[i]) - buf_text(&damaged));
		damaged.p[at + strlen(changes[i]) - 1] = '?';
		assert_int_equal(file_replace(path, buf_str(&damaged), 0600, NULL), 0);
		rig_restart(&rig, "1xTest-80Gi", NULL);
		buf_clear(&kept);
		assert_int_equal(file_read(bad, &kept, NULL), 0);
		assert_string_equal(buf_text(&kept), buf_text(&damaged));
		assert_return_code(unlink(bad), errno);
		a = rig_do(&rig, "{s:s}", "cmd", "list");
		assert_int_equal(json_array_size(rig_get(a, "tenants")), i);
		json_decref(a);
	}
	rig_stop(&rig);
}

static bool is_kept_aside(const char *path)
{
	char bad[136];

	snprintf(bad, sizeof(bad), "%s.bad", path);
	return unlink(bad) == 0;
}

static size_t n_tenants(struct rig *rig)
{
	json_t *a = rig_do(rig, "{s:s}", "cmd", "list");
	size_t n = json_array_size(rig_get(a, "tenants"));

	json_decref(a);
	return n;
}

static void create_kept(struct rig *rig)
{
	json_decref(rig_do(rig, "{s:s, s:{s:s}, s:s}", "cmd", "create", "spec", "request", "0.1",
		"lifetime", "keep"));
}

/*
 * The test cuts the file at the end of a line or within a line. A tenant is lost then, and the
 * daemon keeps the file aside.
 */
static void a_state_without_its_last_line_is_kept_aside(void **state)
{
	_cleanup_buf_ struct buf whole = BUF_INIT(STATE_MAX);
	char path[128];
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	snprintf(path, sizeof(path), "%s/state", rig.folder);
	for (int i = 0; i < 3; i++)
		create_kept(&rig);
	/* An orderly exit writes the whole state anew. */
	kill(rig.daemon, SIGTERM);
	waitpid(rig.daemon, NULL, 0);
	assert_int_equal(file_read(path, &whole, NULL), 0);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	assert_false(is_kept_aside(path));
	assert_int_equal(n_tenants(&rig), 3);
	for (size_t n = whole.n - 1; n > whole.n - 3; n--) {
		size_t cut = n;

		/* First cuts within the last line, then the whole line. */
		while (n == whole.n - 2 && whole.p[cut - 1] != '\n')
			cut--;
		rig_kill(&rig);
		assert_int_equal(file_replace(path, (struct str){whole.p, cut}, 0600, NULL), 0);
		rig_restart(&rig, "1xTest-80Gi", NULL);
		assert_true(is_kept_aside(path));
		assert_int_equal(n_tenants(&rig), 2);
	}
	rig_stop(&rig);
}

/* A tenant that the daemon has confirmed exists after a kill, whatever write failed before. */
static void a_full_disk_loses_no_tenant(void **state)
{
	char fill[160], path[128];
	struct rig rig;
	json_t *a;
	size_t n;
	int fd;

	if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		skip();
	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_kill(&rig);
	assert_return_code(mount("tmpfs", rig.folder, "tmpfs", 0, "size=1m,mode=700"), errno);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	snprintf(path, sizeof(path), "%s/state", rig.folder);
	snprintf(fill, sizeof(fill), "%s/test-fill", rig.folder);
	fd = open(fill, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_return_code(fd, errno);
	/*
	 * After this loop the disk is full: only the rest of the state file's last block is free.
	 */
	while (write(fd, path, sizeof(path)) > 0)
		continue;
	for (n = 0;; n++) {
		a = rig_ask(&rig, "{s:s, s:{s:s}, s:s}", "cmd", "create", "spec", "request",
			"0.001", "lifetime", "keep");
		if (!json_is_true(json_object_get(a, "ok")))
			break;
		json_decref(a);
	}
	assert_non_null(strstr(rig_text(a, "error"), "No space left"));
	json_decref(a);
	assert_return_code(ftruncate(fd, 0), errno);
	close(fd);
	json_decref(rig_do(&rig, "{s:s, s:{s:s}, s:s, s:s}", "cmd", "create", "spec", "request",
		"0.001", "lifetime", "keep", "name", "after"));
	rig_kill(&rig);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	assert_false(is_kept_aside(path));
	assert_int_equal(n_tenants(&rig), n + 1);
	json_decref(rig_do(&rig, "{s:s, s:s}", "cmd", "list", "tenant", "after"));
	kill(rig.daemon, SIGTERM);
	waitpid(rig.daemon, NULL, 0);
	assert_return_code(umount2(rig.folder, MNT_DETACH), errno);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	rig_stop(&rig);
}

/* The capacity of programs that exited while no daemon ran is free at once. */
static void programs_that_ended_meanwhile_free_their_capacity(void **state)
{
	struct rig rig;
	pid_t owner;

	rig_start(&rig, "1xTest-80Gi", NULL);
	owner = fork();
	if (!owner) {
		pause();
		_exit(0);
	}
	json_decref(rig_do(&rig, "{s:s, s:{s:s}, s:i}", "cmd", "create", "spec", "request", "0.8",
		"pid", (int)owner));
	rig_kill(&rig);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	/* The capacity is free at the daemon's first request since its start. */
	json_decref(rig_do(&rig, "{s:s, s:{s:s}, s:s}", "cmd", "create", "spec", "request", "0.5",
		"lifetime", "keep"));
	assert_int_equal(n_tenants(&rig), 1);
	rig_stop(&rig);
}

struct grown {
	struct rig *rig;
	char path[128];
	off_t most;
};

/* Each `set` appends a line; true once the file has become shorter. */
static bool is_shorter(void *data)
{
	struct grown *g = data;
	struct stat st;

	for (int i = 0; i < 50; i++)
		json_decref(rig_do(g->rig, "{s:s, s:i, s:{s:s}}", "cmd", "set", "tenant", 1, "spec",
			"limit", i % 2 ? "0.5" : "0.6"));
	assert_return_code(stat(g->path, &st), errno);
	g->most = MAX(g->most, st.st_size);
	return st.st_size < g->most;
}

static void a_state_that_has_grown_is_compacted(void **state)
{
	struct fake_client a;
	char secret[33];
	struct rig rig;
	struct grown g = {.rig = &rig};
	json_t *answer;

	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	create_kept(&rig);
	create_kept(&rig);
	fake_start(&a);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	snprintf(g.path, sizeof(g.path), "%s/state", rig.folder);
	json_decref(rig_do(&rig, "{s:s, s:i}", "cmd", "remove", "tenant", 3));
	for (int i = 0; i < 2; i++) {
		assert_true(rig_until(is_shorter, &g, 120000));
		json_decref(rig_do(&rig, "{s:s, s:i, s:{s:s}, s:s}", "cmd", "set", "tenant", 2,
			"spec", "limit", "0.7", "name", i ? "last" : "first"));
		rig_kill(&rig);
		rig_restart(&rig, "1xTest-80Gi", NULL);
		assert_false(is_kept_aside(g.path));
		assert_int_equal(n_tenants(&rig), 2);
		assert_int_equal(fake_hello(&a, rig.socket, secret, true), 0);
		answer = rig_do(&rig, "{s:s, s:i}", "cmd", "list", "tenant", 2);
		assert_int_equal(rig_number(answer, "tenants.0.spec.limit_permille"), 700);
		assert_string_equal(rig_text(answer, "tenants.0.name"), i ? "last" : "first");
		json_decref(answer);
		g.most = 0;
	}
	/* The daemon does not use the id of a removed tenant again. */
	answer = rig_do(&rig, "{s:s, s:{s:s}, s:s}", "cmd", "create", "spec", "request", "0.1",
		"lifetime", "keep");
	assert_int_equal(rig_number(answer, "tenant"), 4);
	json_decref(answer);
	fake_end(&a);
	rig_stop(&rig);
}

/*
 * If the daemon cannot read the file `usage`, it renames the file to `usage.bad` for inspection,
 * and starts with empty reports.
 */
static void unreadable_reports_are_kept_aside(void **state)
{
	char path[128], other[160];
	struct stat st;
	struct rig rig;
	json_t *a;

	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_kill(&rig);
	snprintf(path, sizeof(path), "%s/usage", rig.folder);
	unlink(path);
	assert_return_code(mkdir(path, 0700), errno);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	snprintf(other, sizeof(other), "%s.bad", path);
	assert_return_code(stat(other, &st), errno);
	assert_true(S_ISDIR(st.st_mode));
	assert_return_code(rmdir(other), errno);
	rig_kill(&rig);
	/* The daemon skips an invalid line, and reads the other lines. */
	assert_int_equal(file_replace(path, STR("R 70 0 500 1000 1 2 9.5 0 0.0 known\nB 0 60\n"),
				 0600, NULL),
		0);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	assert_true(is_kept_aside(path));
	a = rig_do(&rig, "{s:s}", "cmd", "report");
	assert_string_equal(rig_text(a, "tenants.0.name"), "known");
	json_decref(a);
	rig_stop(&rig);
}

/*
 * A tenant's line in the state file as the first version wrote it: only with the fields in `first`.
 */
static struct str aged(struct str line, struct buf *out)
{
	static const char *const first[] = {"id", "name", "uid", "source", "origin", "lifetime",
		"owner", "owner_start", "created_s", "spec", "devices", "secret"};
	json_t *now = json_loadb((const char *)line.p + 2, line.n - 2, 0, NULL),
	       *then = json_object();
	char *text;

	assert_non_null(now);
	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		assert_non_null(json_object_get(now, first[i]));
		json_object_set(then, first[i], json_object_get(now, first[i]));
	}
	text = json_dumps(then, JSON_COMPACT);
	buf_clear(out);
	buf_addf(out, "T %s", text);
	free(text);
	json_decref(now);
	json_decref(then);
	return buf_str(out);
}

/*
 * A tenant's line in the state file of a later version: with a field "later", and followed by a
 * line of an unknown kind.
 */
static struct str advanced(struct str line, struct buf *out)
{
	buf_clear(out);
	buf_add(out, (struct str){line.p, line.n - 1});
	buf_add_text(out, ",\"later\":[1,2]}\nZ what is this");
	return buf_str(out);
}

static void rewritten(const char *path, struct str (*change)(struct str, struct buf *))
{
	_cleanup_buf_ struct buf before = BUF_INIT(STATE_MAX), after = BUF_INIT(STATE_MAX),
				 line = BUF_INIT(STATE_MAX);
	size_t start = 0;

	assert_int_equal(file_read(path, &before, NULL), 0);
	for (size_t i = 0; i < before.n; i++) {
		struct str one = {before.p + start, i - start};

		if (before.p[i] != '\n')
			continue;
		if (one.n > 2 && one.p[0] == 'T')
			one = change(one, &line);
		buf_add(&after, one);
		buf_add_byte(&after, '\n');
		start = i + 1;
	}
	assert_int_equal(file_replace(path, buf_str(&after), 0600, NULL), 0);
}

static void a_state_of_another_version_is_read(void **state)
{
	static struct str (*const change[])(struct str, struct buf *) = {aged, advanced};
	struct fake_client a;
	char path[128], secret[33];
	struct rig rig;
	int id;

	rig_start(&rig, "1xTest-80Gi", NULL);
	snprintf(path, sizeof(path), "%s/state", rig.folder);
	id = rig_tenant(&rig, "{\"request\": \"0.5\", \"memory\": \"4Gi\"}", secret);
	fake_start(&a);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	assert_true(fake_acquire(&a, 0, LONG_MS));
	fake_submit(&a, 0);
	assert_true(fake_reserve(&a, 64 << 20));
	for (size_t i = 0; i < ARRAY_SIZE(change); i++) {
		rig_kill(&rig);
		rewritten(path, change[i]);
		rig_restart(&rig, "1xTest-80Gi", NULL);
		assert_int_equal(fake_hello(&a, rig.socket, secret, true), 0);
		assert_int_equal(a.welcome.tenant, id);
		assert_int_equal(used(&rig, id), 64 << 20);
		assert_true(fake_acquire(&a, 0, LONG_MS));
	}
	fake_end(&a);
	rig_stop(&rig);
}

static void an_orderly_exit_opens_the_gates(void **state)
{
	struct fake_client a;
	struct rig rig;
	char secret[33];

	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	fake_start(&a);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	assert_int_equal(atomic_load(&a.devices[0].down->gate), GATE_CLOSED);
	kill(rig.daemon, SIGTERM);
	assert_int_equal(rig_wait(rig.daemon), 0);
	assert_true(fake_await_gate(&a, 0, GATE_OPEN, LONG_MS));
	/* The next daemon closes the gate again, in its own page. */
	rig_restart(&rig, "1xTest-80Gi", NULL);
	assert_int_equal(fake_hello(&a, rig.socket, secret, true), 0);
	assert_int_equal(atomic_load(&a.devices[0].down->gate), GATE_CLOSED);
	fake_end(&a);
	rig_stop(&rig);
}

struct charged {
	struct rig *rig;
	double least_s, gpu_s;
};

static bool is_charged(void *data)
{
	struct charged *c = data;
	json_t *answer = rig_do(c->rig, "{s:s}", "cmd", "report");

	c->gpu_s = json_real_value(rig_get(answer, "tenants.0.gpu_seconds"));
	json_decref(answer);
	return c->gpu_s > c->least_s;
}

static void an_orderly_exit_keeps_used_time(void **state)
{
	struct fake_client a;
	struct rig rig;
	struct charged charged = {.rig = &rig, .least_s = 0.01};
	double before, after;
	char secret[33];
	json_t *answer;

	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	fake_start(&a);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	assert_true(fake_acquire(&a, 0, LONG_MS));
	fake_submit(&a, 0);
	assert_true(rig_until(is_charged, &charged, LONG_MS));
	before = charged.gpu_s;
	/* An orderly exit loses no usage. */
	kill(rig.daemon, SIGTERM);
	assert_int_equal(rig_wait(rig.daemon), 0);
	rig_restart(&rig, "1xTest-80Gi", NULL);
	answer = rig_do(&rig, "{s:s}", "cmd", "report");
	after = json_real_value(rig_get(answer, "tenants.0.gpu_seconds"));
	assert_true(after >= before - 0.001);
	json_decref(answer);
	fake_end(&a);
	rig_stop(&rig);
}

/*
 * Reports keep the usage of running and of exited programs, although the killed daemon wrote no
 * file at its end.
 */
static void a_kill_keeps_used_time(void **state)
{
	struct fake_client a;
	struct charged charged;
	struct rig rig;
	char secret[33];
	double before;
	json_t *answer;

	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_tenant(&rig, "{\"request\": \"0.5\"}", secret);
	fake_start(&a);
	assert_int_equal(fake_hello(&a, rig.socket, secret, false), 0);
	for (int round = 1; round <= 3; round++) {
		assert_true(fake_acquire(&a, 0, LONG_MS));
		fake_submit(&a, 0);
		charged = (struct charged){.rig = &rig, .least_s = round * 0.2};
		assert_true(rig_until(is_charged, &charged, LONG_MS));
		if (round == 3)
			fake_end(&a);
		rig_kill(&rig);
		before = charged.gpu_s;
		rig_restart(&rig, "1xTest-80Gi", NULL);
		charged.least_s = before - 1e-6;
		assert_true(is_charged(&charged));
		if (round == 3)
			break;
		answer = rig_do(&rig, "{s:s}", "cmd", "list");
		assert_true((double)rig_number(answer, "tenants.0.devices.0.used_ns") >
			(before - 1e-6) * NSEC_PER_SEC);
		json_decref(answer);
		assert_int_equal(fake_hello(&a, rig.socket, secret, true), 0);
		fake_complete(&a, 0);
	}
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_daemon_keeps_tenants_and_programs),
		cmocka_unit_test(memory_of_programs_that_died_meanwhile_is_freed),
		cmocka_unit_test(a_page_of_another_tenant_is_refused),
		cmocka_unit_test(a_daemon_takes_over_from_another),
		cmocka_unit_test(a_closed_replace_request_does_not_end_the_daemon),
		cmocka_unit_test(a_torn_state_keeps_its_whole_lines),
		cmocka_unit_test(a_damaged_state_is_kept_aside),
		cmocka_unit_test(a_state_without_its_last_line_is_kept_aside),
		cmocka_unit_test(a_full_disk_loses_no_tenant),
		cmocka_unit_test(programs_that_ended_meanwhile_free_their_capacity),
		cmocka_unit_test(a_state_that_has_grown_is_compacted),
		cmocka_unit_test(unreadable_reports_are_kept_aside),
		cmocka_unit_test(a_state_of_another_version_is_read),
		cmocka_unit_test(an_orderly_exit_opens_the_gates),
		cmocka_unit_test(an_orderly_exit_keeps_used_time),
		cmocka_unit_test(a_kill_keeps_used_time),
	};

	return cmocka_run_group_tests_name("agent-restart", tests, NULL, NULL);
}
