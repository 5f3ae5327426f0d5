// SPDX-License-Identifier: Apache-2.0
// Cooperative groups: tiles of a warp, a block, and a grid whose blocks wait for one another.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void tiles(const int *v, int *sums)
{
	auto tile = cg::tiled_partition<8>(cg::this_thread_block());
	const int sum = cg::reduce(tile, v[threadIdx.x], cg::plus<int>());

	if (tile.thread_rank() == 0)
		sums[threadIdx.x / 8] = sum;
}

__global__ void ring(int *v, int rounds)
{
	cg::grid_group grid = cg::this_grid();
	const int i = grid.thread_rank(), n = grid.size();

	for (int r = 0; r < rounds; r++) {
		const int left = v[(i + n - 1) % n];

		grid.sync();
		v[i] = left + 1;
		grid.sync();
	}
}

int main()
{
	const int n = 4 * 64;
	int rounds = 5, v[n], sums[8], got[n], *d, *dsums, can = 0;
	void *args[] = {&d, &rounds};

	for (int i = 0; i < n; i++)
		v[i] = i;
	DO(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, 0));
	MUST(can);
	DO(cudaMalloc(&d, sizeof(v)));
	DO(cudaMalloc(&dsums, sizeof(sums)));
	DO(cudaMemcpy(d, v, sizeof(v), cudaMemcpyHostToDevice));
	tiles<<<1, 64>>>(d, dsums);
	DO(cudaMemcpy(sums, dsums, sizeof(sums), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 8; i++)
		MUST(sums[i] == 8 * (8 * i) + 28);
	DO(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(ring), 4, 64, args));
	DO(cudaMemcpy(got, d, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		MUST(got[i] == (i + n - rounds) % n + rounds);
	MUST(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(ring), 1000000, 64, args) ==
		cudaErrorCooperativeLaunchTooLarge);
	return right("cooperative");
}
