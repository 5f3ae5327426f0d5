/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gemini's resource-config.txt, so that its users' files go on working. Both forms are read:
 *
 *   2                                   [client1]
 *   client1 0.3 0.6 4294967296          MinUtil=0.3
 *   client2 0.5 1.0 2147483648          MaxUtil=0.6
 *                                       MemoryLimit=4GiB
 *
 * (name, request, limit, bytes of memory; request 0 is opportunistic). Pure: text in, specs out.
 */
#ifndef SPEC_GEMINI_H
#define SPEC_GEMINI_H

#include <stddef.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/spec.h"

#define GEMINI_NAME 64u
#define GEMINI_CLIENTS 1024u

struct gemini_client {
	char name[GEMINI_NAME];
	struct spec spec; /* finished */
};

struct gemini {
	struct gemini_client *client;
	size_t n;
};

/* -EINVAL with the line's number and what is wrong with it; -ENOMEM. */
int gemini_parse(struct str text, struct gemini *ret_gemini, struct error *err);
void gemini_done(struct gemini *gemini);
#define _cleanup_gemini_ __attribute__((cleanup(gemini_done)))

#endif
