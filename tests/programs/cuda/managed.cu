// SPDX-License-Identifier: Apache-2.0
// Memory that host and device share by address: allocations and variables.
#include "check.h"

__managed__ int counter = 40;
__managed__ float table[64];

__global__ void count(int *v, int n)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		v[i] += i;
	if (i < 64)
		table[i] = i / 2.0f;
	if (i == 0)
		counter += 2;
}

int main()
{
	const int n = 500;
	cudaPointerAttributes attributes;
	int *v;

	MUST(counter == 40);
	DO(cudaMallocManaged(&v, n * sizeof(int)));
	DO(cudaPointerGetAttributes(&attributes, v));
	MUST(attributes.type == cudaMemoryTypeManaged);
	for (int i = 0; i < n; i++)
		v[i] = 3;
	count<<<4, 128>>>(v, n);
	DO(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		MUST(v[i] == 3 + i);
	MUST(counter == 42 && table[63] == 31.5f);
	counter = 1;
	count<<<4, 128>>>(v, n);
	DO(cudaDeviceSynchronize());
	MUST(counter == 3 && v[10] == 23);
	DO(cudaFree(v));
	return right("managed");
}
