// SPDX-License-Identifier: Apache-2.0
// Adds two vectors, also a vector of no element, and with a launch that the device refuses.
#include "check.h"

__global__ void add(const float *a, const float *b, float *c, int n)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

int main()
{
	const int n = 1000;
	float a[n], b[n], c[n], *da, *db, *dc;

	for (int i = 0; i < n; i++) {
		a[i] = i;
		b[i] = 2 * i;
	}
	DO(cudaMalloc(&da, sizeof(a)));
	DO(cudaMalloc(&db, sizeof(b)));
	DO(cudaMalloc(&dc, sizeof(c)));
	DO(cudaMemcpy(da, a, sizeof(a), cudaMemcpyHostToDevice));
	DO(cudaMemcpy(db, b, sizeof(b), cudaMemcpyDefault));
	add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
	DO(cudaGetLastError());
	DO(cudaMemcpy(c, dc, sizeof(c), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		MUST(c[i] == 3 * i);
	add<<<1, 4096>>>(da, db, dc, n);
	MUST(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
	MUST(cudaGetLastError() == cudaErrorInvalidConfiguration);
	DO(cudaGetLastError());
	DO(cudaFree(da));
	DO(cudaFree(db));
	DO(cudaFree(dc));
	DO(cudaFree(nullptr));
	return right("vector-add");
}
