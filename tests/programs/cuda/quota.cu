// SPDX-License-Identifier: Apache-2.0
// Allocates until the memory that the tenant may have is used up, and prints how much it was.
#include "check.h"

int main()
{
	const size_t piece = 64 << 20;
	size_t got = 0, free_bytes, total;
	cudaError_t error;
	void *d;

	DO(cudaMemGetInfo(&free_bytes, &total));
	while ((error = cudaMalloc(&d, piece)) == cudaSuccess)
		got += piece;
	MUST(error == cudaErrorMemoryAllocation && cudaGetLastError() == error);
	MUST(got <= total);
	printf("quota: %zu of %zu MiB\n", got >> 20, total >> 20);
	return right("quota");
}
