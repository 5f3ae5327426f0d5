/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each target defines: reads n bytes that may be anything, must return 0, may not crash, leak,
 * write what its contract forbids, or take long. __builtin_trap() says that a property is broken.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : __builtin_trap())

#endif
