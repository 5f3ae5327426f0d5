# SPDX-License-Identifier: Apache-2.0
"""Makes arrays of 64 MiB until Taichi reports an error."""

import taichi as ti

ti.init(arch=ti.cuda, device_memory_GB=0.1, log_level=ti.WARN)
kept = [ti.ndarray(ti.f32, 16 << 20) for _ in range(100)]
print("no error")
