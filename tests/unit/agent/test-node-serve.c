/* SPDX-License-Identifier: Apache-2.0 */
/* Where devices are served to other nodes: an address that others reach, and never a name. */
#include "unit.h"

#include <errno.h>

#include "agent/node-serve.h"

static void an_address_and_a_port(void **state)
{
	static const struct {
		const char *text, *host, *port;
	} right[] = {
		{"192.0.2.7:7007", "192.0.2.7", "7007"},
		{"[2001:db8::7]:7007", "2001:db8::7", "7007"},
		/* As a manifest writes it, of a pod's address. */
		{"2001:db8::7:7007", "2001:db8::7", "7007"},
	};
	static const char *const wrong[] = {"", ":7007", "192.0.2.7", "192.0.2.7:", "gpu7:7007",
		"192.0.2.7:https", "192.0.2.7:70070", "192.0.2.256:7007", "[]:7007", "::1",
		"$(POD_IP):7007",
		/* Nobody reaches these from elsewhere. */
		"0.0.0.0:7007", "[::]:7007", "[fe80::7%eth0]:7007"};
	struct address at;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(right); i++) {
		assert_int_equal(serve_address_parse(right[i].text, &at, &err), 0);
		assert_string_equal(at.host, right[i].host);
		assert_string_equal(at.port, right[i].port);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_int_equal(serve_address_parse(wrong[i], &at, &err), -EINVAL);
		assert_non_null(strstr(err.msg, "expected ADDRESS:PORT"));
	}
}

UNIT_MAIN(UNIT(an_address_and_a_port))
