/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "made.h"

static void an_identity_passes_through_a_descriptor(void **state)
{
	_cleanup_made_authority_ struct made_authority ca = made_authority();
	_cleanup_identity_ struct identity own = made_node(&ca, "n1"), first = {0}, again = {0};
	_cleanup_close_ int fd = identity_to_fd(&own);

	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(memfd_has_seals(fd, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK));
	assert_ok(identity_from_fd(fd, &first, NULL));
	/* The position where the first reader stopped does not matter to the second. */
	assert_ok(identity_from_fd(fd, &again, NULL));
	assert_string_equal(first.crt, own.crt);
	assert_string_equal(first.key, own.key);
	assert_string_equal(again.authority, own.authority);
}

static void an_incomplete_identity_is_refused(void **state)
{
	static const struct str bad[] = {STR(""), STR("a"), STR("a\0b\0"), STR("a\0b\0c"),
		STR("a\0b\0c\0d\0"), STR("a\0b\0c\0\0")};
	struct identity identity = {0};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_close_ int fd = memfd_new("test", 0);

		assert_ok(fd_write_all(fd, bad[i].p, bad[i].n));
		assert_int_equal(identity_from_fd(fd, &identity, &err), -EINVAL);
		assert_null(identity.crt);
	}
}

static void the_check_returns_name_and_expiry(void **state)
{
	_cleanup_made_authority_ struct made_authority ca = made_authority();
	_cleanup_identity_ struct identity node = made_node(&ca, "n1"), tenant = made_tenant(&ca);
	const uint64_t now = clock_real_ns();
	struct identity_facts facts;

	assert_ok(identity_check(&node, now, &facts, NULL));
	assert_string_equal(facts.name.node, "n1");
	assert_in_range(facts.to_ns, now + MADE_HOUR_NS - 2 * NSEC_PER_SEC,
		now + MADE_HOUR_NS + 2 * NSEC_PER_SEC);
	assert_ok(identity_check(&tenant, now, &facts, NULL));
	assert_string_equal(facts.name.uid, MADE_UID);
	assert_int_equal(identity_check(&node, now + 2 * MADE_HOUR_NS, &facts, NULL), -EKEYEXPIRED);
	assert_int_equal(identity_check(&node, now - 2 * MADE_HOUR_NS, &facts, NULL), -EKEYEXPIRED);
}

static void the_check_finds_untrusted_identities(void **state)
{
	_cleanup_made_authority_ struct made_authority ca = made_authority(),
						       other = made_authority();
	_cleanup_identity_ struct identity a = made_node(&ca, "n1"), b = made_node(&ca, "n1"),
					   strange = made_identity(
						   &(struct made_wish){.uri = "divvy://node/n1",
							   .by = &other,
							   .trusts = &ca}),
					   web = made_identity(&(struct made_wish){
						   .host = "n1.test", .by = &ca, .trusts = &ca}),
					   own = made_identity(&(struct made_wish){
						   .uri = "divvy://node/n1", .trusts = &ca});
	const uint64_t now = clock_real_ns();
	struct identity mixed = {a.crt, b.key, a.authority};
	struct identity_facts facts;
	struct error err;

	assert_int_equal(identity_check(&mixed, now, &facts, &err), -EINVAL);
	assert_contains(err.msg, "belongs to another");
	assert_int_equal(identity_check(&strange, now, &facts, &err), -EKEYREJECTED);
	assert_int_equal(identity_check(&own, now, &facts, &err), -EKEYREJECTED);
	assert_int_equal(identity_check(&web, now, &facts, &err), -EINVAL);
	assert_contains(err.msg, "is not a URI");
	/* With two authorities in one text, a certificate of either is trusted, in any order. */
	mixed = (struct identity){a.crt, a.key, NULL};
	assert_true(asprintf(&mixed.authority, "%s%s", other.crt, ca.crt) > 0);
	assert_ok(identity_check(&mixed, now, &facts, NULL));
	free(mixed.authority);
}

UNIT_MAIN(UNIT(an_identity_passes_through_a_descriptor), UNIT(an_incomplete_identity_is_refused),
	UNIT(the_check_returns_name_and_expiry), UNIT(the_check_finds_untrusted_identities))
