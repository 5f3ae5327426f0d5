/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that a caller finds by its own RUNPATH alone.
 */
int private_answer(void);

__attribute__((visibility("default"))) int private_answer(void)
{
	return 42;
}
