# SPDX-License-Identifier: Apache-2.0
"""Allocates device arrays of 64 MiB until Numba reports an error."""

import numpy as np
from numba import cuda

kept = []
for _ in range(100):
    kept.append(cuda.to_device(np.zeros(64 << 20, dtype=np.uint8)))
print("no error")
