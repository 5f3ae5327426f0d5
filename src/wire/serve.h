/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between divvyd and its links to other nodes (src/link/far.h), which are of the same build.
 *
 * What a link asks for a container of another node goes over divvyd's socket for that
 * (SERVE_SOCKET, SOCK_SEQPACKET, root's alone): one packet, one answer. The connection stays as
 * long as what the container was granted: divvyd closes it when that has ended, and the link ends
 * with it.
 */
#ifndef WIRE_SERVE_H
#define WIRE_SERVE_H

#include <stdint.h>

#define SERVE_SOCKET "serve.sock" /* in the runtime folder */
#define SERVE_ENV "DIVVY_SERVE"   /* its path, for links */
#define SERVE_MAGIC 0x64767331u

/* Descriptors that divvyd starts a link with. */
enum serve_fd {
	SERVE_FD_LISTEN = 3, /* of the network, or of the container */
	SERVE_FD_CONTROL,    /* its end is the link's; SOCK_SEQPACKET */
	SERVE_FD_IDENTITY,   /* identity_to_fd() */
};

enum serve_what {
	SERVE_TENANT,   /* what a container has */
	SERVE_TRANSFER, /* may the network be filled for a moment, to measure it? No names */
};

/* Texts end with a 0. */
struct serve_ask {
	uint32_t magic;
	uint32_t what;               /* enum serve_what */
	char uid[64], container[64]; /* as the certificate says */
	char space[64], pod[254];    /* where to look for that pod: believed if its uid is that */
	char peer[46];               /* the address that it comes from; "": of this node */
	char reserved_too[4];
};
_Static_assert(sizeof(struct serve_ask) == 504, "abi");

struct serve_answer {
	uint32_t magic;
	int32_t status; /* 0, or -errno and why */
	uint32_t user;  /* that its worker is to be, and its group */
	uint32_t reserved;
	uint64_t minors; /* of the granted devices' files, a bit each; 0: not known */
	char secret[36]; /* for DIVVY_TENANT */
	char reason[256];
};
_Static_assert(sizeof(struct serve_answer) == 320, "abi");

/*
 * What the side of the device says to the first word of the other side, and what that tells its own
 * divvyd, on SERVE_FD_CONTROL, of having asked whether there is something for the container.
 */
struct serve_reply {
	uint32_t magic;
	int32_t status; /* 0, or -errno and why */
	char text[256];
};
_Static_assert(sizeof(struct serve_reply) == 264, "abi");

#define SERVE_TRANSFER_MS_MAX 500u /* for so long a network is filled at most, to measure it */

/* What was measured to another node. */
struct serve_probe {
	uint32_t magic;
	int32_t status;           /* 0, or -errno and why; what follows is then nothing */
	uint64_t round_trip_ns;   /* the median of some */
	uint64_t bits_per_second; /* 0: not measured */
	char text[256];
};
_Static_assert(sizeof(struct serve_probe) == 280, "abi");

/* What the link has counted, each second; of its one process of the program. */
struct serve_numbers {
	uint32_t magic;
	uint32_t rtt_us;
	uint64_t received, sent; /* bytes since the beginning */
};
_Static_assert(sizeof(struct serve_numbers) == 24, "abi");

#endif
