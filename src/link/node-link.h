/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy-remote-far: links between the nodes of a cluster, started by divvyd. Both ends show
 * certificates. The program's side shows the certificate of a container, and the device's side
 * shows the certificate of its node. divvyd on the device's node decides what the container gets;
 * this program decides nothing.
 */
#ifndef LINK_NODE_LINK_H
#define LINK_NODE_LINK_H

#include <stdint.h>

#include "base/error.h"
#include "identity/identity-tls.h"
#include "wire/serve.h"

#define NODE_LINK_ABI 2u
/*
 * Time in which the other node answers. divvyd may wait for other tenants that are about to end:
 * SERVED_IDLE_NS of src/node/node-serve.c.
 */
#define NODE_LINK_ANSWER_MS 45000u
#define NODE_LINK_MAGIC 0x64766661u

enum node_link_request {
	NODE_LINK_CHECK = 1, /* asks whether divvyd grants the container its devices */
	NODE_LINK_PROCESS,   /* a process of the container's program; a session follows */
	NODE_LINK_PROBE,     /* from a node: measures the network between the two nodes */
};

/*
 * First message of the program's side. The certificate of that side names the container or the
 * node.
 */
struct node_link_hello {
	uint32_t magic;
	uint16_t abi;
	uint16_t what;            /* enum node_link_request */
	char space[64], pod[254]; /* namespace and name of the pod with the certificate's UID */
	char reserved[2];
};
_Static_assert(sizeof(struct node_link_hello) == 328, "abi");

/* Fills the answer to a node_link_hello. */
void node_link_reply_init(struct serve_reply *reply, int status, const char *text);

/*
 * Asks the divvyd of this node ($DIVVY_SERVE). Returns the connection, whose end means the end of
 * the grant, or -errno with divvyd's message in *err. May take as long as divvyd waits for tenants
 * that end elsewhere.
 */
int node_link_ask(const struct serve_ask *ask, struct serve_answer *ret_answer, struct error *err);
/* Gives this process the user and the secret of the tenant. */
int node_link_become(const struct serve_answer *answer, struct error *err);

/* Runs the device side until divvyd closes its end of SERVE_FD_CONTROL; sessions continue. */
int node_link_serve(struct identity_tls *tls);

struct node_link_target {
	const char *host, *port; /* host "": the devices are this node's own */
	const char *node;
	const char *uid, *container, *space, *pod;
	/*
	 * Root of the node's pod cgroups, as for cgroup.h. "*": any; "-": this process cannot see
	 * the root.
	 */
	const char *cgroup_root;
};
/* Runs the program side until divvyd closes its end of SERVE_FD_CONTROL; sessions continue. */
int node_link_reach(struct identity_tls *tls, const struct node_link_target *target);
/*
 * Connects to the target, authenticates both ends and gets permission for `what`. -errno with a
 * message in *err.
 */
int node_link_connect(const struct node_link_target *target, struct identity_tls *tls,
	enum node_link_request what, struct identity_session *session, struct error *err);

/* ---- node-link-probe.c ---- */

/*
 * Measures the round trip to the target's node, and with transfer_ms also the bandwidth during that
 * time, if both nodes' divvyd permit it. Writes the result to SERVE_FD_CONTROL. Blocks for some
 * seconds at most, and then ends the process.
 */
int node_link_probe(
	struct identity_tls *tls, const struct node_link_target *target, unsigned transfer_ms);
/*
 * The other side of node_link_probe(): answers until the peer closes the connection, for some
 * seconds at most.
 */
void node_link_probe_serve(struct gnutls_session_int *tls);

#endif
