/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on the daemon's socket (AF_UNIX, SOCK_SEQPACKET: one message a packet, so that any
 * thread may send). Little-endian, fixed-width, no padding that is not named; a header, then the
 * body of its type. Decoders are total functions (wire/msg.c, fuzzed): they accept exactly the
 * sizes below. Every peer is checked with SO_PEERCRED by the daemon; nothing in a message names a
 * pid it acts on.
 *
 *   hook    HELLO -> WELCOME (+3 fds per device, in the order of the devices) | REFUSED
 *           WANT, RELEASE, YIELD, MEM_*, MEASURE, BYE;   daemon: FLUSH, MEM_REPLY, MEASURED, SAY
 *           MEM_SHARE, MEM_UNSHARE only after a WELCOME with MSG_WELCOME_SHARES
 *   divvy   CONTROL (JSON text) -> CONTROL_REPLY (JSON text, in parts)
 *
 * Versions: everybody speaks the newest one and the one before. Who asks uses its newest; who
 * answers uses the asker's, or refuses with the version that it would take, so that the asker may
 * ask again in that one. msg_head, REFUSED and its sentence are the same in all versions.
 *   1   the first
 *   2   SAY
 */
#ifndef WIRE_MSG_H
#define WIRE_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/page.h"

#ifndef MSG_ABI /* a test builds what spoke the version before */
#define MSG_ABI 2u
#endif
#define MSG_MAX (64u * 1024u)
#define MSG_DEVICES 16u /* devices of one tenant */
#define MSG_TEXT 240u   /* reason sent with a refusal */
#define MSG_COMMAND 32u

enum msg_type {
	MSG_HELLO = 1,
	MSG_WELCOME,
	MSG_REFUSED,
	MSG_WANT,        /* device: a thread is blocked at the gate (up.want is set) */
	MSG_RELEASE,     /* device: nothing in flight and the program has just synchronised */
	MSG_FLUSH,       /* device, daemon -> hook: mark what is unmarked (down.flush was raised) */
	MSG_MEM_RESERVE, /* device, bytes: policy wait or swap; MEM_REPLY answers, perhaps late */
	MSG_MEM_RELEASE, /* device, bytes: no answer */
	MSG_MEM_REPLY,   /* request, status 0 or errno */
	MSG_MEASURE,     /* device: what does the device say this process uses? */
	MSG_MEASURED,    /* request, bytes; status ENODATA if the device does not say */
	MSG_BYE,
	MSG_CONTROL,       /* JSON request of the command line */
	MSG_CONTROL_REPLY, /* status 0 or errno; more != 0: another part follows */
	MSG_YIELD,         /* device: what comes next would overrun the turn by more than is left */
	MSG_SAY,         /* device, daemon -> hook: a sentence for who reads the program's errors */
	MSG_MEM_SHARE,   /* device, id, bytes: this process holds memory that others may hold too */
	MSG_MEM_UNSHARE, /* device, id: it no longer does; MEM_REPLY answers both */
	MSG_TYPES,
};

struct msg_head {
	uint32_t size;    /* of the whole packet */
	uint16_t type;    /* enum msg_type */
	uint16_t abi;     /* the version it is in */
	uint32_t request; /* chosen by the asker, returned in the answer */
	int32_t status;   /* 0 or a positive errno */
};

enum msg_hello_flags {
	MSG_HELLO_AGAIN = 1u << 0, /* re-registration: fds of up and tenant follow, per device */
	MSG_HELLO_MEMBARRIER = 1u << 1, /* registered for MEMBARRIER_CMD_GLOBAL_EXPEDITED */
};

struct msg_hello {
	struct msg_head head;
	uint32_t flags; /* enum msg_hello_flags */
	uint32_t page_abi;
	uint8_t secret[16];        /* tenant secret from `divvy run`; zeros: none */
	uint64_t start_time;       /* of the process, cross-checked */
	int32_t driver_version;    /* of the real driver, 0 unknown */
	uint32_t devices;          /* on AGAIN: how many pairs of fds follow */
	char command[MSG_COMMAND]; /* argv[0]'s last part, NUL-padded, for display only */
};

struct msg_device {
	uint8_t uuid[16];
	uint32_t device; /* index in the daemon, used in messages */
	uint32_t reserved;
	uint64_t quota_bytes;
	uint64_t device_bytes;
};

enum msg_welcome_flags {
	MSG_WELCOME_SIMULATED = 1u << 0,
	MSG_WELCOME_SHARES = 1u << 1, /* the daemon counts what MEM_SHARE names */
};

struct msg_welcome {
	struct msg_head head;
	uint64_t tenant;  /* id, for display */
	uint32_t flags;   /* enum msg_welcome_flags */
	uint32_t devices; /* 1..MSG_DEVICES, exactly these are shown to the program, as 0..n-1 */
	struct msg_device device[MSG_DEVICES];
};

struct msg_refused {
	struct msg_head head;
	char reason[MSG_TEXT]; /* NUL-terminated sentence */
};

struct msg_device_note { /* WANT, RELEASE, FLUSH, MEASURE */
	struct msg_head head;
	uint32_t device;
	uint32_t reserved;
};

struct msg_memory { /* MEM_RESERVE, MEM_RELEASE, MEM_REPLY, MEASURED */
	struct msg_head head;
	uint32_t device;
	uint32_t reserved;
	uint64_t bytes;
};

enum msg_share_flags {
	/*
	 * The device has the memory already: the quota is not asked. The sender's own charge for
	 * it, if any, ends with the answer.
	 */
	MSG_SHARE_HELD = 1u << 0,
};

struct msg_share { /* MEM_SHARE, MEM_UNSHARE; request 0: without an answer */
	struct msg_head head;
	uint32_t device;
	uint32_t flags; /* enum msg_share_flags */
	uint64_t id;    /* equal in all processes of the tenant that hold it */
	uint64_t bytes;
};

struct msg_say { /* SAY */
	struct msg_head head;
	uint32_t device;
	uint32_t reserved;
	char text[MSG_TEXT]; /* NUL-terminated sentence */
};

struct msg_control { /* CONTROL, CONTROL_REPLY: followed by head.size - sizeof bytes of JSON */
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
_Static_assert(sizeof(struct msg_say) == 24 + MSG_TEXT, "abi");
_Static_assert(sizeof(struct msg_control) == 24, "abi");

/* The versions that are spoken here, the newest and the one before, where there was one. */
uint16_t msg_newest(void);
uint16_t msg_oldest(void);
/* Is there such a message in that version? */
bool msg_is_in(enum msg_type type, uint16_t abi);

/*
 * Checks that the `size` bytes at `packet` are one well-formed message of a version that is spoken
 * here: head.size, a type that the version knows, the exact size of that type (controls: at least
 * the head), strings terminated, counts within bounds. Returns 0; -EBADMSG with what was wrong.
 * Total: any bytes, any size. Reads nothing beyond size.
 */
int msg_check(const void *packet, uint32_t size, struct error *err);

/* Fills a head, in the newest version. */
void msg_head_init(struct msg_head *head, enum msg_type type, uint32_t size, uint32_t request);

const char *msg_type_name(uint16_t type);

#endif
