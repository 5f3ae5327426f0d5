/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on the daemon's socket (AF_UNIX, SOCK_SEQPACKET: one message in a packet, so that any
 * thread may send). Little-endian, fixed width, padding only in named fields; a header, then the
 * body of the message's type. The decoders (wire/msg.c, fuzzed) are total and accept exactly the
 * sizes below. The daemon checks each peer by SO_PEERCRED, and acts on no pid from a message.
 *
 *   hook    HELLO -> WELCOME (+3 fds per device, in the order of the devices) | REFUSED
 *           WANT, RELEASE, YIELD, MEM_*, MEASURE, BYE; daemon: FLUSH, MEM_REPLY, MEASURED,
 *           DIAGNOSTIC
 *           MEM_SHARE, MEM_UNSHARE only after a WELCOME with MSG_WELCOME_SHARES
 *   divvy   CONTROL (JSON text) -> CONTROL_REPLY (JSON text, in parts)
 *
 * Versions: each program speaks the newest version and the one before. A request uses the sender's
 * newest version. The reply uses the request's version, or is REFUSED in the version that the
 * replier accepts, so that the sender may try again in this version. msg_head and REFUSED are the
 * same in all versions.
 *
 *   1   the first
 *   2   DIAGNOSTIC, MEM_SHARE, MEM_UNSHARE
 */
#ifndef WIRE_MSG_H
#define WIRE_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/page.h"

#ifndef MSG_ABI /* set by a test that builds the previous version */
#define MSG_ABI 2u
#endif
#define MSG_MAX (64u * 1024u)
#define MSG_DEVICES 16u /* devices of one tenant, at most */
#define MSG_TEXT 240u   /* bytes of a message's text, with its NUL */
#define MSG_COMMAND 32u

/*
 * Each comment names the fields of the body that count, and then the meaning. A message goes from
 * the hook to the daemon unless its comment names another direction, or the message is a reply.
 */
enum msg_type {
	MSG_HELLO = 1,
	MSG_WELCOME,
	MSG_REFUSED,
	MSG_WANT,    /* device: a thread is blocked at the gate (up.want is set) */
	MSG_RELEASE, /* device: nothing in flight, and the program has just synchronised */
	/* device, daemon -> hook: mark the unmarked work (down.flush was raised) */
	MSG_FLUSH,
	MSG_MEM_RESERVE, /* device, bytes: policy wait or swap; MEM_REPLY answers, perhaps later */
	MSG_MEM_RELEASE, /* device, bytes: no reply */
	MSG_MEM_REPLY,   /* request, status 0 or errno */
	MSG_MEASURE,     /* device: how much memory does the device report for this process? */
	MSG_MEASURED,    /* request, bytes; status ENODATA if the device reports nothing */
	MSG_BYE,
	MSG_CONTROL,       /* JSON request of the command line */
	MSG_CONTROL_REPLY, /* status 0 or errno; more != 0: another part follows */
	MSG_YIELD,         /* device: the next submission would overrun the turn by too much */
	MSG_DIAGNOSTIC,    /* device, daemon -> hook: a message for the program's stderr */
	MSG_MEM_SHARE,     /* device, id, bytes: this process holds memory that others may share */
	/* device, id: this process no longer holds that memory; MEM_REPLY answers both */
	MSG_MEM_UNSHARE,
	MSG_TYPES,
};

struct msg_head {
	uint32_t size;    /* of the whole packet */
	uint16_t type;    /* enum msg_type */
	uint16_t abi;     /* version of this packet */
	uint32_t request; /* chosen by the sender, returned in the reply */
	int32_t status;   /* 0 or a positive errno */
};

enum msg_hello_flags {
	MSG_HELLO_AGAIN = 1u << 0, /* registers again: fds of the up and tenant pages follow */
	/* the process is registered for MEMBARRIER_CMD_GLOBAL_EXPEDITED */
	MSG_HELLO_MEMBARRIER = 1u << 1,
};

struct msg_hello {
	struct msg_head head;
	uint32_t flags; /* enum msg_hello_flags */
	uint32_t page_abi;
	uint8_t secret[16];        /* tenant secret from `divvy run`; zeros: none */
	uint64_t start_time;       /* of the process; the daemon cross-checks it */
	int32_t driver_version;    /* of the real driver; 0: unknown */
	uint32_t devices;          /* with MSG_HELLO_AGAIN: how many pairs of fds follow */
	char command[MSG_COMMAND]; /* last part of argv[0], NUL-padded, for display only */
};

struct msg_device {
	uint8_t uuid[16];
	uint32_t device; /* the daemon's index, used in messages */
	uint32_t reserved;
	uint64_t quota_bytes;
	uint64_t device_bytes;
};

enum msg_welcome_flags {
	MSG_WELCOME_SIMULATED = 1u << 0,
	MSG_WELCOME_SHARES = 1u << 1, /* the daemon counts the memory that MEM_SHARE reports */
};

struct msg_welcome {
	struct msg_head head;
	uint64_t tenant;  /* id, for display */
	uint32_t flags;   /* enum msg_welcome_flags */
	uint32_t devices; /* 1..MSG_DEVICES: the program's visible devices 0..n-1 */
	struct msg_device device[MSG_DEVICES];
};

struct msg_refused {
	struct msg_head head;
	char reason[MSG_TEXT]; /* NUL-terminated */
};

struct msg_device_note { /* body of WANT, RELEASE, YIELD, FLUSH and MEASURE */
	struct msg_head head;
	uint32_t device;
	uint32_t reserved;
};

struct msg_memory { /* body of MEM_RESERVE, MEM_RELEASE, MEM_REPLY and MEASURED */
	struct msg_head head;
	uint32_t device;
	uint32_t reserved;
	uint64_t bytes;
};

enum msg_share_flags {
	/*
	 * The device has allocated the memory already, so the quota does not apply. The sender's
	 * own charge for it, if any, ends with the reply.
	 */
	MSG_SHARE_HELD = 1u << 0,
};

struct msg_share { /* body of MEM_SHARE and MEM_UNSHARE; request 0: no reply */
	struct msg_head head;
	uint32_t device;
	uint32_t flags; /* enum msg_share_flags */
	uint64_t id;    /* all processes of the tenant that hold this memory use the same id */
	uint64_t bytes;
};

struct msg_diagnostic {
	struct msg_head head;
	uint32_t device;
	uint32_t reserved;
	char text[MSG_TEXT]; /* NUL-terminated */
};

/* body of CONTROL, CONTROL_REPLY; head.size minus the head's size: bytes of JSON in text */
struct msg_control {
	struct msg_head head;
	uint32_t more;
	uint32_t reserved;
	char text[];
};

_Static_assert(sizeof(struct msg_head) == 16, "abi");
_Static_assert(sizeof(struct msg_hello) == 88, "abi");
_Static_assert(sizeof(struct msg_device) == 40, "abi");
_Static_assert(sizeof(struct msg_welcome) == 32 + 40 * MSG_DEVICES, "abi");
_Static_assert(sizeof(struct msg_refused) == 16 + MSG_TEXT, "abi");
_Static_assert(sizeof(struct msg_device_note) == 24, "abi");
_Static_assert(sizeof(struct msg_memory) == 32, "abi");
_Static_assert(sizeof(struct msg_share) == 40, "abi");
_Static_assert(sizeof(struct msg_diagnostic) == 24 + MSG_TEXT, "abi");
_Static_assert(sizeof(struct msg_control) == 24, "abi");

/* The versions that this program speaks: the newest and the one before, if there is one. */
uint16_t msg_newest(void);
uint16_t msg_oldest(void);
/* Whether that version has that message. */
bool msg_is_in(enum msg_type type, uint16_t abi);

/*
 * Checks that `packet` is one well-formed message in a known version. msg_check() checks head.size,
 * a type of that version, the exact size of the type, terminated strings, and the range of counts.
 * A control message has at least the size of the head. Returns 0 or -EBADMSG. Total: accepts any
 * bytes and size, and reads nothing beyond size.
 */
int msg_check(const void *packet, uint32_t size, struct error *err);

/* Fills a head, with the newest version. */
void msg_head_init(struct msg_head *head, enum msg_type type, uint32_t size, uint32_t request);

const char *msg_type_name(uint16_t type);

#endif
