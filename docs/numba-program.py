# SPDX-License-Identifier: Apache-2.0
"""Adds two arrays with a kernel of Numba, and compares the sums with NumPy's."""

import numpy as np
from numba import cuda


@cuda.jit
def add(a, b, sums):
    i = cuda.grid(1)
    if i < sums.size:
        sums[i] = a[i] + b[i]


a = np.arange(1_000_000, dtype=np.float32)
b = np.sqrt(a)
sums = cuda.device_array_like(a)
add[(a.size + 255) // 256, 256](cuda.to_device(a), cuda.to_device(b), sums)
right = (sums.copy_to_host() == a + b).sum()
print(f"{'right' if right == a.size else 'WRONG'}: {right} sums")
