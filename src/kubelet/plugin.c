/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device plugin: see plugin.h. This file has the socket, the registration and the devices;
 * plugin-request.c has the kubelet's questions about containers. One thread.
 *
 * There is one timer, `retry`. Every event leads to plugin_step(): a file appears or disappears, a
 * call fails, time passes. plugin_step() checks the present state and does the next missing thing.
 */
#include "kubelet/plugin.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/rand.h"
#include "kubelet/deviceplugin.pb-c.h"
#include "kubelet/grpc-client.h"
#include "kubelet/plugin-internal.h"
#include "kubelet/unpack.h"

#define API_VERSION "v1beta1"
#define REGISTER_TIMEOUT_NS (5 * NSEC_PER_SEC)
#define RETRY_FIRST_NS (10 * NSEC_PER_MSEC)
/*
 * Longest pause between two attempts. inotify reports most changes at once, and the timer finds the
 * other changes.
 */
#define RETRY_MOST_NS (500 * NSEC_PER_MSEC)
/* The kubelet connects within ten seconds of a registration. */
#define WATCH_TIMEOUT_NS (15 * NSEC_PER_SEC)
/*
 * Wait after the first end of a stream. Each further end doubles the wait, up to the time-out
 * above: two plugins of a resource could otherwise take it from each other without a pause.
 */
#define LOST_FIRST_NS (100 * NSEC_PER_MSEC)

/* A ListAndWatch stream of the kubelet. */
struct watcher {
	LIST_ENTRY(watcher) link;
	struct plugin *plugin;
	struct grpc_call *call;
};

/* ---- devices ---- */

static void devices_free(struct device *devices, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(devices[i].id);
	free(devices);
}

static int check_id(const char *id, struct error *err)
{
	const struct str text = str_from(id);

	if (!text.n || text.n > PLUGIN_ID_MAX)
		return fail(err, EINVAL, "device '%.80s': an id has 1 to %u characters", id,
			PLUGIN_ID_MAX);
	for (size_t i = 0; i < text.n; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.",
			    text.p[i]))
			return fail(err, EINVAL,
				"device '%s': an id has letters, digits, '-', '_' and '.'", id);
	return 0;
}

static int compare_devices(const void *a, const void *b)
{
	return strcmp(((const struct device *)a)->id, ((const struct device *)b)->id);
}

struct device *plugin_find(const struct plugin *p, const char *id)
{
	struct device key = {.id = (char *)(uintptr_t)id};

	return p->n_devices ? bsearch(&key, p->devices, p->n_devices, sizeof(key), compare_devices)
			    : NULL;
}

static int copy_devices(
	const struct plugin_device *from, size_t n, struct device *to, struct error *err)
{
	int r;

	for (size_t i = 0; i < n; i++) {
		r = check_id(from[i].id, err);
		if (r < 0)
			return r;
		to[i].id = str_dup(str_from(from[i].id));
		if (!to[i].id)
			return fail(err, ENOMEM, "out of memory");
		to[i].is_healthy = from[i].is_healthy;
		to[i].numa_node = from[i].numa_node;
	}
	qsort(to, n, sizeof(*to), compare_devices);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(to[i - 1].id, to[i].id))
			return fail(err, EEXIST, "device '%s' is listed twice", to[i].id);
	return 0;
}

/* The message that ListAndWatch sends. */
static int pack_devices(const struct device *devices, size_t n, struct buf *out)
{
	V1beta1__ListAndWatchResponse list = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
	struct packed {
		V1beta1__Device device;
		V1beta1__TopologyInfo topology;
		V1beta1__NUMANode node;
		V1beta1__NUMANode *nodes[1];
	};
	_cleanup_free_ struct packed *all = calloc(n + 1, sizeof(*all));
	_cleanup_free_ V1beta1__Device **pointers = calloc(n + 1, sizeof(V1beta1__Device *));

	if (!all || !pointers)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		v1beta1__device__init(&all[i].device);
		v1beta1__topology_info__init(&all[i].topology);
		v1beta1__numanode__init(&all[i].node);
		all[i].device.id = devices[i].id;
		all[i].device.health = (char *)(uintptr_t)(devices[i].is_healthy ? "Healthy"
										 : "Unhealthy");
		if (devices[i].numa_node >= 0) {
			all[i].node.id = devices[i].numa_node;
			all[i].nodes[0] = &all[i].node;
			all[i].topology.nodes = all[i].nodes;
			all[i].topology.n_nodes = 1;
			all[i].device.topology = &all[i].topology;
		}
		pointers[i] = &all[i].device;
	}
	list.devices = pointers;
	list.n_devices = n;
	return pack(&list.base, out);
}

int plugin_set_devices(
	struct plugin *p, const struct plugin_device *devices, size_t n, struct error *err)
{
	_cleanup_buf_ struct buf list = {0};
	struct device *copies = NULL;
	struct watcher *w;
	int r;

	if (n > PLUGIN_DEVICES_MAX)
		return fail(err, E2BIG, "%zu devices: at most %u", n, PLUGIN_DEVICES_MAX);
	copies = calloc(n + 1, sizeof(*copies));
	if (!copies)
		return fail(err, ENOMEM, "out of memory");
	r = copy_devices(devices, n, copies, err);
	if (r == 0 && pack_devices(copies, n, &list) < 0)
		r = fail(err, ENOMEM, "out of memory");
	if (r < 0) {
		devices_free(copies, n);
		return r;
	}
	devices_free(p->devices, p->n_devices);
	p->devices = copies;
	p->n_devices = n;
	if (str_eq(buf_str(&p->list), buf_str(&list)))
		return 0;
	buf_done(&p->list);
	p->list = TAKE(list, (struct buf){0});
	LIST_FOREACH(w, &p->watchers, link)
		grpc_call_send(w->call, buf_str(&p->list));
	return 0;
}

/* ---- watchers ---- */

static void plugin_send_changed(struct plugin *p, bool is_known, const char *reason)
{
	if (p->ops->changed)
		p->ops->changed(p, is_known, reason);
}

/* Makes plugin_step() run after the delay, or earlier if the timer is set to an earlier time. */
static void step_after(struct plugin *p, uint64_t delay_ns)
{
	const uint64_t at_ns = clock_add_ns(clock_now_ns(), delay_ns);

	if (!loop_timer_is_armed(&p->retry) || at_ns < p->retry.deadline_ns)
		loop_set_timer(&p->retry, at_ns);
}

static void watcher_gone(void *data)
{
	struct watcher *w = data;
	struct plugin *p = w->plugin;

	LIST_REMOVE(w, link);
	free(w);
	if (!LIST_EMPTY(&p->watchers) || p->is_ending)
		return;
	plugin_send_changed(p, false, "the kubelet no longer watches the devices");
	p->registered_ns = clock_now_ns();
	if (clock_since_ns(p->registered_ns, p->known_ns) >= p->watch_timeout_ns)
		p->lost_ns = LOST_FIRST_NS;
	p->wait_ns = p->lost_ns;
	p->lost_ns = MIN(2 * p->lost_ns, MAX(p->watch_timeout_ns, LOST_FIRST_NS));
	step_after(p, p->wait_ns);
}

void plugin_watch(struct grpc_call *call, struct str request)
{
	struct plugin *p = grpc_call_data(call);
	struct watcher *w = calloc(1, sizeof(*w));
	const bool is_first = LIST_EMPTY(&p->watchers);

	if (!w) {
		grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	w->plugin = p;
	w->call = call;
	LIST_INSERT_HEAD(&p->watchers, w, link);
	grpc_call_watch(call, watcher_gone, w);
	grpc_call_send(call, buf_str(&p->list));
	if (!is_first)
		return;
	p->known_ns = clock_now_ns();
	plugin_send_changed(p, true, "the kubelet watches the devices");
}

bool plugin_is_known(const struct plugin *p)
{
	return !LIST_EMPTY(&p->watchers);
}

/* ---- the socket's name ---- */

#define SUFFIX_FORMAT "-%08x.sock"
#define SUFFIX_SIZE 14u /* characters */

static void plugin_drop_name(struct plugin *p)
{
	free(p->socket_name);
	free(p->socket_path);
	p->socket_name = p->socket_path = NULL;
}

static int choose_socket_name(struct plugin *p, struct error *err)
{
	uint32_t number = 0;
	int r = random_bytes(&number, sizeof(number));

	if (r < 0)
		return fail_errno(err, -r, "choose a name for the socket");
	if (asprintf(&p->socket_name, "%s" SUFFIX_FORMAT, p->name, number) < 0)
		p->socket_name = NULL;
	else if (asprintf(&p->socket_path, "%s/%s", p->folder, p->socket_name) < 0)
		p->socket_path = NULL;
	if (!p->socket_path) {
		plugin_drop_name(p);
		return fail(err, ENOMEM, "out of memory");
	}
	return 0;
}

static bool is_name_of(const struct plugin *p, const char *name)
{
	const size_t n = strlen(p->name);

	return strlen(name) == n + SUFFIX_SIZE && !strncmp(name, p->name, n) && name[n] == '-' &&
		strspn(name + n + 1, "0123456789abcdef") == 8 && !strcmp(name + n + 9, ".sock");
}

/* Unlinks the sockets of plugins that were killed. Keeps the socket of a plugin that runs. */
static void clear_old_sockets(const struct plugin *p)
{
	DIR *dir = opendir(p->folder);
	const struct dirent *entry;
	char path[PATH_MAX];

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (is_name_of(p, entry->d_name) &&
			(size_t)snprintf(path, sizeof(path), "%s/%s", p->folder, entry->d_name) <
				sizeof(path))
			grpc_socket_clear(path, NULL);
	closedir(dir);
}

static int plugin_listen(struct plugin *p, struct error *err)
{
	int r = 0;

	if (p->socket_path && grpc_server_is_there(p->server))
		return 0;
	if (!p->socket_path)
		r = choose_socket_name(p, err);
	if (r < 0)
		return r;
	clear_old_sockets(p);
	return grpc_server_listen(p->server, p->socket_path, err);
}

/* ---- registration ---- */

static void retry_later(struct plugin *p, const char *reason)
{
	if (strcmp(p->reason, reason)) {
		snprintf(p->reason, sizeof(p->reason), "%s", reason);
		plugin_send_changed(p, false, p->reason);
	}
	step_after(p, p->delay_ns);
	p->delay_ns = MIN(2 * p->delay_ns, RETRY_MOST_NS);
}

static void on_registered(const struct grpc_answer *answer)
{
	struct plugin *p = answer->data;
	char reason[sizeof(p->reason)];

	p->registering = NULL;
	if (answer->status == GRPC_OK) {
		p->delay_ns = RETRY_FIRST_NS;
		p->reason[0] = '\0';
		p->registered_ns = clock_now_ns();
		/* then plugin_step() checks whether the kubelet watches */
		p->wait_ns = p->watch_timeout_ns;
		step_after(p, p->wait_ns);
		return;
	}
	/* The kubelet may never again accept this socket's name. */
	plugin_drop_name(p);
	p->kubelet = (struct file_id){0};
	snprintf(reason, sizeof(reason), "register at the kubelet: %s: %.200s",
		grpc_status_name(answer->status), answer->text);
	retry_later(p, reason);
}

/* Identifies the kubelet's socket file; all 0 if there is none. */
static struct file_id find_kubelet(const struct plugin *p)
{
	struct stat st;

	if (stat(p->kubelet_path, &st) < 0)
		return (struct file_id){0};
	return (struct file_id){st.st_dev, st.st_ino, st.st_mtim};
}

static bool is_same_file(const struct file_id *a, const struct file_id *b)
{
	return a->device == b->device && a->inode == b->inode && a->made.tv_sec == b->made.tv_sec &&
		a->made.tv_nsec == b->made.tv_nsec;
}

static void begin_registration(struct plugin *p, const struct file_id *kubelet)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;
	_cleanup_buf_ struct buf message = {0};
	struct grpc_call_params params = {
		.socket = p->kubelet_path,
		.path = "/v1beta1.Registration/Register",
		.timeout_ns = REGISTER_TIMEOUT_NS,
		.answered = on_registered,
		.data = p,
	};
	struct error err;

	plugin_fill_options(p, &options);
	request.version = (char *)(uintptr_t)API_VERSION;
	request.endpoint = p->socket_name;
	request.resource_name = p->resource;
	request.options = &options;
	if (pack(&request.base, &message) < 0) {
		retry_later(p, "out of memory");
		return;
	}
	params.message = buf_str(&message);
	if (grpc_request_new(p->loop, &params, &p->registering, &err) < 0) {
		p->registering = NULL;
		retry_later(p, err.msg);
		return;
	}
	p->kubelet = *kubelet;
}

/* Without inotify the timer finds changes later. */
static void watch_folder(struct plugin *p)
{
	if (p->watch >= 0 || p->inotify_fd < 0)
		return;
	p->watch = inotify_add_watch(p->inotify_fd, p->folder,
		IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF |
			IN_MOVE_SELF | IN_ONLYDIR);
}

static void plugin_step(struct plugin *p)
{
	struct file_id kubelet;
	struct error err;

	watch_folder(p);
	kubelet = find_kubelet(p);
	if (p->registering && !is_same_file(&kubelet, &p->kubelet)) {
		grpc_request_free(p->registering); /* the kubelet at that socket has exited */
		p->registering = NULL;
		p->kubelet = (struct file_id){0};
	}
	if (p->registering)
		return;
	if (plugin_listen(p, &err) < 0) {
		retry_later(p, err.msg);
		return;
	}
	if (!kubelet.inode) {
		p->kubelet = kubelet;
		retry_later(p, "there is no kubelet");
		return;
	}
	if (is_same_file(&kubelet, &p->kubelet)) {
		const uint64_t since = clock_since_ns(clock_now_ns(), p->registered_ns);

		if (plugin_is_known(p))
			return;
		if (since < p->wait_ns) {
			step_after(p, p->wait_ns - since);
			return;
		}
	}
	begin_registration(p, &kubelet);
}

static void on_retry(struct loop_timer *timer, uint64_t now)
{
	plugin_step(timer->data);
}

/* An event leads to plugin_step(), which checks the state by itself. */
static bool is_event_of_interest(const struct plugin *p, const struct inotify_event *event)
{
	if (!event->len || !strcmp(event->name, PLUGIN_KUBELET_SOCKET))
		return true;
	/* The plugin makes its own socket: only the end of the file is news. */
	return event->mask & (IN_DELETE | IN_MOVED_FROM) && p->socket_name &&
		!strcmp(event->name, p->socket_name);
}

static void on_inotify(struct loop_io *io, uint32_t events)
{
	_Alignas(struct inotify_event) char bytes[4096];
	struct plugin *p = io->data;
	bool is_of_interest = false;
	ssize_t n;

	while ((n = read(p->inotify_fd, bytes, sizeof(bytes))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *event = (const struct inotify_event *)(bytes +
				at);

			at += (ssize_t)(sizeof(*event) + event->len);
			if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF) && event->wd == p->watch)
				inotify_rm_watch(p->inotify_fd, p->watch);
			if (event->mask & IN_IGNORED && event->wd == p->watch)
				p->watch = -1;
			is_of_interest |= is_event_of_interest(p, event);
		}
	if (!is_of_interest)
		return;
	p->delay_ns = RETRY_FIRST_NS;
	step_after(p, 0);
}

/* ---- making and freeing a plugin ---- */

static int plugin_start_server(struct plugin *p, struct error *err)
{
	int r;

	p->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (p->inotify_fd < 0)
		return fail_errno(err, errno, "inotify");
	p->inotify_io.data = p;
	p->retry.data = p;
	r = grpc_server_new(p->loop, plugin_methods, plugin_methods_count, p, &p->server);
	if (r == 0)
		r = loop_add_io(p->loop, &p->inotify_io, p->inotify_fd, EPOLLIN, on_inotify);
	if (r == 0)
		r = loop_add_timer(p->loop, &p->retry, on_retry);
	if (r == 0)
		r = pack_devices(NULL, 0, &p->list);
	if (r < 0)
		return fail_errno(err, -r, "start the plugin");
	step_after(p, 0);
	return 0;
}

static int copy_options(struct plugin *p, const struct plugin_options *o, struct error *err)
{
	const char *folder = o->folder ? o->folder : PLUGIN_FOLDER;

	if (strchr(o->name, '/') || !*o->name)
		return fail(err, EINVAL, "plugin '%s': expected a name without '/'", o->name);
	p->resource = str_dup(str_from(o->resource));
	p->folder = str_dup(str_from(folder));
	p->name = str_dup(str_from(o->name));
	if (asprintf(&p->kubelet_path, "%s/%s", folder, PLUGIN_KUBELET_SOCKET) < 0)
		p->kubelet_path = NULL;
	if (!p->resource || !p->folder || !p->name || !p->kubelet_path)
		return fail(err, ENOMEM, "out of memory");
	return 0;
}

int plugin_new(struct loop *loop, const struct plugin_options *options, struct plugin **ret_plugin,
	struct error *err)
{
	struct plugin *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return fail(err, ENOMEM, "out of memory");
	p->loop = loop;
	p->ops = options->ops;
	p->data = options->data;
	p->inotify_fd = -1;
	p->watch = -1;
	p->delay_ns = RETRY_FIRST_NS;
	p->watch_timeout_ns = options->watch_timeout_ns ? options->watch_timeout_ns
							: WATCH_TIMEOUT_NS;
	p->wait_ns = p->watch_timeout_ns;
	p->lost_ns = LOST_FIRST_NS;
	LIST_INIT(&p->watchers);
	LIST_INIT(&p->requests);
	r = copy_options(p, options, err);
	if (r == 0)
		r = plugin_start_server(p, err);
	if (r < 0) {
		plugin_free(p);
		return r;
	}
	*ret_plugin = p;
	return 0;
}

void plugin_free(struct plugin *p)
{
	if (!p)
		return;
	p->is_ending = true;
	plugin_drop_requests(p);
	grpc_request_free(p->registering);
	grpc_server_free(p->server);
	loop_remove_timer(&p->retry);
	loop_remove_io(&p->inotify_io);
	fd_close(p->inotify_fd);
	devices_free(p->devices, p->n_devices);
	buf_done(&p->list);
	free(p->resource);
	free(p->folder);
	free(p->name);
	plugin_drop_name(p);
	free(p->kubelet_path);
	free(p);
}

void *plugin_data(const struct plugin *p)
{
	return p->data;
}
