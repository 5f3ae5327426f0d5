/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build links this file into each library that divvy preloads. AddressSanitizer's shared
 * runtime calls a function of this name for its options, and ends the program if a preloaded
 * library precedes the runtime. That order is harmless here: of the functions that the runtime
 * replaces, divvy's libraries export at most dlopen and dlsym. A definition in the program and
 * $ASAN_OPTIONS take precedence.
 */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
