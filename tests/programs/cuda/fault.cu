// SPDX-License-Identifier: Apache-2.0
// A kernel that writes to no memory: the error stays until the device is reset.
#include "check.h"

__global__ void spoil(int *v)
{
	v[threadIdx.x] = 1;
}

int main()
{
	int *d;

	spoil<<<1, 32>>>(reinterpret_cast<int *>(0x10));
	MUST(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
	MUST(cudaMalloc(&d, 64) == cudaErrorIllegalAddress);
	MUST(cudaGetLastError() == cudaErrorIllegalAddress);
	DO(cudaDeviceReset());
	DO(cudaMalloc(&d, 32 * sizeof(int)));
	spoil<<<1, 32>>>(d);
	DO(cudaDeviceSynchronize());
	return right("fault");
}
