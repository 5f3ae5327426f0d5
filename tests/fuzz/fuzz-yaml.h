/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suppresses reports of leaks in libfyaml, for targets that read YAML: version 0.7.12 leaks memory
 * of some quoted scalars, such as keys with many escaped quotes. The leak is harmless, because only
 * short-lived programs read YAML, and none of our objects refers to the leaked memory.
 */
#ifndef TESTS_FUZZ_FUZZ_YAML_H
#define TESTS_FUZZ_FUZZ_YAML_H

const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:libfyaml";
}

#endif
