# SPDX-License-Identifier: Apache-2.0
"""The real kube-scheduler of a test's cluster, configured with extenders."""

import json
import os


def start(cluster, *extenders, plugins=None):
    """With its one profile, whose plugins are as usual unless said."""
    path = os.path.join(cluster.dir, "scheduler.json")
    # It wants one; there is no kubelet to take this.
    insecure = f"{cluster.slot.address}:{cluster.slot.port('kubelet')}"
    with open(path, "w", encoding="utf-8") as f:
        json.dump({
            "apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": cluster.kubeconfigs["kube-scheduler"], "qps": 5000, "burst": 5000},
            "leaderElection": {"leaderElect": False}, "healthzBindAddress": insecure,
            "metricsBindAddress": insecure, "percentageOfNodesToScore": 100,
            "profiles": [{"schedulerName": "default-scheduler", **({"plugins": plugins} if plugins else {})}],
            "extenders": extenders,
        }, f)
    cluster.args["kube-scheduler"] = ["--config=" + path]
    cluster.start_sched()
