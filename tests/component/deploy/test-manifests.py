#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the manifests of deploy/ agree with one another, with docs/reference and with the code."""

import os
import re
import runpy
import subprocess
import sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../.."))

from manifests import (
    DEPLOY,
    SOURCE,
    base,
    chart,
    differences,
    index,
    key,
    leaves,
    load,
    pod_spec,  # noqa: E402
    pods,
    resources,
    restricted,
    values,
)
from tap import main  # noqa: E402

PAGES = {p.stem: p.read_text() for p in sorted((SOURCE / "docs/reference").glob("*.md"))}
CONTRACT = "".join(PAGES.values())
PAGES_OF = {"GPUNode": ["gpunode"], "GPUPolicy": ["gpupolicy"], "SharePod": ["sharepod", "requested-keys"]}
GENERATE = runpy.run_path(str(DEPLOY / "generate"), run_name="test")
KEEP = "helm.sh/resource-policy"


def generated_files_are_current():
    done = subprocess.run([sys.executable, DEPLOY / "generate", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def both_kustomizations_list_all_files():
    there = {p.resolve() for p in (DEPLOY / "base").glob("*.yaml")} - {(DEPLOY / "base/kustomization.yaml").resolve()}
    listed = resources(DEPLOY / "base")
    assert set(listed) == there and len(listed) == len(there), listed
    assert resources(DEPLOY) == listed, resources(DEPLOY)


def the_chart_makes_the_same_objects():
    made, wanted = chart(values()), base()
    assert set(made) == set(wanted), set(made) ^ set(wanted)
    for name, obj in made.items():
        if obj["kind"] == "CustomResourceDefinition":
            # Only Helm needs this annotation, which keeps the CRDs when the release is removed.
            assert obj["metadata"].pop("annotations") == {KEEP: "keep"}, obj["metadata"]
        assert not list(differences(wanted[name], obj)), (name, list(differences(wanted[name], obj)))


def the_chart_can_make_the_objects_of_the_dra_overlay():
    folder = DEPLOY / "overlays/dra"
    made = chart({**values(), "dra": True})
    wanted = index([o for name in resources(folder) for o in load(name.read_text())])
    assert set(made) == set(wanted), set(made) ^ set(wanted)
    for name, obj in made.items():
        if obj["kind"] != "CustomResourceDefinition":
            assert not list(differences(wanted[name], obj)), (name, list(differences(wanted[name], obj)))


def a_kubelet_folder_moves_only_pod_resources():
    """The chart's kubeletDir changes only the path of pod-resources: the device plugins' socket has a fixed path."""
    given = {**values(), "kubeletDir": "/elsewhere"}
    volumes = {
        v["name"]: v["hostPath"]["path"]
        for name, spec in pods(chart(given).values())
        if name == "divvyd"
        for v in spec["volumes"]
        if "hostPath" in v
    }
    plain = {
        v["name"]: v["hostPath"]["path"]
        for name, spec in pods(base().values())
        if name == "divvyd"
        for v in spec["volumes"]
        if "hostPath" in v
    }
    assert volumes == {**plain, "pod-resources": "/elsewhere/pod-resources"}, volumes


def every_value_of_the_chart_has_an_effect():
    plain = chart(values())
    for path in leaves(values()):
        given = values()
        node = given
        for name in path[:-1]:
            node = node[name]
        node[path[-1]] = 7 if isinstance(node[path[-1]], int) else "another"
        assert chart(given) != plain, ".".join(path)
    # Each text that deploy/generate replaces by a value of the chart occurs in deploy/base.
    for text, _ in GENERATE["CHART"]:
        assert any(text in p.read_text() for p in (DEPLOY / "base").glob("*.yaml")), text


def deploy_generate_has_the_specs_fields():
    header = (SOURCE / "src/spec/spec.h").read_text()
    fields = []
    for table in ("SPEC_FIELDS", "SPEC_CLUSTER_FIELDS"):
        found = re.search(rf"#define {table}\(X\) \\\n((?:.*\\\n)*.*\n)", header)
        if found:
            fields += [f.replace("_", "-") for f in re.findall(r"\bX\((\w+),", found.group(1))]
    ours = [row[0] for row in GENERATE["FIELDS"]]
    assert len(fields) >= 10 and set(fields) <= set(ours), set(fields) - set(ours)
    if "SPEC_CLUSTER_FIELDS" in header:
        assert set(fields) == set(ours), set(fields) ^ set(ours)


def the_reference_has_the_codes_keys_and_dialects():
    """The reference pages list all keys and dialects that the code knows."""
    for path in (SOURCE / "src").rglob("*.h"):
        for key_name in re.findall(r'^#define \w+ "(divvy\.gpu/[a-z-]+)"', path.read_text(), re.MULTILINE):
            assert f"`{key_name}" in CONTRACT, f"{path.name}: {key_name}"
    names = [re.search(r'\.name = "([a-z0-9]+)"', p.read_text()) for p in (SOURCE / "src/spec").glob("dialect-*.c")]
    names = {n.group(1) for n in names if n} - {"divvy"}
    assert not names or names == set(GENERATE["DIALECTS"]), names ^ set(GENERATE["DIALECTS"])


def schema_of(crd):
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def names_in(schema):
    for name, node in schema.get("properties", {}).items():
        yield name
        yield from names_in(node)
    for below in ("items", "additionalProperties"):
        if isinstance(schema.get(below), dict):
            yield from names_in(schema[below])


def crds():
    return {o["spec"]["names"]["kind"]: o for o in base().values() if o["kind"] == "CustomResourceDefinition"}


def the_reference_names_every_field_of_the_crds():
    # Fields of list entries need no page of their own: the description of the list explains them.
    for kind, crd in crds().items():
        pages = "".join(PAGES[name] for name in PAGES_OF[kind])
        for part in ("spec", "status"):
            for name in schema_of(crd)["properties"][part]["properties"]:
                assert re.search(rf"\b{name}\b", pages), f"{kind}.{part}.{name}"
        for name in names_in(schema_of(crd)["properties"]["status"]):
            assert not re.search("[A-Z]{4}|_", name.replace("UID", "").replace("UUID", "")), name


def schemas_have_limits_and_no_defaults():
    def walk(schema, at):
        assert "default" not in schema, f"{at}: a default fights who applies without it"
        if schema.get("type") == "array":
            assert "maxItems" in schema, f"{at}: a list without maxItems"
        if schema.get("type") == "string" and at.split(".")[-1] not in ("apiVersion", "kind"):
            limited = {"maxLength", "enum", "format"} & set(schema) or ".template." in at or "matchLabels" in at
            assert limited, f"{at}: text without maxLength"
        if schema.get("type") == "integer":
            assert "minimum" in schema, f"{at}: an integer without a minimum"
        for name, node in schema.get("properties", {}).items():
            walk(node, f"{at}.{name}")
        for below in ("items", "additionalProperties"):
            if isinstance(schema.get(below), dict):
                walk(schema[below], at)

    for kind, crd in crds().items():
        walk(schema_of(crd), kind)


def lists_of_a_nodes_status_are_atomic():
    """divvyd writes them whole, and the API server keeps the names in each item of another list in managedFields."""

    def walk(schema, path):
        for name, field in schema.get("properties", {}).items():
            if field.get("type") == "array" and "properties" in field["items"]:
                is_atomic = field.get("x-kubernetes-list-type") == "atomic"
                assert is_atomic != (name == "conditions"), f"{path}.{name}"
            else:
                walk(field, f"{path}.{name}")

    walk(schema_of(crds()["GPUNode"])["properties"]["status"], "status")


def uninstalling_removes_the_webhooks_first():
    log = subprocess.run(
        [DEPLOY / "uninstall", "--all"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "KUBECTL": "echo"},
    ).stdout
    gone = re.findall(r"\b([a-z]+)/([a-z.-]+)", log)
    kinds = {"crd": "customresourcedefinition"}
    gone = [(kinds.get(kind, kind), name) for kind, name in gone]
    assert [k for k, _ in gone[:2]] == ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"], gone
    assert gone[-1][0] == "customresourcedefinition", gone[-1]
    namespaces = {name for kind, name in gone if kind == "namespace"}
    for kind, namespace, name in base():
        assert (kind.lower(), name) in gone or namespace in namespaces, (kind, namespace, name)
    short = subprocess.run(
        [DEPLOY / "uninstall"], capture_output=True, text=True, check=True, env={**os.environ, "KUBECTL": "echo"}
    ).stdout
    assert "crd/" not in short and "namespace/divvy-system" in short, short
    wrong = subprocess.run(
        [DEPLOY / "uninstall", "--everything"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECTL": "false"},
    )
    assert wrong.returncode == 2 and "usage" in wrong.stdout, wrong


def only_divvyd_needs_more_than_the_restricted_policy():
    found = {name: set(restricted(spec)) for name, spec in pods(base().values())}
    assert found.pop("divvyd") == {
        "hostPID",
        "divvyd: may be root",
        "divvyd: is root",
        "divvyd: capability SETGID",
        "divvyd: capability SETUID",
        "volume device-plugins",
        "volume pod-resources",
        "volume run",
        "volume state",
        "volume cdi",
        "volume lock",
        "volume sys",
    }
    mounts = {
        m["name"]: m
        for name, spec in pods(base().values())
        if name == "divvyd"
        for m in spec["containers"][0]["volumeMounts"]
    }
    assert mounts["sys"] == {"name": "sys", "mountPath": "/host/sys", "readOnly": True}, mounts["sys"]
    assert found == {"divvy-scheduler": set(), "divvy-controller": set()}, found
    for _, spec in pods(base().values()):
        assert spec["enableServiceLinks"] is False
        for container in spec["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]["cpu"]
            assert "livenessProbe" in container and "readinessProbe" in container


def each_privilege_on_the_node_is_explained():
    lines = (DEPLOY / "base/divvyd.yaml").read_text().split("\n")
    for n, line in enumerate(lines):
        if re.search(r"hostPID:|hostPath:|runAsUser: 0", line):
            before = [text.strip() for text in lines[n - 2 : n]]
            assert any(text.startswith("#") for text in before), line


def tokens_are_bound_to_their_pods():
    for obj in base().values():
        if obj["kind"] == "ServiceAccount":
            assert obj["automountServiceAccountToken"] is False, key(obj)
    for name, spec in pods(base().values()):
        sources = next(v for v in spec["volumes"] if v["name"] == "api")["projected"]["sources"]
        assert sources[0]["serviceAccountToken"]["path"] == "token", name
        assert sources[1]["configMap"]["name"] == "kube-root-ca.crt", name


def rights_have_no_wildcards_and_are_explained():
    secrets = []  # secrets, and ConfigMaps to fill
    for name, obj in base().items():
        for rule in obj.get("rules", []):
            if obj["kind"] not in ("Role", "ClusterRole"):
                continue
            assert "*" not in str(rule), (name, rule)
            if {"secrets", "configmaps"} & {*rule.get("resources", [])}:
                secrets.append((name, rule["resources"], rule["resourceNames"], rule["verbs"]))
            for verb in ("escalate", "bind", "impersonate"):
                assert verb not in rule["verbs"], (name, rule)
    controller, read = ("Role", "divvy-system", "divvy-controller"), ["get", "list", "watch"]
    assert secrets == [
        (controller, ["secrets"], ["divvy-controller-tls"], read + ["patch"]),
        (controller, ["secrets"], ["divvy-remote-authority"], read + ["patch"]),
        (controller, ["configmaps"], ["divvy-remote-authority"], read + ["patch"]),
        (("Role", "kube-system", "divvy-controller"), ["configmaps"], ["extension-apiserver-authentication"], read),
        (("Role", "divvy-system", "divvyd"), ["configmaps"], ["divvy-remote-authority"], read),
    ], secrets
    # Each rule has a comment before it, or continues a rule that has one.
    for path in ("scheduler", "controller", "divvyd"):
        text = (DEPLOY / f"base/{path}.yaml").read_text()
        for match in re.finditer(r"^(.*)\n- apiGroups: .*\n  resources: (.*)\n", text, re.MULTILINE):
            explained = match.group(1).startswith(("#", "  verbs", "rules:"))
            assert explained, f"{path}: {match.group(2)} is not explained"


def webhooks():
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        yield from ((kind, hook) for hook in base()[(kind, "", "divvy")]["webhooks"])


def webhooks_never_block_divvys_own_pods():
    own = {name for kind, _, name in base() if kind == "Namespace"}
    for kind, hook in webhooks():
        what = {r for rule in hook["rules"] for r in rule["resources"]}
        if what & {"pods", "deployments", "pods/status"}:
            labels = {e["key"]: e for e in hook["namespaceSelector"]["matchExpressions"]}
            assert labels["divvy.gpu/admission"]["values"] == ["ignore"], hook["name"]
            names = labels["kubernetes.io/metadata.name"]["values"]
            assert own | {"kube-system", "kube-public", "kube-node-lease"} == set(names), names
        assert hook["sideEffects"] == "None" and hook["timeoutSeconds"] <= 5, hook["name"]
        assert hook["clientConfig"]["service"]["path"] in CONTRACT, hook["clientConfig"]
        assert "caBundle" not in hook["clientConfig"], "the controller's to fill"
        if kind[0] == "M":
            assert hook["failurePolicy"] == "Fail" and hook["reinvocationPolicy"] == "IfNeeded", hook
    for namespace in own:
        labels = base()[("Namespace", "", namespace)]["metadata"]["labels"]
        assert labels["divvy.gpu/admission"] == "ignore", namespace
    # Kubelets and rollouts must be able to write while the controller is down.
    soft = {hook["name"] for _, hook in webhooks() if hook["failurePolicy"] == "Ignore"}
    assert soft == {"pods.status.divvy.gpu", "templates.divvy.gpu", "leases.divvy.gpu"}, soft


def services_use_the_ports_of_their_programs():
    objects = base()
    for (kind, namespace, name), obj in objects.items():
        if kind != "Service":
            continue
        workload = objects.get(("Deployment", namespace, name)) or objects[("DaemonSet", namespace, name)]
        assert obj["spec"]["selector"] == workload["spec"]["template"]["metadata"]["labels"], name
        ports = {p["containerPort"] for c in pod_spec(workload)["containers"] for p in c["ports"]}
        assert {p["targetPort"] for p in obj["spec"]["ports"]} <= ports, name
    for _, hook in webhooks():
        where = hook["clientConfig"]["service"]
        service = objects[("Service", where["namespace"], where["name"])]
        assert where["port"] in {p["port"] for p in service["spec"]["ports"]}, where


def the_reference_has_the_command_lines():
    options = PAGES["options"]
    sections = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", options, re.MULTILINE))
    for _, spec in pods(base().values()):
        for container in spec["containers"]:
            program = container["image"].partition(":")[0]
            section = next(text for title, text in sections.items() if title.split(" ")[0] == program)
            for arg in container["args"]:
                assert re.search(rf"`{arg.split('=')[0]}\b", section + sections["Common to all three"]), (program, arg)
            for env in container["env"]:
                assert env["name"] in options or env["name"].startswith("NVIDIA_"), env


def examples():
    return {p: load(p.read_text()) for p in sorted((DEPLOY / "examples").rglob("*.yaml"))}


def examples_use_existing_keys():
    fields = {row[0] for row in GENERATE["FIELDS"]} | {"container"}
    used, kinds = set(), set()
    for path, objects in examples().items():
        index(objects)
        for obj in objects:
            kinds.add(obj["kind"])
            template = obj["spec"].get("template", obj) if "spec" in obj else {}
            asked = {k for k in template.get("metadata", {}).get("annotations", {}) if "divvy.gpu/" in k}
            for name in asked:
                container, _, field = name.partition("divvy.gpu/")
                assert field in fields, f"{path}: {name}"
                used.add(field)
                containers = [c["name"] for c in template["spec"]["containers"]]
                assert not container or container[:-1] in containers, f"{path}: {name}"
        assert path.read_text().startswith("# "), f"{path}: says nothing of itself"
    dialects = {p.stem for p in examples() if p.parent.name == "dialects"}
    assert dialects == set(GENERATE["DIALECTS"]), dialects ^ set(GENERATE["DIALECTS"])
    assert {
        "request",
        "limit",
        "memory",
        "class",
        "count",
        "affinity",
        "anti-affinity",
        "exclusion",
        "group",
        "container",
    } <= used, used
    assert {"Pod", "Job", "Deployment", "SharePod", "GPUPolicy", "GPUNode"} <= kinds, kinds


def kubeshares_definition_is_installed_separately():
    text = (DEPLOY / "kubeshare/crd.yaml").read_text()
    assert text == (DEPLOY / "chart-kubeshare/crds/crd.yaml").read_text()
    crd = yaml.safe_load(text)
    assert key(crd) not in base() and crd["spec"]["names"]["shortNames"] == ["shp"]
    # Helm does not overwrite an existing definition in crds/, but would in templates/.
    assert not list((DEPLOY / "chart-kubeshare").glob("templates/*"))


def all_versions_are_equal():
    done = subprocess.run([SOURCE / "release/version", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


main(
    generated_files_are_current,
    both_kustomizations_list_all_files,
    the_chart_makes_the_same_objects,
    the_chart_can_make_the_objects_of_the_dra_overlay,
    every_value_of_the_chart_has_an_effect,
    a_kubelet_folder_moves_only_pod_resources,
    deploy_generate_has_the_specs_fields,
    the_reference_has_the_codes_keys_and_dialects,
    the_reference_names_every_field_of_the_crds,
    schemas_have_limits_and_no_defaults,
    lists_of_a_nodes_status_are_atomic,
    uninstalling_removes_the_webhooks_first,
    only_divvyd_needs_more_than_the_restricted_policy,
    each_privilege_on_the_node_is_explained,
    tokens_are_bound_to_their_pods,
    rights_have_no_wildcards_and_are_explained,
    webhooks_never_block_divvys_own_pods,
    services_use_the_ports_of_their_programs,
    the_reference_has_the_command_lines,
    examples_use_existing_keys,
    kubeshares_definition_is_installed_separately,
    all_versions_are_equal,
)
