// SPDX-License-Identifier: Apache-2.0
// Multiplies matrices by tiles in shared memory, of float and double (a template).
#include "check.h"

constexpr int TILE = 16;

template <typename T> __global__ void multiply(const T *a, const T *b, T *c, int n)
{
	__shared__ T left[TILE][TILE], above[TILE][TILE];
	const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
	T sum = 0;

	for (int t = 0; t < (n + TILE - 1) / TILE; t++) {
		const int k = t * TILE + threadIdx.x, l = t * TILE + threadIdx.y;

		left[threadIdx.y][threadIdx.x] = y < n && k < n ? a[y * n + k] : T(0);
		above[threadIdx.y][threadIdx.x] = x < n && l < n ? b[l * n + x] : T(0);
		__syncthreads();
		for (int i = 0; i < TILE; i++)
			sum += left[threadIdx.y][i] * above[i][threadIdx.x];
		__syncthreads();
	}
	if (x < n && y < n)
		c[y * n + x] = sum;
}

template <typename T> static void product(int n)
{
	const size_t bytes = sizeof(T) * n * n;
	T *a = new T[n * n], *b = new T[n * n], *c = new T[n * n], *da, *db, *dc;
	const dim3 blocks((n + TILE - 1) / TILE, (n + TILE - 1) / TILE), threads(TILE, TILE);

	for (int i = 0; i < n * n; i++) {
		a[i] = T(scramble(i) % 17) / 4;
		b[i] = T(scramble(i + 7) % 13) / 2;
	}
	DO(cudaMalloc(&da, bytes));
	DO(cudaMalloc(&db, bytes));
	DO(cudaMalloc(&dc, bytes));
	DO(cudaMemcpy(da, a, bytes, cudaMemcpyHostToDevice));
	DO(cudaMemcpy(db, b, bytes, cudaMemcpyHostToDevice));
	multiply<T><<<blocks, threads>>>(da, db, dc, n);
	DO(cudaMemcpy(c, dc, bytes, cudaMemcpyDeviceToHost));
	for (int y = 0; y < n; y++)
		for (int x = 0; x < n; x++) {
			double sum = 0;

			for (int k = 0; k < n; k++)
				sum += double(a[y * n + k]) * double(b[k * n + x]);
			MUST(near(sum, c[y * n + x]));
		}
	DO(cudaFree(da));
	DO(cudaFree(db));
	DO(cudaFree(dc));
	delete[] a;
	delete[] b;
	delete[] c;
}

int main()
{
	product<float>(100);
	product<double>(33);
	return right("matrix-product");
}
