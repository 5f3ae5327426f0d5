/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device plugin of the kubelet (API v1beta1). It offers devices of one resource. The kubelet asks
 * the plugin when a container gets some of these devices, and again before the container starts.
 * The plugin may refuse with a message. One thread, the loop's; nothing blocks.
 *
 * The plugin registers by itself. It registers again when the kubelet's socket or the sockets'
 * folder appears anew, because a starting kubelet empties that folder. The plugin also registers
 * again if the kubelet has accepted the registration but does not request the devices. Only
 * plugin_set_devices() changes the state of devices.
 *
 * When a plugin's stream ends, the kubelet offers none of its devices until a plugin registers.
 * Running containers continue, but the kubelet refuses new pods. A successor registers by itself,
 * also if the kubelet has not noticed yet that the predecessor has exited. For this reason each
 * plugin's socket has a name of its own: a kubelet of Kubernetes 1.37 that refuses a registration
 * because the predecessor had the same name refuses this name until the kubelet restarts. Kubelets
 * of Kubernetes 1.26 to 1.36 may close the successor's stream when the predecessor's stream ends;
 * the successor then registers again.
 *
 * One plugin at a time serves a resource. Of two plugins, either may get the kubelet's requests,
 * and the kubelet may offer no devices for a moment when one of them exits.
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
#define PLUGIN_DEVICES_MAX 16384u  /* 64 slots for each of 256 devices */
#define PLUGIN_ID_MAX 63u          /* characters of a device's id, as in the API */
#define PLUGIN_CONTAINERS_MAX 256u /* containers in one request; kubelets send one */
/* for one container, limit of variables, of annotations, of mounts, of devices, and of CDI names */
#define PLUGIN_EDITS_MAX 64u

struct plugin;
struct plugin_request;

struct plugin_device {
	const char *id; /* letters, digits, '-', '_', '.' */
	bool is_healthy;
	int numa_node; /* -1: none or unknown */
};

/* Device ids for one container, valid until the request is answered. */
struct plugin_ids {
	const char *const *ids;
	size_t n;
};
struct plugin_container {
	struct plugin_ids devices; /* the devices to allocate, to start with, or to choose from */
	struct plugin_ids must;    /* prefer: the choice has to include these devices */
	uint32_t size;             /* prefer: number of devices to choose */
};
struct plugin_request {
	struct plugin *plugin; /* NULL after the plugin was freed */
	const struct plugin_container *containers;
	size_t n_containers; /* 1 for pre_start */
	void *data;          /* for the callback's use */
};

/*
 * Each request is answered exactly once, at once or later, by the matching function or by
 * plugin_refuse(), which ends the request. The request stays valid if the kubelet no longer waits,
 * or if the plugin is freed; the answer is then dropped. All device ids of a request belong to this
 * plugin, and none occurs twice.
 */
struct plugin_ops {
	void (*allocate)(struct plugin_request *request);
	void (*pre_start)(struct plugin_request *request); /* NULL: not requested */
	void (*prefer)(struct plugin_request *request);    /* NULL: not offered */
	/*
	 * Called when the kubelet begins or ceases to watch our devices. reason is for the log. May
	 * be NULL.
	 */
	void (*changed)(struct plugin *plugin, bool is_known, const char *reason);
	/*
	 * The kubelet has asked for a device that is not ours, and is refused with the message
	 * `why`. May be NULL.
	 */
	void (*unknown)(struct plugin *plugin, const char *id, const char *why);
};

struct plugin_options {
	const char *resource; /* "divvy.gpu/slot" */
	const char *folder;   /* NULL: PLUGIN_FOLDER */
	/* the plugin's sockets in that folder are NAME-XXXXXXXX.sock, with a random number */
	const char *name;
	const struct plugin_ops *ops;
	void *data;
	/* time after which the plugin registers again if the kubelet does not watch; 0: 15 s */
	uint64_t watch_timeout_ns;
};

/* Copies the options, borrows the ops. The kubelet may be absent. Returns 0 or -errno. */
int plugin_new(struct loop *loop, const struct plugin_options *options, struct plugin **ret_plugin,
	struct error *err);
/* Accepts NULL. Do not call from a callback of the plugin. */
void plugin_free(struct plugin *plugin);
void *plugin_data(const struct plugin *plugin);

/*
 * Replaces all devices, and informs the kubelet of changes. Returns 0, -EINVAL, -EEXIST, -E2BIG or
 * -ENOMEM.
 */
int plugin_set_devices(
	struct plugin *plugin, const struct plugin_device *devices, size_t n, struct error *err);

/* Whether the kubelet watches our devices now. */
bool plugin_is_known(const struct plugin *plugin);

/* Additions to a container that receives devices; all borrowed. */
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

/*
 * edits: one for each container of the request. More than PLUGIN_EDITS_MAX edits of a kind refuse
 * the request.
 */
void plugin_allocated(struct plugin_request *request, const struct plugin_edits *edits);
void plugin_started(struct plugin_request *request);
/* ids: one for each container of the request. */
void plugin_preferred(struct plugin_request *request, const struct plugin_ids *ids);
/* The kubelet shows the message in the pod's status or in an Event. */
void plugin_refuse(struct plugin_request *request, enum grpc_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
