# SPDX-License-Identifier: Apache-2.0
"""tinygrad trains a small network on data that this test makes. The losses on the CUDA device are those of its processor device."""

import numpy as np
from tinygrad import Device, Tensor, nn

STEPS = 20


class Net:
    def __init__(self):
        self.first, self.second = nn.Linear(2, 16), nn.Linear(16, 2)

    def __call__(self, x):
        return self.second(self.first(x).tanh())


def losses(device):
    """Points inside and outside of a circle."""
    random = np.random.default_rng(7)
    points = random.uniform(-1, 1, (64, 2)).astype(np.float32)
    labels = ((points**2).sum(1) < 0.5).astype(np.int32)
    net = Net()
    for weights in nn.state.get_parameters(net):
        weights.assign(Tensor(random.normal(0, 0.5, weights.shape).astype(np.float32), device=device)).realize()
    x, y = Tensor(points, device=device), Tensor(labels, device=device)
    optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.5)
    found = []
    with Tensor.train():
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = net(x).sparse_categorical_crossentropy(y).backward()
            optimizer.step()
            found.append(loss.item())
    return found


def on(device):
    before, Device.DEFAULT = Device.DEFAULT, device
    try:
        return losses(device)
    finally:
        Device.DEFAULT = before


def test_training():
    assert Device.DEFAULT == "CUDA"
    here, there = on("CPU"), on("CUDA")
    np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-4)
    assert there[-1] < 0.8 * there[0], there
