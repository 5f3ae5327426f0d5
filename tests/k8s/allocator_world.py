# SPDX-License-Identifier: Apache-2.0
"""Random devices, claims and CEL expressions for test-allocator.py. The same seed gives the same questions."""

import random

DRIVERS = ["gpu.example.com", "nic.example.com"]
CLASSES = ["any", "gpu", "big", "shared"]
MODELS = ["A100", "H200", "T4"]
NODES = ["n1", "n2", "n3"]
ZONES = ["z1", "z2"]
WORDS = ["", "a", "Abc", "abcabc", "x.y.z", " b ", "ä€😀", "12", "true", "0", "H200-SXM"]
VERSIONS = ["1.2.3", "1.2.3-rc.1", "1.2.3-rc.2", "0.0.1", "12.0.0+b.7", "1.10.0", "1.2.3-alpha.beta"]
LOOSE = [*VERSIONS, "v1", "1.2", "01.02.03", "1.2.3.4", "1.2-rc", "x", ""]
QUANTITIES = ["1", "0", "10Gi", "500m", "1.5", "2k", "-3", "1e3", "1E", "4Ti", "100n", "1024Mi"]
NO_QUANTITIES = ["", "x", "1Q", "1 Gi", "--1", "1e", "1.2.3"]
REGEXES = [
    "^a",
    "b+c?",
    "[A-C]bc",
    "a{2,3}",
    "(ab|x).*",
    "\\\\d+",
    "[^a]",
    "z$",
    "(?i)ABC",
    ".",
    "^$",
    "a*?b",
    "(?:abc){2}",
]


class Expressions:
    """Random expressions of a type; most are valid, and many fail at evaluation."""

    def __init__(self, rng):
        self.rng = rng
        self.variables = []  # (name, kind) of macros around the current place

    def pick(self, *makers):
        return self.rng.choice(makers)()

    def text(self, value):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def make(self, kind, depth):
        return getattr(self, kind + "_value")(depth)

    def attribute(self, name):
        domain = self.rng.choice([*DRIVERS[:1], *DRIVERS[:1], "example.org", "missing.org"])
        return f"device.attributes['{domain}'].{name}"

    def variable(self, kind):
        names = [name for name, one in self.variables if one == kind]
        return self.rng.choice(names) if names else None

    def int_value(self, depth):
        r = self.rng
        known = self.variable("int")
        leaves = [
            lambda: str(r.choice([0, 1, 2, 3, 7, -1, -5, 9223372036854775807, -9223372036854775808])),
            lambda: "0x1f",
        ]
        leaves += [lambda: self.attribute("count")] * 2 + ([lambda: known] * 3 if known else [])
        if depth <= 0:
            return self.pick(*leaves)
        return self.pick(
            *leaves,
            lambda: f"({self.make('int', depth - 1)} {r.choice('+-*/%')} {self.make('int', depth - 1)})",
            lambda: f"size({self.make(r.choice(['string', 'list', 'strings']), depth - 1)})",
            lambda: f"{self.make('string', depth - 1)}.size()",
            lambda: f"{self.make('string', depth - 1)}.indexOf({self.make('string', depth - 1)})",
            lambda: f"{self.make('string', depth - 1)}.lastIndexOf({self.make('string', depth - 1)})",
            lambda: f"{self.make('string', depth - 1)}.indexOf({self.make('string', depth - 1)}, {r.randrange(-1, 4)})",
            lambda: f"int({self.make(r.choice(['string', 'double', 'uint']), depth - 1)})",
            lambda: f"{self.make('quantity', depth - 1)}.compareTo({self.make('quantity', depth - 1)})",
            lambda: f"{self.make('quantity', depth - 1)}.sign()",
            lambda: f"{self.make('quantity', 0)}.asInteger()",
            lambda: f"{self.make('semver', depth - 1)}.{r.choice(['major', 'minor', 'patch'])}()",
            lambda: f"{self.make('semver', depth - 1)}.compareTo({self.make('semver', depth - 1)})",
            lambda: f"{self.make('list', depth - 1)}[{r.randrange(-1, 3)}]",
            lambda: f"-({self.make('int', depth - 1)})",
            lambda: f"({self.make('bool', depth - 1)} ? {self.make('int', depth - 1)} : {self.make('int', depth - 1)})",
        )

    def uint_value(self, depth):
        return self.pick(lambda: f"{self.rng.randrange(5)}u", lambda: f"uint({self.make('int', depth - 1)})")

    def double_value(self, depth):
        r = self.rng
        return self.pick(
            lambda: r.choice(["0.0", "1.5", "-2.25", "1e3", "3.0"]),
            lambda: f"double({self.make('int', depth - 1)})",
            lambda: f"({r.choice(['0.5', '2.0'])} {r.choice('+-*/')} {self.make('double', depth - 1) if depth > 0 else '0.0'})",
        )

    def string_value(self, depth):
        r = self.rng
        known = self.variable("string")
        leaves = [lambda: self.text(r.choice(WORDS)), lambda: "device.driver"]
        leaves += [lambda: self.attribute("model")] * 2 + ([lambda: known] * 3 if known else [])
        if depth <= 0:
            return self.pick(*leaves)
        s = lambda: self.make("string", depth - 1)  # noqa: E731
        return self.pick(
            *leaves,
            lambda: f"({s()} + {s()})",
            lambda: f"{s()}.{r.choice(['lowerAscii', 'upperAscii', 'trim'])}()",
            lambda: f"{s()}.substring({r.randrange(-1, 4)})",
            lambda: f"{s()}.substring({r.randrange(3)}, {r.randrange(5)})",
            lambda: f"{s()}.charAt({r.randrange(-1, 4)})",
            lambda: f"{s()}.replace({s()}, {s()})",
            lambda: f"{s()}.replace({s()}, {s()}, {r.randrange(-1, 3)})",
            lambda: f"{self.make('strings', depth - 1)}.join()",
            lambda: f"{self.make('strings', depth - 1)}.join({s()})",
            lambda: f"string({self.make(r.choice(['int', 'bool', 'uint']), depth - 1)})",
            lambda: f"{self.make('strings', depth - 1)}[{r.randrange(3)}]",
        )

    def strings_value(self, depth):
        r = self.rng
        return self.pick(
            lambda: "[" + ", ".join(self.make("string", depth - 1) for _ in range(r.randrange(1, 4))) + "]",
            lambda: f"{self.make('string', depth - 1)}.split({self.text(r.choice(['', '.', 'a', 'bc']))})",
            lambda: f"{self.make('string', depth - 1)}.split('.', {r.randrange(-1, 3)})",
        )

    def list_value(self, depth):
        r = self.rng
        plain = (
            lambda: "[" + ", ".join(self.make("int", depth - 1) for _ in range(r.randrange(1, 4))) + "]"
        )  # noqa: E731
        if depth <= 0:
            return plain()
        return self.pick(
            plain,
            plain,
            lambda: f"({plain()} + {plain()})",
            lambda: f"{plain()}.filter({self.within('int', 'bool', depth)})",
            lambda: f"{plain()}.map({self.within('int', 'int', depth)})",
        )

    def within(self, item, result, depth):
        """The arguments of a macro: its variable and an expression that may use the variable."""
        name = f"v{len(self.variables)}"
        self.variables.append((name, item))
        inner = self.make(result, depth - 1)
        self.variables.pop()
        return f"{name}, {inner}"

    def quantity_value(self, depth):
        r = self.rng
        leaves = [
            lambda: f"quantity('{r.choice([*QUANTITIES, *QUANTITIES, *NO_QUANTITIES])}')",
            lambda: f"device.capacity['{r.choice([DRIVERS[0], 'missing.org'])}'].{r.choice(['memory', 'memory', 'slots'])}",
        ]
        if depth <= 0:
            return self.pick(*leaves)
        return self.pick(
            *leaves, lambda: f"{self.make('quantity', 0)}.{r.choice(['add', 'sub'])}({self.make('quantity', 0)})"
        )

    def semver_value(self, depth):
        r = self.rng
        return self.pick(
            lambda: f"semver('{r.choice(LOOSE)}')",
            lambda: f"semver('{r.choice(LOOSE)}', {r.choice(['true', 'false'])})",
            lambda: f"semver('{r.choice(VERSIONS)}')",
            lambda: self.attribute("version"),
        )

    def comparison(self, depth):
        kind = self.rng.choice(["int", "string", "double", "bool"])
        sign = self.rng.choice(["==", "!=", "<", "<=", ">", ">="])
        other = "double" if kind == "int" and self.rng.random() < 0.2 else kind
        left, right = self.make(kind, depth - 1), self.make(other, depth - 1)
        if other != kind and sign in ("==", "!="):
            left = f"dyn({left})"
        return f"({left} {sign} {right})"

    def bool_value(self, depth):
        r = self.rng
        leaves = [
            lambda: r.choice(["true", "false"]),
            lambda: self.attribute("fast"),
            lambda: "device.allowMultipleAllocations",
            lambda: f"has({self.attribute(r.choice(['count', 'model', 'nothing']))})",
            lambda: f"'{r.choice(['model', 'nothing'])}' in device.attributes['{DRIVERS[0]}']",
            lambda: f"'{r.choice([DRIVERS[0], 'missing.org'])}' in device.{r.choice(['attributes', 'capacity'])}",
            lambda: f"has(device.attributes.{r.choice(['foo', 'bar'])})",
        ]
        if depth <= 0:
            return self.pick(*leaves)
        d = depth - 1
        s = lambda: self.make("string", d)  # noqa: E731
        return self.pick(
            *leaves,
            lambda: f"({self.make('bool', d)} && {self.make('bool', d)})",
            lambda: f"({self.make('bool', d)} || {self.make('bool', d)})",
            lambda: f"!({self.make('bool', d)})",
            *[lambda: self.comparison(depth)] * 6,
            lambda: f"({self.attribute('model')} == {self.attribute('count')})",
            lambda: f"({self.attribute('model')} < {self.attribute('count')})",
            lambda: f"{s()}.{r.choice(['contains', 'startsWith', 'endsWith'])}({s()})",
            lambda: f"{s()}.matches('{r.choice(REGEXES)}')",
            lambda: f"{self.make('quantity', d)}.{r.choice(['isLessThan', 'isGreaterThan'])}({self.make('quantity', d)})",
            lambda: f"{self.make('quantity', 0)}.isInteger()",
            lambda: f"isQuantity({s()})",
            lambda: f"isQuantity('{r.choice([*QUANTITIES, *NO_QUANTITIES])}')",
            lambda: f"isSemver('{r.choice(LOOSE)}')",
            lambda: f"isSemver('{r.choice(LOOSE)}', true)",
            lambda: f"{self.make('semver', d)}.{r.choice(['isLessThan', 'isGreaterThan'])}({self.make('semver', d)})",
            lambda: f"({self.make('semver', d)} == {self.make('semver', d)})",
            lambda: f"({self.make('quantity', 0)} == {self.make('quantity', 0)})",
            lambda: f"{self.make('list', d)}.{r.choice(['all', 'exists', 'exists_one'])}({self.within('int', 'bool', depth)})",
            lambda: f"{self.make('strings', d)}.{r.choice(['all', 'exists'])}({self.within('string', 'bool', depth)})",
            lambda: f"device.attributes['{DRIVERS[0]}'].exists({self.within('string', 'bool', depth)})",
            lambda: f"({self.make('int', d)} in {self.make('list', d)})",
            lambda: f"({s()} in {self.make('strings', d)})",
            lambda: f"(['a', device.driver] == {self.make('strings', d)})",
            lambda: f"({{'a': 1, 'b': {self.make('int', d)}}}['{r.choice('abc')}'] == {self.make('int', d)})",
            lambda: f"sets.{r.choice(['contains', 'intersects', 'equivalent'])}({self.make('list', d)}, {self.make('list', d)})",
            lambda: f"({self.make('bool', d)} ? {self.make('bool', d)} : {self.make('bool', d)})",
            lambda: self.binding(depth),
            lambda: f"bool({self.text(r.choice(['true', 'F', 'x']))})",
        )

    def binding(self, depth):
        kind = self.rng.choice(["int", "string"])
        name = f"v{len(self.variables)}"
        value = self.make(kind, depth - 1)
        self.variables.append((name, kind))
        inner = self.make("bool", depth - 1)
        self.variables.pop()
        return f"cel.bind({name}, {value}, {inner})"


def expression_question(rng):
    attributes = {
        "model": {"string": rng.choice([*MODELS, *WORDS])},
        "count": {"int": rng.choice([0, 1, 2, 8])},
        "fast": {"bool": rng.random() < 0.5},
        "version": {"version": rng.choice(VERSIONS)},
        "example.org/model": {"string": rng.choice(WORDS)},
        "example.org/count": {"int": rng.randrange(5)},
    }
    device = {
        "name": "d",
        "attributes": {k: v for k, v in attributes.items() if rng.random() < 0.9},
        "capacity": {"memory": {"value": rng.choice(["10Gi", "1", "1536Mi"])}, "slots": {"value": "7"}},
    }
    if rng.random() < 0.3:
        device["allowMultipleAllocations"] = rng.random() < 0.5
    expression = Expressions(rng).make("bool", rng.randrange(1, 4))
    return {"driver": DRIVERS[0], "device": device, "expression": expression}


class World:
    """A node, pools of devices, claims that have devices, and claims that want some."""

    def __init__(self, rng):
        self.rng = rng
        self.node = {"metadata": {"name": "n1", "labels": {"zone": rng.choice(ZONES), "disk": "ssd"}}}
        self.slices, self.devices = [], []

    def often(self, chance):
        return self.rng.random() < chance

    # ---- devices ----

    def policy(self):
        r = self.rng
        if self.often(0.4):
            return {"default": "2", "validRange": {"min": "1", "step": r.choice(["1", "2", "500m"]), "max": "8"}}
        if self.often(0.4):
            return {"default": "1", "validValues": ["1", "2", "4"]}
        return {"default": "1Gi", "validRange": {"min": "1Gi"}}

    def capacity(self, is_shared):
        memory = {"value": self.rng.choice(["4Gi", "8Gi", "16Gi"])}
        share = {"value": self.rng.choice(["4", "8", "1k"])}
        if is_shared and self.often(0.7):
            share["requestPolicy"] = self.policy()
        if is_shared and self.often(0.5):
            memory["requestPolicy"] = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "512Mi"}}
        return {k: v for k, v in (("memory", memory), ("share", share)) if self.often(0.8)}

    def device(self, name, counters):
        r = self.rng
        is_shared = self.often(0.35)
        attributes = {
            "model": {"string": r.choice(MODELS)},
            "numa": {"int": r.randrange(2)},
            "fast": {"bool": self.often(0.5)},
            "example.org/group": {"string": r.choice("ab")},
            "driverVersion": {"version": r.choice(VERSIONS[:3])},
        }
        device = {"name": name, "attributes": {k: v for k, v in attributes.items() if self.often(0.85)}}
        capacity = self.capacity(is_shared)
        if capacity:
            device["capacity"] = capacity
        if is_shared:
            device["allowMultipleAllocations"] = True
        if counters and self.often(0.8):
            used = {c: {"value": str(r.randrange(1, 4))} for c in ("units", "memory") if self.often(0.7)}
            if used:
                device["consumesCounters"] = [{"counterSet": r.choice(counters), "counters": used}]
        if self.often(0.15):
            device["taints"] = [self.taint()]
        if self.often(0.05):
            device["bindsToNode"] = True
        return device

    def taint(self):
        r = self.rng
        return {
            "key": r.choice(["k", "l"]),
            "value": r.choice(["", "v"]),
            "effect": r.choice(["NoSchedule", "NoExecute", "None"]),
        }

    def selector(self, key="zone"):
        return {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": "In", "values": [self.rng.choice(ZONES)]}]}
            ]
        }

    def place(self, target):
        kind = self.rng.choice(["node", "node", "node", "other", "all", "selector"])
        if kind == "node":
            target["nodeName"] = "n1"
        elif kind == "other":
            target["nodeName"] = "n2"
        elif kind == "all":
            target["allNodes"] = True
        else:
            target["nodeSelector"] = self.selector()

    def pool(self, number):
        r = self.rng
        driver = r.choice(DRIVERS)
        name = f"pool-{number}"
        generation = r.randrange(1, 3)
        counters = ["c1", "c2"][: r.randrange(1, 3)] if self.often(0.35) else []
        slices = []
        if counters:
            sets = [
                {"name": c, "counters": {n: {"value": str(r.randrange(2, 7))} for n in ("units", "memory")}}
                for c in counters
            ]
            slices.append({"sharedCounters": sets})
        for _ in range(r.randrange(1, 4)):
            slices.append({"devices": []})
        where = {}
        self.place(where)
        total = 0
        for spec in slices:
            is_per_device = self.often(0.2)
            if is_per_device:
                spec["perDeviceNodeSelection"] = True
            else:
                if self.often(0.25):
                    self.place(spec)
                else:
                    spec.update(where)
            for _ in range(r.randrange(1, 4) if "devices" in spec else 0):
                device_name = f"d{total}" if self.often(0.99) else "d0"
                device = self.device(device_name, counters)
                total += 1
                if is_per_device:
                    self.place(device)
                spec["devices"].append(device)
                self.devices.append((driver, name, device))
        count = len(slices) if self.often(0.93) else len(slices) + 1
        for i, spec in enumerate(slices):
            old = generation - 1 if self.often(0.04) else generation
            spec.update({"driver": driver, "pool": {"name": name, "generation": old, "resourceSliceCount": count}})
            self.slices.append({"metadata": {"name": f"{name}-{r.randrange(10)}-{i}"}, "spec": spec})

    # ---- claims ----

    def expression(self):
        r = self.rng
        g = f"device.attributes['{r.choice(DRIVERS)}']"
        return r.choice(
            [
                f"device.driver == '{r.choice(DRIVERS)}'",
                f"has({g}.model) && {g}.model == '{r.choice(MODELS)}'",
                f"{g}.model == '{r.choice(MODELS)}'",
                f"has({g}.numa) && {g}.numa < 1",
                "has(device.attributes['example.org'].group) && device.attributes['example.org'].group in ['a', 'b']",
                f"has(device.capacity['{DRIVERS[0]}'].memory) && device.capacity['{DRIVERS[0]}'].memory.compareTo(quantity('8Gi')) >= 0",
                "device.allowMultipleAllocations",
                f"!has({g}.driverVersion) || {g}.driverVersion.isGreaterThan(semver('1.2.3-rc.1'))",
                "true",
            ]
        )

    def selectors(self, chance):
        return [{"cel": {"expression": self.expression()}}] if self.often(chance) else []

    def classes(self):
        expressions = {
            "any": "true",
            "gpu": f"device.driver == '{DRIVERS[0]}'",
            "big": f"has(device.capacity['{DRIVERS[0]}'].memory)",
            "shared": "device.allowMultipleAllocations",
        }
        classes = []
        for name, expression in expressions.items():
            spec = {"selectors": [{"cel": {"expression": expression}}]}
            if self.often(0.4):
                spec["config"] = [{"opaque": {"driver": DRIVERS[0], "parameters": {"class": name}}}]
            classes.append({"metadata": {"name": name}, "spec": spec})
        return classes

    def exact(self):
        r = self.rng
        request = {"deviceClassName": r.choice([*CLASSES, "any", "any"]), "allocationMode": "ExactCount"}
        selectors = self.selectors(0.5)
        if selectors:
            request["selectors"] = selectors
        if self.often(0.12):
            request["allocationMode"] = "All"
        else:
            request["count"] = r.choice([1, 1, 1, 2, 3])
        if self.often(0.25):
            request["capacity"] = {"requests": self.amounts()}
        if self.often(0.2):
            request["tolerations"] = [
                r.choice(
                    [{"operator": "Exists"}, {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]
                )
            ]
        return request

    def amounts(self):
        r = self.rng
        amounts = {
            "memory": r.choice(["1Gi", "3Gi", "1500Mi", "9Gi"]),
            "share": r.choice(["1", "3", "2500m", "7", "100"]),
        }
        return {k: v for k, v in amounts.items() if self.often(0.6)} or {"share": "1"}

    def request(self, name):
        if self.often(0.2):
            subs = [{"name": f"s{i}", **self.exact()} for i in range(self.rng.randrange(1, 4))]
            return {"name": name, "firstAvailable": subs}
        request = {"name": name, "exactly": self.exact()}
        if self.often(0.06):
            request["exactly"]["adminAccess"] = True
        return request

    def constraint(self, requests):
        r = self.rng
        attribute = r.choice(
            [f"{r.choice(DRIVERS)}/model", f"{DRIVERS[0]}/numa", "example.org/group", f"{DRIVERS[0]}/driverVersion"]
        )
        constraint = {r.choice(["matchAttribute", "matchAttribute", "distinctAttribute"]): attribute}
        if self.often(0.4):
            named = r.choice(requests)
            sub = named.get("firstAvailable")
            constraint["requests"] = [f"{named['name']}/{sub[0]['name']}" if sub and self.often(0.5) else named["name"]]
        return constraint

    def claim(self, name):
        requests = [self.request(f"r{i}") for i in range(self.rng.choice([1, 1, 2, 3]))]
        devices = {"requests": requests}
        if self.often(0.3):
            devices["constraints"] = [self.constraint(requests) for _ in range(self.rng.randrange(1, 3))]
        if self.often(0.3):
            config = {"opaque": {"driver": DRIVERS[0], "parameters": {"x": 1}}}
            if self.often(0.5):
                config["requests"] = [self.rng.choice(requests)["name"]]
            devices["config"] = [config]
        return {"metadata": {"name": name, "namespace": "default", "uid": "uid-" + name}, "spec": {"devices": devices}}

    def allocated(self):
        """Claims that have some of the devices, whole or a share."""
        results = []
        for driver, pool, device in self.devices:
            shares = self.rng.randrange(3) if device.get("allowMultipleAllocations") else 0
            whole = self.often(0.15) and not shares
            for i in range(shares if self.often(0.5) else 0):
                result = {"request": "r", "driver": driver, "pool": pool, "device": device["name"]}
                result["shareID"] = f"00000000-0000-4000-8000-{i:012d}"
                if device.get("capacity"):
                    result["consumedCapacity"] = {
                        k: self.rng.choice(["1Gi", "512Mi"] if k == "memory" else ["1", "2"])
                        for k in device["capacity"]
                    }
                results.append(result)
            if whole:
                results.append({"request": "r", "driver": driver, "pool": pool, "device": device["name"]})
        return [
            {
                "metadata": {"name": f"old-{i}", "namespace": "default", "uid": f"old-{i}"},
                "spec": {"devices": {"requests": []}},
                "status": {"allocation": {"devices": {"results": [result]}}},
            }
            for i, result in enumerate(results)
        ]

    def question(self):
        for number in range(self.rng.randrange(1, 4)):
            self.pool(number)
        claims = [self.claim(f"claim-{i}") for i in range(self.rng.choice([1, 1, 1, 2, 3]))]
        return {
            "node": self.node,
            "slices": self.slices,
            "classes": self.classes(),
            "allocated": self.allocated(),
            "claims": claims,
        }


def allocation_question(rng):
    return World(rng).question()


def questions(seed, expressions, worlds):
    rng = random.Random(seed)
    return [expression_question(rng) for _ in range(expressions)] + [allocation_question(rng) for _ in range(worlds)]
