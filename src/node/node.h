/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvyd in a cluster: the device plugin's slots, this node's pods and their assigned keys, GPUNode
 * and Lease. The agent makes and ends tenants; this part only decides whether a container gets its
 * grant. The API server may be away for any time: tenants run on, and known containers start again.
 * One thread, the loop's.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "agent/agent.h"
#include "base/error.h"

#define NODE_SLOTS_EACH 64u  /* slots of one device */
#define NODE_SLOTS_MAX 4096u /* NODE_SLOTS_EACH times ARBITER_DEVICES */
#define NODE_RESOURCE "divvy.gpu/slot"

struct node_options {
	const char *kubeconfig; /* NULL: the service account of the daemon's own pod */
	const char *name;       /* name of the Node */
	const char *pod;        /* name of the daemon's Lease and pod; NULL: the node's name */
	const char *lease_space;
	const char *space; /* divvy's own namespace */
	const char *kubelet_dir;
	const char *state_dir;
	const char *cdi_dir;
	const char *dev_dir; /* path of the host's /dev */
	const char *sys_dir; /* path of the host's /sys */
	/* Containers get real devices through NVIDIA's variables, since no runtime knows CDI. */
	bool is_by_environment;
	const char *cgroup_root; /* NULL: derived from the daemon's own pod */
	const char *grant_log;   /* file for the grant log; NULL: none */
	/* Address where other nodes reach this node's devices; NULL: none. */
	const char *remote_listen;
	bool is_host_access_allowed; /* remote tenants may use devices that access host memory */
	uint32_t probe_peers;        /* number of other nodes to measure, up to PEERS_MAX */
	uint32_t probe_transfer_ms;  /* length of a bandwidth measurement; 0: none */
	const char *listen;          /* address of /healthz and /metrics; NULL: none */
	const char *health_listen;   /* address of /healthz and /readyz, for probes; NULL: none */
	bool is_dra;                 /* divvyd is a DRA driver here, and not a device plugin */
	/* from node_dra_offer(), on the agent's loop; node_new() takes it. NULL: none */
	struct dra_plugin *dra_plugin;
	bool is_simulate_fixed; /* the command line decides simulation, not GPUNode */
};

struct dra_plugin;
struct loop;
struct node;

/*
 * Reads GPUNode.spec.simulate before there are devices. Asks the API server for a few seconds, and
 * else uses the last known value. "": not set. The caller frees *ret. Blocks.
 */
int node_read_simulate(const struct node_options *options, char **ret, struct error *err);

/*
 * Registers the DRA driver at the kubelet before node_new(), so that the kubelet knows it before it
 * replaces another divvyd. The kubelet's requests wait for node_new(). May block on the disk.
 */
int node_dra_offer(struct loop *loop, const struct node_options *options,
	struct dra_plugin **ret_plugin, struct error *err);

/* Borrows the options. Opens the sockets of tenants that belong to pods before it returns. */
int node_new(struct agent *agent, const struct node_options *options, struct node **ret_node,
	struct error *err);
/* Call before agent_free(). Tenants stay. Accepts NULL. */
void node_free(struct node *node);

#endif
