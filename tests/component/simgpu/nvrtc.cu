/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for test-nvrtc.py, which compares what they compute with Python. */
extern "C" {

__global__ void sum(float *out, const float *in, int n)
{
	__shared__ float part[256];
	int t = threadIdx.x;
	float v = 0;

	for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256)
		v += in[i];
	part[t] = v;
	__syncthreads();
	for (int k = 128; k > 0; k >>= 1) {
		if (t < k)
			part[t] += part[t + k];
		__syncthreads();
	}
	if (t == 0)
		atomicAdd(out, part[0]);
}

__global__ void warp_sum(int *out, const int *in)
{
	int v = in[blockIdx.x * blockDim.x + threadIdx.x];

	for (int o = 16; o; o >>= 1)
		v += __shfl_down_sync(~0u, v, o);
	if ((threadIdx.x & 31) == 0)
		atomicAdd(out, v);
}

__global__ void matmul(float *c, const float *a, const float *b, int n)
{
	__shared__ float sa[16][16], sb[16][16];
	int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
	float s = 0;

	for (int k = 0; k < n; k += 16) {
		sa[y][x] = a[row * n + k + x];
		sb[y][x] = b[(k + y) * n + column];
		__syncthreads();
		for (int i = 0; i < 16; i++)
			s += sa[y][i] * sb[i][x];
		__syncthreads();
	}
	c[row * n + column] = s;
}

__device__ __noinline__ int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__global__ void recurse(int *out)
{
	out[threadIdx.x] = fib(threadIdx.x % 12);
}

__global__ void functions(double *out, const double *in)
{
	double v = in[threadIdx.x];

	out += 6 * threadIdx.x;
	out[0] = exp(v);
	out[1] = log(v);
	out[2] = sin(1000 * v);
	out[3] = pow(v, 1.5);
	out[4] = sqrt(v);
	out[5] = tanh(v);
}

__constant__ int table[4] = {10, 20, 30, 40};
__device__ const char *names[2] = {"ab", "cd"};

__global__ void variables(int *out)
{
	out[threadIdx.x] = table[threadIdx.x & 3] + names[threadIdx.x & 1][1];
}

__global__ void lock(int *word, int *count)
{
	for (int i = 0; i < 4; i++) {
		bool is_done = false;

		while (!is_done) {
			if (atomicCAS(word, 0, 1) != 0)
				continue;
			*(volatile int *)count = *(volatile int *)count + 1;
			__threadfence();
			atomicExch(word, 0);
			is_done = true;
		}
	}
}

struct shape {
	virtual __device__ int area(int x) = 0;
};
struct square : shape {
	__device__ int area(int x) override
	{
		return x * x;
	}
};
struct line : shape {
	__device__ int area(int x) override
	{
		return 3 * x;
	}
};

__global__ void virtuals(int *out)
{
	square s;
	line l;
	shape *shapes[2] = {&s, &l};

	out[threadIdx.x] = shapes[threadIdx.x % 2]->area(threadIdx.x);
}

__global__ void print(int x)
{
	if (threadIdx.x < 2)
		printf("%d %s %5.2f from %d\n", x, "text", 1.5, threadIdx.x);
}
}
