/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The function that each target defines. The function reads any n bytes and returns 0. The code
 * under test must not crash, leak, break its contract, or take long. __builtin_trap() reports a
 * broken property.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : __builtin_trap())

#endif
