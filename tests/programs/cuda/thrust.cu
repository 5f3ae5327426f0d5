// SPDX-License-Identifier: Apache-2.0
// Templates of Thrust and CUB: sort, reduce, scan, transform, select, histogram.
#include <algorithm>
#include <cub/cub.cuh>
#include <numeric>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <vector>

#include "check.h"

struct square {
	__host__ __device__ long long operator()(int x) const
	{
		return static_cast<long long>(x) * x;
	}
};

struct is_even {
	__host__ __device__ bool operator()(int x) const
	{
		return x % 2 == 0;
	}
};

static void with_thrust(const std::vector<int> &v)
{
	thrust::device_vector<int> d(v.begin(), v.end());
	thrust::device_vector<long long> squares(v.size());
	std::vector<int> sorted(v), sums(v.size()), got(v.size());

	std::sort(sorted.begin(), sorted.end());
	std::partial_sum(v.begin(), v.end(), sums.begin());
	MUST(thrust::reduce(d.begin(), d.end(), 0) == sums.back());
	thrust::transform(d.begin(), d.end(), squares.begin(), square());
	MUST(squares[5] == static_cast<long long>(v[5]) * v[5]);
	thrust::inclusive_scan(d.begin(), d.end(), d.begin());
	thrust::copy(d.begin(), d.end(), got.begin());
	MUST(got == sums);
	d.assign(v.begin(), v.end());
	thrust::sort(d.begin(), d.end());
	thrust::copy(d.begin(), d.end(), got.begin());
	MUST(got == sorted);
}

static void with_cub(const std::vector<int> &v)
{
	thrust::device_vector<int> in(v.begin(), v.end()), out(v.size()), n(1);
	std::vector<int> even, got;
	size_t bytes = 0;
	void *space = nullptr;

	std::copy_if(v.begin(), v.end(), std::back_inserter(even), is_even());
	for (int round = 0; round < 2; round++) {
		DO(cub::DeviceSelect::If(space, bytes, in.begin(), out.begin(), n.begin(),
			static_cast<int>(v.size()), is_even()));
		if (!space)
			DO(cudaMalloc(&space, bytes));
	}
	MUST(static_cast<size_t>(n[0]) == even.size());
	got.resize(even.size());
	thrust::copy(out.begin(), out.begin() + n[0], got.begin());
	MUST(got == even);
	DO(cudaFree(space));
}

int main()
{
	std::vector<int> v(3000);

	for (size_t i = 0; i < v.size(); i++)
		v[i] = scramble(i) % 1000;
	with_thrust(v);
	with_cub(v);
	return right("thrust");
}
