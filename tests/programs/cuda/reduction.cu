// SPDX-License-Identifier: Apache-2.0
// Adds all elements of a vector: warps by shuffles, blocks in shared memory of a size given at the
// launch, the grid by atomics. A template of the block's size.
#include "check.h"

template <unsigned THREADS> __global__ void sum(const int *v, int n, unsigned long long *total)
{
	extern __shared__ long long part[];
	long long mine = 0;

	for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS)
		mine += v[i];
	for (int d = warpSize / 2; d; d /= 2)
		mine += __shfl_down_sync(0xffffffffu, mine, d);
	if (threadIdx.x % warpSize == 0)
		part[threadIdx.x / warpSize] = mine;
	__syncthreads();
	if (threadIdx.x == 0) {
		for (unsigned w = 1; w < THREADS / 32; w++)
			mine += part[w];
		atomicAdd(total, static_cast<unsigned long long>(mine));
	}
}

int main()
{
	const int n = 100000;
	int *v = new int[n], *dv, blocks = 0;
	unsigned long long *dt, got;
	long long expected = 0;

	for (int i = 0; i < n; i++)
		expected += v[i] = static_cast<int>(scramble(i) % 2001) - 1000;
	DO(cudaMalloc(&dv, n * sizeof(int)));
	DO(cudaMalloc(&dt, sizeof(got)));
	DO(cudaMemset(dt, 0, sizeof(got)));
	DO(cudaMemcpy(dv, v, n * sizeof(int), cudaMemcpyHostToDevice));
	DO(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
		&blocks, sum<128>, 128, 4 * sizeof(long long)));
	MUST(blocks > 0);
	sum<128><<<8, 128, 4 * sizeof(long long)>>>(dv, n, dt);
	DO(cudaMemcpy(&got, dt, sizeof(got), cudaMemcpyDeviceToHost));
	MUST(static_cast<long long>(got) == expected);
	delete[] v;
	return right("reduction");
}
