/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device plugin like divvyd's, without GPUs. The plugin offers slots and gives each container the
 * folder of its slot. Before the container starts, the plugin asks the kubelet for the pod and
 * writes the answer into this folder.
 *
 *   kubelet-plugin KUBELET_DIR SLOTS_DIR N CDI_DIR
 *       serves until SIGTERM; refuses a pod whose name begins with "refused". Each line on stdout
 *       is an event, with the time of day: "1700000000.123456 known ..."
 *   kubelet-plugin --cgroup PID
 *       prints the pod's uid and the container's id of a process in a pod
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/process.h"
#include "kubelet/cdi.h"
#include "kubelet/cgroup.h"
#include "kubelet/plugin.h"
#include "kubelet/podres.h"

#define RESOURCE "divvy.gpu/slot"
#define CONTAINER_DIR "/run/divvy"

static struct loop *loop;
static struct podres *podres;
static const char *slots_dir, *cdi_dir;

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	const uint64_t now = clock_real_ns();
	va_list ap;

	printf("%llu.%06llu ", (unsigned long long)(now / NSEC_PER_SEC),
		(unsigned long long)(now % NSEC_PER_SEC / NSEC_PER_USEC));
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

static void granted_path(const char *id, char path[static PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s/granted", slots_dir, id);
}

static uint32_t slot_number(const char *id)
{
	return (uint32_t)strtoul(id + strlen("slot-"), NULL, 10);
}

/* The runtime adds the variable if the kubelet passes CDI names on. */
static int write_cdi(const char *id, struct error *err)
{
	const struct cdi_variable env = {"DIVVY_BY_CDI", id};

	return cdi_write(
		cdi_dir, &(struct cdi_slot){.slot = slot_number(id), .env = &env, .n_env = 1}, err);
}

static void on_allocate(struct plugin_request *request)
{
	char folder[PATH_MAX], path[PATH_MAX], name[CDI_NAME_SIZE];
	const char *const names[] = {name};
	struct plugin_edits edits[PLUGIN_CONTAINERS_MAX];
	const char *id = "";
	struct error err;

	for (size_t i = 0; i < request->n_containers; i++) {
		const struct plugin_ids *ids = &request->containers[i].devices;

		if (request->n_containers != 1 || ids->n != 1) {
			plugin_refuse(request, GRPC_INVALID_ARGUMENT,
				"%zu slots: a container has exactly one", ids->n);
			return;
		}
		id = ids->ids[0];
	}
	snprintf(folder, sizeof(folder), "%s/%s", slots_dir, id);
	granted_path(id, path);
	unlink(path);
	if (folder_make(folder, 0755, &err) < 0) {
		plugin_refuse(request, GRPC_INTERNAL, "%s", err.msg);
		return;
	}
	say("allocate %s", id);
	cdi_name(slot_number(id), name);
	edits[0] = (struct plugin_edits){
		.env = &(struct plugin_pair){"DIVVY_SLOT", id},
		.n_env = 1,
		.mounts = &(struct plugin_mount){CONTAINER_DIR, folder, true},
		.n_mounts = 1,
		.cdi = names,
		.n_cdi = 1,
	};
	plugin_allocated(request, edits);
}

static void on_list(void *data, const struct podres_list *list, const struct error *err)
{
	struct plugin_request *request = data;
	const char *id = request->containers[0].devices.ids[0];
	const struct podres_container *c;
	char path[PATH_MAX], text[1024];
	struct error failure;
	int r = list ? podres_find(list, STR(RESOURCE), str_from(id), &c) : -EIO;

	if (r < 0) {
		plugin_refuse(request, GRPC_UNAVAILABLE, "who has %s: %s", id,
			err ? err->msg : strerror(-r));
		return;
	}
	say("start %s %s/%s/%s", id, c->space, c->pod, c->name);
	if (str_has_prefix(str_from(c->pod), STR("refused"))) {
		plugin_refuse(request, GRPC_FAILED_PRECONDITION,
			"pod %s/%s is not granted 30 %% of a GPU", c->space, c->pod);
		return;
	}
	granted_path(id, path);
	snprintf(text, sizeof(text), "%s %s %s %s\n", c->space, c->pod, c->name, id);
	if (write_cdi(id, &failure) < 0 || file_replace(path, str_from(text), 0644, &failure) < 0)
		plugin_refuse(request, GRPC_INTERNAL, "%s", failure.msg);
	else
		plugin_started(request);
}

static void on_pre_start(struct plugin_request *request)
{
	if (request->containers[0].devices.n != 1)
		plugin_refuse(request, GRPC_INVALID_ARGUMENT, "a container has exactly one slot");
	else if (podres_ask(podres, on_list, request, NULL) < 0)
		plugin_refuse(request, GRPC_RESOURCE_EXHAUSTED, "too many containers at once");
}

/* Prefers the highest slots, which shows that the kubelet follows the preference. */
static void on_prefer(struct plugin_request *request)
{
	struct plugin_ids chosen[PLUGIN_CONTAINERS_MAX];

	for (size_t i = 0; i < request->n_containers; i++) {
		const struct plugin_container *c = &request->containers[i];

		if (c->must.n)
			chosen[i] = c->must;
		else
			chosen[i] = (struct plugin_ids){
				c->devices.ids + (c->devices.n - c->size), c->size};
	}
	plugin_preferred(request, chosen);
}

static void on_changed(struct plugin *plugin, bool is_known, const char *reason)
{
	say("%s %s", is_known ? "known" : "unknown", reason);
}

static const struct plugin_ops ops = {
	.allocate = on_allocate,
	.pre_start = on_pre_start,
	.prefer = on_prefer,
	.changed = on_changed,
};

static void on_signal(struct loop_io *io, uint32_t events)
{
	loop_stop(loop, 0);
}

static int make_devices(struct plugin *plugin, uint64_t n, struct error *err)
{
	_cleanup_free_ struct plugin_device *devices = calloc(n + 1, sizeof(*devices));
	_cleanup_free_ char(*ids)[24] = calloc(n + 1, sizeof(*ids));

	if (!devices || !ids)
		return fail(err, ENOMEM, "out of memory");
	for (uint64_t i = 0; i < n; i++) {
		snprintf(ids[i], sizeof(ids[i]), "slot-%llu", (unsigned long long)i);
		devices[i] = (struct plugin_device){ids[i], true, 0};
	}
	return plugin_set_devices(plugin, devices, n, err);
}

static int serve(char **argv, struct error *err)
{
	char plugins[PATH_MAX], resources[PATH_MAX];
	struct plugin_options options = {
		.resource = RESOURCE, .folder = plugins, .name = "divvy", .ops = &ops};
	struct loop_io signals = {0};
	struct plugin *plugin = NULL;
	sigset_t set;
	uint64_t n;
	int fd, r;

	snprintf(plugins, sizeof(plugins), "%s/device-plugins", argv[1]);
	snprintf(resources, sizeof(resources), "%s/pod-resources/kubelet.sock", argv[1]);
	slots_dir = argv[2];
	cdi_dir = argv[4];
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	fd = signal_fd_new(&set);
	r = parse_uint(str_from(argv[3]), 1, PLUGIN_DEVICES_MAX, &n, err);
	if (r == 0 &&
		(fd < 0 || loop_new(&loop) < 0 || podres_new(loop, resources, 0, &podres) < 0 ||
			loop_add_io(loop, &signals, fd, EPOLLIN, on_signal) < 0))
		r = fail(err, ENOMEM, "no loop");
	if (r == 0)
		r = plugin_new(loop, &options, &plugin, err);
	if (r == 0)
		r = make_devices(plugin, n, err);
	if (r == 0)
		r = loop_run(loop);
	plugin_free(plugin);
	podres_free(podres);
	loop_free(loop);
	fd_close(fd);
	return r;
}

/* Takes the cgroup root from the process's own cgroup: the process is assumed to be in a pod. */
static int show_cgroup(const char *pid, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CGROUP_FILE_MAX);
	char path[64], root[CGROUP_ROOT_SIZE];
	struct cgroup_pod pod;
	uint64_t number;
	int r = parse_uint(str_from(pid), 1, INT32_MAX, &number, err);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%s/cgroup", pid);
	r = file_read(path, &text, err);
	if (r < 0)
		return r;
	if (cgroup_parse_root(buf_str(&text), root) < 0)
		return fail(err, ENOENT, "process %s is in no pod", pid);
	r = cgroup_read_pod((pid_t)number, root, &pod, err);
	if (r == 0)
		printf("%s %s\n", pod.uid, pod.container);
	return r;
}

int main(int argc, char **argv)
{
	struct error err = {0};
	int r;

	if (argc == 3 && !strcmp(argv[1], "--cgroup"))
		r = show_cgroup(argv[2], &err);
	else if (argc == 5)
		r = serve(argv, &err);
	else
		r = fail(&err, EINVAL, "usage: KUBELET_DIR SLOTS_DIR N CDI_DIR");
	if (r < 0)
		fprintf(stderr, "kubelet-plugin: %s\n", err.msg[0] ? err.msg : strerror(-r));
	return r < 0;
}
