# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own functions on the tenant's device: properties, memory, streams, and a kernel that PyTorch compiles by NVRTC.
Kernels inside PyTorch's libraries are machine code, which the simulated device does not compute."""

import pytest
import torch

QUOTA = 8 << 30


def test_import_and_processor():
    assert (torch.arange(5) * 2).tolist() == [0, 2, 4, 6, 8]


def test_is_available():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1


def test_properties():
    properties = torch.cuda.get_device_properties(0)
    assert "H100" in properties.name and properties.total_memory == QUOTA and properties.major == 9


def test_memory_statistics():
    held = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() >= held.numel()
    free, total = torch.cuda.mem_get_info()
    assert total == QUOTA and free <= QUOTA - held.numel()
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(QUOTA, dtype=torch.uint8, device="cuda")


def test_copies_and_streams():
    x = torch.arange(1000)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = x.cuda(non_blocking=True)
    stream.synchronize()
    assert (y.cpu() == x).all()


def test_kernel_of_nvrtc():
    double = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) { return x + x; }")
    x = torch.arange(100, dtype=torch.float32, device="cuda")
    assert (double(x).cpu() == 2 * torch.arange(100)).all()
