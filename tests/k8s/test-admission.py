#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divvy's webhook beside the other parts that change pods on a real API server: other webhooks, and Kubernetes' own plugins."""

import contextlib
import os
import subprocess
import sys

from cluster import ApiError, Skip, main, open_cluster, patience, skip_all, wait_for
from controller import SYSTEM, Controller, installed
from injector import SIDECAR, in_front, injector
from scheduled import Scheduled

SHARE = {"divvy.gpu/slot": "1", "divvy.gpu/milli": "300"}
REQUEST = {"divvy.gpu/request": "0.3"}
DEFAULT = "divvy.gpu/default-container"
KUBECTL = "kubectl.kubernetes.io/default-container"


def pods(namespace):
    return f"/api/v1/namespaces/{namespace}/pods"


def container(name, **resources):
    return {"name": name, "image": "none", "resources": {"limits": resources} if resources else {}}


def pod(*containers, annotations=None, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations or {}, **metadata},
        "spec": {"containers": list(containers)},
    }


def limits_of(made):
    """{container: its limits that divvy wrote}"""
    return {
        c["name"]: {k: v for k, v in c["resources"].get("limits", {}).items() if k.startswith("divvy.gpu/")}
        for c in made["spec"]["containers"]
    }


def becomes(namespace, body, want, default=None):
    """Checks the pod's containers, in order, with the limits that divvy adds; a dry run goes through all of admission."""
    made = cluster.create(pods(namespace) + "?dryRun=All", body)
    assert list(limits_of(made).items()) == list(want.items()), (limits_of(made), want)
    assert made["metadata"].get("annotations", {}).get(DEFAULT) == default, made["metadata"]
    return made


@contextlib.contextmanager
def injected(name, **how):
    """A namespace in which another webhook puts its sidecar first."""
    namespace = cluster.new_namespace(**{name: "on"})
    with injector(cluster, name, controller.address, **how):

        def works():
            return "proxy" in limits_of(
                cluster.create(pods(namespace) + "?dryRun=All", pod(container("c"), annotations={"a": "b"}))
            )

        wait_for(works, f"{name} injects")
        yield namespace


def a_sidecar_that_an_earlier_webhook_adds_gets_no_share():
    with injected("a-before") as namespace:
        becomes(namespace, pod(container("train"), annotations=REQUEST), {"proxy": {}, "train": SHARE}, "train")
        becomes(
            namespace,
            pod(container("train"), container("log"), annotations=REQUEST),
            {"proxy": {}, "train": SHARE, "log": {}},
            "train",
        )


def a_sidecar_that_a_later_webhook_adds_gets_no_share():
    """divvy's webhook runs a second time, since the pod has changed."""
    for name, how in (("z-behind", {}), ("z-again", {"reinvocation": "IfNeeded"})):
        with injected(name, **how) as namespace:
            becomes(namespace, pod(container("train"), annotations=REQUEST), {"proxy": {}, "train": SHARE}, "train")
            becomes(
                namespace,
                pod(container("train"), container("log"), annotations=REQUEST),
                {"proxy": {}, "train": SHARE, "log": {}},
                "train",
            )


def keys_by_name_stay_with_their_containers():
    for name in ("a-before", "z-behind"):
        with injected(name) as namespace:
            two = [container("log"), container("train")]
            becomes(
                namespace,
                pod(*two, annotations={"train.divvy.gpu/request": "0.3"}),
                {"proxy": {}, "log": {}, "train": SHARE},
            )
            becomes(
                namespace,
                pod(*two, annotations={**REQUEST, "divvy.gpu/container": "train,log"}),
                {"proxy": {}, "log": SHARE, "train": SHARE},
            )
            becomes(
                namespace,
                pod(*two, annotations={**REQUEST, "train.divvy.gpu/request": "0.3"}),
                {"proxy": {}, "log": SHARE, "train": SHARE},
                "log",
            )


def another_systems_resource_stays_with_its_container():
    whole = {"divvy.gpu/slot": "1", "divvy.gpu/milli": "1k"}
    for name in ("a-before", "z-behind"):
        with injected(name) as namespace:
            cluster.patch(
                f"/api/v1/namespaces/{namespace}",
                {"metadata": {"annotations": {"divvy.gpu/dialects": "nvidia,gemini"}}},
            )
            body = pod(container("log"), container("train", **{"nvidia.com/gpu": "1"}))

            def known(namespace=namespace, body=body):
                with contextlib.suppress(ApiError):
                    made = cluster.create(pods(namespace) + "?dryRun=All", body)
                    return "divvy.gpu/translated-from" in made["metadata"].get("annotations", {})
                return False

            wait_for(known, "the namespace's dialects are known")
            becomes(namespace, body, {"proxy": {}, "log": {}, "train": whole})
            gemini = {"gemini/gpu_request": "0.3", "gemini/gpu_limit": "1", "gemini/gpu_mem": "1048576"}
            becomes(
                namespace,
                pod(container("train"), annotations=gemini),
                {"proxy": {}, "train": {**SHARE, "divvy.gpu/memory-mib": "1"}},
                "train",
            )


def kubectls_default_container_gets_the_share():
    """Argo makes pods with `wait` in front of `main`."""
    body = pod(container("wait"), container("main"), annotations={**REQUEST, KUBECTL: "main"})
    becomes(cluster.namespace, body, {"wait": {}, "main": SHARE}, "main")
    with injected("a-before") as namespace:
        becomes(namespace, body, {"proxy": {}, "wait": {}, "main": SHARE}, "main")

    def names_the_user(made):
        """Adds a sidecar, and names the user's container as kubectl's default, as Istio does."""
        if any(c["name"] == SIDECAR["name"] for c in made["spec"]["containers"]):
            return []
        return [
            {"op": "add", "path": "/spec/containers/0", "value": SIDECAR},
            {"op": "add", "path": "/metadata/annotations/kubectl.kubernetes.io~1default-container", "value": "train"},
        ]

    with injected("istio", patch=names_the_user) as namespace:
        becomes(namespace, pod(container("train"), annotations=REQUEST), {"proxy": {}, "train": SHARE}, "train")


def only_divvy_may_write_the_chosen_container():
    for annotations in ({DEFAULT: "log"}, {**REQUEST, DEFAULT: "log"}):
        try:
            becomes(cluster.namespace, pod(container("train"), container("log"), annotations=annotations), {})
        except ApiError as error:
            assert "divvy writes it" in str(error), error
        else:
            raise AssertionError("not refused")
    path = pods(cluster.namespace)
    made = cluster.create(path, pod(container("train"), container("log"), annotations=REQUEST))
    try:
        cluster.patch(f"{path}/p", {"metadata": {"annotations": {DEFAULT: "log"}}})
    except ApiError as error:
        assert "leave it unchanged" in str(error), error
    else:
        raise AssertionError("not refused")
    # A later change of kubectl's default does not move the share.
    cluster.patch(f"{path}/p", {"metadata": {"annotations": {KUBECTL: "log", "divvy.gpu/limit": "0.5"}}})
    cluster.delete(f"{path}/p", grace_s=0)
    # A copy of `kubectl get`'s output is accepted as it is.
    again = pod(annotations=made["metadata"]["annotations"], labels=made["metadata"]["labels"])
    becomes(cluster.namespace, {**again, "spec": made["spec"]}, {"train": SHARE, "log": {}}, "train")


def the_scheduler_assigns_devices_to_the_chosen_container():
    with injected("a-before") as namespace, Scheduled(cluster) as rig:
        rig.start()
        rig.node("n1", "A100", **{"divvy.gpu/milli": "1000", "divvy.gpu/memory-mib": "16384"})
        cluster.create(pods(namespace), pod(container("train"), annotations={**REQUEST, "divvy.gpu/limit": "0.5"}))
        wait_for(lambda: cluster.pod("p", namespace)["spec"].get("nodeName") == "n1", "the pod is placed")
        given = cluster.pod("p", namespace)["metadata"]["annotations"]
        assert given["divvy.gpu/devices"].startswith("train="), given


NOTHING = {"divvy.gpu/milli": "0"}


def ranged(**limits):
    """A namespace with a LimitRange that LimitRanger knows already."""
    namespace = cluster.new_namespace(**{"a-before": "on", "z-behind": "on"})
    cluster.create(
        f"/api/v1/namespaces/{namespace}/limitranges",
        {"metadata": {"name": "shares"}, "spec": {"limits": [{"type": "Container", **limits}]}},
    )
    wait_for(
        lambda: "divvy.gpu/milli"
        in limits_of(cluster.create(pods(namespace) + "?dryRun=All", pod(container("c"))))["c"],
        "the range is known",
    )
    return namespace


def a_limit_range_refuses_no_shared_pod():
    """The range's max is a default for all containers; LimitRanger itself refuses a container without a limit."""
    namespace = ranged(max={"divvy.gpu/milli": "500"})
    init = [container("init")]
    for name in ("plain", "own"):
        body = pod(container("train"), container("log"), name=name)
        body["spec"]["initContainers"] = init
        made = becomes(namespace, body, {"train": NOTHING, "log": NOTHING})
        assert made["spec"]["initContainers"][0]["resources"]["requests"] == NOTHING, made["spec"]
    becomes(
        namespace,
        pod(container("train"), container("log"), annotations=REQUEST),
        {"train": {**SHARE}, "log": NOTHING},
        "train",
    )
    try:
        becomes(namespace, pod(container("train"), annotations={"divvy.gpu/request": "0.6"}), {})
    except ApiError as error:
        assert "maximum divvy.gpu/milli usage per Container is 500" in str(error), error
    else:
        raise AssertionError("the range does not hold")
    for name in ("a-before", "z-behind"):
        with injector(cluster, name, controller.address):
            wait_for(
                lambda: "proxy" in limits_of(cluster.create(pods(namespace) + "?dryRun=All", pod(container("c")))),
                f"{name} injects",
            )
            becomes(
                namespace, pod(container("train"), annotations=REQUEST), {"proxy": NOTHING, "train": SHARE}, "train"
            )


def a_default_limit_of_zero_is_accepted():
    """An administrator may write such a default, so that plain pods need nothing from divvy."""
    namespace = ranged(max={"divvy.gpu/milli": "500"}, default={"divvy.gpu/milli": "0"})
    becomes(namespace, pod(container("train")), {"train": NOTHING})
    becomes(namespace, pod(container("train"), annotations=REQUEST), {"train": SHARE})


def hooks(kind="mutating"):
    return cluster.get(f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/divvy")["webhooks"]


def keys_of_a_later_webhook_are_translated():
    """API servers call divvy's webhook again, or for the first time."""

    def asks(made):
        if any(k.startswith("divvy.gpu/") for k in made["metadata"].get("annotations", {})):
            return []
        return [{"op": "add", "path": "/metadata/annotations", "value": REQUEST}]

    with injected("z-keys", patch=lambda made: [*in_front(made), *asks(made)]) as namespace:
        becomes(namespace, pod(container("train")), {"proxy": {}, "train": SHARE}, "train")


def refused(namespace, body):
    """The message of the API server's refusal when its webhook does not answer."""
    try:
        cluster.create(pods(namespace) + "?dryRun=All", body)
    except ApiError as error:
        return error.code == 500 and "webhook" in str(error) and str(error)
    return False


@contextlib.contextmanager
def nobody_answers():
    controller.kill()
    try:
        yield
    finally:
        controller.start()


def only_pods_with_a_share_need_the_controller():
    plain, share = pod(container("c")), pod(container("c"), annotations=REQUEST)
    conditions = {h["name"]: h.get("matchConditions") for h in [*hooks(), *hooks("validating")]}
    if cluster.minor >= 28:
        assert conditions["pods.mutate.divvy.gpu"] and conditions["pods.create.divvy.gpu"], conditions
    else:
        assert not any(conditions.values()), conditions
    with nobody_answers():
        # New pods that need the webhook: without it they stay untranslated, or keep keys that only divvy may write.
        for body in (
            share,
            pod(container("c", **{"divvy.gpu/slot": "1"})),
            pod(container("c"), labels={"divvy.gpu/tenant": "true"}),
            pod(container("c"), annotations={"c.divvy.gpu/devices": "GPU-1"}),
        ):
            wait_for(lambda b=body: refused(cluster.namespace, b), "the webhook is asked")
        cluster.create(pods(SYSTEM) + "?dryRun=All", plain)
        if cluster.minor >= 28:
            for body in (plain, pod(container("c", cpu="1"), labels={"app": "x"}, annotations={"a/b": "c"})):
                cluster.create(pods(cluster.namespace) + "?dryRun=All", body)


def pods_of_a_listed_dialect_need_the_controller_too():
    if cluster.minor < 28:
        return  # without match conditions every pod needs the controller
    namespace = cluster.new_namespace()
    body = pod(container("c", **{"deepomatic.com/shared-gpu": "1"}))

    def conditions_name(key):
        """Whether they do, in all webhooks for new pods: the controller writes one object after the other."""
        found = [c for h in [*hooks(), *hooks("validating")] for c in h.get("matchConditions", [])]
        return {key in c["expression"] for c in found if c["name"] == "asks-divvy"}

    def lists(dialects, is_looked_for):
        cluster.patch(
            f"/api/v1/namespaces/{namespace}", {"metadata": {"annotations": {"divvy.gpu/dialects": dialects}}}
        )
        wait_for(lambda: conditions_name("deepomatic.com/") == {is_looked_for}, "the conditions follow the lists")

    lists("deepomatic", True)
    with nobody_answers():
        wait_for(lambda: refused(namespace, body), "a listed dialect is looked for")
    lists(None, False)
    with nobody_answers():
        wait_for(lambda: not refused(namespace, body), "a dialect that no list has is not looked for")
        cluster.create(pods(namespace) + "?dryRun=All", body)


def lead_to(space, *without):
    """Points the webhooks to this address, except the named ones, with this namespace exempt."""
    for hook in [h for h in [*hooks(), *hooks("validating")] if h["name"] not in without]:
        expressions = hook["namespaceSelector"].get("matchExpressions", [])
        names = [e["values"] for e in expressions if e["key"] == "kubernetes.io/metadata.name"]
        if hook["clientConfig"]["service"]["namespace"] != space or any(space not in n for n in names):
            return False
    return True


def the_late_hook_sees_the_same_pods():
    """An administrator's change of one webhook configuration also holds in the one that the controller adds."""
    if cluster.minor < 28:
        return  # the controller adds none on this version

    def of(name):
        return next(h for h in hooks() if h["name"] == name)

    def exclude(change):
        all_hooks = hooks()
        for hook in all_hooks:
            if hook["name"] == "pods.mutate.divvy.gpu":
                change(hook)
        cluster.patch(
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/divvy", {"webhooks": all_hooks}
        )
        wait_for(
            lambda: of("pods.mutate.late.divvy.gpu")["namespaceSelector"]
            == of("pods.mutate.divvy.gpu")["namespaceSelector"],
            "the late hook follows",
        )

    exclude(lambda hook: hook["namespaceSelector"].update(matchLabels={"a": "b"}))
    assert of("pods.mutate.late.divvy.gpu")["namespaceSelector"]["matchLabels"] == {"a": "b"}
    exclude(lambda hook: hook["namespaceSelector"].pop("matchLabels"))
    assert "matchLabels" not in of("pods.mutate.late.divvy.gpu")["namespaceSelector"]
    assert of("pods.mutate.late.divvy.gpu")["objectSelector"]["matchExpressions"], "no tenants"


def generate(*args):
    done = subprocess.run(
        [sys.executable, os.path.join(os.environ["DIVVY_SOURCE"], "deploy/generate"), *args],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def divvy_may_run_in_another_namespace():
    """... and it starts there by itself after all of it was deleted: no pod of divvy waits for divvy's webhook."""
    for name in ("", "No", "a/b", "divvy-node-lease"):
        code, text = generate("--namespace", name)
        assert code == 1 and "DNS label" in text, text
    space = "gpu-sharing"
    code, text = generate("--namespace", space)
    assert code == 0 and "divvy-system" not in text, text
    if cluster.minor < 21:
        text = text.replace("policy/v1\n", "policy/v1beta1\n")
    path = os.path.join(cluster.dir, "elsewhere.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    controller.kill()
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", path, timeout=patience(120))
    assert lead_to(space, "pods.mutate.late.divvy.gpu"), "the controller's own is in no manifest"
    plain, share = pod(container("c")), pod(container("c"), annotations=REQUEST)
    wait_for(
        lambda: refused(cluster.namespace, share), "pods with a share are refused while the webhook does not answer"
    )
    cluster.create(pods(space) + "?dryRun=All", plain)
    other = Controller(cluster, name="elsewhere", args=["--placeholder-image=none"], system=space)
    other.serve_here()
    other.start()
    try:
        becomes(cluster.namespace, share, {"c": SHARE})
        # The running controller takes over webhooks that were left behind.
        path = os.path.join(os.environ["DIVVY_SOURCE"], "deploy/base/admission.yaml")
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", path)
        wait_for(lambda: lead_to(space), "the webhooks point to the controller")
        wait_for(lambda: not refused(cluster.namespace, share), "the webhook answers")
        becomes(cluster.namespace, share, {"c": SHARE})
    finally:
        other.kill()


TESTS = [
    a_sidecar_that_an_earlier_webhook_adds_gets_no_share,
    a_sidecar_that_a_later_webhook_adds_gets_no_share,
    keys_by_name_stay_with_their_containers,
    another_systems_resource_stays_with_its_container,
    kubectls_default_container_gets_the_share,
    only_divvy_may_write_the_chosen_container,
    the_scheduler_assigns_devices_to_the_chosen_container,
    a_limit_range_refuses_no_shared_pod,
    a_default_limit_of_zero_is_accepted,
    keys_of_a_later_webhook_are_translated,
    only_pods_with_a_share_need_the_controller,
    pods_of_a_listed_dialect_need_the_controller_too,
    the_late_hook_sees_the_same_pods,
    divvy_may_run_in_another_namespace,
]

try:
    with open_cluster("kcm") as cluster, installed(cluster, args=["--placeholder-image=none"]) as controller:
        main(*TESTS)
except Skip as reason:
    skip_all(reason)
