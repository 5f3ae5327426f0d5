/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of each library that divvy preloads. The shared run time of AddressSanitizer asks for its
 * options by this name, and ends the program if a preloaded library precedes it. The order is
 * harmless here: of the functions that the run time replaces, divvy's libraries export dlopen and
 * dlsym at most. A definition in the program itself and $ASAN_OPTIONS have precedence.
 */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
