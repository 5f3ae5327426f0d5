/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Over the first connection each says where its end is, then whether it is connected to the other
 * one, then, when both are, whether what was sent for a trial has come. Each says every one of
 * these, whatever has gone wrong with it, so that both always know where they are.
 */
#include "link/bulk-verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "link/bulk.h"
#include "link/secure.h"
#include "link/stream-verbs.h"
#include "link/verbs.h"

struct verbs *bulk_verbs_open(void)
{
	const char *name = getenv(BULK_VERBS_ENV);
	struct verbs *verbs = NULL;
	struct error err;

	if (name && strcmp(name, "off") == 0)
		return NULL;
	if (verbs_open(name && name[0] ? name : NULL, &verbs, &err) < 0)
		log_debug("no RDMA for bulk data: %s", err.msg);
	return verbs;
}

/* 1: both say so; 0; -EPIPE. */
static int both_say(struct stream first, bool yes)
{
	uint8_t said = yes;

	if (stream_send(first, &said, sizeof(said)) < 0 ||
		stream_receive(first, &said, sizeof(said)) < 0)
		return -EPIPE;
	return yes && said == 1;
}

static int find_secrets(
	struct gnutls_session_int *first, bool is_program, struct verbs_secrets *ret_secrets)
{
	uint8_t both[2][VERBS_SECRET_BYTES]; /* up, down */
	const int r = bulk_secret(first, "EXPORTER-divvy-bulk-verbs", both, sizeof(both));

	if (r == 0) {
		memcpy(ret_secrets->out, both[!is_program], VERBS_SECRET_BYTES);
		memcpy(ret_secrets->in, both[is_program], VERBS_SECRET_BYTES);
	}
	explicit_bzero(both, sizeof(both));
	return r;
}

/* Takes the pair when it is connected. */
static int join(struct gnutls_session_int *first, struct verbs **verbs, bool is_program,
	const struct verbs_address *there, struct verbs_stream **ret_sealed, struct error *err)
{
	struct verbs_secrets secrets;
	int r = verbs_connect(*verbs, there, err);

	if (r < 0)
		return r;
	r = find_secrets(first, is_program, &secrets);
	r = r < 0 ? r : verbs_stream_new(*verbs, &secrets, ret_sealed);
	explicit_bzero(&secrets, sizeof(secrets));
	if (r < 0)
		return fail(err, -r, "no keys for it");
	*verbs = NULL;
	return 0;
}

/* That they see each other, and have the same keys. */
static int meet(struct stream trial, struct error *err)
{
	uint8_t word = 0;
	int r = stream_send(trial, &word, sizeof(word));

	r = r < 0 ? r : stream_receive(trial, &word, sizeof(word));
	return r < 0 ? fail_errno(err, -r, "nothing comes from the other adapter") : 0;
}

int bulk_verbs_agree(struct gnutls_session_int *first, struct verbs *verbs, bool has_other,
	bool is_program, struct stream *ret_stream)
{
	const struct stream tls = stream_tls(first, SECURE_SILENT_MS);
	_cleanup_verbs_ struct verbs *own = verbs;
	struct verbs_stream *sealed = NULL;
	struct verbs_address there;
	struct error err = {.msg = "the other side cannot"};
	int r;

	if (!own || !has_other)
		return 0;
	if (stream_send(tls, verbs_address(own), sizeof(there)) < 0 ||
		stream_receive(tls, &there, sizeof(there)) < 0)
		return -EPIPE;
	r = both_say(tls, join(first, &own, is_program, &there, &sealed, &err) == 0);
	if (r > 0)
		r = both_say(tls, meet(stream_verbs(sealed, BULK_VERBS_TRIAL_MS), &err) == 0);
	if (r > 0) {
		log_debug("bulk data goes over RDMA");
		*ret_stream = stream_verbs(sealed, SECURE_SILENT_MS);
		return 1;
	}
	log_debug("bulk data goes over TLS, not over RDMA: %s", err.msg);
	verbs_stream_free(sealed);
	return r;
}
