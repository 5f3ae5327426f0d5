# SPDX-License-Identifier: Apache-2.0
"""Another vendor's device plugin on the cluster's node (fake-plugin.c)."""

import os

from cluster import wait_for
from divvyd import BUILD

PROGRAM = os.path.join(BUILD, "tests/k8s/fake-plugin")


def start_plugin(cluster, resource, devices, name="fake-plugin"):
    """devices: their IDs, or their number."""
    cluster.keeper.ask(
        "start",
        name=name,
        env={},
        log=os.path.join(cluster.dir, f"log/{name}.log"),
        argv=[
            *cluster.node.inside(),
            PROGRAM,
            "/var/lib/kubelet/device-plugins",
            resource,
            str(devices) if isinstance(devices, int) else ",".join(devices),
        ],
    )


def await_offered(cluster, resource, n, seconds=60):
    """Waits until the node offers n devices; the kubelet reports devices every 10 s."""
    node = f"/api/v1/nodes/{cluster.node_name}"
    wait_for(
        lambda: cluster.get(node)["status"]["allocatable"].get(resource) == str(n),
        f"the node has {n} of {resource}",
        seconds,
    )
