/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair (verbs.h) as a stream (stream.h): what is sent goes in sealed records of up to 256
 * KiB (AES-128-GCM, each way with keys of its own, a counter as nonce), one to a slot. Who sends
 * has a credit for each slot that is posted there for it, and gets one back for each that has been
 * read, so that nothing is ever sent that there is no room for.
 */
#pragma once

#include <stdint.h>

#include "link/stream.h"
#include "link/verbs.h"

#define VERBS_SECRET_BYTES 32u
/* Of the receives; what gives credits back needs the others. */
#define VERBS_CREDITS 8u
/* After so many records of a way the next key: GCM is good for about 400 GB with one (RFC 8446). */
#define VERBS_REKEY (1u << 14)

/* For each way, and known to both ends alone; never used for two pairs. */
struct verbs_secrets {
	uint8_t out[VERBS_SECRET_BYTES], in[VERBS_SECRET_BYTES];
};

struct verbs_stream;

/* Over a pair that is connected, which is its own from then on. 0 or -ENOMEM. */
int verbs_stream_new(
	struct verbs *verbs, const struct verbs_secrets *secrets, struct verbs_stream **ret_stream);
/* And its pair; accepts NULL. Nobody uses it any more. */
void verbs_stream_free(struct verbs_stream *v);

/*
 * As it is said in stream.h, and: -EBADMSG from receive: a record was changed, left out or repeated
 * on its way; the memory to receive to may then hold anything. Who takes nothing for silent_ms is
 * gone (-EPIPE). The other end's process that ends is noticed by what is sent to it, after seconds,
 * and by its silence; what it had said, and nobody has received, may be lost then.
 */
struct stream stream_verbs(struct verbs_stream *v, unsigned silent_ms);
