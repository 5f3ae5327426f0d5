// SPDX-License-Identifier: Apache-2.0
// Constant and device variables: addresses, sizes, copies of parts, in two functions of one name.
#include "check.h"

__constant__ float weights[16];
__device__ int total, spare[4] = {1, 2, 3, 4};

namespace
{
__device__ double hidden = 0.5;
}

__global__ void weigh(const float *v, float *out)
{
	out[threadIdx.x] = v[threadIdx.x] * weights[threadIdx.x % 16];
	atomicAdd(&total, int(threadIdx.x));
	if (threadIdx.x < 4)
		spare[threadIdx.x] *= 10;
	if (threadIdx.x == 0)
		hidden += 1;
}

int main()
{
	float w[16], v[32], out[32], *dv, *d_out;
	int sum = 0, parts[2];
	double h;
	size_t size;
	void *address;

	for (int i = 0; i < 16; i++)
		w[i] = i + 0.5f;
	for (int i = 0; i < 32; i++)
		v[i] = i;
	DO(cudaMemcpyToSymbol(weights, w, 8 * sizeof(float)));
	DO(cudaMemcpyToSymbol(weights, w + 8, 8 * sizeof(float), 8 * sizeof(float)));
	DO(cudaMalloc(&dv, sizeof(v)));
	DO(cudaMalloc(&d_out, sizeof(out)));
	DO(cudaMemcpy(dv, v, sizeof(v), cudaMemcpyHostToDevice));
	weigh<<<1, 32>>>(dv, d_out);
	DO(cudaMemcpy(out, d_out, sizeof(out), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++)
		MUST(out[i] == v[i] * w[i % 16]);
	DO(cudaMemcpyFromSymbol(&sum, total, sizeof(sum)));
	MUST(sum == 31 * 16);
	DO(cudaMemcpyFromSymbol(parts, spare, sizeof(parts), 2 * sizeof(int)));
	MUST(parts[0] == 30 && parts[1] == 40);
	DO(cudaMemcpyFromSymbol(&h, hidden, sizeof(h)));
	MUST(h == 1.5);
	DO(cudaGetSymbolSize(&size, spare));
	MUST(size == 16);
	DO(cudaGetSymbolAddress(&address, spare));
	DO(cudaMemcpy(parts, address, sizeof(parts), cudaMemcpyDeviceToHost));
	MUST(parts[0] == 10 && parts[1] == 20);
	MUST(cudaMemcpyToSymbol(weights, w, 65) == cudaErrorInvalidValue);
	MUST(cudaMemcpyToSymbol(w, w, 4) == cudaErrorInvalidSymbol);
	return right("constants");
}
