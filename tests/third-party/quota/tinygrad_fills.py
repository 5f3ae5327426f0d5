# SPDX-License-Identifier: Apache-2.0
"""Makes tensors of 64 MiB until tinygrad reports an error."""

from tinygrad import Tensor

kept = [Tensor.full((16 << 20,), float(i)).contiguous().realize() for i in range(100)]
print("no error")
