/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), for the names of images. Needs libc only. Any thread. */
#ifndef REMOTE_SHA256_H
#define REMOTE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32u

void sha256(const void *p, size_t n, uint8_t ret_hash[SHA256_BYTES]);

#endif
