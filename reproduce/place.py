# SPDX-License-Identifier: Apache-2.0
"""Runs `divvy sim`: the placement engine in virtual time, the same on every machine."""

import json
import os
import subprocess
import tempfile


class Place:
    """seeds: the number of runs of each policy. All policies of one call get the same tasks."""

    def __init__(self, divvy, seeds):
        self.divvy = divvy
        self.seeds = seeds

    def run(self, policies, *options, seeds=None):
        """{policy: [figures of a run, ...]}, one run for each seed."""
        command = [
            str(self.divvy),
            "sim",
            *options,
            "--policy",
            ",".join(policies),
            "--json",
            "-",
            "--seeds",
            str(seeds or self.seeds),
        ]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        answer = json.loads(done.stdout)
        assert answer["simulated"]
        return {p["policy"]: p["runs"] for p in answer["policies"]}

    def one(self, policy, spec, *options):
        """The figures of one run of that YAML text."""
        with tempfile.TemporaryDirectory(prefix="divvy-reproduce-") as folder:
            path = os.path.join(folder, "spec.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(spec)
            return self.run([policy], "--spec", path, *options, seeds=1)[policy][0]


def figure(runs, name):
    return [run[name] for run in runs]


def shown(policy):
    """The name of the policy in pictures."""
    return {"default": "divvy", "whole": "whole devices"}.get(policy, policy)
