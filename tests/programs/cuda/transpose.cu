// SPDX-License-Identifier: Apache-2.0
// Transposes a matrix with pitched rows, and copies in 2D and 3D.
#include "check.h"

__global__ void transpose(const int *in, size_t in_pitch, int *out, size_t out_pitch, int w, int h)
{
	__shared__ int tile[16][17];
	int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;

	if (x < w && y < h)
		tile[threadIdx.y][threadIdx.x] = in[y * in_pitch + x];
	__syncthreads();
	x = blockIdx.y * 16 + threadIdx.x;
	y = blockIdx.x * 16 + threadIdx.y;
	if (x < h && y < w)
		out[y * out_pitch + x] = tile[threadIdx.x][threadIdx.y];
}

static void copies_in_3d()
{
	const int w = 7, h = 5, d = 3;
	int in[d][h][w], out[d][h][w] = {};
	const cudaExtent extent = make_cudaExtent(w * sizeof(int), h, d);
	cudaMemcpy3DParms p = {};
	cudaPitchedPtr box;

	for (int i = 0; i < w * h * d; i++)
		in[0][0][i] = scramble(i);
	DO(cudaMalloc3D(&box, extent));
	DO(cudaMemset3D(box, 0, extent));
	p.srcPtr = make_cudaPitchedPtr(in, w * sizeof(int), w * sizeof(int), h);
	p.dstPtr = box;
	p.extent = extent;
	p.kind = cudaMemcpyHostToDevice;
	DO(cudaMemcpy3D(&p));
	p = {};
	p.srcPtr = box;
	p.srcPos = make_cudaPos(sizeof(int), 1, 1);
	p.dstPtr = make_cudaPitchedPtr(out, w * sizeof(int), w * sizeof(int), h);
	p.dstPos = make_cudaPos(sizeof(int), 1, 1);
	p.extent = make_cudaExtent((w - 1) * sizeof(int), h - 1, d - 1);
	p.kind = cudaMemcpyDeviceToHost;
	DO(cudaMemcpy3D(&p));
	for (int z = 0; z < d; z++)
		for (int y = 0; y < h; y++)
			for (int x = 0; x < w; x++)
				MUST(out[z][y][x] == (x && y && z ? in[z][y][x] : 0));
	DO(cudaFree(box.ptr));
}

static void copies_to_arrays()
{
	const int w = 12, h = 6;
	const cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
	float in[h][w], out[h][w] = {};
	cudaChannelFormatDesc found;
	cudaExtent extent;
	cudaArray_t array;
	unsigned flags;

	for (int i = 0; i < w * h; i++)
		in[0][i] = i;
	DO(cudaMallocArray(&array, &desc, w, h));
	DO(cudaArrayGetInfo(&found, &extent, &flags, array));
	MUST(found.x == 32 && !found.y && found.f == cudaChannelFormatKindFloat);
	MUST(extent.width == w && extent.height == h);
	DO(cudaMemcpy2DToArray(array, 0, 0, in, sizeof(in[0]), sizeof(in[0]), h,
		cudaMemcpyHostToDevice));
	DO(cudaMemcpy2DFromArray(out, sizeof(out[0]), array, 2 * sizeof(float), 1,
		(w - 2) * sizeof(float), h - 1, cudaMemcpyDeviceToHost));
	for (int y = 0; y < h - 1; y++)
		for (int x = 0; x < w; x++)
			MUST(out[y][x] == (x < w - 2 ? in[y + 1][x + 2] : 0));
	DO(cudaFreeArray(array));
}

int main()
{
	const int w = 50, h = 35;
	int in[h][w], out[w][h], *d_in, *d_out;
	size_t in_pitch, out_pitch;

	for (int i = 0; i < w * h; i++)
		in[0][i] = scramble(i);
	DO(cudaMallocPitch(&d_in, &in_pitch, sizeof(in[0]), h));
	DO(cudaMallocPitch(&d_out, &out_pitch, sizeof(out[0]), w));
	DO(cudaMemcpy2D(d_in, in_pitch, in, sizeof(in[0]), sizeof(in[0]), h, cudaMemcpyHostToDevice));
	transpose<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(
		d_in, in_pitch / sizeof(int), d_out, out_pitch / sizeof(int), w, h);
	DO(cudaMemcpy2D(
		out, sizeof(out[0]), d_out, out_pitch, sizeof(out[0]), w, cudaMemcpyDeviceToHost));
	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++)
			MUST(out[x][y] == in[y][x]);
	copies_in_3d();
	copies_to_arrays();
	return right("transpose");
}
