# SPDX-License-Identifier: Apache-2.0
"""Means with intervals, and what they say against the rules of goals.yaml. Pure."""

import math
import pathlib
from typing import NamedTuple

import yaml

GOALS = pathlib.Path(__file__).parent / "goals.yaml"
FIRST_GOALS = GOALS.with_name("goals-first.yaml")

SHORT = "falls short"
NOT_REPRODUCED = "baseline not reproduced"
HOLDS = "holds"
BETTER = "better"
UNDER_MODEL = "holds under this model"
NOT_COMPARABLE = "not comparable because simulated"
NOT_RUN = "not run yet"
BY_CONSTRUCTION = "true by construction"
NOT_TESTED = "not tested"
NO_CLAIM = "no claim"
NO_GOAL = "no further goal"
DISAGREES = "**does not agree: worse**"
ORDER = (SHORT, NOT_REPRODUCED, HOLDS, BETTER)  # a verdict on several bounds is the worst of them
NOT_COUNTED = (NOT_COMPARABLE, NOT_RUN, BY_CONSTRUCTION)

# Student's t for a two-sided 95 % interval, by degrees of freedom. Beyond the table, estimate() uses
# 1.960, the value of the normal distribution.
T95 = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
)


class Estimate(NamedTuple):
    """A mean, half the width of its 95 % interval, and of how many values."""

    mean: float
    half: float
    n: int

    def __str__(self):
        return f"{self.mean:.4g}" + (f" ±{self.half:.2g}" if self.n > 1 else "")


def estimate(values):
    """The Estimate of independent values, one for each seed. A single number is exact."""
    if isinstance(values, (int, float)):
        return Estimate(float(values), 0.0, 1)
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Estimate(mean, 0.0, n)
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    t = T95[n - 2] if n - 2 < len(T95) else 1.960
    return Estimate(mean, t * spread / math.sqrt(n), n)


def largest(some):
    """Of several lists of values the one whose interval reaches highest. It is judged where less is better."""
    return max(some, key=lambda values: sum(estimate(values)[:2]))


def ratios(values, to):
    """The ratio of each pair of values, which are of the same seed."""
    if len(values) != len(to):
        raise ValueError(f"{len(values)} values against {len(to)}: pairs of the same seeds are expected")
    return [v / t for v, t in zip(values, to)]


def ratio_of_means(values, to):
    """Values whose mean is that of `values` against that of `to`, and whose spread is the ratio's, since both vary from
    seed to seed: linearised (Cochran, Sampling Techniques, 3rd edition, equation 2.46)."""
    ratio, mean_to = math.fsum(values) / math.fsum(to), math.fsum(to) / len(to)
    return [ratio + (v - ratio * t) / mean_to for v, t in zip(values, to)]


def keeps(bound, value):
    """Whether the whole interval is within the bound: ">= 2", "<= 0.05" or "in 1 1.2"."""
    how, *numbers = bound.split()
    low, high = value.mean - value.half, value.mean + value.half
    if how == ">=":
        return low >= float(numbers[0])
    if how == "<=":
        return high <= float(numbers[0])
    if how == "in":
        return float(numbers[0]) <= low and high <= float(numbers[1])
    raise ValueError(f"bound '{bound}': '>= N', '<= N' or 'in N M' is expected")


def agreement(bound, ours, value):
    """Whether one run at the slower pace agrees with ours: it is within what one more run of ours would be in 95 of 100
    cases. That is wider than the interval of the mean by the square root of n + 1. The bound tells which direction is
    better."""
    half = ours.half * math.sqrt(ours.n + 1)
    if abs(value - ours.mean) <= half:
        return "agrees"
    is_better = {">=": value > ours.mean, "<=": value < ours.mean}.get(bound.split()[0], False)
    return "does not agree: better" if is_better else DISAGREES


def failed_baselines(experiment, measured):
    """{name: reason} of the baselines whose headline did not come out."""
    failed = {}
    for name, baseline in (experiment.get("baselines") or {}).items():
        if "headline" not in baseline:
            continue
        value = measured.get(baseline["metric"])
        low, high = baseline["within"]
        if value is None or not low <= value.mean <= high:
            failed[name] = f"{baseline['headline']}: {value or NOT_RUN}, expected {low:g} to {high:g}"
    return failed


def metric_of(name, goal):
    """The figure that the goal is of. Two goals may be of the same figure."""
    return goal.get("metric", name)


class Judgement(NamedTuple):
    """The verdicts on one experiment: on the claim of the other system, and on our own goals."""

    claim: str
    ours: str
    of_claim: dict  # {goal: verdict} of the goals that test the claim
    of_ours: dict  # {goal: verdict} of the others, and of the `better` bounds of those that test the claim
    failed: dict  # {baseline: why divvy is not compared with it}


def is_of_others(goal):
    """Its bound was published, or is against a baseline of the same run."""
    return goal.get("bound") == "published" or "against" in goal


def judge_goal(goal, value, failed):
    if value is None:
        return NOT_RUN
    if goal.get("hardware"):
        return NOT_COMPARABLE
    if not keeps(goal["holds"], value):
        return SHORT
    if goal.get("against") in failed:
        return NOT_REPRODUCED
    if goal.get("check"):
        return BY_CONSTRUCTION
    return BETTER if "better" in goal and keeps(goal["better"], value) else HOLDS


def stricter(goal):
    """A goal of ours on a figure that tests a claim: its `better` bound, which is all that there is to keep."""
    return {**{key: value for key, value in goal.items() if key != "better"}, "holds": goal["better"], "bound": "ours"}


def own_goals(experiment):
    """{name: goal} of our own bounds: goals that test no claim, and the `better` bound of a goal that does."""
    return {
        name: stricter(goal) if "claim" in goal else goal
        for name, goal in experiment["goals"].items()
        if "claim" not in goal or "better" in goal
    }


def worst(goals, verdicts):
    """One verdict on several goals. A goal without a `better` bound cannot hold the others back, and better than a bound
    of ours alone is better than nobody."""
    counted = {name: v for name, v in verdicts.items() if v not in NOT_COUNTED}
    if not counted:
        return next((v for v in (BY_CONSTRUCTION, NOT_COMPARABLE, NOT_RUN) if v in verdicts.values()), NO_GOAL)
    whole = min([v for name, v in counted.items() if v != HOLDS or "better" in goals[name]] or [HOLDS], key=ORDER.index)
    if whole == BETTER and not any(v == BETTER and is_of_others(goals[name]) for name, v in counted.items()):
        return HOLDS
    return whole


def judge(experiment, measured):
    """The Judgement by the goals. A metric that an older run did not have yet is not judged."""

    def judged(goals):
        return {name: judge_goal(goal, measured.get(metric_of(name, goal)), failed) for name, goal in goals.items()}

    def capped(verdict):
        return UNDER_MODEL if experiment.get("model") and verdict in (HOLDS, BETTER) else verdict

    failed = failed_baselines(experiment, measured)
    claimed = {name: goal for name, goal in experiment["goals"].items() if "claim" in goal}
    # A claim gets no verdict above HOLDS: stricter bounds are goals of our own.
    of_claim = {name: HOLDS if v == BETTER else v for name, v in judged(claimed).items()}
    ours = own_goals(experiment)
    of_ours = judged(ours)
    claim = (
        capped(worst(claimed, of_claim)) if claimed else NO_CLAIM if experiment["claim_of"] == "ours" else NOT_TESTED
    )
    each = [{name: capped(v) for name, v in verdicts.items()} for verdicts in (of_claim, of_ours)]
    return Judgement(claim, capped(worst(ours, of_ours)), *each, failed)


def read_goals(path=GOALS):
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)
