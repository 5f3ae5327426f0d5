/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy-remote-far: links between the nodes of a cluster, started by divvyd, which both ends show
 * who they are by certificates for: the side of the program that of a container, the side of the
 * device that of its node. What the container gets there, divvyd says; here nobody decides.
 */
#ifndef LINK_FAR_H
#define LINK_FAR_H

#include <stdint.h>

#include "base/error.h"
#include "identity/tls.h"
#include "wire/serve.h"

#define FAR_ABI 2u
/* What ends elsewhere is waited for, by divvyd: SERVED_IDLE_NS there. */
#define FAR_ANSWER_MS 45000u
#define FAR_MAGIC 0x64766661u

enum far_what {
	FAR_CHECK = 1, /* is there something for this container? What is not there yet is granted */
	FAR_PROCESS,   /* a process of its program: a session follows */
	FAR_PROBE,     /* of a node: it measures the network between the two */
};

/* The first that the side of the program says; who it is says its certificate. */
struct far_hello {
	uint32_t magic;
	uint16_t abi;
	uint16_t what;            /* enum far_what */
	char space[64], pod[254]; /* where the pod of the certificate's UID is to be found */
	char reserved[2];
};
_Static_assert(sizeof(struct far_hello) == 328, "abi");

/* It is answered with a serve_reply. */
void far_reply_init(struct serve_reply *reply, int status, const char *text);

/*
 * Asks the divvyd of this node ($DIVVY_SERVE). The connection, on which its end is told, or -errno
 * with its sentence. It may take as long as divvyd waits for what ends elsewhere.
 */
int far_ask(const struct serve_ask *ask, struct serve_answer *ret_answer, struct error *err);
/* From now on this is a process of that tenant's, and the first to go when memory is short. */
int far_become(const struct serve_answer *answer, struct error *err);

/* The side of the device: until SERVE_FD_CONTROL ends; who is served then still is. */
int far_serve(struct identity_tls *tls);

struct far_target {
	const char *host, *port; /* host "": this node serves itself */
	const char *node;
	const char *uid, *container, *space, *pod;
	/* Of the node's pods: cgroup.h. "*": any, "-": cannot be seen. */
	const char *cgroup_root;
};
/* The side of the program, likewise. */
int far_reach(struct identity_tls *tls, const struct far_target *target);
/* Connected to the target, known to each other, and let in for that. -errno with a sentence. */
int far_get_in(const struct far_target *target, struct identity_tls *tls, enum far_what what,
	struct identity_session *session, struct error *err);

/* ---- far-probe.c ---- */

/*
 * Measures the round trip to the target's node, and with transfer_ms the bandwidth too, for so
 * long, if neither divvyd has anything against it. Tells the result on SERVE_FD_CONTROL. Blocks,
 * for some seconds at most, and then ends the process.
 */
int far_probe(struct identity_tls *tls, const struct far_target *target, unsigned transfer_ms);
/* The other side: answers until its peer ends it, some seconds at most, as above. */
void far_probe_serve(struct gnutls_session_int *tls);

#endif
