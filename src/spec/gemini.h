/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses Gemini's resource-config.txt, so that its users' files keep working. The file has one of
 * two forms:
 *
 *   2                                   [client1]
 *   client1 0.3 0.6 4294967296          MinUtil=0.3
 *   client2 0.5 1.0 2147483648          MaxUtil=0.6
 *                                       MemoryLimit=4GiB
 *
 * The columns of the first form are name, request, limit and bytes of memory. Request 0 means
 * opportunistic. Pure.
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
	struct spec spec; /* finished; a request of 1.0 does not make it exclusive */
};

struct gemini {
	struct gemini_client *client;
	size_t n;
};

/*
 * Returns 0; -EINVAL, with line and fault in the message; -ENOMEM. The caller ends the result with
 * gemini_done().
 */
int gemini_parse(struct str text, struct gemini *ret_gemini, struct error *err);
void gemini_done(struct gemini *gemini);
#define _cleanup_gemini_ __attribute__((cleanup(gemini_done)))

#endif
