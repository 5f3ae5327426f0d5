// SPDX-License-Identifier: Apache-2.0
// Memory that streams allocate and free, pools and their attributes.
#include "check.h"

__global__ void fill(int *v, int n)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		v[i] = i * i;
}

int main()
{
	const int n = 4096;
	unsigned long long keep = ~0ull, reserved = 0;
	cudaMemPoolProps props = {};
	cudaMemPool_t standard, own;
	cudaStream_t stream;
	int out[n], *d;

	DO(cudaStreamCreate(&stream));
	DO(cudaDeviceGetDefaultMemPool(&standard, 0));
	DO(cudaMemPoolSetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &keep));
	for (int round = 0; round < 3; round++) {
		DO(cudaMallocAsync(&d, n * sizeof(int), stream));
		DO(cudaMemsetAsync(d, 0, n * sizeof(int), stream));
		fill<<<n / 256, 256, 0, stream>>>(d, n);
		DO(cudaMemcpyAsync(out, d, sizeof(out), cudaMemcpyDeviceToHost, stream));
		DO(cudaFreeAsync(d, stream));
		DO(cudaStreamSynchronize(stream));
		for (int i = 0; i < n; i++)
			MUST(out[i] == i * i);
	}
	DO(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrReservedMemCurrent, &reserved));
	MUST(reserved > 0);
	DO(cudaMemPoolTrimTo(standard, 0));
	props.allocType = cudaMemAllocationTypePinned;
	props.location.type = cudaMemLocationTypeDevice;
	props.location.id = 0;
	DO(cudaMemPoolCreate(&own, &props));
	DO(cudaMallocFromPoolAsync(&d, 1 << 20, own, stream));
	DO(cudaFreeAsync(d, stream));
	DO(cudaStreamSynchronize(stream));
	DO(cudaMemPoolDestroy(own));
	return right("stream-ordered");
}
