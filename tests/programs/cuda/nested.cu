// SPDX-License-Identifier: Apache-2.0
// A kernel that launches a kernel (dynamic parallelism). Simulated devices refuse the code by name.
#include "check.h"

__global__ void inner(int *v)
{
	*v = 7;
}

__global__ void outer(int *v)
{
	inner<<<1, 1>>>(v);
}

int main()
{
	int *d, got = 0;

	DO(cudaMalloc(&d, sizeof(int)));
	outer<<<1, 1>>>(d);
	DO(cudaGetLastError());
	DO(cudaMemcpy(&got, d, sizeof(int), cudaMemcpyDeviceToHost));
	MUST(got == 7);
	return right("nested");
}
