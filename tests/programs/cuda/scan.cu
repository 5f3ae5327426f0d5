// SPDX-License-Identifier: Apache-2.0
// Sums of all elements up to each one: three kernels, one after another in a stream.
#include "check.h"

constexpr int THREADS = 256;

__global__ void scan_blocks(const int *in, int *out, int *sums, int n)
{
	__shared__ int part[2][THREADS];
	const int i = blockIdx.x * THREADS + threadIdx.x;
	int from = 0;

	part[0][threadIdx.x] = i < n ? in[i] : 0;
	__syncthreads();
	for (int d = 1; d < THREADS; d *= 2) {
		int value = part[from][threadIdx.x];

		if (int(threadIdx.x) >= d)
			value += part[from][threadIdx.x - d];
		part[!from][threadIdx.x] = value;
		from = !from;
		__syncthreads();
	}
	if (i < n)
		out[i] = part[from][threadIdx.x];
	if (threadIdx.x == THREADS - 1)
		sums[blockIdx.x] = part[from][threadIdx.x];
}

__global__ void scan_sums(int *sums, int n)
{
	for (int i = 1; i < n; i++)
		sums[i] += sums[i - 1];
}

__global__ void add_sums(int *out, const int *sums, int n)
{
	const int i = blockIdx.x * THREADS + threadIdx.x;

	if (i < n && blockIdx.x)
		out[i] += sums[blockIdx.x - 1];
}

int main()
{
	const int n = 5000, blocks = (n + THREADS - 1) / THREADS;
	int in[n], out[n], *d_in, *d_out, *dsums, sum = 0;
	cudaStream_t stream;

	for (int i = 0; i < n; i++)
		in[i] = scramble(i) % 100;
	DO(cudaStreamCreate(&stream));
	DO(cudaMalloc(&d_in, sizeof(in)));
	DO(cudaMalloc(&d_out, sizeof(out)));
	DO(cudaMalloc(&dsums, blocks * sizeof(int)));
	DO(cudaMemcpyAsync(d_in, in, sizeof(in), cudaMemcpyHostToDevice, stream));
	scan_blocks<<<blocks, THREADS, 0, stream>>>(d_in, d_out, dsums, n);
	scan_sums<<<1, 1, 0, stream>>>(dsums, blocks);
	add_sums<<<blocks, THREADS, 0, stream>>>(d_out, dsums, n);
	DO(cudaMemcpyAsync(out, d_out, sizeof(out), cudaMemcpyDeviceToHost, stream));
	DO(cudaStreamSynchronize(stream));
	for (int i = 0; i < n; i++)
		MUST(out[i] == (sum += in[i]));
	DO(cudaStreamDestroy(stream));
	return right("scan");
}
