/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvyd in a cluster: the device plugin's slots, the pods of this node and what was given to them,
 * GPUNode and Lease. Tenants are made and ended in the agent like everybody's; this decides only
 * whether a container gets what the scheduler has given it. The API server may be away for any
 * time: tenants run on, and containers that are known start again. One thread, the loop's.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "agent/agent.h"
#include "base/error.h"

#define NODE_SLOTS_EACH 64u  /* of a device */
#define NODE_SLOTS_MAX 4096u /* of ARBITER_DEVICES */
#define NODE_RESOURCE "divvy.gpu/slot"

struct node_options {
	const char *kubeconfig; /* NULL: what a pod finds in itself */
	const char *name;       /* the Node's */
	const char *pod;        /* whose Lease it is; NULL: the node's name */
	const char *lease_space;
	const char *space; /* divvy's own namespace */
	const char *kubelet_dir;
	const char *state_dir;
	const char *cdi_dir;
	const char *dev_dir;     /* where the host's /dev is seen */
	const char *sys_dir;     /* ... and its /sys */
	bool is_by_environment;  /* real devices come by NVIDIA's variables: no runtime knows CDI */
	const char *cgroup_root; /* NULL: as of our own pod */
	const char *grant_log;   /* a file to write down what is granted; NULL: none */
	const char *remote_listen;   /* where other nodes get this one's devices; NULL: nowhere */
	bool is_host_access_allowed; /* remote tenants get devices that reach host memory, too */
	uint32_t probe_peers;        /* other nodes to be measured, up to PEERS_MAX */
	uint32_t probe_transfer_ms;  /* of a bandwidth; 0: none is measured */
	const char *listen;          /* of /healthz and /metrics; NULL: nowhere */
	const char *health_listen;   /* of /healthz and /readyz, for probes; NULL: nowhere */
	bool is_simulate_fixed;      /* by the command line, whatever GPUNode says */
};

struct node;

/*
 * What GPUNode.spec.simulate says, before there are devices: asks the API server, for a few
 * seconds, and else takes what was said last. "": nothing. Blocks. ret is the caller's to free.
 */
int node_read_simulate(const struct node_options *options, char **ret, struct error *err);

/* Tenants that are pods' have their doors when this returns. Options are borrowed. */
int node_new(struct agent *agent, const struct node_options *options, struct node **ret_node,
	struct error *err);
/* Before the agent: tenants stay. NULL is fine. */
void node_free(struct node *node);

#endif
