// SPDX-License-Identifier: Apache-2.0
// The second file of parts.cu.
__device__ int offset = 5;

__device__ int double_it(int x)
{
	return 2 * x;
}
