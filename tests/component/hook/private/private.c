/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that only a caller's own RUNPATH finds.
 */
int private_answer(void);

__attribute__((visibility("default"))) int private_answer(void)
{
	return 42;
}
