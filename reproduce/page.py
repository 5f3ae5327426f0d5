# SPDX-License-Identifier: Apache-2.0
"""docs/reproduction.md out of the goals and the lines of what was run. Pure."""

from judge import NOT_REPRODUCED, SHORT, Estimate

MEANS = {
    "virtual": "placement's engine in virtual time",
    "node": "real daemon, libraries and programs; simulated device",
    "cluster": "a real Kubernetes, simulated devices",
    "remote": "real worker and programs over a shaped link; simulated devices",
}

HEAD = """# The claims of the systems before divvy, run again

Made by `make reproduce` (reproduce/README.md); change that, not this page. **Every figure here is of simulated
devices.** None may be quoted as a result of hardware. Goals and rules of verdict stand in `reproduce/goals.yaml`
and were written before the first run of any experiment; only of K4's workload, which `divvy sim` had before, was a
figure known (2.65 times the throughput of whole devices, at another rate).

A value is the mean of runs with different seeds and its 95 % interval; a goal is kept where all of the interval
keeps it. *holds under this model* is the most that can be said where how long jobs take, or how much they disturb
one another, was assumed. A baseline whose own headline did not come out is named so, and no win over it is claimed.
"""


def bold(verdict):
    return f"**{verdict}**" if verdict in (SHORT, NOT_REPRODUCED) else verdict


def summary(goals, rows):
    out = ["| experiment | of | what | verdict |", "|---|---|---|---|"]
    for name, goal in goals.items():
        row = rows.get(name)
        verdict = bold(row["verdict"]) if row else "not run yet"
        link = f"[{name}](#{name.lower()})" if row else name
        out.append(f"| {link} | {goal['of']} | {goal['title']} | {verdict} |")
    return out


def goal_table(goal, row):
    out = ["| what was measured | here | holds | better | verdict |", "|---|---|---|---|---|"]
    for metric, rule in goal["goals"].items():
        value = Estimate(**row["measured"][metric])
        bound, better = rule.get("holds", ""), rule.get("better", "")
        out.append(f"| {rule['says']} | {value} | {bound} | {better} | {bold(row['verdicts'][metric])} |")
    return out


def baseline_lines(goal, row):
    for name, baseline in (goal.get("baselines") or {}).items():
        if "rule" in baseline:
            yield f"- `{name}`: {baseline['rule']}."
        elif name in row["baselines_not_reproduced"]:
            yield f"- `{name}`: **baseline not reproduced**: {row['baselines_not_reproduced'][name]}."
        else:
            value = Estimate(**row["measured"][baseline["metric"]])
            yield f"- `{name}`: its headline, {baseline['headline']}, comes out: {value}."


def section(name, goal, row, pictures):
    out = [f'<a id="{name.lower()}"></a>', f"## {name}: {goal['title']}", "",
           f"**{goal['of']} claims:** {goal['claim']}", "",
           f"**Condition:** {goal['condition']} *({MEANS[goal['means']]}, {row['seeds']} seeds"
           f"{', quick' if row['quick'] else ''})*", ""]
    out += goal_table(goal, row) + ["", f"**Verdict:** {row['verdict']}.", "", row["why"], ""]
    baselines = list(baseline_lines(goal, row))
    if baselines:
        out += ["Baselines, of the same run:", ""] + baselines + [""]
    if "inputs" in goal:
        out += ["Inputs, not measured:", ""] + [f"- {what}: {source}." for what, source in goal["inputs"].items()] + [""]
    out += [f"![{name}]({pictures}/{picture})\n" for picture in row["pictures"]]
    out += [f"<sub>Run on {row['date']}, {row['machine']}, {row['kernel']}, commit {row['commit']}, "
            f"{row['seconds']:.0f} s.</sub>", ""]
    return out


def page(goals, rows, pictures):
    """pictures: the folder that they are in, as the page sees it."""
    out = [HEAD] + summary(goals, rows) + [""]
    for name, goal in goals.items():
        if name in rows:
            out += section(name, goal, rows[name], pictures)
    return "\n".join(out)
