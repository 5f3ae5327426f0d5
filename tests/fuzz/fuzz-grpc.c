/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds bytes of a connection to the gRPC server, with the methods of the device plugin that the
 * kubelet calls, or to the client, as an answer of the kubelet. The bytes go through nghttp2 and
 * protobuf-c. The server answers some requests at once, some later, some never. Input: u8 (bit 0:
 * client or server; bits 1-7: size of the pieces in which bytes arrive), then the peer's bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "fuzz.h"
#include "kubelet/grpc-client.h"
#include "kubelet/plugin-internal.h"
#include "kubelet/plugin.h"
#include "kubelet/podres.h"

#define TURNS 3
#define KEPT_MAX 4

static struct loop *loop;
static struct plugin *plugin;
static struct plugin_request *kept[KEPT_MAX];
static size_t n_kept;
static char folder[] = "/tmp/divvy-fuzz-XXXXXX";

static void check(struct plugin_request *request)
{
	FUZZ_CHECK(request->n_containers <= PLUGIN_CONTAINERS_MAX);
	for (size_t i = 0; i < request->n_containers; i++)
		for (size_t k = 0; k < request->containers[i].devices.n; k++)
			FUZZ_CHECK(plugin_find(plugin, request->containers[i].devices.ids[k]));
}

static void on_allocate(struct plugin_request *request)
{
	const struct plugin_pair env = {"DIVVY_SLOT", "1"};
	struct plugin_edits edits[PLUGIN_CONTAINERS_MAX];

	check(request);
	for (size_t i = 0; i < PLUGIN_CONTAINERS_MAX; i++)
		edits[i] = (struct plugin_edits){.env = &env, .n_env = 1};
	plugin_allocated(request, edits);
}

static void on_pre_start(struct plugin_request *request)
{
	check(request);
	if (n_kept < KEPT_MAX)
		kept[n_kept++] = request;
	else
		plugin_refuse(request, GRPC_FAILED_PRECONDITION, "not this one");
}

static void on_prefer(struct plugin_request *request)
{
	struct plugin_ids ids[PLUGIN_CONTAINERS_MAX] = {{NULL}};

	check(request);
	for (size_t i = 0; i < request->n_containers; i++)
		ids[i] = request->containers[i].must;
	plugin_preferred(request, ids);
}

static const struct plugin_ops ops = {
	.allocate = on_allocate, .pre_start = on_pre_start, .prefer = on_prefer};

static void at_end(void)
{
	plugin_free(plugin);
	loop_free(loop);
	rmdir(folder);
}

static void start(void)
{
	const struct plugin_device devices[] = {{"a", true, 0}, {"b", false, -1}, {"c", true, 1}};
	struct plugin_options options = {.resource = "divvy.gpu/slot", .name = "a", .ops = &ops};
	struct error err;

	if (!mkdtemp(folder) || loop_new(&loop) < 0)
		abort();
	options.folder = folder;
	if (plugin_new(loop, &options, &plugin, &err) < 0 ||
		plugin_set_devices(plugin, devices, 3, &err) < 0)
		abort();
	atexit(at_end);
}

static void feed(int fd, const uint8_t *data, size_t n, size_t piece)
{
	while (n) {
		ssize_t sent = send(fd, data, MIN(n, piece), MSG_DONTWAIT | MSG_NOSIGNAL);

		loop_run_once(loop, 0);
		if (sent < 0)
			return;
		data += sent;
		n -= (size_t)sent;
	}
	for (int i = 0; i < TURNS; i++)
		loop_run_once(loop, 0);
}

static void into_server(const int pair[2], const uint8_t *data, size_t n, size_t piece)
{
	if (grpc_server_serve(plugin->server, pair[0]) < 0)
		abort();
	feed(pair[1], data, n, piece);
	while (n_kept)
		plugin_started(kept[--n_kept]);
	loop_run_once(loop, 0);
}

static void on_answer(const struct grpc_answer *answer)
{
	struct podres_list *list = NULL;
	const struct podres_container *container;
	struct error err;

	*(bool *)answer->data = true;
	FUZZ_CHECK(strlen(answer->text) <= GRPC_TEXT_MAX);
	if (answer->status == GRPC_OK && podres_parse(answer->message, &list, &err) == 0)
		podres_find(list, STR("divvy.gpu/slot"), STR("a"), &container);
	podres_list_free(list);
}

static void into_client(const int pair[2], const uint8_t *data, size_t n, size_t piece)
{
	bool is_answered = false;
	const struct grpc_call_params params = {
		.path = "/v1.PodResourcesLister/List",
		.timeout_ns = NSEC_PER_SEC,
		.answered = on_answer,
		.data = &is_answered,
	};
	struct grpc_request *request;
	struct error err;

	if (grpc_request_new_on(loop, &params, pair[0], &request, &err) < 0)
		abort();
	/* sends the request: bytes that arrive earlier would not be its answer */
	loop_run_once(loop, 0);
	feed(pair[1], data, n, piece);
	if (!is_answered)
		grpc_request_free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	int pair[2];

	if (!n)
		return 0;
	if (!loop)
		start();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return 0;
	(data[0] & 1 ? into_client : into_server)(
		pair, data + 1, n - 1, data[0] >> 1 ? (size_t)(data[0] >> 1) * 8 : 65536);
	close(pair[1]);
	loop_run_once(loop, 0);
	return 0;
}
