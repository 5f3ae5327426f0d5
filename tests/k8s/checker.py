# SPDX-License-Identifier: Apache-2.0
"""Checks from outside whether divvy kept its promises. It replays the events of an API server's watches and divvyd's log of its
grants (--grant-log), without any code of divvy.

    history: [(seconds, "ADDED" | "MODIFIED" | "DELETED", object)], in the server's order for each kind
    grants:  [line of the grant log as an object], in the file's order
    problems(history, grants, devices, away=[(from, until)]) -> [sentence]; away: times without an API server

These must never occur:
- a device promised, by assigned keys or by its daemon, beyond 1 of its time or beyond its memory, or to other tenants
  beside an exclusive one;
- a grant that a daemon's restart has lost, or that exists twice;
- a group with some members bound and the threshold missed for longer than GANG_S of time with an API server, or with a
  container that started before the threshold was bound;
- a SharePod with two pods, or in the end with none;
- a pod labelled chaos=steady that restarted, failed or was evicted."""

import collections
import re

GIB = 1 << 30
GANG_S = 60
WHOLE = 1000
OVER = ("Succeeded", "Failed")
UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
}


def quantity(text):
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text).groups()
    return round(float(number) * UNITS[unit])


def milli(text):
    return round(float(text) * WHOLE)


def key_of(pod, name):
    return (pod["metadata"].get("annotations") or {}).get("divvy.gpu/" + name)


def by_container(text):
    """Parses 'a=x b=y' to {a: x, b: y}."""
    return dict(word.split("=", 1) for word in (text or "").split())


def name_of(obj):
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


class Books:
    """The owners of each device's parts."""

    def __init__(self, devices, whose):
        self.devices, self.whose = devices, whose
        self.has = {}  # owner: [(device, milli, bytes, is exclusive)]

    def give(self, who, parts):
        self.has[who] = parts
        return [problem for device in {p[0] for p in parts} for problem in self.check(device)]

    def take(self, who):
        return self.has.pop(who, None) is not None

    def check(self, device):
        all_parts = [(who, part) for who, parts in self.has.items() for part in parts if part[0] == device]
        share, memory = (sum(part[i] for _, part in all_parts) for i in (1, 2))
        named = ", ".join(sorted("/".join(map(str, who)) for who, _ in all_parts))
        if device not in self.devices:
            yield f"{self.whose}: there is no device {device}, which {named} got"
            return
        if share > WHOLE:
            yield f"{self.whose}: {device} is given {share}/1000: {named}"
        if memory > self.devices[device]:
            yield f"{self.whose}: {device} has {self.devices[device]} bytes and {memory} are given: {named}"
        if len(all_parts) > 1 and any(part[3] for _, part in all_parts):
            yield f"{self.whose}: {device} is somebody's alone, and several have it: {named}"


def given_parts(pod):
    """[(device, milli, bytes, is exclusive)] of all containers of the pod."""
    shares, memories = (by_container(key_of(pod, f"granted-{k}")) for k in ("request", "memory"))
    modes, classes = (by_container(key_of(pod, f"granted-{k}")) for k in ("mode", "class"))
    parts = []
    for container, devices in by_container(key_of(pod, "devices")).items():
        # An opportunistic container has no guaranteed share.
        share = 0 if classes.get(container) == "opportunistic" else min(milli(shares[container]), WHOLE)
        for device, memory in zip(devices.split(","), memories[container].split(",")):
            parts.append((device, share, quantity(memory), modes.get(container) == "exclusive"))
    return parts


def is_bound(pod):
    return bool(pod["spec"].get("nodeName"))


def is_over(pod):
    return pod.get("status", {}).get("phase") in OVER


def has_started(pod):
    return any(
        set(s.get("state") or {}) & {"running", "terminated"}
        for s in pod.get("status", {}).get("containerStatuses") or []
    )


class Gang:
    def __init__(self):
        self.least = 0
        self.bound = set()  # uids, ever
        self.here = set()  # those that are not deleted
        self.since = None  # since when members are bound, but too few

    def see(self, at, what, pod):
        uid = pod["metadata"]["uid"]
        size, threshold = int(key_of(pod, "group-size") or 1), float(key_of(pod, "group-threshold") or 1)
        self.least = max(self.least, -(-round(size * threshold * WHOLE) // WHOLE))
        if what == "DELETED" or is_over(pod):
            self.here.discard(uid)
        elif is_bound(pod):
            self.bound.add(uid)
            self.here.add(uid)
            self.since = self.since or at

    def is_half(self):
        return self.here and len(self.bound) < self.least


class Pods:
    """The pods' history."""

    def __init__(self, devices, away):
        self.books = Books(devices, "given keys")
        self.away = away
        self.gangs = collections.defaultdict(Gang)
        self.there = {}  # uid: pod
        self.said = set()

    def once(self, text):
        if text in self.said:
            return []
        self.said.add(text)
        return [text]

    def see(self, at, what, pod):
        uid = pod["metadata"]["uid"]
        if what == "DELETED":
            self.there.pop(uid, None)
        else:
            self.there[uid] = pod
        if what == "DELETED" or is_over(pod):
            self.books.take((name_of(pod), uid))
        elif is_bound(pod) and key_of(pod, "devices"):
            yield from self.books.give((name_of(pod), uid), given_parts(pod))
        yield from self.see_gang(at, what, pod)
        yield from self.see_owner(pod)
        yield from self.see_steady(what, pod)

    def see_gang(self, at, what, pod):
        group = key_of(pod, "group")
        if not group:
            return
        name = f"{pod['metadata'].get('namespace', '')}/{group}"
        gang = self.gangs[name]
        gang.see(at, what, pod)
        if gang.is_half() and has_started(pod):
            yield from self.once(
                f"group {name}: {name_of(pod)} has started while {len(gang.bound)} of {gang.least} are bound"
            )

    def lasted(self, since, at):
        """Seconds since then in which there was an API server."""
        return at - since - sum(max(0, min(at, until) - max(since, begin)) for begin, until in self.away)

    def see_time(self, at):
        for name, gang in self.gangs.items():
            if not gang.is_half():
                gang.since = None
            elif self.lasted(gang.since, at) > GANG_S:
                yield from self.once(
                    f"group {name}: half placed for more than {GANG_S} s: "
                    f"{len(gang.bound)} of {gang.least} are bound"
                )

    def of_owner(self, uid):
        return [
            p
            for p in self.there.values()
            if not is_over(p)
            and not p["metadata"].get("deletionTimestamp")
            and any(o["uid"] == uid for o in p["metadata"].get("ownerReferences") or [])
        ]

    def see_owner(self, pod):
        for owner in pod["metadata"].get("ownerReferences") or []:
            mine = self.of_owner(owner["uid"])
            if owner["kind"] == "SharePod" and len(mine) > 1:
                yield from self.once(
                    f"SharePod {pod['metadata'].get('namespace', '')}/{owner['name']} has {len(mine)} pods: "
                    + ", ".join(sorted(name_of(p) for p in mine))
                )

    def see_steady(self, what, pod):
        if (pod["metadata"].get("labels") or {}).get("chaos") != "steady":
            return
        restarts = sum(s["restartCount"] for s in pod.get("status", {}).get("containerStatuses") or [])
        if what == "DELETED" or is_over(pod) or restarts or pod["metadata"].get("deletionTimestamp"):
            yield from self.once(
                f"pod {name_of(pod)} was to run on: {what}, {pod['status'].get('phase')}, {restarts} restarts"
            )


def history_problems(history, devices, now=None, away=()):
    """now: the time of the last observation, at the end."""
    pods, share_pods = Pods(devices, away), {}
    for at, what, obj in history:
        yield from pods.see_time(at)
        if obj["kind"] == "Pod":
            yield from pods.see(at, what, obj)
        elif obj["kind"] == "SharePod":
            share_pods[obj["metadata"]["uid"]] = obj
            if what == "DELETED":
                del share_pods[obj["metadata"]["uid"]]
    if now is not None:
        yield from pods.see_time(now)
    for uid, obj in share_pods.items():
        over = obj.get("status", {}).get("phase") in (*OVER, "Refused")
        if not over and not obj["metadata"].get("deletionTimestamp") and not pods.of_owner(uid):
            yield f"SharePod {name_of(obj)} has no pod in the end"


def grant_parts(line):
    exclusive = line["mode"] == "exclusive"
    return [
        (d, WHOLE if exclusive else line["request"], m, exclusive) for d, m in zip(line["devices"], line["memoryBytes"])
    ]


def lost_grants(books, before, kept):
    for who in before - kept:
        books.take(who)
        yield f"divvyd: {'/'.join(who)} is lost by a restart"


def grant_problems(grants, devices):
    books, daemon, slots = Books(devices, "divvyd"), None, {}
    before, kept = set(), None  # while a daemon lists the grants that it kept
    for line in grants:
        who = (f"{line['namespace']}/{line['pod']}", line["podUID"], line["container"])
        if line["daemon"] != daemon:  # a restarted daemon first lists the grants that it kept
            daemon, kept, before = line["daemon"], set(), set(books.has)
        if line["what"] == "kept":
            kept.add(who)
        elif kept is not None:
            yield from lost_grants(books, before, kept)
            kept = None
        if line["what"] == "granted" and who in books.has:
            yield f"divvyd: {'/'.join(who)} is granted twice, in slots {slots[who]} and {line['slot']}"
        if line["what"] == "ended":
            if not books.take(who):
                yield f"divvyd: {'/'.join(who)} has ended and had nothing"
            continue
        slots[who] = line["slot"]
        yield from books.give(who, grant_parts(line))
    if kept is not None:
        yield from lost_grants(books, before, kept)


def problems(history, grants, devices, now=None, away=()):
    """devices: {uuid: bytes}"""
    return [*history_problems(history, devices, now, away), *grant_problems(grants, devices)]
