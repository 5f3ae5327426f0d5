/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where something listens: "HOST:PORT", "192.0.2.7:7007", "[2001:db8::7]:7007",
 * "[fe80::7%eth0]:7007". The one parser of such text, and the sockets behind it. Errors name the
 * value and what would be right; the caller puts the option's name before it. Any thread.
 */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/str.h"

#define ADDRESS_HOST 256u
#define ADDRESS_PORT 8u
/* Of a numeric one, with a scope: as address_peer() writes it. */
#define ADDRESS_NUMERIC 64u
#define ADDRESS_TEXT (ADDRESS_HOST + ADDRESS_PORT + 4)

struct address {
	char host[ADDRESS_HOST]; /* without brackets; "": all addresses of this machine */
	char port[ADDRESS_PORT];
	uint16_t number; /* the port */
	int family;      /* AF_INET or AF_INET6 of a numeric one, else AF_UNSPEC */
};

enum address_forms {
	ADDRESS_ANY_HOST = 1u << 0, /* ":PORT" too */
	/* "2001:db8::7:7007" too, as a manifest writes $(POD_IP):7007. */
	ADDRESS_BARE = 1u << 1,
	ADDRESS_IS_NUMERIC = 1u << 2, /* no names */
	ADDRESS_ANY_PORT = 1u << 3,   /* 0 too: one that is free */
};

/* -EINVAL with a sentence. */
int address_parse(
	struct str text, unsigned int forms, struct address *ret_address, struct error *err);

/*
 * The host that a text begins with, up to a ':' or its end: a name, an address of IPv4, or one of
 * IPv6 in brackets, which ret_host is without; ret_rest is what follows. -EINVAL with a sentence.
 */
int address_parse_host(
	struct str text, struct str *ret_host, struct str *ret_rest, struct error *err);

/* "192.0.2.7", "2001:db8::7", "fe80::7%eth0": AF_INET or AF_INET6; AF_UNSPEC: none. */
int address_family(struct str host);

/* -EINVAL with a sentence where a "%eth0" behind the host names no interface of this machine. */
int address_check_scope(struct str host, struct error *err);

/* HOST:PORT, with brackets where it needs them. -ENAMETOOLONG. */
int address_format(const char *host, const char *port, char *ret_text, size_t size);

/* "0.0.0.0", "::" or none: where one listens to all, and where nobody connects to. */
bool address_is_all(const struct address *address);

/*
 * A socket that listens there, the caller's; where the host is "" or "::", to IPv4 too. Of a name's
 * addresses it is the first, IPv4 before IPv6. Flags are those of socket(2), close-on-exec too if
 * it shall be. -EINVAL with a sentence: there is no such host; -errno. Names may block.
 */
int address_listen(const struct address *address, int flags, int backlog, struct error *err);

/* The port that a socket is bound to; 0: none, as of a unix socket. */
uint16_t address_port_of(int fd);

/* Who is at the other end, numeric, IPv4 as such whatever the socket; "" where it is not known. */
void address_peer(int fd, char *ret_text, size_t size);

#endif
