# SPDX-License-Identifier: Apache-2.0
"""Taichi on arch=cuda: kernels and three of its examples' methods give the results of NumPy or of Taichi's own processor back end.
Taichi publishes no tests of its own with its package."""

import numpy as np
import pytest
import taichi as ti

N = 2000


@pytest.fixture(autouse=True)
def back_end():
    ti.init(arch=ti.cuda, device_memory_GB=0.3, log_level=ti.WARN)
    assert ti.cfg.arch == ti.cuda
    yield
    ti.reset()


def on_processor(function, *args):
    ti.init(arch=ti.cpu, log_level=ti.WARN)
    return function(*args)


@pytest.mark.parametrize("kind", [ti.i32, ti.i64, ti.f32, ti.f64])
def test_fields(kind):
    x = ti.field(kind, N)

    @ti.kernel
    def fill():
        for i in x:
            x[i] = i * 3 + 1

    fill()
    assert (x.to_numpy() == np.arange(N) * 3 + 1).all()


def test_arrays_of_numpy():
    @ti.kernel
    def add(a: ti.types.ndarray(), b: ti.types.ndarray()):
        for i, j in a:
            a[i, j] += 2 * b[i, j]

    a, b = np.random.default_rng(7).random((2, 30, 40), dtype=np.float32)
    want = a + 2 * b
    add(a, b)
    np.testing.assert_allclose(a, want, rtol=1e-6)


def test_reductions_and_atomics():
    x, bins = ti.field(ti.i32, N), ti.field(ti.i32, 10)

    @ti.kernel
    def count() -> ti.i32:
        total = 0
        for i in x:
            total += x[i]
            bins[x[i] % 10] += 1
            ti.atomic_max(bins[0], 0)
        return total

    values = np.random.default_rng(7).integers(0, 1000, N).astype(np.int32)
    x.from_numpy(values)
    assert count() == values.sum()
    assert (bins.to_numpy() == np.bincount(values % 10, minlength=10)).all()


def test_functions():
    x, y = ti.field(ti.f64, 64), ti.field(ti.f64, (5, 64))

    @ti.kernel
    def functions():
        for i in x:
            y[0, i], y[1, i], y[2, i] = ti.sin(x[i]), ti.exp(x[i]), ti.log(x[i])
            y[3, i], y[4, i] = ti.sqrt(x[i]), ti.atan2(x[i], 2.0)

    values = np.random.default_rng(7).uniform(0.1, 5, 64)
    x.from_numpy(values)
    functions()
    want = [np.sin(values), np.exp(values), np.log(values), np.sqrt(values), np.arctan2(values, 2)]
    np.testing.assert_allclose(y.to_numpy(), want, rtol=1e-12)


def test_matrices():
    m = ti.Matrix.field(3, 3, ti.f32, 20)
    d = ti.field(ti.f32, 20)

    @ti.kernel
    def determinants():
        for i in m:
            d[i] = (m[i] @ m[i].transpose()).determinant()

    values = np.random.default_rng(7).random((20, 3, 3), dtype=np.float32)
    m.from_numpy(values)
    determinants()
    np.testing.assert_allclose(d.to_numpy(), np.linalg.det(values) ** 2, rtol=1e-3, atol=1e-4)


def test_sparse_fields():
    x = ti.field(ti.i32)
    block = ti.root.pointer(ti.i, 64)
    block.dense(ti.i, 16).place(x)

    @ti.kernel
    def touch():
        for i in range(10):
            x[i * 100] = i + 1

    @ti.kernel
    def total() -> ti.i32:
        s = 0
        for i in x:
            s += x[i]
        return s

    touch()
    assert total() == 55


def test_gradients():
    x, loss = ti.field(ti.f32, 10, needs_grad=True), ti.field(ti.f32, (), needs_grad=True)

    @ti.kernel
    def squares():
        for i in x:
            loss[None] += x[i] ** 2

    x.from_numpy(np.arange(10, dtype=np.float32))
    with ti.ad.Tape(loss):
        squares()
    assert (x.grad.to_numpy() == 2 * np.arange(10)).all()


def life(steps):
    """The example simulation/game_of_life.py, without its window."""
    n = 32
    alive, count = ti.field(ti.i32, (n, n)), ti.field(ti.i32, (n, n))

    @ti.kernel
    def step():
        for i, j in alive:
            count[i, j] = 0
            for a, b in ti.static(ti.ndrange((-1, 2), (-1, 2))):
                if ti.static(a != 0 or b != 0):
                    count[i, j] += alive[(i + a) % n, (j + b) % n]
        for i, j in alive:
            alive[i, j] = 1 if count[i, j] == 3 or (count[i, j] == 2 and alive[i, j]) else 0

    alive.from_numpy(np.random.default_rng(7).integers(0, 2, (n, n)).astype(np.int32))
    for _ in range(steps):
        step()
    return alive.to_numpy()


def julia(n):
    """The example simulation/fractal.py, without its window."""
    pixels = ti.field(ti.f32, (2 * n, n))

    @ti.kernel
    def paint(t: ti.f32):
        for i, j in pixels:
            c, z, k = ti.Vector([-0.8, ti.cos(t) * 0.2]), ti.Vector([i / n - 1, j / n - 0.5]) * 2, 0
            while z.norm() < 20 and k < 50:
                z = ti.Vector([z[0] ** 2 - z[1] ** 2, z[1] * z[0] * 2]) + c
                k += 1
            pixels[i, j] = 1 - k * 0.02

    paint(0.3)
    return pixels.to_numpy()


def planets(steps):
    """The example simulation/nbody.py, with fewer bodies and without its window."""
    n = 40
    place, speed = ti.Vector.field(2, ti.f64, n), ti.Vector.field(2, ti.f64, n)

    @ti.kernel
    def step():
        for i in place:
            force = ti.Vector([0.0, 0.0], ti.f64)
            for j in range(n):
                if i != j:
                    away = place[j] - place[i]
                    force += away / (away.norm() + 0.05) ** 3
            speed[i] += 1e-4 * force
        for i in place:
            place[i] += 1e-3 * speed[i]

    place.from_numpy(np.random.default_rng(7).random((n, 2)))
    for _ in range(steps):
        step()
    return place.to_numpy()


@pytest.mark.parametrize("example, size", [(life, 20), (julia, 32), (planets, 20)])
def test_examples(example, size):
    on_device = example(size)
    ti.reset()
    # Points on the border of a set may differ by one step of the iteration.
    near = np.isclose(on_device, on_processor(example, size), rtol=1e-5, atol=1e-6)
    assert near.mean() > 0.999, near.mean()
