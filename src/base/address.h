/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of sockets in the form "HOST:PORT", "192.0.2.7:7007", "[2001:db8::7]:7007" or
 * "[fe80::7%eth0]:7007": the only parser of such text, and the sockets that listen there. An error
 * message gives the faulty value and the expected form; the caller puts the option's name before
 * it. Any thread.
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
/* Size of a numeric address with its scope, as address_peer() writes it. */
#define ADDRESS_NUMERIC 64u
#define ADDRESS_TEXT (ADDRESS_HOST + ADDRESS_PORT + 4)

struct address {
	char host[ADDRESS_HOST]; /* without brackets; "": all addresses of this machine */
	char port[ADDRESS_PORT];
	uint16_t number; /* the port */
	int family;      /* AF_INET or AF_INET6 if the host is numeric, else AF_UNSPEC */
};

enum address_forms {
	ADDRESS_ANY_HOST = 1u << 0, /* also accept ":PORT" */
	/*
	 * Also accept "2001:db8::7:7007": the text that $(POD_IP):7007 in a pod's manifest expands
	 * to.
	 */
	ADDRESS_BARE = 1u << 1,
	ADDRESS_IS_NUMERIC = 1u << 2, /* refuse host names */
	/* also accept port 0, for which the kernel picks a free port */
	ADDRESS_ANY_PORT = 1u << 3,
};

/* forms: a mask of enum address_forms. Returns 0 or -EINVAL. */
int address_parse(
	struct str text, unsigned int forms, struct address *ret_address, struct error *err);

/*
 * Splits the host off the beginning of a text, up to a ':' or the end. The host is a name, an IPv4
 * address, or an IPv6 address in brackets; ret_host is without the brackets. ret_rest is the
 * remaining text, which begins with ':' or is empty. Returns 0 or -EINVAL.
 */
int address_parse_host(
	struct str text, struct str *ret_host, struct str *ret_rest, struct error *err);

/* AF_INET for "192.0.2.7"; AF_INET6 for "2001:db8::7" and "fe80::7%eth0"; else AF_UNSPEC. */
int address_family(struct str host);

/* Returns -EINVAL if the host ends in "%eth0" and this machine has no interface eth0, else 0. */
int address_check_scope(struct str host, struct error *err);

/* Writes "HOST:PORT", with an IPv6 host in brackets. Returns 0 or -ENAMETOOLONG. */
int address_format(const char *host, const char *port, char *ret_text, size_t size);

/*
 * Whether the host is "", "0.0.0.0" or "::": a server listens there on all addresses, and no client
 * can connect there.
 */
bool address_is_all(const struct address *address);

/*
 * Returns a socket that listens at the address and that the caller owns. With the host "" or "::"
 * the socket also accepts IPv4. For a name, the socket listens at the first address that works,
 * IPv4 before IPv6. flags are those of socket(2): pass SOCK_CLOEXEC to get a close-on-exec socket.
 * Returns -EINVAL if the host cannot be resolved, or the -errno of the failed call. Blocks while a
 * name is resolved.
 */
int address_listen(const struct address *address, int flags, int backlog, struct error *err);

/* The port that a socket is bound to; 0 if it has none, such as a unix socket. */
uint16_t address_port_of(int fd);

/*
 * Writes the numeric address of a socket's peer, or "" if the address is unknown. If an IPv4 peer
 * is connected to an IPv6 socket, the text is its IPv4 address.
 */
void address_peer(int fd, char *ret_text, size_t size);

#endif
