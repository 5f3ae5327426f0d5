/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between divvyd and its node links (src/link/node-link.h), which are of the same build.
 *
 * A link connects to SERVE_SOCKET (SOCK_SEQPACKET, only for root) and asks for the grant of another
 * node's container: one packet, one reply. The connection lives as long as the container's grant:
 * divvyd closes it when the grant ends, and then the link exits.
 */
#ifndef WIRE_SERVE_H
#define WIRE_SERVE_H

#include <stdint.h>

#define SERVE_SOCKET "serve.sock" /* in the runtime folder */
#define SERVE_ENV "DIVVY_SERVE"   /* variable with the socket's path, for links */
#define SERVE_MAGIC 0x64767331u

/* Descriptors that divvyd passes to a new link. */
enum serve_fd {
	SERVE_FD_LISTEN = 3, /* listens on the network, or in the container's folder */
	SERVE_FD_CONTROL,    /* SOCK_SEQPACKET; the link exits when divvyd closes the other end */
	SERVE_FD_IDENTITY,   /* memfd of identity_to_fd() */
};

enum serve_what {
	SERVE_TENANT, /* the grant of a container */
	/* permission to fill the network for a measurement; the names in serve_ask are empty */
	SERVE_TRANSFER,
};

/* Texts end with a 0. */
struct serve_ask {
	uint32_t magic;
	uint32_t what;               /* enum serve_what */
	char uid[64], container[64]; /* as in the certificate */
	char space[64], pod[254];    /* help to find the pod's object, whose uid is then checked */
	char peer[46];               /* address of the peer; "": this node */
	char reserved_too[4];
};
_Static_assert(sizeof(struct serve_ask) == 504, "abi");

struct serve_answer {
	uint32_t magic;
	int32_t status; /* 0, or -errno with reason */
	uint32_t user;  /* user and group of the worker */
	uint32_t reserved;
	uint64_t minors; /* bit mask of the granted devices' files; 0: unknown */
	char secret[36]; /* value of DIVVY_TENANT for the worker */
	char reason[256];
};
_Static_assert(sizeof(struct serve_answer) == 320, "abi");

/*
 * The device node's reply to the first frame of the client node. The client's link also sends it to
 * its own divvyd on SERVE_FD_CONTROL, as the result of its request for the container.
 */
struct serve_reply {
	uint32_t magic;
	int32_t status; /* 0, or -errno with text */
	char text[256];
};
_Static_assert(sizeof(struct serve_reply) == 264, "abi");

#define SERVE_TRANSFER_MS_MAX 500u /* longest time that a measurement fills the network */

/* A measurement of the network to another node. */
struct serve_probe {
	uint32_t magic;
	int32_t status;           /* 0, or -errno with text; the numbers are then meaningless */
	uint64_t round_trip_ns;   /* median of several measurements */
	uint64_t bits_per_second; /* 0: not measured */
	char text[256];
};
_Static_assert(sizeof(struct serve_probe) == 280, "abi");

/* Counters of the link for its session's process, sent each second. */
struct serve_numbers {
	uint32_t magic;
	uint32_t rtt_us;
	uint64_t received, sent; /* bytes since the start */
};
_Static_assert(sizeof(struct serve_numbers) == 24, "abi");

#endif
