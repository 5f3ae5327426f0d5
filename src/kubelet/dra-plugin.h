/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver of dynamic resource allocation (DRA) at the kubelet. It registers itself. The kubelet
 * then asks it to prepare and unprepare ResourceClaims, and watches the health of its devices. One
 * thread, the loop's; nothing blocks, except for a few calls of the file system.
 *
 * The kubelet finds the driver by a socket in its registry folder. Both sockets of a driver have
 * names of their own, so a successor never meets the state that the kubelet keeps of the
 * predecessor's sockets. The kubelet asks again after a failure, and may ask for a claim that is
 * prepared already: the callbacks must be idempotent.
 */
#ifndef KUBELET_DRA_PLUGIN_H
#define KUBELET_DRA_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/loop.h"
#include "kubelet/grpc-wire.h"

#define DRA_CLAIMS_MAX 256u   /* claims in one request */
#define DRA_DEVICES_MAX 32u   /* devices of a claim, as in the API */
#define DRA_REPORTS_MAX 1024u /* devices in a report of health */

struct dra_plugin;

/* A ResourceClaim as the kubelet names it; the texts are not empty. */
struct dra_claim_name {
	const char *space, *name, *uid;
};

/* Valid until the answer. */
struct dra_request {
	struct dra_plugin *plugin; /* NULL after the plugin was freed */
	const struct dra_claim_name *claims;
	size_t n_claims;
};

/* A device of a prepared claim. */
struct dra_device {
	const char *request; /* name of the claim's request; "": all requests */
	const char *pool, *device;
	const char *share_id; /* "": none */
	const char *cdi;      /* qualified CDI name; "": none */
};

/* The answer about one claim. */
struct dra_result {
	const struct dra_device *devices; /* at most DRA_DEVICES_MAX; none for unprepare */
	size_t n_devices;
	const char *error; /* a sentence: the claim is not prepared, or not unprepared; NULL */
};

struct dra_health {
	const char *pool, *device;
	bool is_healthy;
	int64_t since_s;     /* seconds since 1970 when the driver last found out */
	const char *message; /* "": none */
};

/*
 * Each request is answered exactly once, at once or later, by dra_answer() or dra_refuse(), which
 * end the request. The request stays valid if the kubelet no longer waits, or if the plugin is
 * freed; the answer is then dropped.
 */
struct dra_ops {
	void (*prepare)(struct dra_request *request);
	void (*unprepare)(struct dra_request *request);
	/* The kubelet has registered the driver, or not: reason says why. May be NULL. */
	void (*changed)(struct dra_plugin *plugin, bool is_known, const char *reason);
};

struct dra_options {
	const char *driver;        /* "divvy.gpu" */
	const char *registry;      /* the kubelet's folder plugins_registry */
	const char *folder;        /* for the driver's own socket, as the kubelet sees the path */
	const struct dra_ops *ops; /* NULL: requests wait for dra_plugin_take() */
	void *data;
};

/* Copies the options, borrows the ops. The kubelet may be absent. Returns 0 or -errno. */
int dra_plugin_new(struct loop *loop, const struct dra_options *options,
	struct dra_plugin **ret_plugin, struct error *err);
/* Removes the sockets, so that the kubelet knows at once. Accepts NULL. Not from a callback. */
void dra_plugin_free(struct dra_plugin *plugin);
void *dra_plugin_data(const struct dra_plugin *plugin);
/*
 * Gives a plugin without ops its ops, which are called at once for the requests that wait. So a
 * driver can be registered at the kubelet before it can serve, beside the one that it replaces.
 */
void dra_plugin_take(struct dra_plugin *plugin, const struct dra_ops *ops, void *data);

/* Makes sockets again that somebody has removed. Call about once a second. */
void dra_plugin_tick(struct dra_plugin *plugin);

/* Whether the kubelet has registered the driver and has not reported an end since. */
bool dra_plugin_is_known(const struct dra_plugin *plugin);

/*
 * Replaces the report of health, and sends it to the kubelets that watch. The report should have
 * all devices. Returns 0, -E2BIG or -ENOMEM.
 */
int dra_plugin_report(
	struct dra_plugin *plugin, const struct dra_health *devices, size_t n, struct error *err);

/* Ends the request without an answer about its claims; the kubelet asks again. */
void dra_refuse(struct dra_request *request, const char *why);

/* results: one for each claim of the request. */
void dra_answer(struct dra_request *request, const struct dra_result *results);

#endif
