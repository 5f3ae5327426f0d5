/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How both ends of a session agree on RDMA for their bulk data, over TLS between two threads, with
 * an adapter of fake-verbs.c at each. And that whatever goes wrong leaves them with what they had.
 */
#include "unit.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "fake-verbs.h"
#include "link/bulk-verbs.h"
#include "link/secure.h"
#include "link/stream-verbs.h"
#include "link/verbs.h"

static const uint8_t bytes[SECURE_KEY_BYTES] = {1, 2, 3};

static bool find_bytes(const char *name, uint8_t *ret_key)
{
	memcpy(ret_key, bytes, sizeof(bytes));
	return true;
}

struct end {
	int fd, r;
	bool is_program, has_adapter, is_rude;
	gnutls_session_t tls;
	struct stream bulk;
};

/* Says what no end would: an address of zeros. */
static int agree_rudely(struct end *end)
{
	static const struct verbs_address nowhere;
	const struct stream tls = stream_tls(end->tls, SECURE_SILENT_MS);
	struct verbs_address there;
	uint8_t said = 1;

	assert_ok(stream_send(tls, &nowhere, sizeof(nowhere)));
	assert_ok(stream_receive(tls, &there, sizeof(there)));
	assert_ok(stream_send(tls, &said, sizeof(said)));
	assert_ok(stream_receive(tls, &said, sizeof(said)));
	return said;
}

static void *end_main(void *argument)
{
	static const struct secure_key program = {.name = "any", .bytes = bytes},
				       device = {.find = find_bytes};
	struct end *end = argument;
	struct verbs *verbs;

	end->r = secure_meet_key(end->fd, end->is_program ? &program : &device, &end->tls);
	if (end->r < 0)
		return NULL;
	if (end->is_rude) {
		end->r = agree_rudely(end);
		return NULL;
	}
	verbs = end->has_adapter ? bulk_verbs_open() : NULL;
	end->r = bulk_verbs_agree(end->tls, verbs, true, end->is_program, &end->bulk);
	return NULL;
}

static struct end program, device;

static void begin(const struct fake_verbs *how, bool is_rude)
{
	pthread_t thread[2];
	int pair[2];

	fake_begin(how);
	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	program = (struct end){.fd = pair[0], .is_program = true, .has_adapter = true};
	device = (struct end){.fd = pair[1], .has_adapter = true, .is_rude = is_rude};
	assert_ok(pthread_create(&thread[0], NULL, end_main, &program));
	assert_ok(pthread_create(&thread[1], NULL, end_main, &device));
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
}

/* Whatever has been agreed, both stand at the same place of the first connection. */
static void assert_in_step(void)
{
	static const char words[2][8] = {"up here", "down by"};
	struct stream up = stream_tls(program.tls, 0), down = stream_tls(device.tls, 0);
	char heard[8];

	assert_ok(stream_send(up, words[0], sizeof(words[0])));
	assert_ok(stream_receive(down, heard, sizeof(heard)));
	assert_string_equal(heard, words[0]);
	assert_ok(stream_send(down, words[1], sizeof(words[1])));
	assert_ok(stream_receive(up, heard, sizeof(heard)));
	assert_string_equal(heard, words[1]);
}

static void close_end(struct end *end)
{
	if (end->bulk.kind)
		verbs_stream_free(end->bulk.own);
	gnutls_deinit(end->tls);
	fd_close(end->fd);
}

static void done(void)
{
	assert_in_step();
	close_end(&program);
	close_end(&device);
	fake_end();
	assert_int_equal(fake.live, 0);
	assert_int_equal(fake.registered, 0);
	assert_int_equal(fake.misused, 0);
	assert_int_equal(fake.not_ready, 0);
}

static void both_have_one_and_use_it(void **state)
{
	static const char said[] = "bulk data";
	char heard[sizeof(said)];

	begin(&(struct fake_verbs){0}, false);
	assert_int_equal(program.r, 1);
	assert_int_equal(device.r, 1);
	assert_ok(stream_send(program.bulk, said, sizeof(said)));
	assert_ok(stream_receive(device.bulk, heard, sizeof(heard)));
	assert_string_equal(heard, said);
	assert_ok(stream_send(device.bulk, said + 1, sizeof(said) - 1));
	assert_ok(stream_receive(program.bulk, heard, sizeof(said) - 1));
	assert_string_equal(heard, said + 1);
	done();
}

/* Two networks that have nothing to do with one another. */
static void who_cannot_reach_the_other_goes_back(void **state)
{
	begin(&(struct fake_verbs){.is_deaf = true}, false);
	assert_int_equal(program.r, 0);
	assert_int_equal(device.r, 0);
	done();
}

/* What one of them has sent for a trial is changed on its way. */
static void who_cannot_open_what_comes_goes_back(void **state)
{
	begin(&(struct fake_verbs){.at = 2, .fate = FAKE_CHANGED}, false);
	assert_int_equal(program.r, 0);
	assert_int_equal(device.r, 0);
	done();
}

static void an_address_of_nowhere_goes_back(void **state)
{
	begin(&(struct fake_verbs){0}, true);
	assert_int_equal(program.r, 0);
	assert_int_equal(device.r, 0);
	done();
}

static void who_has_none_says_nothing(void **state)
{
	const struct fake_verbs without[] = {
		{.is_absent = true}, {.is_down = true}, {.refuses = ENOMEM}};

	for (size_t i = 0; i < ARRAY_SIZE(without); i++) {
		begin(&without[i], false);
		assert_int_equal(program.r, 0);
		assert_int_equal(device.r, 0);
		done();
	}
}

static void the_environment_says_which_or_none(void **state)
{
	static const struct {
		const char *says;
		bool is_there;
	} cases[] = {{"", true}, {"fake0", true}, {"fake1", false}, {"off", false}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_begin(&(struct fake_verbs){0});
		assert_ok(setenv(BULK_VERBS_ENV, cases[i].says, 1));
		_cleanup_verbs_ struct verbs *verbs = bulk_verbs_open();
		assert_int_equal(verbs != NULL, cases[i].is_there);
		fake_end();
	}
	assert_ok(unsetenv(BULK_VERBS_ENV));
}

UNIT_MAIN(UNIT(both_have_one_and_use_it), UNIT(who_cannot_reach_the_other_goes_back),
	UNIT(who_cannot_open_what_comes_goes_back), UNIT(an_address_of_nowhere_goes_back),
	UNIT(who_has_none_says_nothing), UNIT(the_environment_says_which_or_none))
