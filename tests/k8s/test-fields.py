#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of src/kuberules name every field of the newest Kubernetes' pod that could narrow the choice of nodes.

The API's own types come with tests/k8s/get newest. A new field fails this test until somebody has decided whether the scheduler
reads it, or names it as a field that does not matter (READ_NOTHING)."""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tap import Skip, main, skip_all  # noqa: E402

RULES = HERE.parents[1] / "src/kuberules"
# Type of the API: (file, table) whose names it must have.
TABLES = {
    "PodSpec": ("pod.c", "spec_fields"),
    "Container": ("pod-containers.c", "container_fields"),
    "ResourceRequirements": ("pod-containers.c", "demand_fields"),
    "ContainerPort": ("pod-containers.c", "port_fields"),
    "Affinity": ("pod.c", "affinity_fields"),
    "NodeAffinity": ("pod.c", "node_affinity_fields"),
    "PodAffinity": ("pod.c", "pod_terms_fields"),
    "PodAntiAffinity": ("pod.c", "pod_terms_fields"),
    "PodAffinityTerm": ("pod.c", "term_fields"),
    "NodeSelectorTerm": ("labels.c", "node_term_fields"),
    "NodeSelectorRequirement": ("labels.c", "requirement_fields"),
    "TopologySpreadConstraint": ("pod.c", "spread_fields"),
    "Toleration": ("pod.c", "toleration_fields"),
    "PodSchedulingGate": ("pod.c", "gate_fields"),
    "Taint": ("kuberules-node.c", "taint_fields"),
    "VolumeSource": ("storage.c", "sources"),
}

# Types of which declared-features.c or manifest-json.c reads at most one field: all fields that are known here. No field but the
# named one narrows the choice of nodes.
KNOWN = {
    "VolumeMount": """mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr
        bindMountOptions""",  # VolumeBindMountOptions
    "SecurityContext": """allowPrivilegeEscalation appArmorProfile capabilities privileged procMount readOnlyRootFilesystem
        runAsGroup runAsNonRoot runAsUser seLinuxOptions seccompProfile windowsOptions""",
    "PodSecurityContext": """appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy
        seLinuxOptions seccompProfile supplementalGroups supplementalGroupsPolicy sysctls windowsOptions""",
    "PodSchedulingGroup": "podGroupName",  # a gang's
    "PodResourceClaim": "name resourceClaimName resourceClaimTemplateName source",  # the list itself refuses the pod
    "ContainerRestartRule": "action exitCodes",  # RestartAllContainersOnContainerExits
    "ContainerRestartRuleOnExitCodes": "operator values",
}
# Features that kubelets declare and that no pod needs for its placement: kube-scheduler's InferForScheduling is false for them.
NEEDED_BY_NO_POD = {
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "InPlacePodVerticalScalingMemoryBackedVolumes",
}

READ_BY_HAND = {"VolumeSource.persistentVolumeClaim", "VolumeSource.ephemeral"}  # read_volume() of pod.c


def fields_of(types, name):
    """The JSON names of a struct's fields."""
    body = re.search(rf"^type {name} struct {{\n(.*?)^}}", types, re.MULTILINE | re.DOTALL).group(1)
    code = re.sub(r"//.*", "", body)
    return set(re.findall(r'`json:"(\w+)', code))


def names_of(file, table):
    """The names in a table, macros included."""
    text = (RULES / file).read_text(encoding="utf-8")
    body = re.search(rf"\b{table}\[\] = {{\n(.*?)^}};", text, re.MULTILINE | re.DOTALL).group(1)
    macros = dict(re.findall(r'^#define (\w+) "(\w+)"', text, re.MULTILINE))
    return set(re.findall(r'"(\w+)"', body)) | {
        macros[word] for word in re.findall(r"\b[A-Z]+\b", body) if word in macros
    }


def api(name):
    """A file of the newest API. None: a build from before this file was kept."""
    found = subprocess.run(
        [HERE / "get", "--check", "newest"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if found.returncode:
        skip_all(found.stderr.strip())
    file = pathlib.Path(found.stdout.strip(), "api", name)
    return file.read_text(encoding="utf-8") if file.exists() else None


def every_field_of_the_newest_pod_is_known():
    lacking = []
    for name, (file, table) in TABLES.items():
        fields = fields_of(TYPES, name)
        assert fields, f"{name} has no fields: the API's file has another form"
        lacking += [
            f"{name}.{field}: not in {table} of {file}"
            for field in sorted(fields - names_of(file, table))
            if f"{name}.{field}" not in READ_BY_HAND
        ]
    assert not lacking, lacking


def every_field_of_the_types_below_is_known():
    for name, known in KNOWN.items():
        fields = fields_of(TYPES, name)
        assert fields, f"{name} has no fields: the API's file has another form"
        assert fields <= set(known.split()), f"{name}: {sorted(fields - set(known.split()))} not in KNOWN"


def every_feature_that_kubelets_declare_is_known():
    text = api("declared-features.go")
    if text is None:
        raise Skip("the build is older than api/declared-features.go; remove it to build it again")
    declared = set(re.findall(r'"([A-Z]\w+)"', text)) - {"ContainerRestartRules"}  # a gate, and no feature by itself
    code = (RULES / "declared-features.c").read_text(encoding="utf-8")
    table = set(re.findall(r'^\t\{"(\w+)", \d+, ', code, re.MULTILINE))
    assert table and table <= declared, f"no kubelet declares {sorted(table - declared)}"
    assert declared == table | NEEDED_BY_NO_POD, (declared, table)


TYPES = api("core-v1.go")
main(
    every_field_of_the_newest_pod_is_known,
    every_field_of_the_types_below_is_known,
    every_feature_that_kubelets_declare_is_known,
)
