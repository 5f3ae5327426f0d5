// SPDX-License-Identifier: Apache-2.0
// Bodies that attract each other, for a few steps: float4 vectors, rsqrt, tiles in shared memory.
#include "check.h"

constexpr int N = 128, STEPS = 3;
constexpr float DT = 0.01f, SOFT = 0.05f;

__host__ __device__ inline void attract(float4 a, float4 b, float3 &f)
{
	const float x = b.x - a.x, y = b.y - a.y, z = b.z - a.z;
	const float r = 1.0f / sqrtf(x * x + y * y + z * z + SOFT);
	const float s = b.w * r * r * r;

	f.x += x * s;
	f.y += y * s;
	f.z += z * s;
}

__global__ void step(const float4 *from, float4 *to, float3 *speed)
{
	__shared__ float4 tile[64];
	const int i = blockIdx.x * blockDim.x + threadIdx.x;
	const float4 me = from[i];
	float3 f = {0, 0, 0};

	for (int t = 0; t < N; t += 64) {
		tile[threadIdx.x] = from[t + threadIdx.x];
		__syncthreads();
		for (int k = 0; k < 64; k++)
			attract(me, tile[k], f);
		__syncthreads();
	}
	speed[i].x += f.x * DT;
	speed[i].y += f.y * DT;
	speed[i].z += f.z * DT;
	to[i] = make_float4(me.x + speed[i].x * DT, me.y + speed[i].y * DT,
		me.z + speed[i].z * DT, me.w);
}

int main()
{
	float4 bodies[N], got[N], next[N], *d[2];
	float3 speed[N] = {}, *dspeed;

	for (unsigned i = 0; i < N; i++)
		bodies[i] = make_float4(scramble(3 * i) % 1000 / 1000.0f,
			scramble(3 * i + 1) % 1000 / 1000.0f, scramble(3 * i + 2) % 1000 / 1000.0f,
			1.0f / N);
	DO(cudaMalloc(&d[0], sizeof(bodies)));
	DO(cudaMalloc(&d[1], sizeof(bodies)));
	DO(cudaMalloc(&dspeed, sizeof(speed)));
	DO(cudaMemcpy(d[0], bodies, sizeof(bodies), cudaMemcpyHostToDevice));
	DO(cudaMemset(dspeed, 0, sizeof(speed)));
	for (int s = 0; s < STEPS; s++)
		step<<<N / 64, 64>>>(d[s % 2], d[!(s % 2)], dspeed);
	DO(cudaMemcpy(got, d[STEPS % 2], sizeof(got), cudaMemcpyDeviceToHost));
	for (int s = 0; s < STEPS; s++) {
		for (int i = 0; i < N; i++) {
			float3 f = {0, 0, 0};

			for (int k = 0; k < N; k++)
				attract(bodies[i], bodies[k], f);
			speed[i].x += f.x * DT;
			speed[i].y += f.y * DT;
			speed[i].z += f.z * DT;
			next[i] = make_float4(bodies[i].x + speed[i].x * DT,
				bodies[i].y + speed[i].y * DT, bodies[i].z + speed[i].z * DT,
				bodies[i].w);
		}
		for (int i = 0; i < N; i++)
			bodies[i] = next[i];
	}
	for (int i = 0; i < N; i++)
		MUST(near(got[i].x, bodies[i].x, 1e-4) && near(got[i].y, bodies[i].y, 1e-4) &&
			near(got[i].z, bodies[i].z, 1e-4));
	return right("n-body");
}
