// SPDX-License-Identifier: Apache-2.0
// Graphs: captured from a stream, built from nodes, changed after their instantiation.
#include "check.h"

__constant__ int factor;
__device__ int result[256];

__global__ void scale(int *v)
{
	v[threadIdx.x] *= factor;
}

__global__ void keep(const int *v)
{
	result[threadIdx.x] = v[threadIdx.x] + 1;
}

static void captured(int *d, int *v)
{
	cudaStreamCaptureStatus status;
	cudaGraphExec_t exec;
	cudaStream_t stream;
	cudaGraph_t graph;
	size_t nodes = 0;

	DO(cudaStreamCreate(&stream));
	DO(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	DO(cudaMemcpyAsync(d, v, 256 * sizeof(int), cudaMemcpyHostToDevice, stream));
	scale<<<1, 256, 0, stream>>>(d);
	DO(cudaMemcpyAsync(v, d, 256 * sizeof(int), cudaMemcpyDeviceToHost, stream));
	DO(cudaStreamIsCapturing(stream, &status));
	MUST(status == cudaStreamCaptureStatusActive);
	DO(cudaStreamEndCapture(stream, &graph));
	DO(cudaGraphGetNodes(graph, nullptr, &nodes));
	MUST(nodes >= 3);
	DO(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++)
		DO(cudaGraphLaunch(exec, stream));
	DO(cudaStreamSynchronize(stream));
	for (int i = 0; i < 256; i++)
		MUST(v[i] == 27 * i);
	DO(cudaGraphExecDestroy(exec));
	DO(cudaGraphDestroy(graph));
	DO(cudaStreamDestroy(stream));
}

static void built(int *d)
{
	cudaGraphNode_t set, kernel, last;
	cudaMemsetParams fill = {};
	cudaKernelNodeParams params = {}, found;
	cudaGraphNodeType type;
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	int out[256];
	void *args[] = {&d};

	DO(cudaGraphCreate(&graph, 0));
	fill.dst = d;
	fill.value = 5;
	fill.elementSize = 4;
	fill.width = 256;
	fill.height = 1;
	DO(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &fill));
	params.func = reinterpret_cast<void *>(scale);
	params.gridDim = dim3(1);
	params.blockDim = dim3(256);
	params.kernelParams = args;
	DO(cudaGraphAddKernelNode(&kernel, graph, &set, 1, &params));
	DO(cudaGraphKernelNodeGetParams(kernel, &found));
	MUST(found.func == params.func && found.blockDim.x == 256);
	DO(cudaGraphNodeGetType(kernel, &type));
	MUST(type == cudaGraphNodeTypeKernel);
	params.func = reinterpret_cast<void *>(keep);
	DO(cudaGraphAddKernelNode(&last, graph, &kernel, 1, &params));
	DO(cudaGraphInstantiate(&exec, graph, 0));
	DO(cudaGraphLaunch(exec, 0));
	DO(cudaMemcpyFromSymbol(out, result, sizeof(out)));
	MUST(out[0] == 16 && out[255] == 16);
	params.blockDim = dim3(128);
	DO(cudaGraphExecKernelNodeSetParams(exec, last, &params));
	fill.value = 7;
	DO(cudaGraphExecMemsetNodeSetParams(exec, set, &fill));
	DO(cudaGraphLaunch(exec, 0));
	DO(cudaMemcpyFromSymbol(out, result, sizeof(out)));
	MUST(out[127] == 22 && out[128] == 16);
	DO(cudaGraphExecDestroy(exec));
	DO(cudaGraphDestroy(graph));
}

int main()
{
	const int three = 3;
	int *v, *d;

	DO(cudaMemcpyToSymbol(factor, &three, sizeof(three)));
	DO(cudaMallocHost(&v, 256 * sizeof(int)));
	DO(cudaMalloc(&d, 256 * sizeof(int)));
	for (int i = 0; i < 256; i++)
		v[i] = i;
	captured(d, v);
	built(d);
	return right("graphs");
}
