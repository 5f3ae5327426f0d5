# SPDX-License-Identifier: Apache-2.0
"""The manifests as objects: builds the parts of kustomize and Helm that our manifests use."""

import os
import pathlib
import re
import runpy
import shutil
import urllib.parse

import yaml

SOURCE = pathlib.Path(os.environ.get("DIVVY_SOURCE") or pathlib.Path(__file__).resolve().parents[1])
DEPLOY = SOURCE / "deploy"

Key = tuple  # (kind, namespace, name)


# libyaml's loader is ten times as fast, and not on every machine.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text):
    return [o for o in yaml.load_all(text, Loader=LOADER) if o]


def key(obj):
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def index(objects):
    found = {}
    for obj in objects:
        assert key(obj) not in found, f"twice: {key(obj)}"
        found[key(obj)] = obj
    return found


def resources(folder):
    """The files that a kustomization lists."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return [(folder / name).resolve() for name in listed["resources"]]


def base():
    return index(o for path in resources(DEPLOY / "base") for o in load(path.read_text()))


CHOICE = re.compile(r"\{\{- if (not )?\.Values\.(\w+) \}\}\n")
WORD = re.compile(r"\{\{\s*\.Values\.([A-Za-z.]+)\s*\}\}")
IMAGE = re.compile(r"\{\{ include \"divvy.image\" \(list \. \"([a-z-]+)\" \.Values\.([a-z]+)\) \}\}")


def values():
    return yaml.safe_load((DEPLOY / "chart/values.yaml").read_text())


def leaves(tree, path=()):
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name)


def chosen(text, given):
    """The lines of a template without those of the choices that the values exclude."""
    lines, is_on = [], True
    for line in text.splitlines(keepends=True):
        if found := CHOICE.fullmatch(line):
            is_on = bool(given[found.group(2)]) != bool(found.group(1))
        elif line == "{{- else }}\n":
            is_on = not is_on
        elif line == "{{- end }}\n":
            is_on = True
        elif is_on:
            lines.append(line)
    return "".join(lines)


def chart(given):
    """The chart's objects. Our chart uses three features of Helm's language: a value by its name, the image of a part, and lines
    for a choice."""
    version = yaml.safe_load((DEPLOY / "chart/Chart.yaml").read_text())["appVersion"]

    def image(match):
        """As chart/templates/_helpers.tpl."""
        part = given[match.group(2)]
        registry = given["registry"].removesuffix("/") + "/" if given["registry"] else ""
        end = f"@{part['digest']}" if part["digest"] else f":{given['tag'] or version}"
        return part["image"] or registry + match.group(1) + end

    def value(match):
        node = given
        for name in match.group(1).split("."):
            node = node[name]
        return str(node)

    objects = []
    for path in sorted((DEPLOY / "chart/templates").glob("*.yaml")):
        text = IMAGE.sub(image, WORD.sub(value, chosen(path.read_text(), given)))
        assert "{{" not in text, f"{path.name}: more of Helm's language than this test knows"
        objects += load(text)
    return index(objects)


def differences(a, b, path=""):
    """Yields 'path: this != that' for each difference."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b}):
            at = f"{path}.{name}" if path else str(name)
            if name not in a or name not in b:
                yield f"{at}: {a.get(name)!r} != {b.get(name)!r}"
            else:
                yield from differences(a[name], b[name], at)
    elif isinstance(a, list) and isinstance(b, list):
        by_name = all(isinstance(i, dict) and "name" in i for i in [*a, *b]) and a and b
        if by_name:
            yield from differences({i["name"]: i for i in a}, {i["name"]: i for i in b}, path)
        elif len(a) != len(b):
            yield f"{path}: {a!r} != {b!r}"
        else:
            for n, (i, j) in enumerate(zip(a, b)):
                yield from differences(i, j, f"{path}[{n}]")
    elif a != b:
        yield f"{path}: {a!r} != {b!r}"


def pod_spec(obj):
    return obj["spec"]["template"]["spec"]


WORKLOADS = ("Deployment", "DaemonSet", "Job", "StatefulSet")


def pods(objects):
    """(name, pod spec) of each workload and each pod."""
    for obj in objects:
        if obj["kind"] in WORKLOADS:
            yield obj["metadata"]["name"], pod_spec(obj)
        elif obj["kind"] == "Pod":
            yield obj["metadata"]["name"], obj["spec"]


VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def restricted(pod):
    """Yields the fields of a pod spec that the profile "restricted" of the Pod Security Standards forbids."""
    pod_context = pod.get("securityContext", {})
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield field
    for volume in pod.get("volumes", []):
        if not VOLUMES.issuperset(set(volume) - {"name"}):
            yield f"volume {volume['name']}"
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        name, context = container["name"], container.get("securityContext", {})
        capabilities = context.get("capabilities", {})
        if context.get("privileged"):
            yield f"{name}: privileged"
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation"
        if capabilities.get("drop") != ["ALL"]:
            yield f"{name}: capabilities not dropped"
        for added in set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{name}: capability {added}"
        if not context.get("runAsNonRoot", pod_context.get("runAsNonRoot")):
            yield f"{name}: may be root"
        if context.get("runAsUser", pod_context.get("runAsUser", 1)) == 0:
            yield f"{name}: is root"
        if context.get("seccompProfile", pod_context.get("seccompProfile", {})).get("type") not in (
            "RuntimeDefault",
            "Localhost",
        ):
            yield f"{name}: no seccomp profile"
        if context.get("procMount", "Default") != "Default":
            yield f"{name}: procMount"
        for port in container.get("ports", []):
            if port.get("hostPort"):
                yield f"{name}: hostPort"


# ---- on a cluster

PORTS_OF_HOST = re.compile(r"\b(944[3-9]|7007)\b")
PORTS_APART = 10


def overlay(cluster, folder):
    """Copies deploy/ to `folder`, with this cluster's API server in the overlay for tests, and returns that overlay. Its pods
    use the host's network, so that on a machine's second node their ports differ from the shipped ones."""
    copy = pathlib.Path(folder) / "deploy"
    shutil.copytree(DEPLOY, copy)
    path = copy / "overlays/test/divvy.yaml"
    path.write_text(for_cluster(cluster, path.read_text()))
    return copy / "overlays/test"


def overlay_of_claims(cluster, folder):
    """As overlay(), but returns the overlay for claims, with the changes of the overlay for tests."""
    copy = overlay(cluster, folder).parents[1]
    generate = runpy.run_path(str(DEPLOY / "generate"), run_name="test")
    changes = yaml.safe_load((DEPLOY / "overlays/test/changes.yaml").read_text())
    changes["DaemonSet/divvyd-dra"] = changes["DaemonSet/divvyd"]
    path = copy / "overlays/dra/divvy.yaml"
    made = [
        generate["changed"](obj, changes.get(f"{obj['kind']}/{obj['metadata']['name']}", []))
        for obj in load(path.read_text())
    ]
    path.write_text(for_cluster(cluster, generate["dump"](made)))
    return copy / "overlays/dra"


def changed_for_tests(cluster, text):
    """Objects that helm has printed, with the changes of the overlay for tests."""
    generate = runpy.run_path(str(DEPLOY / "generate"), run_name="test")
    changes = yaml.safe_load((DEPLOY / "overlays/test/changes.yaml").read_text())
    made = [generate["changed"](o, changes.get(f"{o['kind']}/{o['metadata']['name']}", [])) for o in load(text)]
    return for_cluster(cluster, generate["dump"](made))


def for_cluster(cluster, text):
    """Manifests of the overlay for tests, with this cluster's API server, and with ports of the node's seat."""
    url = urllib.parse.urlsplit(cluster.server)
    text = text.replace("value: 127.0.0.1", f"value: {url.hostname}").replace("value: '6443'", f"value: '{url.port}'")
    text = text.replace("policy/v1\n", cluster.api_version("PodDisruptionBudget") + "\n")
    if cluster.node and cluster.node.seat.number:
        further = PORTS_APART * cluster.node.seat.number
        text = PORTS_OF_HOST.sub(lambda match: str(int(match.group()) + further), text)
    return text


def crds():
    return [o for o in base().values() if o["kind"] == "CustomResourceDefinition"]


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def define_crds(cluster):
    """Defines divvy's CRDs until the block ends."""
    cluster.claim()
    for crd in crds():
        cluster.define(crd)
