/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "base/address.h"
#include "base/cleanup.h"

#define NUMERIC ADDRESS_IS_NUMERIC
#define LISTENER (ADDRESS_ANY_HOST | ADDRESS_ANY_PORT | NUMERIC)

static void a_host_and_a_port_are_split(void **state)
{
	static const struct {
		const char *text;
		unsigned int forms;
		const char *host, *port;
		int family;
	} right[] = {
		{"gpu7:7007", 0, "gpu7", "7007", AF_UNSPEC},
		{"192.0.2.256:7007", 0, "192.0.2.256", "7007", AF_UNSPEC},
		{"192.0.2.7:7007", NUMERIC, "192.0.2.7", "7007", AF_INET},
		{"[2001:db8::7]:7007", NUMERIC, "2001:db8::7", "7007", AF_INET6},
		{"[::ffff:192.0.2.7]:1", NUMERIC, "::ffff:192.0.2.7", "1", AF_INET6},
		{"[fe80::7%eth0]:65535", NUMERIC, "fe80::7%eth0", "65535", AF_INET6},
		{"[fe80::7%2]:1", NUMERIC, "fe80::7%2", "1", AF_INET6},
		{"2001:db8::7:7007", ADDRESS_BARE, "2001:db8::7", "7007", AF_INET6},
		{"[2001:db8::7]:7007", ADDRESS_BARE, "2001:db8::7", "7007", AF_INET6},
		{"[::]:0", LISTENER, "::", "0", AF_INET6},
		{":9443", LISTENER, "", "9443", AF_UNSPEC},
	};
	struct address a;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(right); i++) {
		if (address_parse(str_from(right[i].text), right[i].forms, &a, &err) < 0)
			fail_msg("%s", err.msg);
		assert_string_equal(a.host, right[i].host);
		assert_string_equal(a.port, right[i].port);
		assert_int_equal(a.number, strtol(right[i].port, NULL, 10));
		assert_int_equal(a.family, right[i].family);
	}
}

static void other_texts_are_refused_with_a_message(void **state)
{
	static const struct {
		const char *text;
		unsigned int forms;
		const char *why;
	} wrong[] = {
		{"", 0, "neither a host name nor an address"},
		{":7007", 0, "neither a host name nor an address"},
		{"gpu 7:7007", 0, "neither a host name nor an address"},
		{"gpu7/x:7007", 0, "neither a host name nor an address"},
		{"gpu7", 0, "'gpu7': the port is missing; expected HOST:PORT"},
		{"gpu7:", 0, "not a port"},
		{"gpu7:https", 0, "not a port"},
		{"gpu7:+1", 0, "not a port"},
		{"gpu7:0", 0, "not a port from 1 to 65535"},
		{"gpu7:65536", 0, "not a port"},
		{"gpu7:000000007007", 0, "not a port"},
		{":65536", LISTENER, "not a port from 0"},
		{"gpu7:7007", NUMERIC, "'gpu7' is a host name"},
		{"2001:db8::7:7007", 0, "IPv6 address in brackets"},
		{"::1", ADDRESS_BARE, "IPv6 address in brackets"},
		{"2001:db8::x:7007", ADDRESS_BARE, "IPv6 address in brackets"},
		{"[2001:db8::7:7007", 0, "no ']' ends the address"},
		{"[2001:db8::7]", 0, "port is missing"},
		{"[2001:db8::7]7007", 0, "nothing after ']'"},
		{"[]:7007", 0, "not an IPv6 address"},
		{"[gpu7]:7007", 0, "'gpu7' is not an IPv6 address"},
		{"[192.0.2.7]:7007", 0, "not an IPv6 address"},
		{"[192.0.2.7%eth0]:7007", 0, "not an IPv6 address"},
		{"192.0.2.7%eth0:7007", 0, "neither a host name nor an address"},
		{"[fe80::7%]:7007", 0, "not an IPv6 address"},
		{"[fe80::7%eth/0]:7007", 0, "not an IPv6 address"},
		{"[fe80::7%eth0%1]:7007", 0, "not an IPv6 address"},
		{"[fe80::7%sixteenletters00]:7007", 0, "not an IPv6 address"},
		{"[2001:db8::7::8]:7007", 0, "not an IPv6 address"},
	};
	struct address a = {.host = "as before"};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_int_equal(
			address_parse(str_from(wrong[i].text), wrong[i].forms, &a, &err), -EINVAL);
		assert_contains(err.msg, wrong[i].why);
		assert_contains(err.msg, wrong[i].text);
		assert_contains(err.msg, "PORT, such as");
		assert_string_equal(a.host, "as before");
	}
}

static void names_have_a_limit(void **state)
{
	char text[ADDRESS_HOST + 8];
	struct address a;

	memset(text, 'a', sizeof(text));
	memcpy(text + ADDRESS_HOST - 1, ":1", 3);
	assert_ok(address_parse(str_from(text), 0, &a, NULL));
	assert_int_equal(strlen(a.host), ADDRESS_HOST - 1);
	text[ADDRESS_HOST - 1] = 'a';
	memcpy(text + ADDRESS_HOST, ":1", 3);
	assert_int_equal(address_parse(str_from(text), 0, &a, NULL), -EINVAL);
}

static void a_host_may_have_a_suffix(void **state)
{
	static const struct {
		const char *text, *host, *rest;
	} right[] = {
		{"gpu7", "gpu7", ""},
		{"gpu7:1", "gpu7", ":1"},
		{"[2001:db8::7]", "2001:db8::7", ""},
		{"[fe80::7%eth0]:1", "fe80::7%eth0", ":1"},
	};
	struct str host, rest;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(right); i++) {
		assert_ok(address_parse_host(str_from(right[i].text), &host, &rest, NULL));
		assert_true(str_is(host, right[i].host));
		assert_true(str_is(rest, right[i].rest));
	}
	assert_int_equal(address_parse_host(STR("2001:db8::7"), &host, &rest, &err), -EINVAL);
	assert_contains(err.msg, "[2001:db8::7]");
}

static void addresses_are_written_as_read(void **state)
{
	char text[24];

	assert_ok(address_format("fe80::7%eth0", "7007", text, sizeof(text)));
	assert_string_equal(text, "[fe80::7%eth0]:7007");
	assert_ok(address_format("gpu7", "7007", text, sizeof(text)));
	assert_string_equal(text, "gpu7:7007");
	assert_int_equal(address_format("gpu7", "7007", text, 9), -ENAMETOOLONG);
}

static void addresses_of_all_interfaces_are_recognised(void **state)
{
	static const char *const all[] = {"", "::", "0.0.0.0", "0:0::0"},
				 *const one[] = {"::1", "gpu7", "127.0.0.1", "::ffff:0.0.0.0"};
	struct address a = {.port = "1"};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		str_copy(a.host, sizeof(a.host), str_from(all[i]));
		assert_true(address_is_all(&a));
	}
	for (size_t i = 0; i < ARRAY_SIZE(one); i++) {
		str_copy(a.host, sizeof(a.host), str_from(one[i]));
		assert_false(address_is_all(&a));
	}
}

/* ---- sockets ---- */

static bool has_in6(void)
{
	_cleanup_close_ int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct sockaddr_in6 own = {
		.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	return fd >= 0 && bind(fd, (const struct sockaddr *)&own, sizeof(own)) == 0;
}

static int dial(int family, uint16_t port)
{
	const struct sockaddr_in in = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const bool is_6 = family == AF_INET6;
	_cleanup_close_ int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
		connect(fd, is_6 ? (const struct sockaddr *)&in6 : (const struct sockaddr *)&in,
			is_6 ? sizeof(in6) : sizeof(in)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* A listener at `where` sees a client of this family as `peer`; NULL: the client cannot connect. */
static void assert_hears(const char *where, int family, const char *peer)
{
	_cleanup_close_ int listener = -1, near = -1, far = -1;
	char text[ADDRESS_NUMERIC];
	struct address a;
	struct error err;

	assert_ok(address_parse(str_from(where), LISTENER, &a, &err));
	listener = address_listen(&a, SOCK_CLOEXEC, 4, &err);
	if (listener < 0)
		fail_msg("%s", err.msg);
	assert_true(address_port_of(listener) > 0);
	near = dial(family, address_port_of(listener));
	if (!peer) {
		assert_true(near < 0);
		return;
	}
	assert_true(near >= 0);
	far = accept(listener, NULL, NULL);
	address_peer(far, text, sizeof(text));
	assert_string_equal(text, peer);
}

static void a_listener_accepts_only_at_its_address(void **state)
{
	assert_hears("127.0.0.1:0", AF_INET, "127.0.0.1");
	if (!has_in6())
		skip();
	assert_hears("127.0.0.1:0", AF_INET6, NULL);
	assert_hears("[::1]:0", AF_INET6, "::1");
	assert_hears("[::1]:0", AF_INET, NULL);
}

static void a_listener_on_all_addresses_accepts_both_families(void **state)
{
	assert_hears(":0", AF_INET, "127.0.0.1");
	assert_hears("0.0.0.0:0", AF_INET, "127.0.0.1");
	if (!has_in6())
		skip();
	assert_hears(":0", AF_INET6, "::1");
	assert_hears("[::]:0", AF_INET6, "::1");
	assert_hears("[::]:0", AF_INET, "127.0.0.1");
}

static void an_address_of_another_machine_is_refused(void **state)
{
	struct address a = {.host = "192.0.2.7", .port = "0"};
	struct error err;

	assert_int_equal(address_listen(&a, SOCK_CLOEXEC, 4, &err), -EADDRNOTAVAIL);
	assert_string_equal(err.msg, "'192.0.2.7:0': this machine has no such address");
	assert_int_equal(address_parse(STR("[fe80::7%nosuch0]:7007"), 0, &a, &err), 0);
	assert_int_equal(address_listen(&a, SOCK_CLOEXEC, 4, &err), -EINVAL);
	assert_string_equal(
		err.msg, "'fe80::7%nosuch0': this machine has no network interface 'nosuch0'");
}

static void a_socket_without_a_peer_gives_no_text(void **state)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[ADDRESS_NUMERIC] = "as before";

	address_peer(fd, text, sizeof(text));
	assert_string_equal(text, "");
}

UNIT_MAIN(UNIT(a_host_and_a_port_are_split), UNIT(other_texts_are_refused_with_a_message),
	UNIT(names_have_a_limit), UNIT(a_host_may_have_a_suffix),
	UNIT(addresses_are_written_as_read), UNIT(addresses_of_all_interfaces_are_recognised),
	UNIT(a_listener_accepts_only_at_its_address),
	UNIT(a_listener_on_all_addresses_accepts_both_families),
	UNIT(an_address_of_another_machine_is_refused), UNIT(a_socket_without_a_peer_gives_no_text))
