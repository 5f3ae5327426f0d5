// SPDX-License-Identifier: Apache-2.0
// Device code of two files, linked by nvcc -rdc=true: a function and a variable of the other file.
#include "check.h"

__device__ int double_it(int x);
extern __device__ int offset;

__global__ void apply(int *v)
{
	v[threadIdx.x] = double_it(v[threadIdx.x]) + offset;
}

int main()
{
	int v[64], *d;

	for (int i = 0; i < 64; i++)
		v[i] = i;
	DO(cudaMalloc(&d, sizeof(v)));
	DO(cudaMemcpy(d, v, sizeof(v), cudaMemcpyHostToDevice));
	apply<<<1, 64>>>(d);
	DO(cudaMemcpy(v, d, sizeof(v), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 64; i++)
		MUST(v[i] == 2 * i + 5);
	return right("parts");
}
