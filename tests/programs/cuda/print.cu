// SPDX-License-Identifier: Apache-2.0
// printf of kernels: its text comes when the host waits.
#include "check.h"

__global__ void greet(const char *unused)
{
	printf("thread %d of %d: %s %5.2f %lld\n", int(threadIdx.x), int(blockDim.x), "text", 1.25,
		1LL << 40);
}

int main()
{
	greet<<<1, 3>>>(nullptr);
	DO(cudaDeviceSynchronize());
	return right("print");
}
