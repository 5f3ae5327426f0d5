// SPDX-License-Identifier: Apache-2.0
// Threads with a default stream, an error and a device each. Compiled with --default-stream
// per-thread.
#include <thread>
#include <vector>

#include "check.h"

__global__ void fill(int *v, int n, int value)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		v[i] = value + i;
}

static void work(int value)
{
	const int n = 3000;
	std::vector<int> v(n);
	int *d, device = -1;

	DO(cudaMalloc(&d, n * sizeof(int)));
	DO(cudaMemset(d, 0xff, n * sizeof(int)));
	fill<<<12, 256>>>(d, n, value);
	MUST(cudaSetDevice(1000) == cudaErrorInvalidDevice);
	DO(cudaMemcpy(v.data(), d, n * sizeof(int), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		MUST(v[i] == value + i);
	MUST(cudaGetLastError() == cudaErrorInvalidDevice);
	DO(cudaGetDevice(&device));
	MUST(device == 0);
	DO(cudaStreamSynchronize(cudaStreamPerThread));
	DO(cudaFree(d));
}

int main()
{
	std::vector<std::thread> threads;

	DO(cudaSetDevice(0));
	for (int i = 0; i < 6; i++)
		threads.emplace_back(work, 1000 * i);
	for (auto &t : threads)
		t.join();
	DO(cudaGetLastError());
	return right("per-thread");
}
