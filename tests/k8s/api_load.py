# SPDX-License-Identifier: Apache-2.0
"""What programs use: memory and processor time of a process, and the API server's count of writes."""

import os
import re
import time

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")


def memory_mib(pid, field="VmHWM"):
    """By default the most that the process ever had in memory."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(rf"{field}:\s+(\d+)", f.read())[1]) / 1024


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def written(cluster):
    """How many writes the API server has accepted since its start: {"PATCH pods/status": n}."""
    counts = {}
    for line in cluster.get("/metrics").splitlines():
        if not line.startswith("apiserver_request_total{"):
            continue
        labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
        if labels["verb"] in WRITES and labels["code"].startswith("2"):
            key = f'{labels["verb"]} ' + "/".join(filter(None, (labels["resource"], labels["subresource"])))
            counts[key] = counts.get(key, 0) + float(line.rpartition(" ")[2])
    return counts


class Used:
    """Processor time of some processes, and writes to the API server, since this object was made."""

    def __init__(self, cluster, **pids):
        self.cluster, self.pids = cluster, pids
        self.requests = written(cluster)
        self.before = {name: cpu_s(pid) for name, pid in pids.items()}
        self.began = time.monotonic()

    def cpu(self):
        return {name: cpu_s(pid) - self.before[name] for name, pid in self.pids.items()}

    def writes(self):
        now = written(self.cluster)
        return {key: n - self.requests.get(key, 0) for key, n in now.items() if n > self.requests.get(key, 0)}

    def seconds(self):
        return time.monotonic() - self.began
