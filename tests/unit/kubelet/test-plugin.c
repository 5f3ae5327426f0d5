/* SPDX-License-Identifier: Apache-2.0 */
/* The device plugin, with a simulated kubelet in a folder of its own. */
#include "kubelet/plugin.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "kubelet/deviceplugin.pb-c.h"
#include "kubelet/grpc-server.h"
#include "kubelet/unpack.h"
#include "raw.h"
#include "unit.h"

#define LONG_NS (CLOCK_NEVER / 4) /* longer than this machine has run */

static struct rig {
	struct loop *loop;
	char folder[64], socket[160], kubelet_socket[96];
	struct plugin *plugin;
	/* the kubelet */
	struct grpc_server *kubelet;
	int n_registered;
	enum grpc_status answer;
	V1beta1__RegisterRequest *registered; /* the last registration */
	struct raw watch;
	bool is_watching;
	/* the callbacks */
	struct plugin_request *kept;
	int n_known, n_unknown;
	char asked_for[64]; /* a requested device that the plugin does not have */
} rig;

/* ---- the kubelet ---- */

static void on_register(struct grpc_call *call, struct str request)
{
	message_free_p(&rig.registered);
	rig.registered = unpack(&v1beta1__register_request__descriptor, request);
	assert_non_null(rig.registered);
	rig.n_registered++;
	snprintf(rig.socket, sizeof(rig.socket), "%s/%s", rig.folder, rig.registered->endpoint);
	if (rig.answer == GRPC_OK)
		grpc_call_reply(call, STR(""));
	else
		grpc_call_end(call, rig.answer, "not now");
}

static const struct grpc_method kubelet_methods[] = {
	{"/v1beta1.Registration/Register", on_register}};

/* Removes all files of the folder, as a starting kubelet does. */
static void wipe(void)
{
	DIR *dir = opendir(rig.folder);
	struct dirent *entry;
	char path[512];

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", rig.folder, entry->d_name);
		if (entry->d_name[0] != '.')
			assert_ok(unlink(path));
	}
	closedir(dir);
}

static void start_kubelet(void)
{
	struct error err;

	wipe();
	assert_ok(grpc_server_new(rig.loop, kubelet_methods, 1, NULL, &rig.kubelet));
	assert_ok(grpc_server_listen(rig.kubelet, rig.kubelet_socket, &err));
}

static void stop_kubelet(void)
{
	if (rig.is_watching)
		raw_close(&rig.watch);
	rig.is_watching = false;
	grpc_server_free(rig.kubelet);
	rig.kubelet = NULL;
}

static void wait_registered(int n)
{
	while (rig.n_registered < n)
		loop_run_once(rig.loop, CLOCK_NEVER);
}

static void watch(void)
{
	raw_open_at(&rig.watch, rig.loop, rig.socket, RAW_WINDOW);
	rig.is_watching = true;
	raw_call(&rig.watch, 1, "/v1beta1.DevicePlugin/ListAndWatch", STR(""));
	while (!plugin_is_known(rig.plugin))
		loop_run_once(rig.loop, CLOCK_NEVER);
}

/* The next list of devices on the stream, as text: "a:Healthy:0 b:Unhealthy:- ". */
static const char *next_list(void)
{
	static char text[512];
	struct raw_frame f;
	int n = 0;

	for (;;) {
		assert_int_equal(raw_next(&rig.watch, &f), 1);
		if (f.type == NGHTTP2_DATA)
			break;
		raw_frame_done(&f);
	}
	{
		_cleanup_message_ V1beta1__ListAndWatchResponse *list = unpack(
			&v1beta1__list_and_watch_response__descriptor,
			(struct str){f.bytes.p + 5, f.bytes.n - 5});

		assert_non_null(list);
		text[0] = '\0';
		for (size_t i = 0; i < list->n_devices; i++) {
			const V1beta1__Device *d = list->devices[i];

			n += snprintf(text + n, sizeof(text) - (size_t)n, "%s:%s:%d ", d->id,
				d->health, d->topology ? (int)d->topology->nodes[0]->id : -1);
		}
	}
	raw_frame_done(&f);
	return text;
}

/* ---- the callbacks ---- */

static void keep(struct plugin_request *request)
{
	assert_null(rig.kept);
	rig.kept = request;
}

static void on_changed(struct plugin *plugin, bool is_known, const char *reason)
{
	assert_true(reason[0]);
	rig.n_known += is_known;
	rig.n_unknown += !is_known;
}

static void on_unknown(struct plugin *plugin, const char *id, const char *why)
{
	assert_contains(why, "is not offered");
	snprintf(rig.asked_for, sizeof(rig.asked_for), "%s", id);
}

static const struct plugin_ops ops = {.allocate = keep,
	.pre_start = keep,
	.prefer = keep,
	.changed = on_changed,
	.unknown = on_unknown};
static const struct plugin_ops plain_ops = {.allocate = keep};

static const struct plugin_device devices[] = {
	{"slot-2", true, -1}, {"slot-1", true, 0}, {"slot-3", false, 1}};
#define LIST "slot-1:Healthy:0 slot-2:Healthy:-1 slot-3:Unhealthy:1 "

static void start_plugin(const struct plugin_ops *with, uint64_t watch_timeout_ns)
{
	const struct plugin_options options = {
		.resource = "divvy.gpu/slot",
		.folder = rig.folder,
		.name = "divvy",
		.ops = with,
		.data = &rig,
		.watch_timeout_ns = watch_timeout_ns,
	};
	struct error err;

	assert_ok(plugin_new(rig.loop, &options, &rig.plugin, &err));
	assert_ok(plugin_set_devices(rig.plugin, devices, ARRAY_SIZE(devices), &err));
}

static int set_up(void **state)
{
	rig = (struct rig){0};
	snprintf(rig.folder, sizeof(rig.folder), "/tmp/divvy-plugin-XXXXXX");
	assert_non_null(mkdtemp(rig.folder));
	snprintf(rig.kubelet_socket, sizeof(rig.kubelet_socket), "%s/kubelet.sock", rig.folder);
	assert_ok(loop_new(&rig.loop));
	return 0;
}

static int tear_down(void **state)
{
	plugin_free(rig.plugin);
	stop_kubelet();
	message_free_p(&rig.registered);
	loop_free(rig.loop);
	return rmdir(rig.folder); /* fails if any file is left */
}

/* ---- registration with the kubelet ---- */

static void the_plugin_registers(void **state)
{
	start_kubelet();
	start_plugin(&ops, LONG_NS);
	wait_registered(1);
	assert_string_equal(rig.registered->version, "v1beta1");
	assert_memory_equal(rig.registered->endpoint, "divvy-", strlen("divvy-"));
	assert_string_equal(rig.registered->resource_name, "divvy.gpu/slot");
	assert_true(rig.registered->options->pre_start_required);
	assert_true(rig.registered->options->get_preferred_allocation_available);
	assert_false(plugin_is_known(rig.plugin));
	watch();
	assert_string_equal(next_list(), LIST);
	assert_int_equal(rig.n_known, 1);
	assert_int_equal(rig.n_registered, 1);
}

static void missing_callbacks_are_not_offered(void **state)
{
	start_kubelet();
	start_plugin(&plain_ops, LONG_NS);
	wait_registered(1);
	assert_false(rig.registered->options->pre_start_required);
	assert_false(rig.registered->options->get_preferred_allocation_available);
}

static void the_plugin_waits_for_the_kubelet(void **state)
{
	start_plugin(&ops, LONG_NS);
	for (int i = 0; i < 4; i++)
		loop_run_once(rig.loop, CLOCK_NEVER);
	start_kubelet();
	wait_registered(1);
	assert_int_equal(rig.n_unknown, 1); /* reported once for all attempts */
}

static void the_plugin_waits_for_the_folder(void **state)
{
	assert_ok(rmdir(rig.folder));
	start_plugin(&ops, LONG_NS);
	while (!rig.n_unknown)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_ok(mkdir(rig.folder, 0755));
	start_kubelet();
	wait_registered(1);
	watch();
	/* The folder itself is removed and created again. */
	stop_kubelet();
	wipe();
	assert_ok(rmdir(rig.folder));
	assert_ok(mkdir(rig.folder, 0755));
	start_kubelet();
	wait_registered(2);
	watch();
	assert_string_equal(next_list(), LIST);
	/* The plugin watches the new folder like the first. */
	stop_kubelet();
	while (plugin_is_known(rig.plugin))
		loop_run_once(rig.loop, CLOCK_NEVER);
	start_kubelet();
	wait_registered(3);
}

static void the_plugin_registers_again_when_the_kubelet_restarts(void **state)
{
	start_kubelet();
	start_plugin(&ops, LONG_NS);
	for (int i = 1; i < 20; i++) {
		wait_registered(i);
		watch();
		assert_string_equal(next_list(), LIST);
		stop_kubelet();
		/*
		 * every second time, the new kubelet starts only after the plugin has seen the end
		 * of the old one
		 */
		if (i % 2)
			while (plugin_is_known(rig.plugin))
				loop_run_once(rig.loop, CLOCK_NEVER);
		start_kubelet();
	}
	wait_registered(20);
	assert_int_equal(rig.n_registered, 20);
}

static void a_refused_registration_is_repeated(void **state)
{
	rig.answer = GRPC_UNAVAILABLE;
	start_kubelet();
	start_plugin(&ops, LONG_NS);
	wait_registered(3);
	rig.answer = GRPC_OK;
	wait_registered(4);
	watch();
	assert_string_equal(next_list(), LIST);
}

static void the_plugin_registers_again_when_no_kubelet_lists_devices(void **state)
{
	start_kubelet();
	start_plugin(&ops, NSEC_PER_MSEC);
	wait_registered(3);
	watch();
	assert_string_equal(next_list(), LIST);
}

/* Kubelets from 1.26 to 1.36 close the stream when a killed predecessor's stream ends. */
static void a_stream_that_ends_alone_causes_a_registration(void **state)
{
	start_kubelet();
	start_plugin(&ops, LONG_NS);
	for (int i = 1; i < 4; i++) {
		wait_registered(i);
		watch();
		assert_string_equal(next_list(), LIST);
		raw_close(&rig.watch);
		rig.is_watching = false;
		while (plugin_is_known(rig.plugin))
			loop_run_once(rig.loop, CLOCK_NEVER);
	}
	wait_registered(4);
}

/* A kubelet of Kubernetes 1.37 never again accepts the name of a socket that it has refused. */
static void a_refused_plugin_takes_another_socket(void **state)
{
	char refused[sizeof(rig.socket)];

	rig.answer = GRPC_UNAVAILABLE;
	start_kubelet();
	start_plugin(&ops, LONG_NS);
	wait_registered(1);
	snprintf(refused, sizeof(refused), "%s", rig.socket);
	rig.answer = GRPC_OK;
	wait_registered(2);
	assert_string_not_equal(rig.socket, refused);
	assert_int_equal(access(refused, F_OK), -1);
	watch();
	assert_string_equal(next_list(), LIST);
}

/* Leaves the socket of a plugin that was killed. */
static void leave_socket(char *path, size_t size, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(path, size, "%s/%s", rig.folder, name);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_true(fd >= 0);
	assert_ok(bind(fd, (const struct sockaddr *)&address, sizeof(address)));
}

static void sockets_of_killed_plugins_are_removed(void **state)
{
	char old[sizeof(rig.socket)], other[96];
	struct plugin *first;

	start_kubelet();
	leave_socket(old, sizeof(old), "divvy-0123abcd.sock");
	leave_socket(other, sizeof(other), "divvy-metrics.sock");
	start_plugin(&ops, LONG_NS);
	wait_registered(1);
	assert_int_equal(access(old, F_OK), -1);
	assert_ok(access(other, F_OK));
	assert_ok(unlink(other));
	/* A plugin that runs keeps its socket. */
	first = rig.plugin;
	snprintf(old, sizeof(old), "%s", rig.socket);
	start_plugin(&ops, LONG_NS);
	wait_registered(2);
	assert_string_not_equal(rig.socket, old);
	assert_ok(access(old, F_OK));
	plugin_free(first);
}

static void a_removed_socket_is_made_again(void **state)
{
	start_kubelet();
	start_plugin(&ops, LONG_NS);
	wait_registered(1);
	watch();
	assert_ok(unlink(rig.socket));
	while (access(rig.socket, F_OK) < 0)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_int_equal(rig.n_registered, 1);
	assert_true(plugin_is_known(rig.plugin));
}

/* ---- devices ---- */

static void changes_are_sent(void **state)
{
	const struct plugin_device fewer[] = {{"slot-3", true, 1}};
	struct error err;

	start_kubelet();
	start_plugin(&ops, LONG_NS);
	wait_registered(1);
	watch();
	assert_string_equal(next_list(), LIST);
	assert_ok(plugin_set_devices(rig.plugin, devices, ARRAY_SIZE(devices), &err));
	assert_ok(plugin_set_devices(rig.plugin, fewer, 1, &err));
	assert_string_equal(next_list(), "slot-3:Healthy:1 "); /* the unchanged list was not sent */
	assert_ok(plugin_set_devices(rig.plugin, NULL, 0, &err));
	assert_string_equal(next_list(), "");
}

static void ids_are_checked(void **state)
{
	static const char *const bad[] = {"", "a b", "a/b", "d\xc3\xa9",
		"0123456789012345678901234567890123456789012345678901234567890123"};
	const struct plugin_device twice[] = {{"a", true, -1}, {"b", true, -1}, {"a", true, -1}};
	_cleanup_free_ struct plugin_device *many = calloc(PLUGIN_DEVICES_MAX + 1, sizeof(*many));
	_cleanup_free_ char(*ids)[16] = calloc(PLUGIN_DEVICES_MAX + 1, sizeof(*ids));
	struct error err;

	start_kubelet();
	start_plugin(&ops, LONG_NS);
	wait_registered(1);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const struct plugin_device device = {bad[i], true, -1};

		assert_int_equal(plugin_set_devices(rig.plugin, &device, 1, &err), -EINVAL);
	}
	assert_int_equal(plugin_set_devices(rig.plugin, twice, 3, &err), -EEXIST);
	assert_contains(err.msg, "'a'");
	for (uint32_t i = 0; i <= PLUGIN_DEVICES_MAX; i++) {
		snprintf(ids[i], sizeof(ids[i]), "slot-%u", i);
		many[i] = (struct plugin_device){ids[i], true, 0};
	}
	assert_int_equal(
		plugin_set_devices(rig.plugin, many, PLUGIN_DEVICES_MAX + 1, &err), -E2BIG);
	watch();
	assert_string_equal(next_list(), LIST); /* the refused lists have changed nothing */
	assert_ok(plugin_set_devices(rig.plugin, many, PLUGIN_DEVICES_MAX, &err));
}

static void the_name_has_no_folder(void **state)
{
	struct plugin_options options = {.resource = "a.b/c", .folder = rig.folder, .ops = &ops};
	struct plugin *plugin;
	struct error err;

	options.name = "../a";
	assert_int_equal(plugin_new(rig.loop, &options, &plugin, &err), -EINVAL);
	assert_contains(err.msg, "../a");
	options.name = "";
	assert_int_equal(plugin_new(rig.loop, &options, &plugin, &err), -EINVAL);
}

/* ---- requests ---- */

#define CALL(method, message) ask("/v1beta1.DevicePlugin/" method, &(message).base)

static uint32_t next_stream = 1;

static uint32_t ask(const char *path, const ProtobufCMessage *message)
{
	_cleanup_buf_ struct buf bytes = {0};

	if (!rig.is_watching) {
		next_stream = 1;
		raw_open_at(&rig.watch, rig.loop, rig.socket, RAW_WINDOW);
		rig.is_watching = true;
	}
	assert_ok(pack(message, &bytes));
	next_stream += 2;
	raw_call(&rig.watch, next_stream, path, buf_str(&bytes));
	assert_true(raw_ping(&rig.watch));
	return next_stream;
}

/* The answer's message, which the caller frees; fails the test if the status is not OK. */
static void *answer(uint32_t stream, const ProtobufCMessageDescriptor *type)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);

	assert_int_equal(raw_status(&rig.watch, stream, &out, NULL), GRPC_OK);
	assert_true(out.n >= 5);
	return unpack(type, (struct str){out.p + 5, out.n - 5});
}

static void expect_refusal(uint32_t stream, int status, const char *part)
{
	_cleanup_buf_ struct buf headers = BUF_INIT(4096);

	assert_int_equal(raw_status(&rig.watch, stream, NULL, &headers), status);
	assert_contains(buf_text(&headers), part);
}

static void start_both(const struct plugin_ops *with)
{
	start_kubelet();
	start_plugin(with, LONG_NS);
	wait_registered(1);
}

static uint32_t ask_allocate(char **ids, size_t n)
{
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[] = {&container};
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;

	container.device_ids = ids;
	container.n_device_ids = n;
	request.container_requests = containers;
	request.n_container_requests = 1;
	return CALL("Allocate", request);
}

static uint32_t ask_pre_start(char *id)
{
	V1beta1__PreStartContainerRequest request = V1BETA1__PRE_START_CONTAINER_REQUEST__INIT;

	request.device_ids = &id;
	request.n_device_ids = 1;
	return CALL("PreStartContainer", request);
}

static void options_are_reported(void **state)
{
	_cleanup_message_ V1beta1__DevicePluginOptions *options = NULL;
	V1beta1__Empty empty = V1BETA1__EMPTY__INIT;

	start_both(&ops);
	options = answer(
		CALL("GetDevicePluginOptions", empty), &v1beta1__device_plugin_options__descriptor);
	assert_true(options->pre_start_required);
	assert_true(options->get_preferred_allocation_available);
}

static void an_allocation_lists_what_a_container_gets(void **state)
{
	const struct plugin_pair env = {"DIVVY_SLOT", "slot-1"}, note = {"a/b", "c"};
	const struct plugin_mount mounts[] = {{"/run/divvy", "/run/slots/1", true},
		{"/etc/ld.so.preload", "/run/preload", false}};
	const struct plugin_node node = {"/dev/a", "/dev/b", "rw"};
	const char *const name = "divvy.gpu/slot=1";
	const struct plugin_edits edits = {.env = &env,
		.annotations = &note,
		.mounts = mounts,
		.nodes = &node,
		.cdi = &name,
		.n_env = 1,
		.n_annotations = 1,
		.n_mounts = 2,
		.n_nodes = 1,
		.n_cdi = 1};
	_cleanup_message_ V1beta1__AllocateResponse *response = NULL;
	const V1beta1__ContainerAllocateResponse *c;
	char *ids[] = {(char[]){"slot-2"}, (char[]){"slot-1"}};
	uint32_t stream;

	start_both(&ops);
	stream = ask_allocate(ids, 2);
	assert_non_null(rig.kept);
	assert_ptr_equal(plugin_data(rig.kept->plugin), &rig);
	assert_int_equal(rig.kept->n_containers, 1);
	assert_int_equal(rig.kept->containers[0].devices.n, 2);
	assert_string_equal(rig.kept->containers[0].devices.ids[0], "slot-1");
	assert_string_equal(rig.kept->containers[0].devices.ids[1], "slot-2");
	plugin_allocated(rig.kept, &edits);
	response = answer(stream, &v1beta1__allocate_response__descriptor);
	assert_int_equal(response->n_container_responses, 1);
	c = response->container_responses[0];
	assert_int_equal(c->n_envs, 1);
	assert_string_equal(c->envs[0]->key, "DIVVY_SLOT");
	assert_string_equal(c->envs[0]->value, "slot-1");
	assert_int_equal(c->n_annotations, 1);
	assert_string_equal(c->annotations[0]->key, "a/b");
	assert_int_equal(c->n_mounts, 2);
	assert_string_equal(c->mounts[0]->container_path, "/run/divvy");
	assert_string_equal(c->mounts[0]->host_path, "/run/slots/1");
	assert_true(c->mounts[0]->read_only);
	assert_false(c->mounts[1]->read_only);
	assert_int_equal(c->n_devices, 1);
	assert_string_equal(c->devices[0]->host_path, "/dev/b");
	assert_string_equal(c->devices[0]->permissions, "rw");
	assert_int_equal(c->n_cdi_devices, 1);
	assert_string_equal(c->cdi_devices[0]->name, "divvy.gpu/slot=1");
}

static void unknown_devices_are_refused(void **state)
{
	char *strange[] = {(char[]){"slot-1"}, (char[]){"slot-9"}};
	char *twice[] = {(char[]){"slot-1"}, (char[]){"slot-2"}, (char[]){"slot-1"}};

	start_both(&ops);
	expect_refusal(ask_allocate(strange, 2), GRPC_NOT_FOUND, "'slot-9'");
	assert_string_equal(rig.asked_for, "slot-9");
	rig.asked_for[0] = '\0';
	expect_refusal(ask_allocate(twice, 3), GRPC_INVALID_ARGUMENT, "'slot-1'");
	assert_string_equal(rig.asked_for, "");
	expect_refusal(ask_pre_start(strange[1]), GRPC_NOT_FOUND, "'slot-9'");
	assert_string_equal(rig.asked_for, "slot-9");
	assert_null(rig.kept);
}

static void requests_have_limits(void **state)
{
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[PLUGIN_CONTAINERS_MAX + 1];
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	const struct plugin_pair many[PLUGIN_EDITS_MAX + 1] = {{"A", "B"}};
	const struct plugin_edits too_much = {.env = many, .n_env = ARRAY_SIZE(many)};
	char *id = (char[]){"slot-1"};

	for (size_t i = 0; i < ARRAY_SIZE(containers); i++)
		containers[i] = &container;
	request.container_requests = containers;
	request.n_container_requests = ARRAY_SIZE(containers);
	start_both(&ops);
	expect_refusal(CALL("Allocate", request), GRPC_INVALID_ARGUMENT, "256");
	ask_allocate(&id, 1);
	plugin_allocated(rig.kept, &too_much);
	expect_refusal(next_stream, GRPC_INTERNAL, "64");
	raw_call(&rig.watch, next_stream + 2, "/v1beta1.DevicePlugin/Allocate", STR("\xff"));
	expect_refusal(next_stream + 2, GRPC_INTERNAL, "decoded");
}

static void a_start_is_allowed_or_refused_with_a_message(void **state)
{
	uint32_t stream;

	start_both(&ops);
	stream = ask_pre_start((char[]){"slot-2"});
	assert_int_equal(rig.kept->n_containers, 1);
	assert_string_equal(rig.kept->containers[0].devices.ids[0], "slot-2");
	plugin_started(TAKE_PTR(rig.kept));
	expect_refusal(stream, GRPC_OK, "grpc-status: 0");
	stream = ask_pre_start((char[]){"slot-2"});
	plugin_refuse(TAKE_PTR(rig.kept), GRPC_FAILED_PRECONDITION, "slot %s: %u %% are given",
		"slot-2", 70);
	expect_refusal(stream, GRPC_FAILED_PRECONDITION, "slot slot-2: 70 %25 are given");
}

static void a_start_without_a_callback_is_allowed(void **state)
{
	start_both(&plain_ops);
	expect_refusal(ask_pre_start((char[]){"slot-2"}), GRPC_OK, "grpc-status: 0");
}

/* The kubelet cancels the call, then the plugin answers: nothing is sent. */
static void an_answer_may_come_too_late(void **state)
{
	uint32_t stream;

	start_both(&ops);
	stream = ask_pre_start((char[]){"slot-1"});
	raw_frame(&rig.watch, NGHTTP2_RST_STREAM, 0, stream, STR("\0\0\0\x08"));
	assert_true(raw_ping(&rig.watch));
	plugin_started(TAKE_PTR(rig.kept));
	assert_true(raw_ping(&rig.watch));

	ask_pre_start((char[]){"slot-1"});
	plugin_free(rig.plugin);
	rig.plugin = NULL;
	assert_null(rig.kept->plugin);
	assert_string_equal(rig.kept->containers[0].devices.ids[0], "slot-1");
	plugin_refuse(TAKE_PTR(rig.kept), GRPC_UNAVAILABLE, "too late");
}

static uint32_t ask_prefer(char **available, size_t n, char **must, size_t n_must, int size)
{
	V1beta1__ContainerPreferredAllocationRequest c =
		V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
	V1beta1__ContainerPreferredAllocationRequest *containers[] = {&c};
	V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;

	c.available_device_ids = available;
	c.n_available_device_ids = n;
	c.must_include_device_ids = must;
	c.n_must_include_device_ids = n_must;
	c.allocation_size = size;
	request.container_requests = containers;
	request.n_container_requests = 1;
	return CALL("GetPreferredAllocation", request);
}

static void the_preferred_devices_are_returned(void **state)
{
	char *all[] = {(char[]){"slot-1"}, (char[]){"slot-2"}, (char[]){"slot-3"}};
	_cleanup_message_ V1beta1__PreferredAllocationResponse *response = NULL;
	const char *const chosen[] = {"slot-3", "slot-1"};
	const struct plugin_ids ids = {chosen, 2};
	uint32_t stream;

	start_both(&ops);
	stream = ask_prefer(all, 3, all, 1, 2);
	assert_int_equal(rig.kept->containers[0].devices.n, 3);
	assert_int_equal(rig.kept->containers[0].must.n, 1);
	assert_string_equal(rig.kept->containers[0].must.ids[0], "slot-1");
	assert_int_equal(rig.kept->containers[0].size, 2);
	plugin_preferred(TAKE_PTR(rig.kept), &ids);
	response = answer(stream, &v1beta1__preferred_allocation_response__descriptor);
	assert_int_equal(response->n_container_responses, 1);
	assert_int_equal(response->container_responses[0]->n_device_ids, 2);
	assert_string_equal(response->container_responses[0]->device_ids[0], "slot-3");

	expect_refusal(ask_prefer(all, 3, NULL, 0, 4), GRPC_INVALID_ARGUMENT, "4 devices of 3");
	expect_refusal(ask_prefer(all, 3, NULL, 0, -1), GRPC_INVALID_ARGUMENT, "-1 devices");
	expect_refusal(ask_prefer(all, 3, all, 2, 1), GRPC_INVALID_ARGUMENT, "2 of them given");
	assert_null(rig.kept);
}

static void a_missing_preference_is_unimplemented(void **state)
{
	start_both(&plain_ops);
	expect_refusal(ask_prefer(NULL, 0, NULL, 0, 0), GRPC_UNIMPLEMENTED, "");
}

#define RIGGED(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

UNIT_MAIN(RIGGED(the_plugin_registers), RIGGED(missing_callbacks_are_not_offered),
	RIGGED(the_plugin_waits_for_the_kubelet), RIGGED(the_plugin_waits_for_the_folder),
	RIGGED(the_plugin_registers_again_when_the_kubelet_restarts),
	RIGGED(a_refused_registration_is_repeated),
	RIGGED(the_plugin_registers_again_when_no_kubelet_lists_devices),
	RIGGED(a_stream_that_ends_alone_causes_a_registration),
	RIGGED(a_refused_plugin_takes_another_socket),
	RIGGED(sockets_of_killed_plugins_are_removed), RIGGED(a_removed_socket_is_made_again),
	RIGGED(changes_are_sent), RIGGED(ids_are_checked), RIGGED(the_name_has_no_folder),
	RIGGED(options_are_reported), RIGGED(an_allocation_lists_what_a_container_gets),
	RIGGED(unknown_devices_are_refused), RIGGED(requests_have_limits),
	RIGGED(a_start_is_allowed_or_refused_with_a_message),
	RIGGED(a_start_without_a_callback_is_allowed), RIGGED(an_answer_may_come_too_late),
	RIGGED(the_preferred_devices_are_returned), RIGGED(a_missing_preference_is_unimplemented))
