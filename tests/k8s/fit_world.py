# SPDX-License-Identifier: Apache-2.0
"""Random clusters and pods for test-fit.py that an API server accepts, with every field that placement reads.

A world is a list of (kind, object); objects are complete as created, with their status. Kinds are those of src/kuberules. The
same seed and release give the same world. A field of a newer API is used only where `since` says that the release has it."""
import random

NAMESPACES = ["fit-a", "fit-b", "fit-c"]
NAMESPACE_LABELS = [{"team": "red"}, {"team": "blue", "stage": "new"}, {}]
ZONES = ["z1", "z2", "z3", "z4"]
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = ("failure-domain.beta.kubernetes.io/" + k for k in ("zone", "region"))
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
CLASSES = ["local", "wait", "wait-topology", "wait-csi", "immediate"]
PRIORITIES = {"fit-low": 10, "fit-high": 1000}
OVERHEAD = {"cpu": "250m", "memory": "120Mi"}
# First minor release of Kubernetes 1.x that has the field, by default or with the gates of test-fit.py.
SINCE = {
    "labelValues": 24,  # values of node affinity must be valid labels
    "namespaceSelector": 24,
    "csiMigration": 25,
    "minDomains": 27,
    "policies": 27,  # nodeAffinityPolicy, nodeTaintsPolicy
    "spreadKeys": 27,  # matchLabelKeys of a spread constraint
    "skippedAffinity": 27,
    "readWriteOncePod": 29,
    "sidecars": 29,
    "affinityKeys": 31,  # matchLabelKeys, mismatchLabelKeys of pod affinity
    "resize": 33,
    "podLevel": 34,
    "podLevelResize": 36,
    "declaredFeatures": 36,
    "comparisons": 36,  # operators Gt and Lt of tolerations
    "absentNamespaceLabels": 37,  # namespaceSelector with DoesNotExist
    "mountOptions": 37,
    "missingDrivers": 37,  # preventPodSchedulingIfMissing of a CSIDriver
}
FEATURES = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"]


class World:
    def __init__(self, seed, minor, nodes=24, bound=70, queries=150):
        self.rand = random.Random(seed)
        self.seed = seed
        self.minor = minor
        self.objects = []
        self.counts = {"nodes": nodes, "bound": bound, "queries": queries}
        self.node_names = [f"n{i}" for i in range(nodes)]
        self.claims = {ns: [] for ns in NAMESPACES}
        self.make()

    def since(self, field):
        return self.minor >= SINCE[field]

    # ---- small choices

    def chance(self, p):
        return self.rand.random() < p

    def pick(self, of):
        return self.rand.choice(of)

    def some(self, of, most=None):
        return self.rand.sample(of, self.rand.randint(1, min(most or len(of), len(of))))

    def add(self, kind, obj):
        self.objects.append((kind, obj))

    # ---- nodes

    def node_labels(self, name):
        labels = {"disk": self.pick(["ssd", "hdd", "nvme"]), "rack": f"r{self.rand.randrange(6)}"}
        if self.chance(0.95):
            labels[HOST] = name
        if self.chance(0.85):
            labels[ZONE] = self.pick(ZONES)
        if self.chance(0.3):
            labels[BETA_ZONE] = self.pick(ZONES)
        if self.chance(0.2):
            labels[REGION] = self.pick(["east", "west"])
        if self.chance(0.7):
            labels["gen"] = self.pick(["1", "5", "10", "3", "x7", ""])
        if self.chance(0.1):
            labels["beta.kubernetes.io/instance-type"] = "m5.large"
        return labels

    def taints(self):
        keys = ["team", "gpu", "maint"] + (["level"] if self.since("comparisons") else [])
        return [
            {
                "key": k,
                "value": self.pick(["1", "5", "10", "007", "a"] if k == "level" else ["", "a", "b"]),
                "effect": self.pick(["NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
            }
            for k in self.some(keys, 2)
        ]

    def make_node(self, name):
        cpu = self.pick(["1", "4", "7500m", "16", "16"])
        have = {
            "cpu": cpu,
            "memory": self.pick(["2Gi", "8e9", "16384Mi", "16384Mi", "32000000k"]),
            "pods": str(self.rand.randint(5, 20)),
            "ephemeral-storage": self.pick(["10Gi", "50Gi", "20G"]),
        }
        if self.chance(0.5):
            have["example.com/foo"] = str(self.rand.randint(0, 6))
        if self.chance(0.3):
            have["hugepages-2Mi"] = self.pick(["64Mi", "256Mi"])
        if self.chance(0.3):
            have["attachable-volumes-gce-pd"] = str(self.rand.randint(0, 3))
        if self.chance(0.3):
            have["attachable-volumes-csi-csi.example.com"] = str(self.rand.randint(0, 3))
        if self.chance(0.2):
            have["attachable-volumes-aws-ebs"] = str(self.rand.randint(1, 3))
        spec = {}
        if self.chance(0.06):
            spec["unschedulable"] = True
        if self.chance(0.25):
            spec["taints"] = self.taints()
        self.add(
            "node",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": self.node_labels(name)},
                "spec": spec,
                "status": {"capacity": have, "allocatable": have, **self.declared()},
            },
        )
        if self.chance(0.7):
            drivers = [
                {
                    "name": d,
                    "nodeID": name,
                    "topologyKeys": None,
                    **({"allocatable": {"count": self.rand.randint(0, 3)}} if self.chance(0.8) else {}),
                }
                for d in self.some(["csi.example.com", "other.example.com"])
            ]
            self.add(
                "csinode",
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSINode",
                    "metadata": {"name": name},
                    "spec": {"drivers": drivers},
                },
            )

    def declared(self):
        if not self.since("declaredFeatures") or self.chance(0.3):
            return {}
        features = FEATURES if self.since("mountOptions") else FEATURES[:2]
        return {"declaredFeatures": sorted(self.some(features))}

    # ---- storage

    def make_drivers(self):
        for name in ["csi.example.com", "other.example.com", "pd.csi.storage.gke.io"]:
            if self.chance(0.7):
                spec = {"preventPodSchedulingIfMissing": True} if self.chance(0.6) else {}
                self.add(
                    "csidriver",
                    {
                        "apiVersion": "storage.k8s.io/v1",
                        "kind": "CSIDriver",
                        "metadata": {"name": name},
                        "spec": spec,
                    },
                )

    def make_classes(self):
        def add(name, provisioner, mode, **more):
            self.add(
                "storageclass",
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "StorageClass",
                    "metadata": {"name": name},
                    "provisioner": provisioner,
                    "volumeBindingMode": mode,
                    **more,
                },
            )

        wait = "WaitForFirstConsumer"
        add("local", "kubernetes.io/no-provisioner", wait)
        add("wait", self.pick(["vendor.example.com/disk", "kubernetes.io/gce-pd"]), wait)
        terms = [
            {
                "matchLabelExpressions": [{"key": ZONE, "values": self.some(ZONES, 2)}]
                + ([{"key": "disk", "values": self.some(["ssd", "hdd"])}] if self.chance(0.3) else [])
            }
        ]
        if self.chance(0.5):  # no two terms may be the same
            terms.append({"matchLabelExpressions": [{"key": "rack", "values": self.some(["r1", "r2"])}]})
        add("wait-topology", "vendor.example.com/disk", wait, allowedTopologies=terms)
        add("wait-csi", "csi.example.com", wait)
        add("immediate", "vendor.example.com/disk", "Immediate")

    def volume(self, name, size, cls, **more):
        spec = {
            "capacity": {"storage": size},
            "accessModes": self.some(["ReadWriteOnce", "ReadOnlyMany"]),
            "storageClassName": cls,
            "persistentVolumeReclaimPolicy": "Retain",
            **more,
        }
        if not any(k in spec for k in ("csi", "gcePersistentDisk", "awsElasticBlockStore")):
            spec["local" if "nodeAffinity" in spec else "hostPath"] = {"path": "/mnt/" + name}
        labels = {"speed": self.pick(["fast", "slow"])}
        if self.chance(0.3):
            labels[self.pick([ZONE, BETA_ZONE])] = self.pick([*ZONES, "z1__z2", "z3__z4"])
        if self.chance(0.1):
            labels[REGION] = self.pick(["east", "west"])
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"phase": "Available"},
        }

    def volume_affinity(self):
        if self.chance(0.5):
            terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": self.some(self.node_names, 6)}]}]
        else:
            terms = [{"matchExpressions": self.requirements(2)} for _ in range(self.rand.randint(1, 2))]
        return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}

    def bound_source(self, i):
        kind = self.pick(["csi", "csi", "gce", "ebs", "plain", "affine"])
        if kind == "csi":
            return {"csi": {"driver": self.pick(["csi.example.com", "other.example.com"]), "volumeHandle": f"h{i}"}}
        if kind == "gce":
            return {"gcePersistentDisk": {"pdName": f"pd{i}"}}
        if kind == "ebs":
            return {"awsElasticBlockStore": {"volumeID": f"vol-{i}"}}
        return self.volume_affinity() if kind == "affine" else {}

    def claim(self, ns, name, cls, **more):
        annotations = more.pop("annotations", {})
        spec = {
            "accessModes": self.some(["ReadWriteOnce", "ReadOnlyMany"], 1),
            "resources": {"requests": {"storage": self.pick(["1Gi", "2Gi", "3G", "5Gi"])}},
            **more,
        }
        if cls is not None:
            spec["storageClassName"] = cls
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": ns, "annotations": annotations},
            "spec": spec,
        }

    def make_claims(self, ns):
        for i in range(self.rand.randint(5, 8)):
            name, pv = f"bound{i}", f"{ns}-bound{i}"
            claim = self.claim(
                ns,
                name,
                "",
                volumeName=pv,
                annotations={"pv.kubernetes.io/bind-completed": "yes"} if self.chance(0.98) else {},
            )
            if self.since("readWriteOncePod") and self.chance(0.15):
                claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
            if self.chance(0.98):
                volume = self.volume(pv, "10Gi", "", **self.bound_source(f"{ns}{i}"))
                volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": ns, "name": name}
                volume["status"]["phase"] = "Bound"
                self.add("persistentvolume", volume)
            self.put_claim(ns, claim)
        for i in range(self.rand.randint(4, 7)):
            cls = self.pick(
                [
                    "local",
                    "local",
                    "wait",
                    "wait-topology",
                    "wait-topology",
                    "wait-csi",
                    *(["immediate", "nowhere"] if self.chance(0.2) else []),
                ]
            )
            more = {}
            if self.chance(0.2):
                more["selector"] = self.pick(
                    [
                        {"matchLabels": {"speed": "fast"}},
                        {"matchExpressions": [{"key": "speed", "operator": "NotIn", "values": ["fast"]}]},
                    ]
                )
            if self.chance(0.15):
                more["volumeMode"] = "Block"
            annotations = {}
            if self.chance(0.15):
                annotations["volume.kubernetes.io/selected-node"] = self.pick(self.node_names)
            if self.chance(0.1):
                annotations["volume.beta.kubernetes.io/storage-class"] = self.pick(CLASSES)
            self.put_claim(ns, self.claim(ns, f"wait{i}", cls, annotations=annotations, **more))
        if self.chance(0.3):
            self.put_claim(ns, self.claim(ns, "classless", None))

    def put_claim(self, ns, claim):
        if self.chance(0.03):
            claim["metadata"]["finalizers"] = ["example.com/hold"]
            claim["deleted"] = True
        self.claims[ns].append(claim["metadata"]["name"])
        self.add("persistentvolumeclaim", claim)

    def make_volumes(self):
        """Free volumes, each of a size of its own."""
        for i in range(14):
            more = self.volume_affinity() if self.chance(0.8) else {}
            if self.chance(0.2):
                more["volumeMode"] = "Block"
            volume = self.volume(
                f"free{i}",
                f"{self.rand.randint(1, 6) * 1000 + i}M",
                self.pick(["local", "local", "wait", "wait-topology"]),
                **more,
            )
            if self.chance(0.1):
                ns = self.pick(NAMESPACES)
                volume["spec"]["claimRef"] = {
                    "kind": "PersistentVolumeClaim",
                    "namespace": ns,
                    "name": f"wait{self.rand.randrange(4)}",
                }
            if self.chance(0.1):
                volume["status"]["phase"] = self.pick(["Released", "Failed", "Pending"])
            self.add("persistentvolume", volume)

    # ---- pods

    def requirements(self, most):
        found = []
        for _ in range(self.rand.randint(1, most)):
            key, values = self.pick(
                [
                    ("disk", ["ssd", "hdd", "nvme"]),
                    (ZONE, ZONES),
                    ("rack", [f"r{i}" for i in range(6)]),
                    ("gen", ["1", "5"]),
                    ("none", ["a"]),
                ]
            )
            op = self.pick(["In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
            if op in ("Gt", "Lt"):
                numbers = ["0", "4", "9", "12"] if self.since("labelValues") else ["0", "4", "9", "-5", "12"]
                found.append({"key": "gen", "operator": op, "values": [self.pick(numbers)]})
            elif op in ("Exists", "DoesNotExist"):
                found.append({"key": key, "operator": op})
            else:
                found.append({"key": key, "operator": op, "values": self.some(values)})
        return found

    def node_term(self):
        kind = self.rand.random()
        if kind < 0.05:
            return {}
        term = {}
        if kind < 0.9:
            term["matchExpressions"] = self.requirements(2)
        if kind > 0.85:
            term["matchFields"] = [
                {"key": "metadata.name", "operator": self.pick(["In", "NotIn"]), "values": [self.pick(self.node_names)]}
            ]
        return term

    def labels(self):
        labels = {"app": self.pick("abcd")}
        if self.chance(0.6):
            labels["tier"] = self.pick("xy")
        if self.chance(0.8):
            labels["version"] = self.pick(["v1", "v2"])
        return labels

    def selector(self):
        kind = self.rand.random()
        if kind < 0.05:
            return None
        if kind < 0.12:
            return {}
        if kind < 0.6:
            return {"matchLabels": {"app": self.pick("abcd")}}
        key, values = self.pick([("app", list("abcd")), ("tier", list("xy"))])
        op = self.pick(["In", "In", "NotIn", "Exists", "DoesNotExist"])
        req = {"key": key, "operator": op}
        if op in ("In", "NotIn"):
            req["values"] = self.some(values, 2)
        return {"matchExpressions": [req], **({"matchLabels": {"app": self.pick("abcd")}} if self.chance(0.3) else {})}

    def topology_key(self):
        return self.pick([HOST, ZONE, "rack", "disk", "gen"])

    def pod_term(self):
        term = {"topologyKey": self.topology_key()}
        selector = self.selector()
        if selector is not None:
            term["labelSelector"] = selector
        if self.chance(0.25):
            term["namespaces"] = self.some(NAMESPACES, 2)
        if self.since("namespaceSelector") and self.chance(0.25):
            term["namespaceSelector"] = self.namespace_selector()
        if selector is not None and self.since("affinityKeys") and self.chance(0.3):
            term[self.pick(["matchLabelKeys", "mismatchLabelKeys"])] = self.some(["version", "absent"])
        return term

    def namespace_selector(self):
        selectors = [
            {},
            {"matchLabels": {"team": "red"}},
            {"matchLabels": {"stage": "new"}},
            {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "team", "operator": "In", "values": ["blue", "green"]}]},
        ]
        if self.since("absentNamespaceLabels"):
            selectors.append({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]})
            selectors.append({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]})
        return self.pick(selectors)

    def affinity(self):
        affinity = {}
        if self.chance(0.5):
            affinity["nodeAffinity"] = {
                REQUIRED: {"nodeSelectorTerms": [self.node_term() for _ in range(self.rand.randint(1, 3))]}
            }
        if self.chance(0.35):
            affinity["podAffinity"] = {REQUIRED: [self.pod_term() for _ in range(self.pick([1, 1, 2]))]}
        if self.chance(0.4):
            affinity["podAntiAffinity"] = {REQUIRED: [self.pod_term() for _ in range(self.rand.randint(1, 2))]}
        if self.chance(0.1):
            affinity.setdefault("podAffinity", {})[PREFERRED] = [{"weight": 5, "podAffinityTerm": self.pod_term()}]
        return affinity

    def spread(self):
        found, keys = [], set()
        for _ in range(self.rand.randint(1, 2)):
            when, key = self.pick(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]), self.topology_key()
            if (when, key) in keys:
                continue
            keys.add((when, key))
            one = {"maxSkew": self.rand.randint(1, 3), "topologyKey": key, "whenUnsatisfiable": when}
            selector = self.selector()
            if selector is not None:
                one["labelSelector"] = selector
                if self.since("spreadKeys") and self.chance(0.3):
                    one["matchLabelKeys"] = self.some(["version", "absent"])
            if when == "DoNotSchedule" and self.since("minDomains") and self.chance(0.3):
                one["minDomains"] = self.rand.randint(1, 5)
            if self.since("policies"):
                for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                    if self.chance(0.4):
                        one[policy] = self.pick(["Honor", "Ignore"])
            found.append(one)
        return found

    def toleration(self):
        kind = self.rand.random()
        if kind < 0.1:
            return {"operator": "Exists"}
        if self.since("comparisons") and kind < 0.35:
            return {"key": "level", "operator": self.pick(["Gt", "Lt"]), "value": self.pick(["0", "4", "5", "9", "-1"])}
        one = {"key": self.pick(["team", "gpu", "maint", "node.kubernetes.io/unschedulable"])}
        if self.chance(0.5):
            one["effect"] = self.pick(["NoSchedule", "NoExecute"])
        if self.chance(0.5):
            one["operator"] = "Exists"
        else:
            one["value"] = self.pick(["", "a", "b"])
        return one

    def requests(self, scale=1.0):
        want = {}
        if self.chance(0.75 * scale):
            want["cpu"] = self.pick(["50m", "100m", "0.3", "1", "1500m", "333m"])
        if self.chance(0.6 * scale):
            want["memory"] = self.pick(["64Mi", "0.5Gi", "1G", "1500M", "2Gi"])
        if self.chance(0.2 * scale):
            want["ephemeral-storage"] = self.pick(["1Gi", "5G", "12Gi"])
        resources = {"requests": want}
        limits = {}
        if self.chance(0.15):
            limits["example.com/foo"] = str(self.rand.randint(0, 3))
        if self.chance(0.08) and ("cpu" in want or "memory" in want):
            limits["hugepages-2Mi"] = self.pick(["2Mi", "32Mi", "64Mi"])
        if limits:
            resources["limits"] = limits
        return resources

    def container(self, name, scale=1.0):
        one = {"name": name, "image": "none", "resources": self.requests(scale)}
        is_sidecar = name[0] == "i" and self.since("sidecars") and self.chance(0.5)
        if is_sidecar:
            one["restartPolicy"] = "Always"
        if (name == "c0" or is_sidecar) and self.chance(0.15):
            port = {"containerPort": 80, "hostPort": self.pick([8080, 8081])}
            if self.chance(0.4):
                port["protocol"] = self.pick(["UDP", "SCTP", "TCP"])
            if self.chance(0.4):
                port["hostIP"] = self.pick(["127.0.0.1", "10.0.0.1", "0.0.0.0"])
            one["ports"] = [port]
        return one

    def inline_volume(self, name):
        kind = self.pick(["gce", "ebs", "iscsi", "rbd", "azure", "empty"])
        read_only = {"readOnly": True} if self.chance(0.5) else {}
        if kind == "gce":
            return {"name": name, "gcePersistentDisk": {"pdName": f"pd{self.rand.randrange(4)}", **read_only}}
        if kind == "ebs":
            return {"name": name, "awsElasticBlockStore": {"volumeID": f"vol-{self.rand.randrange(4)}", **read_only}}
        if kind == "iscsi":
            return {
                "name": name,
                "iscsi": {
                    "targetPortal": "10.0.0.1:3260",
                    "lun": 0,
                    **read_only,
                    "iqn": f"iqn.2020-01.com.example:{self.rand.randrange(3)}",
                },
            }
        if kind == "rbd":
            return {
                "name": name,
                "rbd": {
                    "monitors": self.some(["m1", "m2", "m3"], 2),
                    "image": self.pick("ij"),
                    **({"pool": "p2"} if self.chance(0.3) else {}),
                    **read_only,
                },
            }
        if kind == "azure":
            disk = self.rand.randrange(3)
            if self.since("csiMigration"):  # kube-scheduler reports an error for other kinds
                return {
                    "name": name,
                    "azureDisk": {"diskName": f"d{disk}", "diskURI": f"/subscriptions/d{disk}", "kind": "Managed"},
                }
            return {"name": name, "azureDisk": {"diskName": f"d{disk}", "diskURI": "https://a/b"}}
        return {"name": name, "emptyDir": {}}

    def volumes(self, ns):
        found = []
        for i in range(self.rand.randint(1, 3)):
            if self.chance(0.55):
                name = self.pick(self.claims[ns]) if self.chance(0.97) else "missing"
                found.append({"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}})
            else:
                found.append(self.inline_volume(f"v{i}"))
        return found

    def pod_level(self, spec):
        """Amounts for the pod as a whole, which must not be less than the sum of the containers."""
        if not self.since("podLevel") or not self.chance(0.2):
            return
        level = {}
        for name, small, amounts in (
            ("cpu", "10m", ["100m", "1", "2500m", "5"]),
            ("memory", "1Mi", ["64Mi", "1G", "3Gi"]),
            ("hugepages-2Mi", "2Mi", ["32Mi", "64Mi"]),
        ):
            if self.chance(0.5 if small != "2Mi" else 0.15):
                level[name] = self.pick(amounts)
            for container in spec["containers"] + spec.get("initContainers", []):
                for amounts_of in container["resources"].values():
                    if name in amounts_of and (name in level or small == "2Mi"):
                        amounts_of.pop(name)
                if name in level and small != "2Mi" and self.chance(0.4):
                    container["resources"].setdefault("requests", {})[name] = small
        if "hugepages-2Mi" in level:
            level.setdefault("cpu", "3")
            spec["resources"] = {"limits": {"hugepages-2Mi": level["hugepages-2Mi"]}}
        if level:
            spec.setdefault("resources", {})["requests"] = level

    def use_features(self, spec):
        """What kubelets must declare."""
        containers = spec["containers"] + spec.get("initContainers", [])
        if not self.since("declaredFeatures") or not self.chance(0.15):
            return
        if self.chance(0.4):
            one = self.pick(containers)
            one.setdefault("restartPolicy", "Never")
            one["restartPolicyRules"] = [
                {
                    "action": self.pick(["RestartAllContainers", "Restart"]),
                    "exitCodes": {"operator": "In", "values": [7]},
                }
            ]
        if self.chance(0.4) and not any("ports" in c for c in containers):
            spec["hostNetwork"] = True
            spec["hostUsers"] = self.chance(0.3)
        if self.since("mountOptions") and self.chance(0.4):
            spec.setdefault("volumes", []).append({"name": "options", "emptyDir": {}})
            self.pick(containers)["volumeMounts"] = [
                {"name": "options", "mountPath": "/o", "bindMountOptions": ["noexec"]}
            ]

    def held(self, requests):
        """The status of requests that are being changed: amounts that are allocated and in force."""
        status = {}
        other = {"cpu": ["10m", "600m", "2"], "memory": ["16Mi", "700Mi", "2G"]}

        def amounts():
            return {k: self.pick(other[k]) if k in other and self.chance(0.6) else v for k, v in requests.items()}

        if self.chance(0.75):
            status["resources"] = {"requests": amounts()} if self.chance(0.9) else {}
        if self.chance(0.75):
            status["allocatedResources"] = amounts()
        return status

    def resize(self, pod):
        """Gives the pod the status of one that is being resized."""
        if not self.since("resize") or not self.chance(0.5):
            return
        spec, status = pod["spec"], pod.setdefault("status", {})
        for kind, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
            containers = sorted(spec.get(kind, []), key=lambda c: c["name"])
            found = [
                {
                    "name": c["name"],
                    "image": "none",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    **self.held(c["resources"].get("requests", {})),
                }
                for c in containers
                if self.chance(0.9)
            ]
            if found:
                status[statuses] = found
        if self.since("podLevelResize") and self.chance(0.4):
            status.update(self.held(spec.get("resources", {}).get("requests", {"cpu": "1", "memory": "1Gi"})))
        if self.chance(0.4):
            reason = self.pick(["Infeasible", "Deferred"])
            status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]

    def pod(self, name, is_query):
        ns = self.pick(NAMESPACES)
        spec = {
            "containers": [self.container(f"c{i}") for i in range(self.rand.randint(1, 2))],
            "terminationGracePeriodSeconds": 0,
        }
        if self.chance(0.2):
            spec["initContainers"] = [self.container(f"i{i}", 0.9) for i in range(self.rand.randint(1, 2))]
        if self.chance(0.08):
            spec["hostNetwork"] = True
            for container in spec["containers"] + spec.get("initContainers", []):
                for port in container.get("ports", []):
                    port["containerPort"] = port["hostPort"]
        if self.chance(0.06):
            spec["runtimeClassName"] = "fit-heavy"
        if self.chance(0.25 if is_query else 0.3):
            spec["volumes"] = self.volumes(ns)
        if self.chance(0.35):
            spec["tolerations"] = [self.toleration() for _ in range(self.rand.randint(1, 3))]
        if self.chance(0.5 if is_query else 0.25):
            spec["affinity"] = self.affinity()
        if is_query and self.chance(0.2):
            spec["nodeSelector"] = dict([self.pick([("disk", "ssd"), ("disk", "hdd"), (ZONE, "z1"), ("rack", "r1")])])
        if is_query and self.chance(0.25):
            spec["topologySpreadConstraints"] = self.spread()
        if self.chance(0.4):
            spec["priorityClassName"] = self.pick(list(PRIORITIES))
        self.pod_level(spec)
        self.use_features(spec)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": ns, "labels": self.labels()},
            "spec": spec,
        }

    def make(self):
        for name in self.node_names:
            self.make_node(name)
        self.make_classes()
        if self.since("missingDrivers"):
            self.make_drivers()
        for ns in NAMESPACES:
            self.make_claims(ns)
        self.make_volumes()
        for i in range(self.counts["bound"]):
            pod = self.pod(f"bound{i}", False)
            # Some pods name a node that does not exist.
            pod["spec"]["nodeName"] = self.pick(self.node_names) if self.chance(0.97) else "nowhere"
            if self.chance(0.06):
                pod["metadata"]["finalizers"] = ["example.com/hold"]
                pod["deleted"] = True
            if self.chance(0.05):
                pod["phase"] = self.pick(["Succeeded", "Failed"])
            self.resize(pod)
            self.add("pod", pod)
        self.nominated = []
        for i in range(self.rand.randint(0, 6)):
            self.nominated.append((self.pod(f"nominated{i}", True), self.pick(self.node_names)))
        self.queries = [self.pod(f"q{i}", True) for i in range(self.counts["queries"])]
        if self.nominated:
            for pod in [p for p, _ in self.nominated] + self.queries:
                self.spare(pod["spec"])

    def spare(self, spec):
        """Leaves out what kube-scheduler does with nominated pods and divvy does not: see test-fit.py."""
        if self.since("skippedAffinity"):
            terms = spec.setdefault("affinity", {}).setdefault("podAntiAffinity", {}).setdefault(REQUIRED, [])
            if not terms:
                terms.append({"topologyKey": "none", "labelSelector": {"matchLabels": {"app": "none"}}})
        elif any(s["whenUnsatisfiable"] == "DoNotSchedule" for s in spec.get("topologySpreadConstraints", [])):
            spec.pop("nodeSelector", None)
            spec.get("affinity", {}).pop("nodeAffinity", None)
