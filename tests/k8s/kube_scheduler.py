# SPDX-License-Identifier: Apache-2.0
"""The real kube-scheduler, configured for a test: that of the test's cluster, or a second one beside the cluster of KUBECONFIG."""

import json
import os

from cluster import free_port, of_version


def name_for(cluster):
    """The schedulerName of pods that this kube-scheduler places. A given cluster has a default-scheduler already."""
    return "default-scheduler" if cluster.own else "divvy-test-scheduler"


def start(cluster, *extenders, plugins=None, percentage=100, args=()):
    """Starts it with one profile, with the default plugins unless `plugins` is given, and further arguments. percentage: of the
    nodes that fit, the part that is scored; 0: Kubernetes' default, which depends on the number of nodes."""
    path = os.path.join(cluster.dir, "scheduler.json")
    version, addresses = "v1", {}
    if cluster.own and cluster.minor < 25:  # these addresses are mandatory; no kubelet uses this port here
        insecure = f"{cluster.slot.address}:{cluster.slot.port('kubelet')}"
        version, addresses = "v1beta1", {"healthzBindAddress": insecure, "metricsBindAddress": insecure}
    kubeconfig = cluster.kubeconfigs["kube-scheduler"] if cluster.own else cluster.administrator()
    with open(path, "w", encoding="utf-8") as f:
        json.dump(
            {
                "apiVersion": f"kubescheduler.config.k8s.io/{version}",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000},
                "leaderElection": {"leaderElect": False},
                **addresses,
                "percentageOfNodesToScore": percentage,
                "profiles": [{"schedulerName": name_for(cluster), **({"plugins": plugins} if plugins else {})}],
                "extenders": extenders,
            },
            f,
        )
    if cluster.own:
        cluster.args["kube-scheduler"] = ["--config=" + path, *args]
        cluster.start_sched()
        return
    program = os.path.join(of_version(cluster.minor), "bin/kube-scheduler")
    serves = ["--bind-address=127.0.0.1", f"--secure-port={free_port()}"]
    # Requests to this program's own port are not tested, so that it needs no configuration of the cluster's authentication.
    log = os.path.join(cluster.dir, "log/kube-scheduler.log")
    argv = [program, "--config=" + path, "--authentication-tolerate-lookup-failure", *serves, *args]
    cluster.keeper.ask("start", name="kube-scheduler", argv=argv, log=log, env={"PATH": os.environ["PATH"]})
