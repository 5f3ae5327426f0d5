/* SPDX-License-Identifier: Apache-2.0 */
/* Only plugin.c and plugin-request.c share this header. */
#ifndef KUBELET_PLUGIN_INTERNAL_H
#define KUBELET_PLUGIN_INTERNAL_H

#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>

#include "base/str.h"
#include "kubelet/deviceplugin.pb-c.h"
#include "kubelet/grpc-server.h"
#include "kubelet/plugin.h"

#define PLUGIN_KUBELET_SOCKET "kubelet.sock"

struct device {
	char *id;
	bool is_healthy;
	int numa_node;
};

/*
 * The file system may reuse an inode number at once, so `made` is needed as well to identify a
 * file.
 */
struct file_id {
	dev_t device;
	ino_t inode;
	struct timespec made;
};

struct watcher;
struct request;

struct plugin {
	struct loop *loop;
	const struct plugin_ops *ops;
	void *data;
	char *resource, *folder, *name, *kubelet_path;
	char *socket_name, *socket_path; /* NULL: choose a name first */

	struct device *devices; /* sorted by id */
	size_t n_devices;
	struct buf list; /* the devices as a packed message */

	struct grpc_server *server;
	LIST_HEAD(, watcher) watchers;
	LIST_HEAD(, request) requests; /* not answered yet */

	int inotify_fd, watch;
	struct loop_io inotify_io;
	struct loop_timer retry;
	uint64_t delay_ns;
	uint64_t watch_timeout_ns;
	uint64_t wait_ns; /* time after registered_ns at which the plugin registers again */
	uint64_t lost_ns; /* wait_ns after the next end of a stream */
	struct grpc_request *registering; /* NULL: no registration in progress */
	/* socket file of the kubelet at which the plugin is registered, or is registering */
	struct file_id kubelet;
	uint64_t registered_ns; /* of the registration, or of the end of the stream */
	uint64_t known_ns;      /* when the kubelet began to watch */
	char reason[256];       /* last reported reason for not being registered */
	bool is_ending;
};

extern const struct grpc_method plugin_methods[];
extern const size_t plugin_methods_count;

/* NULL: this plugin has no such device. */
struct device *plugin_find(const struct plugin *plugin, const char *id);
void plugin_fill_options(const struct plugin *plugin, V1beta1__DevicePluginOptions *options);
void plugin_watch(struct grpc_call *call, struct str request);
/* Detaches open requests: their later answers go nowhere. */
void plugin_drop_requests(struct plugin *plugin);

#endif
