# SPDX-License-Identifier: Apache-2.0
"""The real kube-scheduler of a test's cluster, configured with extenders."""

import json
import os


def start(cluster, *extenders, plugins=None, percentage=100, args=()):
    """Starts it with one profile, with the default plugins unless `plugins` is given, and further arguments. percentage: of the
    nodes that fit, the part that is scored; 0: Kubernetes' default, which depends on the number of nodes."""
    path = os.path.join(cluster.dir, "scheduler.json")
    version, addresses = "v1", {}
    if cluster.minor < 25:  # these addresses are mandatory; no kubelet uses this port here
        insecure = f"{cluster.slot.address}:{cluster.slot.port('kubelet')}"
        version, addresses = "v1beta1", {"healthzBindAddress": insecure, "metricsBindAddress": insecure}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(
            {
                "apiVersion": f"kubescheduler.config.k8s.io/{version}",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": cluster.kubeconfigs["kube-scheduler"], "qps": 5000, "burst": 5000},
                "leaderElection": {"leaderElect": False},
                **addresses,
                "percentageOfNodesToScore": percentage,
                "profiles": [{"schedulerName": "default-scheduler", **({"plugins": plugins} if plugins else {})}],
                "extenders": extenders,
            },
            f,
        )
    cluster.args["kube-scheduler"] = ["--config=" + path, *args]
    cluster.start_sched()
