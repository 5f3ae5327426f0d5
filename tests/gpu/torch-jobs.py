# SPDX-License-Identifier: Apache-2.0
"""Small PyTorch programs that tests/gpu/run starts as tenants: `torch-jobs.py NAME SECONDS`.

Each works for SECONDS and prints one JSON line: {"job": NAME, "steps": n, "seconds": s, ...}. They use nothing of divvy, as any
user's program."""
import json
import os
import sys
import time

if sys.argv[1:2] == ["expandable"]:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch  # noqa: E402


def model(width=2048, depth=6):
    layers = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers).cuda()


def repeat(seconds, step):
    """Calls step until the time is over; the device is idle before and after the count."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    begin = time.monotonic()
    n = 0
    while time.monotonic() - begin < seconds:
        step()
        n += 1
        if n % 8 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return {"steps": n, "seconds": time.monotonic() - begin}


def train(seconds):
    torch.manual_seed(1)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x = torch.randn(512, 2048, device="cuda")
    last = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        last[:] = [loss]

    result = repeat(seconds, step)
    result["loss"] = float(last[0])
    return result


def infer(seconds):
    net = model().eval()
    x = torch.randn(32, 2048, device="cuda")
    latencies = []

    def step():
        begin = time.monotonic()
        with torch.no_grad():
            net(x).sum().item()
        latencies.append(time.monotonic() - begin)

    result = repeat(seconds, step)
    latencies.sort()
    result["p50_ms"] = 1e3 * latencies[len(latencies) // 2]
    result["p99_ms"] = 1e3 * latencies[int(len(latencies) * 0.99)]
    return result


def graphs(seconds):
    net = model().eval()
    x = torch.randn(32, 2048, device="cuda")
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        y = net(x)
    expected = net(x)
    result = repeat(seconds, graph.replay)
    result["exact"] = bool(torch.allclose(y, expected))
    return result


def compiled(seconds):
    net = torch.compile(model())
    x = torch.randn(64, 2048, device="cuda")
    return repeat(seconds, lambda: net(x).sum().backward())


def expandable(seconds):
    """Sizes that change from step to step, with segments that grow in place."""
    sizes = [1 << 20, 7 << 20, 3 << 20, 40 << 20, 11 << 20]
    state = {"n": 0}

    def step():
        state["n"] += 1
        a = torch.empty(sizes[state["n"] % len(sizes)], device="cuda").fill_(1.0)
        b = a * 2
        del a, b

    return repeat(seconds, step)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        return torch.full((2048,), float(i))


def loader(seconds):
    """Worker processes are forked after the device is in use, as training scripts do."""
    net = model()
    torch.cuda.synchronize()
    data = torch.utils.data.DataLoader(Numbers(), batch_size=256, num_workers=4, pin_memory=True)
    begin, steps = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        for batch in data:
            net(batch.cuda(non_blocking=True)).sum().backward()
            steps += 1
    torch.cuda.synchronize()
    return {"steps": steps, "seconds": time.monotonic() - begin}


def blas(seconds):
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    return repeat(seconds, lambda: a @ a)


def hold(seconds):
    """Allocates memory until an allocation fails, prints the amount, and keeps it."""
    kept, step = [], 64 << 20
    try:
        while True:
            kept.append(torch.empty(step, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        pass
    free, total = torch.cuda.mem_get_info()
    print(
        json.dumps({"job": "hold", "pid": os.getpid(), "held": len(kept) * step, "free": free, "total": total}),
        flush=True,
    )
    time.sleep(seconds)
    return {"steps": len(kept), "seconds": seconds}


JOBS = {f.__name__: f for f in (train, infer, graphs, compiled, expandable, loader, blas, hold)}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in JOBS:
        sys.exit(f"usage: torch-jobs.py {'|'.join(JOBS)} SECONDS")
    print(json.dumps({"job": sys.argv[1], **JOBS[sys.argv[1]](float(sys.argv[2]))}), flush=True)
