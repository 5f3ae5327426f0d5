/* SPDX-License-Identifier: Apache-2.0 */
/* The DRA driver at the kubelet, with a peer that plays the kubelet. */
#include "kubelet/dra-plugin.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "kubelet/dra.pb-c.h"
#include "kubelet/unpack.h"
#include "raw.h"
#include "unit.h"

#define V1 "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
#define V1BETA1 "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/"

static struct rig {
	struct loop *loop;
	char folder[64], registry[96], own[96];
	struct dra_plugin *plugin;
	/* the callbacks */
	struct dra_request *kept;
	bool is_prepare;
	int n_known, n_unknown;
	char reason[256];
} rig;

static void keep_prepare(struct dra_request *request)
{
	assert_null(rig.kept);
	rig.kept = request;
	rig.is_prepare = true;
}

static void keep_unprepare(struct dra_request *request)
{
	assert_null(rig.kept);
	rig.kept = request;
	rig.is_prepare = false;
}

static void dra_on_changed(struct dra_plugin *plugin, bool is_known, const char *reason)
{
	rig.n_known += is_known;
	rig.n_unknown += !is_known;
	snprintf(rig.reason, sizeof(rig.reason), "%s", reason);
}

static const struct dra_ops ops = {
	.prepare = keep_prepare, .unprepare = keep_unprepare, .changed = dra_on_changed};

static void start_driver_with(const struct dra_ops *chosen)
{
	const struct dra_options options = {
		.driver = "divvy.gpu",
		.registry = rig.registry,
		.folder = rig.own,
		.ops = chosen,
		.data = &rig,
	};
	struct error err;

	assert_ok(dra_plugin_new(rig.loop, &options, &rig.plugin, &err));
}

static void start_driver(void)
{
	start_driver_with(&ops);
}

static int set_up(void **state)
{
	rig = (struct rig){0};
	snprintf(rig.folder, sizeof(rig.folder), "/tmp/divvy-dra-XXXXXX");
	assert_non_null(mkdtemp(rig.folder));
	snprintf(rig.registry, sizeof(rig.registry), "%s/plugins_registry", rig.folder);
	snprintf(rig.own, sizeof(rig.own), "%s/plugins/divvy.gpu", rig.folder);
	assert_ok(loop_new(&rig.loop));
	start_driver();
	return 0;
}

static int tear_down(void **state)
{
	char path[128];

	dra_plugin_free(rig.plugin);
	loop_free(rig.loop);
	/* Each fails if any file is left. */
	assert_ok(rmdir(rig.registry));
	assert_ok(rmdir(rig.own));
	snprintf(path, sizeof(path), "%s/plugins", rig.folder);
	assert_ok(rmdir(path));
	return rmdir(rig.folder);
}

/* The path of the only file in the folder, on the heap. */
static char *only_file(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char *path = NULL;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		assert_null(path);
		assert_true(asprintf(&path, "%s/%s", folder, entry->d_name) > 0);
	}
	closedir(dir);
	return path;
}

static void connect_to(struct raw *raw, const char *folder)
{
	_cleanup_free_ char *path = only_file(folder);

	assert_non_null(path);
	raw_open_at(raw, rig.loop, path, RAW_WINDOW);
}

/* The message without its prefix. */
static struct str message_in(const struct buf *out)
{
	assert_true(out->n >= GRPC_PREFIX);
	return (struct str){out->p + GRPC_PREFIX, out->n - GRPC_PREFIX};
}

/* Makes a call on a connection of its own. Returns its status; -1 after a reset. */
static int call(const char *folder, const char *path, const ProtobufCMessage *request,
	struct buf *out, struct buf *headers)
{
	_cleanup_buf_ struct buf message = {0};
	struct raw raw;
	int status;

	assert_ok(pack(request, &message));
	connect_to(&raw, folder);
	raw_call(&raw, 1, path, buf_str(&message));
	status = raw_status(&raw, 1, out, headers);
	raw_close(&raw);
	return status;
}

static int notify(bool is_registered, const char *error)
{
	_cleanup_buf_ struct buf out = BUF_INIT(4096), headers = BUF_INIT(4096);
	Dra__RegistrationStatus status = DRA__REGISTRATION_STATUS__INIT;

	status.plugin_registered = is_registered;
	status.error = (char *)(uintptr_t)error;
	return call(rig.registry, "/pluginregistration.Registration/NotifyRegistrationStatus",
		&status.base, &out, &headers);
}

/* ---- registration ---- */

static void the_driver_says_what_it_serves_and_where(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(4096), headers = BUF_INIT(4096);
	Dra__RegistrationStatus nothing = DRA__REGISTRATION_STATUS__INIT;
	_cleanup_free_ char *own = only_file(rig.own);
	_cleanup_message_ Dra__PluginInfo *info = NULL;

	assert_int_equal(call(rig.registry, "/pluginregistration.Registration/GetInfo",
				 &nothing.base, &out, &headers),
		GRPC_OK);
	info = unpack(&dra__plugin_info__descriptor, message_in(&out));
	assert_non_null(info);
	assert_string_equal(info->type, "DRAPlugin");
	assert_string_equal(info->name, "divvy.gpu");
	assert_string_equal(info->endpoint, own);
	assert_int_equal(info->n_supported_versions, 4);
	/* Kubelets take the first version that they know. */
	assert_string_equal(info->supported_versions[0], "v1.DRAPlugin");
	assert_string_equal(info->supported_versions[1], "v1beta1.DRAPlugin");
	assert_false(dra_plugin_is_known(rig.plugin));
}

static void the_kubelet_reports_registration_and_refusal(void **state)
{
	assert_int_equal(notify(true, ""), GRPC_OK);
	assert_true(dra_plugin_is_known(rig.plugin));
	assert_int_equal(notify(true, ""), GRPC_OK);
	assert_int_equal(rig.n_known, 1); /* reported once */
	assert_int_equal(notify(false, "no handler for DRAPlugin"), GRPC_OK);
	assert_false(dra_plugin_is_known(rig.plugin));
	assert_string_equal(rig.reason, "no handler for DRAPlugin");
}

static void removed_sockets_come_back_under_new_names(void **state)
{
	_cleanup_free_ char *registry = only_file(rig.registry), *own = only_file(rig.own);
	char *again;

	assert_ok(unlink(registry));
	dra_plugin_tick(rig.plugin);
	again = only_file(rig.registry);
	assert_string_not_equal(again, registry);
	free(again);
	again = only_file(rig.own);
	assert_string_equal(again, own); /* it was not removed */
	free(again);
	assert_ok(unlink(own));
	dra_plugin_tick(rig.plugin);
	again = only_file(rig.own);
	assert_string_not_equal(again, own);
	free(again);
	assert_int_equal(notify(true, ""), GRPC_OK);
}

static void a_killed_predecessors_sockets_are_removed(void **state)
{
	char path[160], kept[160];

	/* Nobody listens on these files, as after a kill. */
	snprintf(path, sizeof(path), "%s/divvy.gpu-0123abcd-reg.sock", rig.registry);
	assert_ok(file_replace(path, STR(""), 0600, NULL));
	snprintf(kept, sizeof(kept), "%s/other.example-0123abcd-reg.sock", rig.registry);
	assert_ok(file_replace(kept, STR(""), 0600, NULL));
	dra_plugin_free(rig.plugin);
	start_driver();
	assert_int_not_equal(access(path, F_OK), 0);
	assert_ok(unlink(kept)); /* another driver's is none of ours */
}

/* ---- claims ---- */

static Dra__Claim claim_of(const char *name, const char *uid)
{
	Dra__Claim claim = DRA__CLAIM__INIT;

	claim.namespace_name = (char *)(uintptr_t) "team-a";
	claim.name = (char *)(uintptr_t)name;
	claim.uid = (char *)(uintptr_t)uid;
	return claim;
}

/* Sends a request for two claims, and returns when the callback has it. */
static void ask(struct raw *raw, const char *path)
{
	Dra__PrepareRequest request = DRA__PREPARE_REQUEST__INIT;
	Dra__Claim claims[] = {claim_of("one", "uid-1"), claim_of("two", "uid-2")};
	Dra__Claim *pointers[] = {&claims[0], &claims[1]};
	_cleanup_buf_ struct buf message = {0};

	request.claims = pointers;
	request.n_claims = 2;
	assert_ok(pack(&request.base, &message));
	connect_to(raw, rig.own);
	raw_call(raw, 1, path, buf_str(&message));
	while (!rig.kept)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_int_equal(rig.kept->n_claims, 2);
	assert_string_equal(rig.kept->claims[0].space, "team-a");
	assert_string_equal(rig.kept->claims[0].name, "one");
	assert_string_equal(rig.kept->claims[1].uid, "uid-2");
}

/* Sends a request to a driver that is registered before it can serve. */
static void ask_without_ops(struct raw *raw)
{
	Dra__PrepareRequest request = DRA__PREPARE_REQUEST__INIT;
	Dra__Claim claims[] = {claim_of("one", "uid-1"), claim_of("two", "uid-2")};
	Dra__Claim *pointers[] = {&claims[0], &claims[1]};
	_cleanup_buf_ struct buf message = {0};

	dra_plugin_free(rig.plugin);
	start_driver_with(NULL);
	request.claims = pointers;
	request.n_claims = 2;
	assert_ok(pack(&request.base, &message));
	connect_to(raw, rig.own);
	raw_call(raw, 1, V1 "NodeUnprepareResources", buf_str(&message));
	while (loop_run_once(rig.loop, clock_now_ns() + 50 * NSEC_PER_MSEC) > 0)
		;
	assert_null(rig.kept);
}

static void requests_wait_for_the_ops(void **state)
{
	const struct dra_result results[2] = {{.error = "first"}, {.error = "second"}};
	_cleanup_buf_ struct buf out = BUF_INIT(4096), headers = BUF_INIT(4096);
	struct raw raw;

	ask_without_ops(&raw);
	dra_plugin_take(rig.plugin, &ops, &rig);
	assert_non_null(rig.kept);
	assert_false(rig.is_prepare);
	assert_ptr_equal(dra_plugin_data(rig.plugin), &rig);
	dra_answer(TAKE_PTR(rig.kept), results);
	assert_int_equal(raw_status(&raw, 1, &out, &headers), GRPC_OK);
	raw_close(&raw);
}

/* Builds with a sanitizer find a request that is not freed. */
static void a_driver_may_end_before_it_has_ops(void **state)
{
	struct raw raw;

	ask_without_ops(&raw);
	dra_plugin_free(TAKE_PTR(rig.plugin));
	assert_null(rig.kept);
	raw_close(&raw);
}

static void check_prepare(const char *path)
{
	const struct dra_device devices[] = {
		{"half", "node-1", "share-a", "share-id", "divvy.gpu/slot=3"},
		{"", "node-1", "gpu-b", "", ""},
	};
	const struct dra_result results[] = {
		{.devices = devices, .n_devices = ARRAY_SIZE(devices)},
		{.error = "device gpu-b is lost"},
	};
	_cleanup_buf_ struct buf out = BUF_INIT(4096), headers = BUF_INIT(4096);
	_cleanup_message_ Dra__PrepareResponse *response = NULL;
	const Dra__PreparedClaim *claim;
	struct raw raw;

	ask(&raw, path);
	assert_true(rig.is_prepare);
	dra_answer(TAKE_PTR(rig.kept), results);
	assert_int_equal(raw_status(&raw, 1, &out, &headers), GRPC_OK);
	raw_close(&raw);
	response = unpack(&dra__prepare_response__descriptor, message_in(&out));
	assert_non_null(response);
	assert_int_equal(response->n_claims, 2);
	assert_string_equal(response->claims[0]->key, "uid-1");
	claim = response->claims[0]->value;
	assert_string_equal(claim->error, "");
	assert_int_equal(claim->n_devices, 2);
	assert_string_equal(claim->devices[0]->request_names[0], "half");
	assert_string_equal(claim->devices[0]->pool_name, "node-1");
	assert_string_equal(claim->devices[0]->device_name, "share-a");
	assert_string_equal(claim->devices[0]->share_id, "share-id");
	assert_string_equal(claim->devices[0]->cdi_device_ids[0], "divvy.gpu/slot=3");
	assert_int_equal(claim->devices[1]->n_request_names, 0);
	assert_int_equal(claim->devices[1]->n_cdi_device_ids, 0);
	claim = response->claims[1]->value;
	assert_string_equal(claim->error, "device gpu-b is lost");
	assert_int_equal(claim->n_devices, 0);
}

static void claims_are_prepared(void **state)
{
	check_prepare(V1 "NodePrepareResources");
}

static void older_kubelets_ask_by_v1beta1(void **state)
{
	check_prepare(V1BETA1 "NodePrepareResources");
}

static void claims_are_unprepared(void **state)
{
	const struct dra_result results[] = {{.error = NULL}, {.error = "the disk is full"}};
	_cleanup_buf_ struct buf out = BUF_INIT(4096), headers = BUF_INIT(4096);
	_cleanup_message_ Dra__UnprepareResponse *response = NULL;
	struct raw raw;

	ask(&raw, V1 "NodeUnprepareResources");
	assert_false(rig.is_prepare);
	dra_answer(TAKE_PTR(rig.kept), results);
	assert_int_equal(raw_status(&raw, 1, &out, &headers), GRPC_OK);
	raw_close(&raw);
	response = unpack(&dra__unprepare_response__descriptor, message_in(&out));
	assert_non_null(response);
	assert_int_equal(response->n_claims, 2);
	assert_string_equal(response->claims[0]->value->error, "");
	assert_string_equal(response->claims[1]->key, "uid-2");
	assert_string_equal(response->claims[1]->value->error, "the disk is full");
}

static void a_kubelet_that_is_gone_gets_no_answer(void **state)
{
	const struct dra_result results[2] = {0};
	struct raw raw;

	ask(&raw, V1 "NodePrepareResources");
	raw_close(&raw);
	for (int i = 0; i < 4; i++)
		loop_run_once(rig.loop, 0);
	dra_answer(TAKE_PTR(rig.kept), results);
}

static void a_driver_that_ends_first_answers_nobody(void **state)
{
	const struct dra_result results[2] = {0};
	struct raw raw;

	ask(&raw, V1 "NodePrepareResources");
	dra_plugin_free(TAKE_PTR(rig.plugin));
	assert_null(rig.kept->plugin);
	dra_answer(TAKE_PTR(rig.kept), results);
	raw_close(&raw);
}

static void a_request_needs_names_and_has_a_limit(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(4096), headers = BUF_INIT(4096);
	Dra__PrepareRequest request = DRA__PREPARE_REQUEST__INIT;
	Dra__Claim claim = claim_of("one", "");
	Dra__Claim *pointers[DRA_CLAIMS_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(pointers); i++)
		pointers[i] = &claim;
	request.claims = pointers;
	request.n_claims = 1;
	assert_int_equal(call(rig.own, V1 "NodePrepareResources", &request.base, &out, &headers),
		GRPC_INVALID_ARGUMENT);
	claim.uid = (char *)(uintptr_t) "uid-1";
	request.n_claims = DRA_CLAIMS_MAX + 1;
	assert_int_equal(call(rig.own, V1 "NodePrepareResources", &request.base, &out, &headers),
		GRPC_INVALID_ARGUMENT);
	assert_null(rig.kept);
}

static void a_request_that_is_no_message_is_refused(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(4096), headers = BUF_INIT(4096);
	struct raw raw;

	connect_to(&raw, rig.own);
	raw_call(&raw, 1, V1 "NodePrepareResources", STR("\xff\xff\xff"));
	assert_int_equal(raw_status(&raw, 1, &out, &headers), GRPC_INTERNAL);
	raw_close(&raw);
	assert_null(rig.kept);
}

/* ---- health ---- */

/* The next report on the stream, as text: "share-a:1: gpu-b:2:lost ". */
static const char *next_report(struct raw *raw)
{
	_cleanup_message_ Dra__WatchResponse *report = NULL;
	static char text[512];
	struct raw_frame f;
	int n = 0;

	for (;;) {
		assert_int_equal(raw_next(raw, &f), 1);
		if (f.type == NGHTTP2_DATA)
			break;
		raw_frame_done(&f);
	}
	report = unpack(&dra__watch_response__descriptor,
		(struct str){f.bytes.p + GRPC_PREFIX, f.bytes.n - GRPC_PREFIX});
	assert_non_null(report);
	text[0] = '\0';
	for (size_t i = 0; i < report->n_devices; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s:%d:%s ",
			report->devices[i]->device->device_name, (int)report->devices[i]->health,
			report->devices[i]->message);
	raw_frame_done(&f);
	return text;
}

static void the_kubelet_watches_the_health(void **state)
{
	struct dra_health devices[] = {
		{"node-1", "share-a", true, 1000, ""}, {"node-1", "gpu-b", true, 1000, ""}};
	struct error err;
	struct raw raw;

	assert_ok(dra_plugin_report(rig.plugin, devices, 2, &err));
	connect_to(&raw, rig.own);
	raw_call(&raw, 1, "/v1.DRAResourceHealth/NodeWatchResources", STR(""));
	assert_string_equal(next_report(&raw), "share-a:1: gpu-b:1: ");
	assert_true(dra_plugin_is_known(rig.plugin));
	devices[1].is_healthy = false;
	devices[1].message = "lost";
	assert_ok(dra_plugin_report(rig.plugin, devices, 2, &err));
	assert_string_equal(next_report(&raw), "share-a:1: gpu-b:2:lost ");
	raw_close(&raw);
	while (dra_plugin_is_known(rig.plugin))
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_contains(rig.reason, "no longer watches");
	assert_int_equal(dra_plugin_report(rig.plugin, devices, DRA_REPORTS_MAX + 1, &err), -E2BIG);
}

#define RIGGED(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

UNIT_MAIN(RIGGED(the_driver_says_what_it_serves_and_where),
	RIGGED(the_kubelet_reports_registration_and_refusal),
	RIGGED(removed_sockets_come_back_under_new_names),
	RIGGED(a_killed_predecessors_sockets_are_removed), RIGGED(requests_wait_for_the_ops),
	RIGGED(a_driver_may_end_before_it_has_ops), RIGGED(claims_are_prepared),
	RIGGED(older_kubelets_ask_by_v1beta1), RIGGED(claims_are_unprepared),
	RIGGED(a_kubelet_that_is_gone_gets_no_answer),
	RIGGED(a_driver_that_ends_first_answers_nobody),
	RIGGED(a_request_needs_names_and_has_a_limit),
	RIGGED(a_request_that_is_no_message_is_refused), RIGGED(the_kubelet_watches_the_health))
