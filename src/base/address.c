/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file has two halves: functions on text, and functions on sockets. The text half cuts host
 * and port out of the text, and fills the result after it has checked both. inet_pton() decides
 * whether a host is numeric, and only IPv6 may have an interface behind '%'. address_listen() alone
 * asks the resolver, and tries its answers in two rounds: first the preferred family, then the
 * other. For the host "", which means all addresses, IPv6 is preferred, because such a socket also
 * accepts IPv4. For other hosts IPv4 is preferred. No function keeps state between calls.
 */
#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/parse.h"

/* ---- text ---- */

static struct str str_behind(struct str s, size_t at)
{
	return (struct str){s.p + at, s.n - at};
}

/* Checks host names, which the resolver checks further, and interfaces (names or numbers). */
static bool address_is_host_name(struct str s, size_t size)
{
	if (!s.n || s.n >= size)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~' || strchr("/%:[]\"\\", s.p[i]))
			return false;
	return true;
}

int address_family(struct str host)
{
	const size_t percent = str_find(host, '%');
	const bool is_scoped = percent < host.n;
	char text[INET6_ADDRSTRLEN];
	struct in6_addr in6;
	struct in_addr in;

	if (str_copy(text, sizeof(text), (struct str){host.p, percent}) < 0)
		return AF_UNSPEC;
	if (inet_pton(AF_INET, text, &in) == 1)
		return is_scoped ? AF_UNSPEC : AF_INET;
	if (inet_pton(AF_INET6, text, &in6) != 1)
		return AF_UNSPEC;
	return !is_scoped || address_is_host_name(str_behind(host, percent + 1), IF_NAMESIZE)
		? AF_INET6
		: AF_UNSPEC;
}

int address_parse_host(
	struct str text, struct str *ret_host, struct str *ret_rest, struct error *err)
{
	struct str rest = text, host;
	size_t at;

	if (str_skip_prefix(&rest, STR("["))) {
		at = str_find(rest, ']');
		host = (struct str){rest.p, at};
		if (at == rest.n)
			return fail(err, EINVAL, "'%.*s': no ']' ends the address", STR_ARG(text));
		if (address_family(host) != AF_INET6)
			return fail(err, EINVAL,
				"'%.*s': '%.*s' is not an IPv6 address; brackets enclose one, such "
				"as [2001:db8::7] or [fe80::7%%eth0]",
				STR_ARG(text), STR_ARG(host));
		rest = str_behind(rest, at + 1);
		if (rest.n && rest.p[0] != ':')
			return fail(err, EINVAL, "'%.*s': expected ':' or nothing after ']'",
				STR_ARG(text));
	} else {
		at = str_find(text, ':');
		host = (struct str){text.p, at};
		rest = str_behind(text, at);
		if (rest.n && str_find(str_behind(rest, 1), ':') + 1 < rest.n)
			return fail(err, EINVAL,
				"'%.*s': put an IPv6 address in brackets, such as [2001:db8::7]",
				STR_ARG(text));
		if (host.n >= ADDRESS_HOST)
			return fail(err, EINVAL,
				"'%.16s...': the host name has %zu characters; at most %u are "
				"allowed",
				host.p, host.n, ADDRESS_HOST - 1);
		if (!address_is_host_name(host, ADDRESS_HOST))
			return fail(err, EINVAL,
				"'%.*s': '%.*s' is neither a host name nor an address",
				STR_ARG(text), STR_ARG(host));
	}
	*ret_host = host;
	*ret_rest = rest;
	return 0;
}

/* "2001:db8::7:7007": the port follows the last colon. */
static bool split_bare(struct str text, struct str *ret_host, struct str *ret_rest)
{
	size_t at = text.n;

	while (at && text.p[at - 1] != ':')
		at--;
	if (!at)
		return false;
	*ret_host = (struct str){text.p, at - 1};
	*ret_rest = str_behind(text, at - 1);
	return address_family(*ret_host) == AF_INET6;
}

static const char *address_expected_text(unsigned int forms)
{
	if (forms & ADDRESS_IS_NUMERIC)
		return forms & ADDRESS_ANY_HOST ? "ADDRESS:PORT or :PORT, such as :9443 or "
						  "[2001:db8::7]:9443"
						: "ADDRESS:PORT, such as 192.0.2.7:7007 or "
						  "[2001:db8::7]:7007";
	return "HOST:PORT, such as gpu7:7007 or [2001:db8::7]:7007";
}

int address_parse(
	struct str text, unsigned int forms, struct address *ret_address, struct error *err)
{
	const uint64_t least = forms & ADDRESS_ANY_PORT ? 0 : 1;
	struct address a = {.family = AF_UNSPEC};
	struct str host, rest;
	uint64_t number;
	struct error why;
	int r = 0;

	if (forms & ADDRESS_ANY_HOST && text.n && text.p[0] == ':' &&
		str_find(str_behind(text, 1), ':') + 1 == text.n) {
		host = STR("");
		rest = text;
	} else if (!(forms & ADDRESS_BARE && split_bare(text, &host, &rest))) {
		r = address_parse_host(text, &host, &rest, &why);
	}
	if (r < 0)
		return fail(err, EINVAL, "%s; expected %s", why.msg, address_expected_text(forms));
	a.family = address_family(host);
	if (host.n && forms & ADDRESS_IS_NUMERIC && a.family == AF_UNSPEC)
		return fail(err, EINVAL, "'%.*s': '%.*s' is a host name; expected %s",
			STR_ARG(text), STR_ARG(host), address_expected_text(forms));
	if (!rest.n)
		return fail(err, EINVAL, "'%.*s': the port is missing; expected %s", STR_ARG(text),
			address_expected_text(forms));
	if (!str_skip_prefix(&rest, STR(":")) ||
		parse_uint(rest, least, UINT16_MAX, &number, NULL) < 0 ||
		str_copy(a.port, sizeof(a.port), rest) < 0)
		return fail(err, EINVAL, "'%.*s': '%.*s' is not a port from %d to %u; expected %s",
			STR_ARG(text), STR_ARG(rest), (int)least, UINT16_MAX,
			address_expected_text(forms));
	if (str_copy(a.host, sizeof(a.host), host) < 0)
		return fail(err, EINVAL, "'%.*s': the host name is too long", STR_ARG(text));
	a.number = (uint16_t)number;
	*ret_address = a;
	return 0;
}

int address_format(const char *host, const char *port, char *ret_text, size_t size)
{
	const char *form = strchr(host, ':') ? "[%s]:%s" : "%s:%s";

	return (size_t)snprintf(ret_text, size, form, host, port) < size ? 0 : -ENAMETOOLONG;
}

bool address_is_all(const struct address *a)
{
	struct in6_addr in6;
	struct in_addr in;

	if (inet_pton(AF_INET, a->host, &in) == 1)
		return in.s_addr == htonl(INADDR_ANY);
	if (inet_pton(AF_INET6, a->host, &in6) == 1)
		return IN6_IS_ADDR_UNSPECIFIED(&in6);
	return !a->host[0];
}

int address_check_scope(struct str host, struct error *err)
{
	const struct str scope = str_behind(host, MIN(host.n, str_find(host, '%') + 1));
	char name[IF_NAMESIZE];

	if (!scope.n || (str_copy(name, sizeof(name), scope) == 0 && if_nametoindex(name)))
		return 0;
	return fail(err, EINVAL, "'%.*s': this machine has no network interface '%.*s'",
		STR_ARG(host), STR_ARG(scope));
}

/* ---- sockets ---- */

union socket_address {
	struct sockaddr_storage any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static int address_listen_at(const struct addrinfo *a, bool is_all, int flags, int backlog)
{
	_cleanup_close_ int fd = socket(a->ai_family, SOCK_STREAM | flags, 0);
	const int one = 1, only = !is_all;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
	if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, backlog) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int address_listen(const struct address *address, int flags, int backlog, struct error *err)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	const bool is_all = address_is_all(address);
	const int first = is_all ? AF_INET6 : AF_INET;
	const char *host = address->host[0] ? address->host : NULL;
	struct addrinfo *all = NULL;
	char text[ADDRESS_TEXT];
	int fd, r;

	address_format(address->host, address->port, text, sizeof(text));
	r = getaddrinfo(host, address->port, &hints, &all);
	if (r == EAI_NONAME && address_check_scope(str_from(address->host), err) < 0)
		return -EINVAL;
	if (r != 0)
		return fail(err, EINVAL, "'%s': %s", text, gai_strerror(r));
	fd = -EADDRNOTAVAIL;
	for (int round = 0; round < 2 && fd < 0; round++)
		for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
			if ((a->ai_family == first) == (round == 0))
				fd = address_listen_at(a, is_all, flags, backlog);
	freeaddrinfo(all);
	if (fd == -EADDRNOTAVAIL)
		return fail(err, EADDRNOTAVAIL, "'%s': this machine has no such address", text);
	return fd < 0 ? fail_errno(err, -fd, "listen on '%s'", text) : fd;
}

uint16_t address_port_of(int fd)
{
	union socket_address a = {0};
	socklen_t n = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		return 0;
	switch (a.any.ss_family) {
	case AF_INET: return ntohs(a.in.sin_port);
	case AF_INET6: return ntohs(a.in6.sin6_port);
	default: return 0;
	}
}

void address_peer(int fd, char *ret_text, size_t size)
{
	union socket_address a = {0};
	socklen_t n = sizeof(a);

	ret_text[0] = '\0';
	if (getpeername(fd, (struct sockaddr *)&a, &n) < 0)
		return;
	if (a.any.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a.in6.sin6_addr)) {
		struct in_addr in;

		memcpy(&in, &a.in6.sin6_addr.s6_addr[12], sizeof(in));
		a.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = in};
		n = sizeof(a.in);
	}
	if (getnameinfo((struct sockaddr *)&a, n, ret_text, (socklen_t)size, NULL, 0,
		    NI_NUMERICHOST) != 0)
		ret_text[0] = '\0';
}
