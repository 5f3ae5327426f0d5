# SPDX-License-Identifier: Apache-2.0
"""Results of a bench on a cluster, with the options and lines of bench/bench.h."""

import argparse
import json


class Results:
    """Parses the options, then shows each number and appends it to --out at once."""

    def __init__(self, *sizes):
        """sizes: (option, value in a full run, in a quick one)"""
        parser = argparse.ArgumentParser()
        parser.add_argument("--out")
        parser.add_argument("--only", default="", help="numbers that have this in their name")
        parser.add_argument("--quick", action="store_true")
        for option, _, _ in sizes:
            parser.add_argument(option, type=int)
        self.args, _ = parser.parse_known_args()  # others are for interception
        for option, full, quick in sizes:
            name = option.strip("-").replace("-", "_")
            if getattr(self.args, name) is None:
                setattr(self.args, name, quick if self.args.quick else full)

    def wants(self, *metrics):
        return any(self.args.only in metric for metric in metrics)

    def add(self, metric, value, goal, n, detail):
        """goal: "<= 2", ">= 2" or "" for none"""
        row = {"metric": metric, "value": round(value, 3), "unit": ""}
        if goal:
            sense, bound = goal.split()
            row |= {"goal": goal, "holds": value <= float(bound) if sense == "<=" else value >= float(bound)}
        row |= {"n": n, "simulated": True, "detail": detail}
        if self.args.quick:
            row["quick"] = True
        line = json.dumps(row)
        print(line, flush=True)
        if self.args.out:
            with open(self.args.out, "a", encoding="utf-8") as f:
                f.write(line + "\n")
