// SPDX-License-Identifier: Apache-2.0
// Streams, events and host functions: order within and between streams, priorities, queries,
// elapsed time.
#include "check.h"

__global__ void twice(int *v, int n)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		v[i] *= 2;
}

__global__ void plus(int *v, int n, int d)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		v[i] += d;
}

static void note(void *to)
{
	++*static_cast<int *>(to);
}

static void note_status(cudaStream_t, cudaError_t status, void *to)
{
	*static_cast<int *>(to) += status == cudaSuccess;
}

int main()
{
	const int n = 2000;
	int *v, *d, calls = 0, least, greatest, priority;
	cudaStream_t one, two;
	cudaEvent_t begin, end, between;
	float ms = -1;

	DO(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	DO(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	DO(cudaStreamCreateWithPriority(&two, cudaStreamNonBlocking, greatest));
	DO(cudaStreamGetPriority(two, &priority));
	MUST(priority == greatest);
	DO(cudaEventCreate(&begin));
	DO(cudaEventCreate(&end));
	DO(cudaEventCreateWithFlags(&between, cudaEventDisableTiming));
	DO(cudaMallocHost(&v, n * sizeof(int)));
	DO(cudaMalloc(&d, n * sizeof(int)));
	for (int i = 0; i < n; i++)
		v[i] = i;
	DO(cudaEventRecord(begin, one));
	DO(cudaMemcpyAsync(d, v, n * sizeof(int), cudaMemcpyHostToDevice, one));
	twice<<<8, 256, 0, one>>>(d, n);
	DO(cudaEventRecord(between, one));
	DO(cudaStreamWaitEvent(two, between, 0));
	plus<<<8, 256, 0, two>>>(d, n, 7);
	DO(cudaLaunchHostFunc(two, note, &calls));
	DO(cudaStreamAddCallback(two, note_status, &calls, 0));
	DO(cudaMemcpyAsync(v, d, n * sizeof(int), cudaMemcpyDeviceToHost, two));
	DO(cudaEventRecord(end, two));
	DO(cudaEventSynchronize(end));
	DO(cudaEventQuery(end));
	DO(cudaStreamQuery(two));
	DO(cudaEventElapsedTime(&ms, begin, end));
	MUST(ms >= 0 && calls == 2);
	for (int i = 0; i < n; i++)
		MUST(v[i] == 2 * i + 7);
	MUST(cudaEventElapsedTime(&ms, between, end) == cudaErrorInvalidResourceHandle);
	MUST(cudaGetLastError() == cudaErrorInvalidResourceHandle);
	DO(cudaFreeHost(v));
	DO(cudaStreamDestroy(one));
	DO(cudaStreamDestroy(two));
	DO(cudaEventDestroy(begin));
	return right("streams");
}
