# SPDX-License-Identifier: Apache-2.0
"""Allocates buffers of 64 MiB until cuda.core reports an error."""

from cuda.core import Device

device = Device()
device.set_current()
kept = [device.allocate(64 << 20, stream=device.default_stream) for _ in range(100)]
print("no error")
