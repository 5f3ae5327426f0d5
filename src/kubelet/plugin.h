/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device plugin of the kubelet (API v1beta1): offers devices of one resource, is asked when a
 * container gets some of them and again before it starts, and may say no in words. One thread, the
 * loop's; nothing blocks.
 *
 * It registers by itself and again whenever that is needed: when the kubelet starts, which wipes
 * the folder of our socket, when the folder or the kubelet is not there yet, when the kubelet has
 * taken our registration but does not ask for the devices. Devices change their state only by
 * plugin_set_devices().
 *
 * The kubelet takes devices for unhealthy from the end of their plugin's stream until the next
 * registration; containers that run do not notice, pods that arrive then are refused. A successor
 * that is to close that gap uses another name of socket and registers before the old one ends: the
 * kubelet then forgets the old one without marking anything.
 */
#ifndef KUBELET_PLUGIN_H
#define KUBELET_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "kubelet/grpc-wire.h"

#define PLUGIN_FOLDER "/var/lib/kubelet/device-plugins"
#define PLUGIN_DEVICES_MAX 16384u  /* 64 slots of each of 256 devices */
#define PLUGIN_ID_MAX 63u          /* characters of a device's id: the API's */
#define PLUGIN_CONTAINERS_MAX 256u /* containers in one request; kubelets ask for one */
#define PLUGIN_EDITS_MAX 64u       /* of each kind for one container */

struct plugin;
struct plugin_request;

struct plugin_device {
	const char *id; /* letters, digits, '-', '_', '.' */
	bool is_healthy;
	int numa_node; /* -1: none or unknown */
};

/* What a request is about, for each container; all is borrowed until the request is answered. */
struct plugin_ids {
	const char *const *ids;
	size_t n;
};
struct plugin_container {
	struct plugin_ids devices; /* to allocate, to start with, or to choose among */
	struct plugin_ids must;    /* preference: these are among the chosen */
	uint32_t size;             /* preference: so many are wanted */
};
struct plugin_request {
	struct plugin *plugin; /* NULL once that was freed */
	const struct plugin_container *containers;
	size_t n_containers; /* 1 before a start */
	void *data;          /* the callback's */
};

/*
 * Each request is answered exactly once, at once or later, by the function that fits or by
 * plugin_refuse(), and is gone then. It stays valid when the kubelet no longer waits, and when the
 * plugin is freed meanwhile: the answer goes nowhere. Its devices are ours and differ.
 */
struct plugin_ops {
	void (*allocate)(struct plugin_request *request);
	void (*pre_start)(struct plugin_request *request); /* NULL: not asked for */
	void (*prefer)(struct plugin_request *request);    /* NULL: not offered */
	/* Whether the kubelet knows our devices has changed; why not, for the log. May be NULL. */
	void (*changed)(struct plugin *plugin, bool is_known, const char *reason);
	/*
	 * The kubelet asks for a device that is not, or no longer, among ours: it is refused with
	 * the sentence. May be NULL.
	 */
	void (*unknown)(struct plugin *plugin, const char *id, const char *why);
};

struct plugin_options {
	const char *resource;    /* "divvy.gpu/slot" */
	const char *folder;      /* NULL: PLUGIN_FOLDER */
	const char *socket_name; /* in that folder */
	const struct plugin_ops *ops;
	void *data;
	uint64_t watch_timeout_ns; /* 0: the default; how soon to register again when not asked */
};

/* Options are copied, the ops borrowed. The kubelet may or may not be there. */
int plugin_new(struct loop *loop, const struct plugin_options *options, struct plugin **ret_plugin,
	struct error *err);
/* NULL is fine; not within a callback of the plugin. */
void plugin_free(struct plugin *plugin);
void *plugin_data(const struct plugin *plugin);

/* Replaces all devices and tells the kubelet when that changes something. */
int plugin_set_devices(
	struct plugin *plugin, const struct plugin_device *devices, size_t n, struct error *err);

/* Whether the kubelet watches our devices now. */
bool plugin_is_known(const struct plugin *plugin);

/* What a container is to get; all is borrowed. */
struct plugin_pair {
	const char *name, *value;
};
struct plugin_mount {
	const char *container_path, *host_path;
	bool is_read_only;
};
struct plugin_node {
	const char *container_path, *host_path, *permissions; /* "rwm" */
};
struct plugin_edits {
	const struct plugin_pair *env, *annotations;
	const struct plugin_mount *mounts;
	const struct plugin_node *nodes;
	const char *const *cdi; /* qualified names */
	size_t n_env, n_annotations, n_mounts, n_nodes, n_cdi;
};

/* edits: one for each container of the request. More than PLUGIN_EDITS_MAX of a kind is refused. */
void plugin_allocated(struct plugin_request *request, const struct plugin_edits *edits);
void plugin_started(struct plugin_request *request);
/* ids: one for each container of the request. */
void plugin_preferred(struct plugin_request *request, const struct plugin_ids *ids);
/* The kubelet shows the sentence in the pod's status or in an event. */
void plugin_refuse(struct plugin_request *request, enum grpc_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
