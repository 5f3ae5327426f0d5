// SPDX-License-Identifier: Apache-2.0
// Counts values by atomics in shared memory and in global memory.
#include "check.h"

__global__ void count(const unsigned char *v, int n, unsigned *bins)
{
	__shared__ unsigned mine[256];

	for (int i = threadIdx.x; i < 256; i += blockDim.x)
		mine[i] = 0;
	__syncthreads();
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		atomicAdd(&mine[v[i]], 1u);
	__syncthreads();
	for (int i = threadIdx.x; i < 256; i += blockDim.x)
		atomicAdd(&bins[i], mine[i]);
}

int main()
{
	const int n = 40000;
	unsigned char *v = new unsigned char[n], *dv;
	unsigned bins[256], expected[256] = {}, *dbins;

	for (int i = 0; i < n; i++)
		expected[v[i] = scramble(i) % 251]++;
	DO(cudaMalloc(&dv, n));
	DO(cudaMalloc(&dbins, sizeof(bins)));
	DO(cudaMemset(dbins, 0, sizeof(bins)));
	DO(cudaMemcpy(dv, v, n, cudaMemcpyHostToDevice));
	count<<<6, 96>>>(dv, n, dbins);
	DO(cudaMemcpy(bins, dbins, sizeof(bins), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 256; i++)
		MUST(bins[i] == expected[i]);
	delete[] v;
	return right("histogram");
}
