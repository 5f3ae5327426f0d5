/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client against a real API server: the cluster is that of KUBECONFIG, and the namespace that
 * of DIVVY_TEST_NAMESPACE.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "kube/cache.h"
#include "kube/discovery.h"
#include "kube/event.h"
#include "kube/lease.h"
#include "kube/write.h"
#include "../../patience.h"

static struct loop *loop;
static struct kube_config *config;
static struct kube_client *client;
static const char *space;

/* The last answer of call_done. */
static struct {
	bool is_there;
	int result, http;
	char reason[48];
	struct error error;
	json_t *json;
} got;

static void call_done(void *data, const struct kube_answer *answer)
{
	got.is_there = true;
	got.result = answer->result;
	got.http = answer->status.http;
	got.error = answer->error;
	str_copy(got.reason, sizeof(got.reason), str_from(answer->status.reason));
	json_decref(got.json);
	got.json = NULL;
	if (answer->result == 0)
		kube_json_parse(answer->body, &got.json, NULL);
}

static void run_until(bool (*is_so)(void *data), void *data)
{
	const uint64_t end_ns = clock_now_ns() + patience_ns(60 * NSEC_PER_SEC);

	while (!is_so(data)) {
		if (clock_now_ns() > end_ns)
			fail_msg("it did not come: %s", got.error.msg);
		assert_true(loop_run_once(loop, end_ns) >= 0);
	}
}

static bool has_answer(void *data)
{
	return got.is_there;
}

static int answer(void)
{
	run_until(has_answer, NULL);
	got.is_there = false;
	return got.result;
}

static struct kube_write on(const char *gv, const char *resource, const char *name)
{
	return (struct kube_write){.target = {gv, resource, space, name, NULL}, .done = call_done};
}

static void make_map(const char *name, const char *value)
{
	const struct kube_write w = on("v1", "configmaps", NULL);
	_cleanup_json_ json_t *map = json_pack("{ss, ss, s:{ss}, s:{ss}}", "apiVersion", "v1",
		"kind", "ConfigMap", "metadata", "name", name, "data", "value", value);

	assert_ok(kube_create(client, &w, map, NULL));
	if (answer() < 0)
		fail_msg("%s", got.error.msg);
}

static void make_pod(const char *name)
{
	const struct kube_write w = on("v1", "pods", NULL);
	_cleanup_json_ json_t *pod = json_pack("{s:{ss, s:{ss}}, s:{ss, s:[{ss, ss}]}}", "metadata",
		"name", name, "annotations", "mine", "stays", "spec", "schedulerName", "nobody",
		"containers", "name", "c", "image", "none");

	assert_ok(kube_create(client, &w, pod, NULL));
	if (answer() < 0)
		fail_msg("%s", got.error.msg);
}

static void writes_and_reads(void **state)
{
	struct kube_write w = on("v1", "configmaps", "m");
	_cleanup_json_ json_t *merge = json_pack("{s:{ss, sn}}", "data", "more", "x", "value");
	_cleanup_json_ json_t *wrong = json_pack("[{ss, ss, ss}, {ss, ss, ss}]", "op", "test",
		"path", "/data/more", "value", "y", "op", "replace", "path", "/data/more", "value",
		"z");
	_cleanup_json_ json_t *apply = json_pack("{ss, ss, s:{ss}, s:{ss}}", "apiVersion", "v1",
		"kind", "ConfigMap", "metadata", "name", "m", "data", "applied", "yes");

	make_map("m", "1");
	assert_ok(kube_read(client, &w, NULL));
	assert_ok(answer());
	assert_string_equal(kube_json_text_at(got.json, "data", "value", NULL), "1");
	assert_ok(kube_patch(client, &w, KUBE_PATCH_MERGE, merge, NULL));
	assert_ok(answer());
	assert_null(kube_json_text_at(got.json, "data", "value", NULL));
	assert_string_equal(kube_json_text_at(got.json, "data", "more", NULL), "x");
	assert_ok(kube_patch(client, &w, KUBE_PATCH_JSON, wrong, NULL));
	assert_int_equal(answer(), -EINVAL);
	w.is_forced = true;
	w.field_manager = "tester";
	assert_ok(kube_patch(client, &w, KUBE_PATCH_APPLY, apply, NULL));
	assert_ok(answer());
	assert_string_equal(kube_json_text_at(got.json, "data", "applied", NULL), "yes");
	assert_string_equal(kube_json_text_at(got.json, "data", "more", NULL), "x");
}

static void names_what_is_refused(void **state)
{
	struct kube_write w = on("v1", "configmaps", "none");
	_cleanup_json_ json_t *bad = json_pack("{s:{ss}}", "metadata", "name", "Bad Name");
	struct kube_request unknown = {.path = "/apis/none.example/v1/things", .done = call_done};

	assert_ok(kube_read(client, &w, NULL));
	assert_int_equal(answer(), -ENOENT);
	assert_int_equal(got.http, 404);
	assert_string_equal(got.reason, "NotFound");
	assert_contains(got.error.msg, "configmaps \"none\" not found");
	w.target.name = NULL;
	assert_ok(kube_create(client, &w, bad, NULL));
	assert_int_equal(answer(), -EINVAL);
	assert_string_equal(got.reason, "Invalid");
	make_map("twice", "1");
	json_object_set_new(json_object_get(bad, "metadata"), "name", json_string("twice"));
	assert_ok(kube_create(client, &w, bad, NULL));
	assert_int_equal(answer(), -EEXIST);
	assert_ok(kube_call_start(client, &unknown, NULL, NULL));
	assert_int_equal(answer(), -ENOENT);
	w.target.name = "..";
	assert_int_equal(kube_read(client, &w, NULL), -EINVAL);
}

static void writes_only_what_has_not_changed(void **state)
{
	struct kube_write w = on("v1", "configmaps", "old");
	_cleanup_json_ json_t *merge = json_pack(
		"{s:{ss}, s:{ss}}", "metadata", "resourceVersion", "1", "data", "value", "2");

	make_map("old", "1");
	assert_ok(kube_patch(client, &w, KUBE_PATCH_MERGE, merge, NULL));
	assert_int_equal(answer(), -EBUSY);
	assert_ok(kube_delete(
		client, &w, &(struct kube_delete){.uid = "not-this", .grace_s = -1}, NULL));
	assert_int_equal(answer(), -EBUSY);
	assert_ok(kube_delete(client, &w,
		&(struct kube_delete){.grace_s = 0, .propagation = "Background"}, NULL));
	assert_ok(answer());
	assert_ok(kube_delete(client, &w, NULL, NULL));
	assert_int_equal(answer(), -ENOENT);
}

static void binds_and_writes_status(void **state)
{
	struct kube_write w = on("v1", "pods", "bound");
	_cleanup_json_ json_t *given = json_pack("{ss}", "divvy.gpu/devices", "GPU-1");
	_cleanup_json_ json_t *status = json_pack("{s:{s:[{ss, ss, ss}]}}", "status", "conditions",
		"type", "x.test/y", "status", "True", "reason", "Tested");

	make_pod("bound");
	w.target.subresource = "status";
	assert_ok(kube_patch(client, &w, KUBE_PATCH_STRATEGIC, status, NULL));
	if (answer() < 0)
		fail_msg("%s", got.error.msg);
	assert_ok(kube_bind(client, &w, "some-node", NULL, given, NULL));
	if (answer() < 0)
		fail_msg("%s", got.error.msg);
	assert_ok(kube_bind(client, &w, "other-node", NULL, NULL, NULL));
	assert_int_equal(answer(), -EBUSY);
	w.target.subresource = NULL;
	assert_ok(kube_read(client, &w, NULL));
	assert_ok(answer());
	assert_string_equal(kube_json_text_at(got.json, "spec", "nodeName", NULL), "some-node");
	assert_string_equal(
		kube_json_text_at(got.json, "metadata", "annotations", "mine", NULL), "stays");
	assert_string_equal(
		kube_json_text_at(got.json, "metadata", "annotations", "divvy.gpu/devices", NULL),
		"GPU-1");
	assert_ok(kube_delete(client, &w, &(struct kube_delete){.grace_s = 0}, NULL));
	assert_ok(answer());
}

static void on_discovery(void *data, int r, const struct error *err)
{
	if (r < 0)
		fail_msg("%s", err->msg);
	*(bool *)data = true;
}

static bool is_true(void *data)
{
	return *(bool *)data;
}

/*
 * Compares apis.def with the server's version, and evicts a pod by the version of Eviction that the
 * server has.
 */
static void discovers(void **state)
{
	struct kube_discovery *discovery;
	struct kube_write w = on("v1", "pods", "evicted");
	struct kube_request version = {.path = "/version", .done = call_done};
	bool is_known = false;
	int minor;

	assert_ok(kube_call_start(client, &version, NULL, NULL));
	assert_ok(answer());
	minor = (int)strtol(kube_json_text_at(got.json, "minor", NULL), NULL, 10);
	assert_ok(kube_discovery_new(client, on_discovery, &is_known, &discovery, NULL));
	run_until(is_true, &is_known);
	for (size_t i = 0; i < kube_n_api_rows; i++) {
		const struct kube_api_row *row = &kube_api_rows[i], *found;
		const bool is_served = minor >= row->first_minor &&
			(!row->last_minor || minor <= row->last_minor);

		found = kube_discovery_find(discovery, row->api);
		if (row->is_own || (i && kube_api_rows[i - 1].api == row->api))
			continue;
		if (is_served && found != row)
			fail_msg("1.%d: %s %s is not found", minor, row->group_version,
				row->resource);
		if (!is_served && found == row)
			fail_msg("1.%d: %s %s is found", minor, row->group_version, row->resource);
	}
	assert_string_equal(
		kube_discovery_eviction(discovery), minor < 22 ? "policy/v1beta1" : "policy/v1");
	make_pod("evicted");
	assert_ok(kube_evict(client, &w, kube_discovery_eviction(discovery),
		&(struct kube_delete){.grace_s = 0}, NULL));
	if (answer() < 0)
		fail_msg("%s", got.error.msg);
	is_known = false;
	kube_discovery_refresh(discovery);
	kube_discovery_refresh(discovery);
	run_until(is_true, &is_known);
	kube_discovery_free(discovery);
}

static bool is_quiet(void *data)
{
	const struct kube_recorder_counts c = kube_recorder_counts(data);

	return c.n_written + c.n_failed + c.n_dropped + c.n_merged >= 4;
}

static void records_events(void **state)
{
	struct kube_recorder *recorder;
	struct kube_request list = {.done = call_done};
	struct kube_event event = {.type = "Warning",
		.reason = "FailedScheduling",
		.object = {"v1", "Pod", space, "seen", "uid-1"},
		.message = "0/12 nodes: \"no GPU\""};
	char path[256];

	assert_ok(kube_recorder_new(client, "divvy-test", "here", &recorder, NULL));
	for (int i = 0; i < 3; i++)
		kube_record(recorder, &event);
	event.message = "0/11 nodes";
	kube_record(recorder, &event);
	run_until(is_quiet, recorder);
	assert_int_equal(kube_recorder_counts(recorder).n_failed, 0);
	assert_int_equal(kube_recorder_counts(recorder).n_dropped, 0);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/events", space);
	list.path = path;
	list.query = "fieldSelector=involvedObject.name%3Dseen";
	assert_ok(kube_call_start(client, &list, NULL, NULL));
	assert_ok(answer());
	assert_int_equal(json_array_size(json_object_get(got.json, "items")), 2);
	for (size_t i = 0; i < 2; i++) {
		const json_t *item = json_array_get(json_object_get(got.json, "items"), i);
		const char *message = kube_json_text_at(item, "message", NULL);

		assert_int_equal(json_integer_value(json_object_get(item, "count")),
			strcmp(message, "0/11 nodes") ? 3 : 1);
		assert_string_equal(
			kube_json_text_at(item, "source", "component", NULL), "divvy-test");
	}
	kube_recorder_free(recorder);
}

struct candidate {
	struct kube_lease *lease;
	bool is_leading;
	uint64_t epoch;
	int n_changes;
};

static void on_lease(void *data, bool is_leading, uint64_t epoch)
{
	struct candidate *c = data;

	c->is_leading = is_leading;
	c->epoch = epoch;
	c->n_changes++;
}

static bool is_leader(void *data)
{
	return ((struct candidate *)data)->is_leading;
}

static void begin_candidate(struct candidate *c, const char *identity)
{
	const struct kube_lease_options options = {.namespace_name = space,
		.name = "leader",
		.identity = identity,
		.duration_ns = 9 * NSEC_PER_SEC,
		.renew_ns = 6 * NSEC_PER_SEC,
		.retry_ns = NSEC_PER_SEC / 2,
		.changed = on_lease,
		.data = c};

	*c = (struct candidate){.is_leading = false};
	assert_ok(kube_lease_start(client, &options, &c->lease, NULL));
}

static void run_for(uint64_t ns)
{
	const uint64_t end_ns = clock_now_ns() + ns;

	while (clock_now_ns() < end_ns)
		loop_run_once(loop, end_ns);
}

static void elects_one_leader(void **state)
{
	struct candidate a, b;

	begin_candidate(&a, "a");
	run_until(is_leader, &a);
	assert_int_equal(a.epoch, 0);
	begin_candidate(&b, "b");
	run_for(10 * NSEC_PER_SEC);
	assert_true(kube_lease_may_write(a.lease));
	assert_false(kube_lease_may_write(b.lease));
	assert_int_equal(b.n_changes, 0);
	assert_string_equal(kube_lease_holder(b.lease), "a");
	/* "a" stops without a release, so "b" waits until the Lease expires. */
	kube_lease_stop(a.lease);
	run_until(is_leader, &b);
	assert_int_equal(b.epoch, 1);
	/* "b" releases the Lease, so "a" takes it at its next look. */
	begin_candidate(&a, "a");
	run_for(NSEC_PER_SEC);
	kube_lease_release(b.lease);
	assert_false(kube_lease_may_write(b.lease));
	run_until(is_leader, &a);
	assert_int_equal(a.epoch, 2);
	assert_int_equal(b.n_changes, 2);
	kube_lease_stop(a.lease);
	kube_lease_stop(b.lease);
}

/* A callback may cancel its own call and others. No cancelled call calls back. */
static struct kube_call *victims[8];

static void never(void *data, const struct kube_answer *answer)
{
	fail_msg("a cancelled call was answered: %s", answer->error.msg);
}

static void cancels_others(void *data, const struct kube_answer *answer)
{
	for (size_t i = 0; i < ARRAY_SIZE(victims); i++)
		kube_call_cancel(victims[i]);
	got.is_there = true;
	got.result = answer->result;
}

static int cancels_itself(void *data, struct str bytes)
{
	kube_call_cancel(*(struct kube_call **)data);
	*(struct kube_call **)data = NULL;
	return 0;
}

static void cancels_from_within(void **state)
{
	struct kube_request slow = {.path = "/api/v1/pods",
		.query = "watch=1&resourceVersion=0",
		.is_watch = true,
		.done = never};
	struct kube_request quick = {.path = "/version", .done = cancels_others};
	struct kube_call *own = NULL;
	struct kube_request self = {.path = "/api/v1/namespaces",
		.on_body = cancels_itself,
		.done = never,
		.data = &own};

	for (size_t i = 0; i < ARRAY_SIZE(victims); i++)
		assert_ok(kube_call_start(client, &slow, &victims[i], NULL));
	assert_ok(kube_call_start(client, &self, &own, NULL));
	while (own)
		assert_true(loop_run_once(loop, CLOCK_NEVER) >= 0);
	assert_ok(kube_call_start(client, &quick, NULL, NULL));
	assert_ok(answer());
	run_for(NSEC_PER_SEC / 5);
	assert_int_equal(kube_client_counts(client).n_running, 0);
	assert_int_equal(kube_client_counts(client).n_waiting, 0);
}

static void keeps_to_deadlines(void **state)
{
	struct kube_request slow = {.path = "/api/v1/pods",
		.query = "watch=1&resourceVersion=0",
		.timeout_ns = NSEC_PER_SEC / 5,
		.done = call_done};

	assert_ok(kube_call_start(client, &slow, NULL, NULL));
	assert_int_equal(answer(), -ETIMEDOUT);
	slow.timeout_ns = 0;
	slow.idle_ns = NSEC_PER_SEC / 5;
	slow.query = "watch=1&fieldSelector=metadata.name%3Dnone";
	assert_ok(kube_call_start(client, &slow, NULL, NULL));
	assert_int_equal(answer(), -ETIMEDOUT);
}

/* Makes a request with another configuration, and returns its result. */
static int ask_with(struct kube_config *other)
{
	struct kube_client *asker;
	const struct kube_request request = {
		.path = "/api/v1/namespaces", .done = call_done, .timeout_ns = 10 * NSEC_PER_SEC};
	int r;

	assert_ok(kube_client_new(loop, other, NULL, &asker, NULL));
	assert_ok(kube_call_start(asker, &request, NULL, NULL));
	r = answer();
	kube_client_free(asker);
	return r;
}

static void trusts_only_its_authority(void **state)
{
	struct kube_config other = *config;

	assert_ok(ask_with(&other));
	other.ca_pem = NULL;
	assert_int_equal(ask_with(&other), -EKEYREJECTED);
	other = *config;
	other.tls_server_name = (char *)"kubernetes.default";
	assert_ok(ask_with(&other));
	other.tls_server_name = (char *)"somebody.else";
	assert_int_equal(ask_with(&other), -EKEYREJECTED);
	other = *config;
	other.token = (char *)"wrong";
	other.cert_pem = other.key_pem = NULL;
	assert_int_equal(ask_with(&other), -EACCES);
}

static void write_text(const char *path, const char *text)
{
	/* Removes an existing file first, because file_replace() would keep that file's mode. */
	unlink(path);
	assert_ok(file_replace(path, str_from(text), 0700, NULL));
}

/* When the token's file is replaced, the client uses the new token after the first refusal. */
static void reads_a_token_again(void **state)
{
	char path[] = "/tmp/test-kube-token-XXXXXX";
	struct kube_config other = *config;
	const struct kube_request request = {.path = "/api/v1/namespaces", .done = call_done};
	struct kube_client *asker;
	const int fd = mkstemp(path);

	if (!config->token)
		skip();
	assert_true(fd >= 0);
	fd_close(fd);
	other.token = NULL;
	other.cert_pem = other.key_pem = NULL;
	other.token_file = path;
	write_text(path, "old");
	assert_ok(kube_client_new(loop, &other, NULL, &asker, NULL));
	assert_ok(kube_call_start(asker, &request, NULL, NULL));
	assert_int_equal(answer(), -EACCES);
	write_text(path, config->token);
	assert_ok(kube_call_start(asker, &request, NULL, NULL));
	assert_ok(answer());
	kube_client_free(asker);
	unlink(path);
}

static void asks_a_plugin(void **state)
{
	char path[] = "/tmp/test-kube-plugin-XXXXXX";
	char *argv[] = {path, NULL}, *env[] = {NULL};
	struct kube_exec plugin = {.where = (char *)"users[u].exec",
		.api_version = (char *)"client.authentication.k8s.io/v1",
		.argv = argv,
		.env = env};
	struct kube_config other = *config;
	_cleanup_buf_ struct buf script = BUF_INIT(8192);
	const int fd = mkstemp(path);

	if (!config->token)
		skip();
	assert_true(fd >= 0);
	fd_close(fd);
	other.token = NULL;
	other.cert_pem = other.key_pem = NULL;
	other.exec = &plugin;
	buf_addf(&script,
		"#!/bin/sh\ncase $KUBERNETES_EXEC_INFO in *ExecCredential*) ;; *) exit 5;; esac\n"
		"echo "
		"'{\"apiVersion\":\"%s\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\","
		"\"expirationTimestamp\":\"2020-01-01T00:00:00Z\"}}'\n",
		plugin.api_version, config->token);
	write_text(path, buf_text(&script));
	if (ask_with(&other) < 0)
		fail_msg("%s", got.error.msg);
	write_text(path, "#!/bin/sh\necho 'please log in' >&2\nexit 3\n");
	assert_int_equal(ask_with(&other), -EACCES);
	assert_contains(got.error.msg, "users[u].exec");
	assert_contains(got.error.msg, "please log in");
	write_text(path, "#!/bin/sh\necho '{}'\n");
	assert_int_equal(ask_with(&other), -EBADMSG);
	unlink(path);
	assert_int_equal(ask_with(&other), -ENOENT);
}

static int begin(void **state)
{
	struct error err = {0};

	space = getenv("DIVVY_TEST_NAMESPACE");
	if (!space)
		space = "default";
	if (loop_new(&loop) < 0 || kube_config_load(NULL, &config, &err) < 0 ||
		kube_client_new(loop, config, NULL, &client, &err) < 0) {
		print_error("%s\n", err.msg);
		return -1;
	}
	return 0;
}

static int end(void **state)
{
	json_decref(got.json);
	kube_client_free(client);
	kube_config_free(config);
	loop_free(loop);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {UNIT(writes_and_reads), UNIT(names_what_is_refused),
		UNIT(writes_only_what_has_not_changed), UNIT(binds_and_writes_status),
		UNIT(discovers), UNIT(records_events), UNIT(elects_one_leader),
		UNIT(cancels_from_within), UNIT(keeps_to_deadlines),
		UNIT(trusts_only_its_authority), UNIT(reads_a_token_again), UNIT(asks_a_plugin)};

	return cmocka_run_group_tests(tests, begin, end);
}
